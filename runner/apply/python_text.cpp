#include "runner/apply/python_text.h"

#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/printable.h"
#include "costmodel/base/text.h"

namespace shardlab::apply {
namespace {

std::string listed(const Shape& values) {
  std::vector<std::string> texts;
  for (const std::int64_t value : values) texts.push_back(std::to_string(value));
  return join(texts, ", ");
}

std::string placement_text(const Placement& p) {
  switch (p.kind()) {
    case Placement::Kind::kReplicate:
      return "Replicate()";
    case Placement::Kind::kShard:
      return "Shard(" + std::to_string(p.dim()) + ")";
    case Placement::Kind::kStridedShard:
      return "_StridedShard(" + std::to_string(p.dim()) +
             ", split_factor=" + std::to_string(p.split_factor()) + ")";
    case Placement::Kind::kPartial:
      return "Partial(\"" + std::string(to_string(p.reduce_op())) + "\")";
    case Placement::Kind::kMaskPartial:
      return "Partial(\"sum\")";  // lookups leave zeros where other ranks have the row
    case Placement::Kind::kNormPartial:
      break;
    case Placement::Kind::kRegistered:
      throw InputError("found the registered placement " + p.text() +
                       ", which PyTorch lacks; valid: replicated, sharded, and partial sums, "
                       "averages, maxima, minima and products");
  }
  throw InputError("found a norm partial, " + p.text() +
                   "; valid: replicated, sharded, and partial sums, averages, maxima, minima and "
                   "products");
}

}  // namespace

// ASCII is written as in JSON. JSON's escapes of other letters would be surrogates in Python.
std::string python_string(std::string_view text) {
  std::string out = nlohmann::json(std::string(text)).dump();
  std::string ascii;
  for (std::string_view rest = out; !rest.empty();) {
    const std::size_t length = std::max<std::size_t>(1, letter_length(rest));
    if (length == 1) {
      ascii += rest[0];
    } else {
      std::array<char, 12> escape{};
      std::snprintf(escape.data(), escape.size(), "\\U%08x",
                    static_cast<unsigned>(code_point(rest.substr(0, length))));
      ascii += escape.data();
    }
    rest.remove_prefix(length);
  }
  return ascii;
}

std::string python_value(const nlohmann::json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) {
    return python_string(value.get<std::string>());
  }
  if (value.is_array()) {
    std::vector<std::string> parts;
    for (const nlohmann::json& each : value) parts.push_back(python_value(each));
    return "[" + join(parts, ", ") + "]";
  }
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const double number = value.get<double>();
    return std::isnan(number) ? "math.nan" : number > 0.0 ? "math.inf" : "-math.inf";
  }
  return value.dump();
}

std::string python_dtype(DType dtype) {
  const std::string name(to_string(dtype));
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"f64", "float64"},
                                                                      {"f32", "float32"},
                                                                      {"f16", "float16"},
                                                                      {"bf16", "bfloat16"},
                                                                      {"i64", "int64"},
                                                                      {"i32", "int32"},
                                                                      {"i16", "int16"},
                                                                      {"i8", "int8"},
                                                                      {"u8", "uint8"},
                                                                      {"u64", "uint64"},
                                                                      {"b8", "bool"},
                                                                      {"c64", "complex64"},
                                                                      {"f8e4m3", "float8_e4m3fn"},
                                                                      {"f8e5m2", "float8_e5m2"}};
  for (const auto& [own, torch] : kNames) {
    if (own == name) return "torch." + std::string(torch);
  }
  throw InputError("found the dtype " + name + ", which PyTorch lacks");
}

std::string python_list(const Shape& values) { return "[" + listed(values) + "]"; }

std::string python_tuple(const Shape& values) {
  return "(" + listed(values) + (values.size() == 1 ? ",)" : ")");
}

std::string placements_text(const Placements& placements) {
  std::vector<std::string> texts;
  for (const Placement& p : placements) texts.push_back(placement_text(p));
  return "[" + join(texts, ", ") + "]";
}

std::string name_of_layout(const Layout& layout) {
  std::string name;
  for (const char c : layout.text()) {
    if (c == '[') name += 'o';
    if (c == ',') name += 'x';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
  }
  for (std::size_t at = name.find("Psum"); at != std::string::npos; at = name.find("Psum")) {
    name.erase(at + 1, 3);
  }
  return name;
}

PythonNames::PythonNames()
    : taken_({"and",
              "as",
              "assert",
              "async",
              "await",
              "break",
              "class",
              "continue",
              "def",
              "del",
              "elif",
              "else",
              "except",
              "finally",
              "for",
              "from",
              "global",
              "if",
              "import",
              "in",
              "is",
              "lambda",
              "nonlocal",
              "not",
              "or",
              "pass",
              "raise",
              "return",
              "try",
              "while",
              "with",
              "yield",
              "None",
              "True",
              "False",
              "aten",
              "math",
              "torch",
              "dist",
              "ranks",
              "parameters",
              "buffers",
              "inputs",
              "saved",
              "tangents",
              "tensors",
              "lookup",
              "gather",
              "len",
              "range",
              "list",
              "index_select",
              "flash_attention",
              "flash_attention_backward",
              "efficient_attention",
              "efficient_attention_backward",
              "Shard",
              "Replicate",
              "Partial",
              "DTensor"}) {}

std::string PythonNames::fresh(std::string_view text) {
  std::string name;
  for (const char c : text) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name = "x_" + name;
  while (!taken_.insert(name).second) name += '_';
  return name;
}

}  // namespace shardlab::apply
