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

bool is_list_of(const nlohmann::json& value, bool (*fits)(const nlohmann::json&)) {
  return value.is_array() && std::ranges::all_of(value, fits);
}

bool is_integer(const nlohmann::json& value) { return value.is_number_integer(); }
// JSON has no infinite numbers and no NaN, so that these are written as texts.
bool is_number(const nlohmann::json& value) {
  return value.is_number() || value == "inf" || value == "-inf" || value == "nan";
}
bool is_boolean(const nlohmann::json& value) { return value.is_boolean(); }
bool is_scalar(const nlohmann::json& value) { return is_number(value) || value.is_boolean(); }
bool is_text(const nlohmann::json& value) { return value.is_string(); }
bool is_dtype(const nlohmann::json& value) {
  return value.is_string() && dtype_from_name(value.get_ref<const std::string&>()).has_value();
}

// PyTorch takes one integer for a list of a given length, such as int[1]. Rules take it for any
// list.
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

// Values of other types, such as Device and Generator, are not checked, since no price depends on
// them.
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

// Matches the arguments of a call that are not tensors with those of the schema.
class Matcher {
 public:
  Matcher(const OpSchema& schema, const OpCall& call) : schema_(schema), call_(call) {
    const auto outs = std::ranges::count_if(schema.arguments, is_out);
    const std::size_t given = call.inputs.size() - std::min(call.inputs.size(), to_index(outs));
    std::size_t place = 0;
    for (const SchemaArgument& argument : schema.arguments) {
      const bool takes_input = argument.is_tensor() && !is_out(argument);
      missing_.push_back(takes_input && argument.kind == Kind::kTensor &&
                         (place >= given || call.inputs[place].is_absent()));
      if (takes_input) ++place;
      if (!argument.is_tensor()) ++plain_;
    }
  }

  // How many arguments of the schema are not tensors, and how many tensors that the schema asks for
  // are not given.
  [[nodiscard]] std::size_t plain() const { return plain_; }
  [[nodiscard]] std::size_t missing() const { return to_index(std::ranges::count(missing_, true)); }

  // What does not fit if numbers stand in the places of so many missing tensors; empty if all fits.
  [[nodiscard]] std::string mismatch(std::size_t numbers) const {
    std::size_t next = 0;
    for (std::size_t i = 0; i < missing_.size() && next < call_.args.size(); ++i) {
      const SchemaArgument& argument = schema_.arguments[i];
      if (argument.is_tensor()) {
        if (!missing_[i] || numbers == 0) continue;
        --numbers;
      }
      const nlohmann::json& value = call_.args[next];
      const ValidType* type = valid_type(argument.type);
      const bool fits =
          type == nullptr || (value.is_null() ? argument.may_be_left_out() : type->fits(value));
      if (!fits) {
        return found(next) + std::string(type->valid) + ", the " + std::string(argument.name) +
               " of " + std::string(schema_.text);
      }
      ++next;
    }
    if (next == call_.args.size()) return "";
    return found(next) +
           (next == 0   ? "no arguments"
            : next == 1 ? "one argument"
                        : "at most " + std::to_string(next) + " arguments") +
           " beside the tensors of " + std::string(schema_.text);
  }

 private:
  static bool is_out(const SchemaArgument& argument) {
    return argument.is_written() && argument.only_by_name;
  }
  [[nodiscard]] std::string found(std::size_t i) const {
    return call_.op + ": argument " + std::to_string(i) + " of --args: found " +
           describe_json(call_.args[i]) + "; valid: ";
  }

  const OpSchema& schema_;
  const OpCall& call_;
  std::vector<bool> missing_;  // by argument: whether it is a tensor that is not given
  std::size_t plain_ = 0;
};

}  // namespace

bool OpSchema::has(std::string_view argument) const {
  return std::ranges::any_of(arguments,
                             [&](const SchemaArgument& each) { return each.name == argument; });
}

std::optional<OpSchema> find_op_schema(std::string_view op) {
  static const std::vector<std::string> lines = lines_of(embedded_op_schemas());  // sorted
  if (op.starts_with("aten.")) {
    op.remove_prefix(5);
  } else if (!op.starts_with("prims.")) {
    return std::nullopt;
  }
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
  const Matcher matcher(*schema, call);
  // How many numbers stand in tensors' places cannot be told from their count, since the last
  // arguments may be left out: div.Tensor_mode(x, 2.0) and div.Tensor_mode(x, y, "floor").
  for (std::size_t numbers = 0; numbers <= matcher.missing(); ++numbers) {
    if (matcher.mismatch(numbers).empty()) return;
  }
  const std::size_t plain = matcher.plain();
  const std::size_t surplus = call.args.size() > plain ? call.args.size() - plain : 0;
  throw InputError(matcher.mismatch(std::min(surplus, matcher.missing())));
}

}  // namespace shardlab
