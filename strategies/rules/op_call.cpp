#include "strategies/rules/op_call.h"

#include <algorithm>
#include <limits>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/json_reader.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

[[noreturn]] void fail_arg(const OpCall& call, std::size_t i, std::string_view valid) {
  throw InputError(call.op + ": argument " + std::to_string(i) + " of --args: found " +
                   describe_json(call.args[i]) + "; valid: " + std::string(valid));
}

// An integer that fits into 64 bits; the JSON library keeps larger ones as unsigned or as doubles.
std::optional<std::int64_t> as_integer(const nlohmann::json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return std::nullopt;
  }
  return value.get<std::int64_t>();
}

constexpr std::string_view kBlanks = " \t\n\r";

// Whether a tensor is not given; calls that are copied from Python say None.
bool is_none(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return false;
  const std::string_view word = text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
  return word == "none" || word == "None";
}

}  // namespace

OpName split_op_name(std::string_view op) {
  for (const std::string_view prefix : {"torch.ops.", "aten.", "aten::"}) {
    if (op.starts_with(prefix)) op.remove_prefix(prefix.size());
  }
  const std::size_t dot = op.find('.');
  if (dot == std::string_view::npos) return {op, {}};
  return {op.substr(0, dot), op.substr(dot + 1)};
}

TensorArg OpCall::parse_input(std::string_view text, int mesh_ndim) {
  TensorArg arg;
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (is_none(text)) return arg;
  if (begin == std::string_view::npos || text[begin] != '[') {
    arg.tensors.push_back(TensorSpec::parse(text, mesh_ndim));
    return arg;
  }
  arg.is_list = true;
  const std::size_t end = text.find_last_not_of(kBlanks);
  if (text[end] != ']' || end == begin) {
    throw TextError("tensor list", text, end + 1, "\"]\" at the end of a tensor list");
  }
  std::string_view rest = text.substr(begin + 1, end - begin - 1);
  if (rest.find_first_not_of(kBlanks) == std::string_view::npos) {
    throw TextError("tensor list", text, begin + 1, "a tensor, such as [f32[8,8] R; f32[8,8] R]");
  }
  while (true) {
    const std::size_t semicolon = rest.find(';');
    const std::string_view element = rest.substr(0, semicolon);
    arg.given.push_back(!is_none(element));
    if (arg.given.back()) arg.tensors.push_back(TensorSpec::parse(element, mesh_ndim));
    if (semicolon == std::string_view::npos) break;
    rest = rest.substr(semicolon + 1);
  }
  if (arg.tensors.size() == arg.given.size()) arg.given.clear();
  return arg;
}

boost::container::small_vector<const TensorSpec*, 4> OpCall::tensors() const {
  boost::container::small_vector<const TensorSpec*, 4> all;
  for (const TensorArg& arg : inputs) {
    for (const TensorSpec& tensor : arg.tensors) all.push_back(&tensor);
  }
  return all;
}

std::string TensorArg::text() const {
  if (is_absent()) return "none";
  if (!is_list) return tensors[0].text();
  std::string out;
  const std::size_t count = given.empty() ? tensors.size() : given.size();
  for (std::size_t position = 0, next = 0; position < count; ++position) {
    const bool is_given = given.empty() || given[position];
    out += (position > 0 ? "; " : "[") + (is_given ? tensors[next++].text() : "none");
  }
  return out + "]";
}

const TensorSpec* OpCall::tensor(std::size_t i) const {
  if (i >= inputs.size() || inputs[i].is_absent()) return nullptr;
  if (inputs[i].is_list) {
    throw InputError(op + ": tensor argument " + std::to_string(i) +
                     ": found a tensor list; valid: a tensor");
  }
  return &inputs[i].tensors[0];
}

const TensorSpec& OpCall::required_tensor(std::size_t i) const {
  const TensorSpec* found = tensor(i);
  if (found == nullptr) {
    throw InputError(op + ": tensor argument " + std::to_string(i) + " is missing");
  }
  return *found;
}

std::size_t OpCall::position(std::size_t i) const {
  std::size_t before = 0;
  for (std::size_t j = 0; j < std::min(i, inputs.size()); ++j) before += inputs[j].tensors.size();
  return before;
}

std::string OpCall::text() const {
  std::string out = op + "(";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i > 0) out += ", ";
    out += inputs[i].text();
  }
  for (const nlohmann::json& arg : args) out += ", " + arg.dump();
  return out + ")";
}

std::int64_t OpCall::integer_arg(std::size_t i, std::int64_t fallback) const {
  if (i >= args.size() || args[i].is_null()) return fallback;
  const std::optional<std::int64_t> value = as_integer(args[i]);
  if (!value) fail_arg(*this, i, "an integer");
  return *value;
}

bool OpCall::boolean_arg(std::size_t i, bool fallback) const {
  if (i >= args.size() || args[i].is_null()) return fallback;
  if (!args[i].is_boolean()) fail_arg(*this, i, "true or false");
  return args[i].get<bool>();
}

double OpCall::number_arg(std::size_t i, double fallback) const {
  if (i >= args.size() || args[i].is_null()) return fallback;
  // A ScalarList has one number for each tensor of a list; here the list has one tensor.
  const bool is_list = op.ends_with(".ScalarList") && args[i].is_array() && args[i].size() == 1;
  const nlohmann::json& number = is_list ? args[i].front() : args[i];
  if (number.is_boolean()) return number.get<bool>() ? 1.0 : 0.0;  // a Scalar may be one
  if (!number.is_number()) fail_arg(*this, i, "a number");
  return number.get<double>();
}

std::string OpCall::text_arg(std::size_t i, std::string_view fallback) const {
  if (i >= args.size() || args[i].is_null()) return std::string(fallback);
  if (!args[i].is_string()) fail_arg(*this, i, "a text");
  return args[i].get<std::string>();
}

std::optional<std::vector<std::int64_t>> OpCall::integers_arg(std::size_t i) const {
  if (i >= args.size() || args[i].is_null()) return std::nullopt;
  constexpr std::string_view kValid = "an array of integers";
  if (const auto value = as_integer(args[i])) return std::vector<std::int64_t>{*value};
  if (!args[i].is_array()) fail_arg(*this, i, kValid);
  std::vector<std::int64_t> values;
  for (const nlohmann::json& element : args[i]) {
    const std::optional<std::int64_t> value = as_integer(element);
    if (!value) fail_arg(*this, i, kValid);
    values.push_back(*value);
  }
  return values;
}

int normalize_dim(std::int64_t dim, int ndim, std::string_view op) {
  const int range = std::max(ndim, 1);  // a 0-d tensor takes dims -1 and 0
  if (dim < -range || dim >= range) {
    throw InputError(std::string(op) + ": dim " + std::to_string(dim) + " out of range; valid: " +
                     std::to_string(-range) + " to " + std::to_string(range - 1));
  }
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

int ReducedDims::output_dim(int dim) const {
  int out = 0;
  for (int i = 0; i < dim; ++i) out += !reduced[to_index(i)] || keepdim ? 1 : 0;
  return out;
}

Shape ReducedDims::output_shape(const Shape& input) const {
  Shape shape;
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (!reduced[i]) {
      shape.push_back(input[i]);
    } else if (keepdim) {
      shape.push_back(1);
    }
  }
  return shape;
}

namespace {

// The tensors as a message lists them: the first ones, and how many there are besides.
std::string listed(std::span<const TensorSpec* const> tensors) {
  constexpr std::size_t kMostListed = 8;
  std::string text;
  for (const TensorSpec* tensor : tensors.first(std::min(tensors.size(), kMostListed))) {
    text += (text.empty() ? "" : ", ") + tensor->meta.text();
  }
  if (tensors.size() <= kMostListed) return text;
  return text + " and " + std::to_string(tensors.size() - kMostListed) + " more";
}

}  // namespace

Shape broadcast_shape(std::span<const TensorSpec* const> tensors, std::string_view op) {
  Shape shape;
  for (const TensorSpec* tensor : tensors) {
    const Shape& other = tensor->meta.shape;
    while (shape.size() < other.size()) shape.insert(shape.begin(), 1);
    const std::size_t offset = shape.size() - other.size();
    for (std::size_t i = 0; i < other.size(); ++i) {
      std::int64_t& extent = shape[offset + i];
      if (extent == 1) {
        extent = other[i];
      } else if (other[i] != 1 && other[i] != extent) {
        throw InputError(std::string(op) + ": shapes do not broadcast: " + listed(tensors));
      }
    }
  }
  return shape;
}

}  // namespace shardlab
