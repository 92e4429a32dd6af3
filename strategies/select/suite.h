// Suites: many questions without expected answers, for comparing stacks.
//
//   {"schema": "shardlab/suite/1", "name": ...,
//    "questions": [{"id", "kind": "select", "op", "mesh", "inputs", "args"},
//                  {"id", "kind": "plan", "mesh", "tensor", "from", "to"}]}
// or, instead of "questions", "generate": every op on every mesh in every size with random layouts,
// which are the same for the same seed on every machine. "checked" says which PyTorch has accepted
// the questions (scripts/check_questions.py); only people and that script's test read it.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "costmodel/base/json_reader.h"
#include "strategies/rules/op_call.h"

namespace shardlab {

struct Question {
  enum class Kind : std::uint8_t { kSelect, kPlan };

  std::string id;
  Kind kind = Kind::kSelect;
  DeviceMesh mesh;
  OpCall call;        // for kSelect
  TensorMeta tensor;  // for kPlan, like `from` and `to`
  Layout from;
  Layout to;
  std::int64_t count = 1;  // how often the recorded program asks it
  std::string where;       // the line of source code that asked first; only people read it

  [[nodiscard]] std::string op() const { return kind == Kind::kSelect ? call.op : "redistribute"; }
  [[nodiscard]] Bytes bytes() const;                      // bytes of the question's largest tensor
  [[nodiscard]] std::vector<std::string> inputs() const;  // the inputs as texts, arguments included
  // The question as an element of "questions", which reads back as the same question.
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

template <>
struct EnumNames<Question::Kind> {
  static constexpr std::string_view kKind = "kind";
  static constexpr std::array kNames = {Named{Question::Kind::kSelect, "select"},
                                        Named{Question::Kind::kPlan, "plan"}};
};

struct Suite {
  std::string name;
  std::string title;
  std::string source;
  std::vector<Question> questions;

  // Throws ConfigError with the JSON pointer, also for texts that do not parse.
  [[nodiscard]] static Suite from_json(const nlohmann::json& json, const JsonPlace& place);
  // The suite with its questions written out, also if they were generated. It reads back as the
  // same suite.
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

// Reads {"seed", "ops", "meshes", "sizes_bytes", "layouts_per_case", "redistributions_per_case"}.
[[nodiscard]] std::vector<Question> generate_questions(const nlohmann::json& json,
                                                       const JsonPlace& place);

}  // namespace shardlab
