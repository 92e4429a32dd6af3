#include "strategies/rules/op_schemas.h"

#include <algorithm>
#include <string>

#include "costmodel/base/dtype.h"
#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/json_reader.h"
#include "strategies/rules/embedded.h"

namespace shardlab {
namespace {

using Kind = SchemaArgument::Kind;

// The parts between the commas that stand in no brackets.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += (c == '(' || c == '[') ? 1 : (c == ')' || c == ']') ? -1 : 0;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    std::string_view part = text.substr(begin, i - begin);
    while (part.starts_with(' ')) part.remove_prefix(1);
    if (!part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

Kind kind_of(std::string_view type) {
  if (type.starts_with("Tensor")) {
    if (type.find('[') != std::string_view::npos) return Kind::kTensorList;
    return type.ends_with('?') ? Kind::kOptionalTensor : Kind::kTensor;
  }
  return type.starts_with("ScalarType") ? Kind::kDType : Kind::kOther;
}

// Reads "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor".
OpSchema schema_of(std::string_view text) {
  OpSchema schema{.text = text, .arguments = {}};
  const std::size_t arrow = text.rfind(" -> ");
  const std::size_t bracket = text.find('(') + 1;
  bool only_by_name = false;
  for (std::string_view part : parts_of(text.substr(bracket, arrow - 1 - bracket))) {
    if (part == "*") {
      only_by_name = true;
      continue;
    }
    SchemaArgument& argument = schema.arguments.emplace_back();
    argument.only_by_name = only_by_name;
    const std::size_t equals = part.find('=');
    if (equals != std::string_view::npos) {
      argument.fallback = part.substr(equals + 1);
      part = part.substr(0, equals);
    }
    const std::size_t blank = part.rfind(' ');
    argument.name = part.substr(blank + 1);
    argument.type = part.substr(0, blank);
    argument.kind = kind_of(argument.type);
    schema.writes = schema.writes || argument.is_written();
  }
  const std::string_view results = text.substr(arrow + 4);
  if (results.starts_with('(')) {
    schema.results = parts_of(results.substr(1, results.size() - 2)).size();
  }
  return schema;
}

// The lines of the file, which are sorted.
std::vector<std::string_view> all_lines() {
  static const std::string text = [] {
    std::string all;
    for (const std::string_view piece : embedded_op_schemas()) all += piece;
    return all;
  }();
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

bool is_list_of(const nlohmann::json& value, bool (*fits)(const nlohmann::json&)) {
  return value.is_array() && std::ranges::all_of(value, fits);
}

bool is_integer(const nlohmann::json& value) { return value.is_number_integer(); }
// JSON has no infinite numbers; a norm of the order "inf" writes it as a text.
bool is_number(const nlohmann::json& value) {
  return value.is_number() || value == "inf" || value == "-inf";
}
bool is_boolean(const nlohmann::json& value) { return value.is_boolean(); }
bool is_scalar(const nlohmann::json& value) { return is_number(value) || value.is_boolean(); }
bool is_text(const nlohmann::json& value) { return value.is_string(); }
bool is_dtype(const nlohmann::json& value) {
  return value.is_string() && dtype_from_name(value.get_ref<const std::string&>()).has_value();
}

// One integer stands for a list of it in PyTorch's Python.
bool is_integers(const nlohmann::json& value) {
  return is_integer(value) || is_list_of(value, is_integer);
}
bool is_numbers(const nlohmann::json& value) { return is_list_of(value, is_number); }
bool is_booleans(const nlohmann::json& value) { return is_list_of(value, is_boolean); }
// An element of a foreach op takes one of the numbers (foreach_child).
bool is_scalars(const nlohmann::json& value) {
  return is_scalar(value) || is_list_of(value, is_scalar);
}

struct ValidType {
  std::string_view type;  // without its lengths and "?"
  bool (*fits)(const nlohmann::json&);
  std::string_view valid;
};

// Of other types, such as Device and Generator, programs say nothing that a price depends on.
constexpr ValidType kValidTypes[] = {
    {"int", is_integer, "an integer"},
    {"SymInt", is_integer, "an integer"},
    {"float", is_number, "a number"},
    {"Scalar", is_scalar, "a number"},
    {"Tensor", is_scalar, "a number"},  // a number that stands in a tensor's place
    {"bool", is_boolean, "true or false"},
    {"str", is_text, "a text"},
    {"ScalarType", is_dtype, "a dtype, such as \"f32\""},
    {"int[]", is_integers, "a list of integers"},
    {"SymInt[]", is_integers, "a list of integers"},
    {"float[]", is_numbers, "a list of numbers"},
    {"Scalar[]", is_scalars, "a list of numbers"},
    {"bool[]", is_booleans, "a list of true and false"},
};

const ValidType* valid_type(std::string_view type) {
  if (type.ends_with('?')) type.remove_suffix(1);
  std::string plain;  // "int[2]" as "int[]", and "Tensor(a)" as "Tensor"
  int depth = 0;
  for (const char c : type) {
    depth -= c == ')' || c == ']' ? 1 : 0;
    if (depth == 0 && c != '(' && c != ')') plain += c;
    depth += c == '(' || c == '[' ? 1 : 0;
  }
  const auto* const found = std::ranges::find(kValidTypes, plain, &ValidType::type);
  return found == std::end(kValidTypes) ? nullptr : found;
}

}  // namespace

bool OpSchema::has(std::string_view argument) const {
  return std::ranges::any_of(arguments,
                             [&](const SchemaArgument& each) { return each.name == argument; });
}

std::optional<OpSchema> find_op_schema(std::string_view op) {
  static const std::vector<std::string_view> lines = all_lines();
  if (!op.starts_with("aten.")) return std::nullopt;
  op.remove_prefix(5);
  if (op.ends_with(".default")) op.remove_suffix(8);
  const std::string start = std::string(op) + "(";
  const auto it = std::ranges::lower_bound(lines, start);
  if (it == lines.end() || !it->starts_with(start)) return std::nullopt;
  return schema_of(*it);
}

void expect_arguments_of_schema(const OpCall& call) {
  if (call.args.empty()) return;
  const std::optional<OpSchema> schema = find_op_schema(call.op);
  if (!schema) return;
  const auto fail = [&](std::size_t i, const std::string& valid) {
    throw InputError(call.op + ": argument " + std::to_string(i) + " of --args: found " +
                     describe_json(call.args[i]) + "; valid: " + valid + std::string(schema->text));
  };
  // Arguments beyond those that are not tensors are numbers in the places of tensors: add.Tensor(x, 2.5).
  const std::size_t plain = to_index(std::ranges::count_if(
      schema->arguments, [](const SchemaArgument& argument) { return !argument.is_tensor(); }));
  std::size_t numbers = call.args.size() > plain ? call.args.size() - plain : 0;
  std::size_t tensor = 0;
  std::size_t next = 0;
  for (const SchemaArgument& argument : schema->arguments) {
    if (next == call.args.size()) return;
    if (argument.is_tensor()) {
      const bool is_left_out = tensor++ >= call.inputs.size();
      if (!is_left_out || numbers == 0 || argument.is_written() || argument.kind != Kind::kTensor) {
        continue;
      }
      --numbers;
    }
    const nlohmann::json& value = call.args[next];
    const ValidType* type = valid_type(argument.type);
    const bool fits =
        type == nullptr || (value.is_null() ? argument.may_be_left_out() : type->fits(value));
    if (!fits) {
      fail(next, std::string(type->valid) + ", the " + std::string(argument.name) + " of ");
    }
    ++next;
  }
  if (next < call.args.size()) {
    fail(next, (next == 0 ? "no" : "at most " + std::to_string(next)) +
                   " arguments beside the tensors of ");
  }
}

}  // namespace shardlab
