#include "strategies/programs/program.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/json_enum.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMostExtent = std::int64_t{1} << 53U;

// Reads the extents from an array of integers in range, with at most as many dims as a tensor may
// have.
std::optional<Shape> plain_extents(const nlohmann::json& json) {
  if (!json.is_array() || json.size() > kMaxTensorDims) return std::nullopt;
  Shape extents;
  for (const nlohmann::json& value : json) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{kMostExtent}) {
      return std::nullopt;
    }
    extents.push_back(value.get<std::int64_t>());
  }
  return extents;
}

// Reads a tensor that is written as it should be, as most tensors are; read_meta() reads the others
// and says what is wrong. This takes a tenth of the time, which matters because programs have tens
// of thousands of tensors.
std::optional<TensorMeta> plain_meta(const nlohmann::json& json) {
  if (!json.is_object() || json.size() > 3) return std::nullopt;
  const auto dtype = json.find("dtype");
  const auto shape = json.find("shape");
  const auto stride = json.find("stride");
  const std::size_t known = 2 + (stride != json.end() ? 1U : 0U);
  if (dtype == json.end() || shape == json.end() || json.size() != known || !dtype->is_string()) {
    return std::nullopt;
  }
  const std::optional<DType> element = dtype_from_name(dtype->get_ref<const std::string&>());
  const std::optional<Shape> extents = plain_extents(*shape);
  if (!element || !extents) return std::nullopt;
  TensorMeta meta{.dtype = *element, .shape = *extents, .strides = {}};
  if (meta.bytes() > kMaxTensorBytes) return std::nullopt;
  if (stride != json.end()) {
    const std::optional<Shape> strides = plain_extents(*stride);
    if (!strides || strides->size() != extents->size()) return std::nullopt;
    meta.strides = *strides;
    if (meta.is_contiguous()) meta.strides.clear();
  }
  return meta;
}

TensorMeta read_meta(const nlohmann::json& json, const JsonPlace& place) {
  ObjectReader reader(json, place);
  std::string text = reader.text("dtype") + "[";
  const nlohmann::json& shape = reader.array("shape");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? "," : "") +
            std::to_string(json_integer(shape[i], reader.place("shape").at(i), 0, kMostExtent));
  }
  TensorMeta meta;
  try {
    meta = TensorMeta::parse(text + "]");
  } catch (const TextError& error) {
    place.fail(error.what());
  }
  if (const nlohmann::json* strides = reader.find("stride")) {
    const JsonPlace stride_place = reader.place("stride");
    if (json_array(*strides, stride_place).size() != meta.shape.size()) {
      stride_place.fail("found " + std::to_string(strides->size()) + " strides; valid: " +
                        std::to_string(meta.shape.size()) + ", one for each dim");
    }
    for (std::size_t i = 0; i < strides->size(); ++i) {
      meta.strides.push_back(json_integer((*strides)[i], stride_place.at(i), 0, kMostExtent));
    }
    if (meta.is_contiguous()) meta.strides.clear();
  }
  reader.finish();
  return meta;
}

// JSON has no infinities and no NaN, so that a file has them as texts.
constexpr std::array<std::pair<std::string_view, double>, 3> kNumberTexts = {
    {{"inf", std::numeric_limits<double>::infinity()},
     {"-inf", -std::numeric_limits<double>::infinity()},
     {"nan", std::numeric_limits<double>::quiet_NaN()}}};

nlohmann::json with_numbers(nlohmann::json args) {
  for (nlohmann::json& arg : args) {
    if (arg.is_array()) arg = with_numbers(std::move(arg));
    if (!arg.is_string()) continue;
    for (const auto& [text, number] : kNumberTexts) {
      if (arg == text) {
        arg = number;
        break;
      }
    }
  }
  return args;
}

nlohmann::json with_texts(nlohmann::json args) {
  for (nlohmann::json& arg : args) {
    if (arg.is_array()) arg = with_texts(std::move(arg));
    if (!arg.is_number_float() || std::isfinite(arg.get<double>())) continue;
    const auto number = arg.get<double>();
    arg = std::isnan(number) ? "nan" : number > 0.0 ? "inf" : "-inf";
  }
  return args;
}

// The nodes read so far, by name.
using Names = std::unordered_map<std::string, std::size_t>;

// Whether a reference may name an output or a gradient, which leave the program and are not read.
enum class Leaving : std::uint8_t { kNo, kYes };

// `place_of` is only called for messages.
template <class Place>
ValueRef read_value(const nlohmann::json& json, const Place& place_of, const Names& names,
                    const std::vector<ProgramNode>& nodes, Leaving may_leave = Leaving::kNo) {
  if (json.is_string()) {
    const auto found = names.find(json.get_ref<const std::string&>());
    if (found != names.end() && (may_leave == Leaving::kYes || !nodes[found->second].leaves()) &&
        !nodes[found->second].outputs.empty()) {
      return {found->second, 0};
    }
  }
  const JsonPlace place = place_of();
  const std::string text = json_text(json, place);
  ValueRef value;
  auto found = names.find(text);
  const std::size_t colon = text.rfind(':');
  if (found == names.end() && colon != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, value.output);
    if (error == std::errc() && stop == end) {
      found = names.find(text.substr(0, colon));
    }
  }
  if (found == names.end()) {
    place.fail("found \"" + text + "\"; valid: the name of an earlier node, or NAME:OUTPUT");
  }
  value.node = found->second;
  const std::size_t outputs = nodes[value.node].outputs.size();
  if (may_leave == Leaving::kNo && nodes[value.node].leaves()) {
    place.fail("found \"" + text + "\", of kind " + std::string(to_string(nodes[value.node].kind)) +
               "; valid: a node that does not leave the program");
  }
  if (value.output >= outputs) {
    place.fail("found \"" + text + "\"; valid: an output of " + nodes[value.node].name +
               ", which has " + std::to_string(outputs) + (outputs == 1 ? " output" : " outputs"));
  }
  return value;
}

ProgramNode read_node(const nlohmann::json& json, const JsonPlace& place, const Names& names,
                      const std::vector<ProgramNode>& nodes) {
  ObjectReader reader(json, place);
  ProgramNode node;
  node.name = reader.text("name");
  if (node.name.empty()) reader.place("name").fail("found \"\"; valid: a name");
  if (names.contains(node.name)) {
    reader.place("name").fail("found \"" + node.name + "\" a second time; valid: a new name");
  }
  node.label = reader.text_or("label", "");
  node.trace = reader.text_or("trace", "");
  node.kind = find_enum<NodeKind>(reader, "kind").value_or(NodeKind::kOp);
  node.phase = find_enum<Phase>(reader, "phase").value_or(Phase::kForward);
  if (node.computes()) {
    node.op = reader.text("op");
    if (node.op.empty()) reader.place("op").fail("found \"\"; valid: an op");
  } else if (const nlohmann::json* op = reader.find("op"); op != nullptr && !op->is_null()) {
    node.op = json_text(*op, reader.place("op"));
  }
  if (const nlohmann::json* inputs = reader.find("inputs")) {
    const JsonPlace inputs_place = reader.place("inputs");
    for (std::size_t i = 0; i < json_array(*inputs, inputs_place).size(); ++i) {
      ProgramInput& input = node.inputs.emplace_back();
      input.is_list = (*inputs)[i].is_array();
      if ((*inputs)[i].is_null()) continue;
      if (!input.is_list) {
        input.values.push_back(
            read_value((*inputs)[i], [&] { return inputs_place.at(i); }, names, nodes));
        continue;
      }
      for (std::size_t j = 0; j < (*inputs)[i].size(); ++j) {
        input.given.push_back(!(*inputs)[i][j].is_null());
        if (!input.given.back()) continue;
        input.values.push_back(
            read_value((*inputs)[i][j], [&] { return inputs_place.at(i).at(j); }, names, nodes));
      }
      if (input.values.size() == input.given.size()) input.given.clear();
    }
    if (node.is_source() && !node.inputs.empty()) {
      inputs_place.fail("found inputs for a node of kind " + std::string(to_string(node.kind)) +
                        "; valid: no inputs");
    }
  }
  if (const nlohmann::json* args = reader.find("args")) {
    ObjectReader args_reader(*args, reader.place("args"));
    if (const nlohmann::json* positional = args_reader.find("positional")) {
      node.args = with_numbers(json_array(*positional, args_reader.place("positional")));
    }
    args_reader.finish();
  }
  const nlohmann::json& outputs = reader.array("outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::optional<TensorMeta> meta = plain_meta(outputs[i]);
    node.outputs.push_back(meta ? *std::move(meta)
                                : read_meta(outputs[i], reader.place("outputs").at(i)));
  }
  if (node.is_source() && node.outputs.size() != 1) {
    reader.place("outputs").fail("found " + std::to_string(node.outputs.size()) +
                                 " outputs; valid: 1 output for a node of kind " +
                                 std::string(to_string(node.kind)));
  }
  reader.finish();
  return node;
}

}  // namespace

bool is_listed(const ProgramNode& node) {
  return std::find(kListedOps.begin(), kListedOps.end(), node.op) != kListedOps.end();
}

Program Program::from_json(const nlohmann::json& json, const JsonPlace& place) {
  ObjectReader reader(json, place);
  reader.expect_schema("shardlab/program/1");
  Program program;
  program.name = reader.text("name");
  program.source = reader.text_or("source", "");
  const nlohmann::json& nodes = reader.array("nodes");
  Names names;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    program.nodes.push_back(read_node(nodes[i], reader.place("nodes").at(i), names, program.nodes));
    names.emplace(program.nodes.back().name, i);
  }
  if (nodes.empty())
    reader.place("nodes").fail("found an empty array; valid: an array of at least one node");
  if (const nlohmann::json* pairs = reader.find("pairs")) {
    const JsonPlace pairs_place = reader.place("pairs");
    for (std::size_t i = 0; i < json_array(*pairs, pairs_place).size(); ++i) {
      const JsonPlace pair_place = pairs_place.at(i);
      if (json_array((*pairs)[i], pair_place).size() != 2) {
        pair_place.fail("found " + std::to_string((*pairs)[i].size()) +
                        " names; valid: the names of 2 nodes");
      }
      const auto node = [&](std::size_t k) {
        const auto place_of = [&] { return pair_place.at(k); };
        return read_value((*pairs)[i][k], place_of, names, program.nodes, Leaving::kYes).node;
      };
      const auto& [first, second] = program.pairs.emplace_back(node(0), node(1));
      const TensorMeta& one = program.nodes[first].outputs[0];
      const TensorMeta& other = program.nodes[second].outputs[0];
      if (one.shape != other.shape) {
        pair_place.fail("found " + one.text() + " and " + other.text() +
                        "; valid: tensors of one shape");
      }
    }
  }
  reader.finish();
  return program;
}

std::string Program::text() const {
  const auto value = [&](const ValueRef& ref) {
    const std::string& node = nodes[ref.node].name;
    return nlohmann::ordered_json(ref.output == 0 ? node : node + ":" + std::to_string(ref.output));
  };
  const auto extents = [](const Shape& shape) {
    return std::vector<std::int64_t>(shape.begin(), shape.end());
  };
  std::string text = R"({"schema": "shardlab/program/1",)";
  text += "\n\"name\": " + nlohmann::json(name).dump();
  text += ",\n\"source\": " + nlohmann::json(source).dump() + ",\n\"nodes\": [";
  for (const ProgramNode& node : nodes) {
    nlohmann::ordered_json json = {{"name", node.name}};
    if (!node.label.empty()) json["label"] = node.label;
    if (!node.trace.empty()) json["trace"] = node.trace;
    if (node.kind != NodeKind::kOp) json["kind"] = to_string(node.kind);
    if (!node.op.empty()) json["op"] = node.op;
    if (!node.inputs.empty()) {
      nlohmann::ordered_json& inputs = json["inputs"] = nlohmann::ordered_json::array();
      for (const ProgramInput& input : node.inputs) {
        if (!input.is_list) {
          inputs.push_back(input.values.empty() ? nlohmann::ordered_json(nullptr)
                                                : value(input.values[0]));
          continue;
        }
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        std::size_t position = 0;
        for (const ValueRef& ref : input.values) {
          for (; position < input.given.size() && !input.given[position]; ++position) {
            list.push_back(nullptr);
          }
          list.push_back(value(ref));
          ++position;
        }
        for (; position < input.given.size(); ++position) list.push_back(nullptr);
        inputs.push_back(list);
      }
    }
    if (!node.args.empty()) json["args"] = {{"positional", with_texts(node.args)}};
    nlohmann::ordered_json& outputs = json["outputs"] = nlohmann::ordered_json::array();
    for (const TensorMeta& meta : node.outputs) {
      outputs.push_back({{"dtype", to_string(meta.dtype)},
                         {"shape", extents(meta.shape)},
                         {"stride", extents(meta.all_strides())}});
    }
    if (node.phase != Phase::kForward) json["phase"] = to_string(node.phase);
    text += (&node == nodes.data() ? "\n" : ",\n") + json.dump();
  }
  text += "],\n\"pairs\": [";
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const nlohmann::json pair = {nodes[pairs[i].first].name, nodes[pairs[i].second].name};
    text += (i == 0 ? "\n" : ",\n") + pair.dump();
  }
  return text + "]}\n";
}

std::optional<std::size_t> Program::find(std::string_view node) const {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].name == node) return i;
  }
  return std::nullopt;
}

}  // namespace shardlab
