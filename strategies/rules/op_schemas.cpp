#include "strategies/rules/op_schemas.h"

#include <algorithm>
#include <map>

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

// "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", from its first bracket on.
OpSchema schema_of(std::string_view text) {
  OpSchema schema;
  const std::size_t arrow = text.rfind(" -> ");
  bool only_by_name = false;
  for (std::string_view part : parts_of(text.substr(1, arrow - 2))) {
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
    argument.kind = kind_of(part.substr(0, blank));
  }
  const std::string_view results = text.substr(arrow + 4);
  if (results.starts_with('(')) {
    schema.results = parts_of(results.substr(1, results.size() - 2)).size();
  }
  return schema;
}

std::map<std::string, OpSchema, std::less<>> all_schemas() {
  std::string text;
  for (const std::string_view piece : embedded_op_schemas()) text += piece;
  std::map<std::string, OpSchema, std::less<>> schemas;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const std::size_t bracket = line.find('(');
    if (bracket != std::string_view::npos) {
      std::string name = "aten." + std::string(line.substr(0, bracket));
      if (name.find('.', 5) == std::string::npos) name += ".default";
      schemas.emplace(std::move(name), schema_of(line.substr(bracket)));
    }
    begin = end + 1;
  }
  return schemas;
}

}  // namespace

bool OpSchema::has(std::string_view argument) const {
  return std::ranges::any_of(arguments,
                             [&](const SchemaArgument& each) { return each.name == argument; });
}

const OpSchema* find_op_schema(std::string_view op) {
  static const std::map<std::string, OpSchema, std::less<>> schemas = all_schemas();
  const auto it = schemas.find(op);
  return it == schemas.end() ? nullptr : &it->second;
}

}  // namespace shardlab
