// Files of recorded choices, of the schema shardlab/choices/1: which layouts each question got, by
// which steps, and at what price. `shardlab record` writes them, and any other program may.
//
//   const ChoiceList file = read_choices(parse_json(text, name), {name, ""});
//   write_file(path, choices_text(file));
//
// docs/choices.md describes the format for those who write it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/fields_json.h"
#include "costmodel/base/json_reader.h"

namespace shardlab {

inline constexpr std::string_view kChoicesSchema = "shardlab/choices/1";

// The arguments of an op that are not tensors: an array of any values.
struct ChoiceArgs {
  nlohmann::json values = nlohmann::json::array();
  [[nodiscard]] bool empty() const { return values.empty(); }
};

// A question about an op has `op`, `inputs` and `args`; one about a redistribution has `tensor`,
// `from` and `to`.
struct ChoiceQuestion {
  std::string mesh;
  std::optional<std::string> op = {};
  std::vector<std::string> inputs;
  ChoiceArgs args;
  std::optional<std::string> tensor = {};
  std::optional<std::string> from = {};
  std::optional<std::string> to = {};
};

struct ChoiceStep {
  std::int64_t input = 0;  // which input the step moves
  std::int64_t mesh_dim = 0;
  std::string from;
  std::string to;
};

struct Choice {
  ChoiceQuestion question;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<ChoiceStep> steps;
  std::optional<double> total_us;
  std::optional<std::int64_t> candidates = {};
  std::optional<std::string> set_digest = {};
};

struct ChoiceList {
  std::string stack;
  std::string source;
  std::int64_t devices_per_host = 1;
  std::optional<std::int64_t> domain_devices = {};  // nothing: the file does not say
  std::optional<nlohmann::json> provenance = {};
  std::vector<Choice> choices;
};

template <>
struct JsonForm<ChoiceArgs> {
  static nlohmann::ordered_json write(const ChoiceArgs& args) { return args.values; }
  static ChoiceArgs read(const nlohmann::json& value, const JsonSpot& spot, const FieldOptions&) {
    fields_detail::expect_array(value, spot);
    return {value};
  }
  static nlohmann::ordered_json schema(const FieldOptions&, SchemaDefinitions&) {
    return {{"type", "array"}};
  }
};

template <>
struct Fields<ChoiceQuestion> {
  using Self = ChoiceQuestion;
  static constexpr std::string_view kName = "question";
  static constexpr std::string_view kMeaning =
      "about an op (op, inputs, args) or about a redistribution (tensor, from, to)";
  static constexpr auto kList = std::tuple(
      field("mesh", &Self::mesh, "8x8, or dp=8,tp=8"),
      optional_field("op", &Self::op, "aten.mm.default"),
      optional_field("inputs", &Self::inputs, "the tensor arguments with their layouts"),
      optional_field("args", &Self::args, "the other arguments, in the order of the op's schema"),
      optional_field("tensor", &Self::tensor, "f32[8,8]"),
      optional_field("from", &Self::from, "S(0)R"), optional_field("to", &Self::to, "RR"));
  static std::optional<Contradiction> contradiction(const Self& question);
};

template <>
struct Fields<ChoiceStep> {
  using Self = ChoiceStep;
  static constexpr std::string_view kName = "choice_step";
  static constexpr auto kList =
      std::tuple(field("input", &Self::input, "which tensor the step moves, from 0"),
                 field("mesh_dim", &Self::mesh_dim, "along which mesh dim, from 0"),
                 field("from", &Self::from, "the placement before the step: S(0)"),
                 field("to", &Self::to, "the placement after it: R"));
};

template <>
struct Fields<Choice> {
  using Self = Choice;
  static constexpr std::string_view kName = "choice";
  static constexpr auto kList = std::tuple(
      field("question", &Self::question, ""),
      field("inputs", &Self::inputs, "the layouts that the op takes its tensors in"),
      field("outputs", &Self::outputs, "the layouts of its outputs"),
      field("steps", &Self::steps, "by which the inputs are redistributed, input by input"),
      field("total_us", &Self::total_us, "the price of the choice; null if it is infinite"),
      optional_field("candidates", &Self::candidates, "among how many candidates it was chosen"),
      optional_field("set_digest", &Self::set_digest,
                     "64-bit FNV-1a over the candidates, in order and joined by newlines"));
};

template <>
struct Fields<ChoiceList> {
  using Self = ChoiceList;
  static constexpr auto kList =
      std::tuple(ConstantField{"schema", kChoicesSchema}, field("stack", &Self::stack, "who chose"),
                 field("source", &Self::source, "how the choices were recorded"),
                 field("devices_per_host", &Self::devices_per_host,
                       "of the topology that was priced", {.min = 1}),
                 optional_field("domain_devices", &Self::domain_devices,
                                "the devices that NVLink joins there, if they are more than those "
                                "of a host",
                                {.min = 1}),
                 optional_field("provenance", &Self::provenance,
                                "where the answers of a live PyTorch are from"),
                 field("choices", &Self::choices, ""));
};

// Throws ConfigError for keys and types that are wrong; texts are not parsed.
[[nodiscard]] ChoiceList read_choices(const nlohmann::json& json, const JsonPlace& place);
[[nodiscard]] std::string choices_text(const ChoiceList& file);  // JSON, one line for each choice
// The text of configs/schema/choices.schema.json.
[[nodiscard]] std::string choices_schema_text();

}  // namespace shardlab
