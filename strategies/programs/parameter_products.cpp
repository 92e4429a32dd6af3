#include "strategies/programs/parameter_products.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "costmodel/base/index.h"
#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace {

// A product of two tensors as an einsum: a letter for each dim of the factors and of the output.
struct ProductLetters {
  std::array<ValueRef, 2> factors;
  std::array<std::string, 2> of_factor;
  std::string of_output;
  std::optional<ValueRef> bias = {};
};

// "b" for one leading dim, "bc" for two.
std::string leading_letters(std::size_t count) {
  constexpr std::string_view kLetters = "bcdefghij";
  return std::string(kLetters.substr(0, std::min(count, kLetters.size())));
}

std::optional<ProductLetters> einsum_letters(const ProgramNode& node,
                                             const std::vector<ValueRef>& values) {
  if (values.size() != 2 || node.args.empty() || !node.args[0].is_string()) return std::nullopt;
  std::string equation;
  for (const char c : node.args[0].get<std::string>()) {
    if (c != ' ') equation += c;
  }
  const std::size_t comma = equation.find(',');
  const std::size_t arrow = equation.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) {
    return std::nullopt;
  }
  return ProductLetters{
      .factors = {values[0], values[1]},
      .of_factor = {equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1)},
      .of_output = equation.substr(arrow + 2)};
}

std::optional<ProductLetters> product_letters(const ProgramNode& node) {
  const std::vector<ValueRef> values = values_read(node);
  const std::string_view op = node.op;
  if (node.outputs.empty() || values.size() < 2) return std::nullopt;
  if (op == "aten.einsum.default") return einsum_letters(node, values);
  if (op == "aten.mm.default") {
    return ProductLetters{{values[0], values[1]}, {"mk", "kn"}, "mn"};
  }
  if (op == "aten.bmm.default") {
    return ProductLetters{{values[0], values[1]}, {"bmk", "bkn"}, "bmn"};
  }
  if (op == "aten.addmm.default" && values.size() == 3) {
    return ProductLetters{{values[1], values[2]}, {"mk", "kn"}, "mn", values[0]};
  }
  if (op == "aten.baddbmm.default" && values.size() == 3) {
    return ProductLetters{{values[1], values[2]}, {"bmk", "bkn"}, "bmn", values[0]};
  }
  const std::size_t ndim = node.outputs[0].shape.size();
  if (ndim == 0) return std::nullopt;
  if (op == "aten.linear.default") {
    const std::string rows = leading_letters(ndim - 1);
    ProductLetters letters{{values[0], values[1]}, {rows + "k", "nk"}, rows + "n"};
    if (values.size() == 3) letters.bias = values[2];
    return letters;
  }
  if (op.find("grouped_mm") != std::string_view::npos &&
      op.find("backward") == std::string_view::npos && ndim == 2) {
    // Each expert multiplies its own rows: torch._grouped_mm with offsets along the rows.
    return ProductLetters{{values[0], values[1]}, {"mk", "bkn"}, "mn"};
  }
  return std::nullopt;
}

bool has_letter(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

int place_of(std::string_view letters, char letter) {
  const std::size_t place = letters.find(letter);
  return place == std::string_view::npos ? kNoDim : static_cast<int>(place);
}

// What each dim is after a reshape. Dims that are merged or split keep the number of their group's
// first dim.
std::vector<int> reshaped_dims(const Shape& before, const Shape& after, std::span<const int> dims) {
  std::vector<int> found(after.size(), kNoDim);
  std::size_t i = 0;
  std::size_t j = 0;
  while (true) {
    while (i < before.size() && before[i] == 1) ++i;
    while (j < after.size() && after[j] == 1) ++j;
    if (i >= before.size() || j >= after.size()) return found;
    const int dim = dims[i];
    std::int64_t left = before[i++];
    std::int64_t right = after[j];
    found[j++] = dim;
    while (left != right) {
      if (left < right) {
        if (i >= before.size()) return found;
        left *= before[i++];
      } else {
        if (j >= after.size()) return found;
        right *= after[j];
        found[j++] = dim;
      }
    }
  }
}

// A dim that an argument names, counted from the front.
std::optional<std::size_t> dim_argument(const nlohmann::json& json, std::size_t ndim) {
  if (!json.is_number_integer()) return std::nullopt;
  const auto given = json.get<std::int64_t>();
  const std::int64_t dim = given < 0 ? given + static_cast<std::int64_t>(ndim) : given;
  if (dim < 0 || dim >= static_cast<std::int64_t>(ndim)) return std::nullopt;
  return static_cast<std::size_t>(dim);
}

std::vector<int> exchanged(std::span<const int> dims, std::size_t first, std::size_t second) {
  std::vector<int> found(dims.begin(), dims.end());
  std::swap(found[first], found[second]);
  return found;
}

// Dims are aligned at the right; one that is added or repeated is none of the tensor's.
std::vector<int> expanded_dims(const Shape& before, const Shape& after, std::span<const int> dims) {
  std::vector<int> found(after.size(), kNoDim);
  const std::size_t added = after.size() - before.size();
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i + added]) found[i + added] = dims[i];
  }
  return found;
}

}  // namespace

bool only_copies(const ProgramNode& node) {
  constexpr std::array<std::string_view, 7> kCopies = {kAlias,
                                                       "autoparallel.dtype_cast.default",
                                                       "prims.convert_element_type.default",
                                                       "aten._to_copy.default",
                                                       "aten.clone.default",
                                                       "aten.contiguous.default",
                                                       "aten.detach.default"};
  return std::ranges::find(kCopies, node.op) != kCopies.end();
}

std::optional<std::vector<int>> dims_after(const Program& program, const ProgramNode& node,
                                           std::span<const int> dims) {
  const std::vector<ValueRef> values = values_read(node);
  if (values.size() != 1 || node.outputs.empty()) return std::nullopt;
  const Shape& before = program.nodes[values[0].node].outputs[values[0].output].shape;
  const Shape& after = node.outputs[0].shape;
  const std::string_view op = node.op;
  const nlohmann::json& args = node.args;
  const auto same = [&] { return std::vector<int>(dims.begin(), dims.end()); };
  if (only_copies(node) || op == kGetItem) return same();
  if (op == "aten.t.default" && before.size() == 2) return exchanged(dims, 0, 1);
  if (op == "aten.transpose.int" && args.size() == 2) {
    const auto first = dim_argument(args[0], before.size());
    const auto second = dim_argument(args[1], before.size());
    if (first && second) return exchanged(dims, *first, *second);
    return std::nullopt;
  }
  if (op == "aten.permute.default" && !args.empty() && args[0].is_array()) {
    std::vector<int> found;
    for (const nlohmann::json& each : args[0]) {
      const auto dim = dim_argument(each, before.size());
      if (!dim) return std::nullopt;
      found.push_back(dims[*dim]);
    }
    if (found.size() == after.size()) return found;
    return std::nullopt;
  }
  if (op == "aten.expand.default" && after.size() >= before.size()) {
    return expanded_dims(before, after, dims);
  }
  if (op == "aten.select.int" && !args.empty()) {
    const auto dim = dim_argument(args[0], before.size());
    if (!dim) return std::nullopt;
    std::vector<int> found = same();
    found.erase(found.begin() + static_cast<std::ptrdiff_t>(*dim));
    return found;
  }
  constexpr std::array<std::string_view, 4> kCuts = {"aten.slice.Tensor", "aten.split.Tensor",
                                                     "aten.split_with_sizes.default",
                                                     "aten.chunk.default"};
  if (std::ranges::find(kCuts, op) != kCuts.end()) return same();
  constexpr std::array<std::string_view, 7> kReshapes = {
      "aten.view.default",      "aten._unsafe_view.default", "aten.reshape.default",
      "aten.unsqueeze.default", "aten.squeeze.dim",          "aten.squeeze.dims",
      "aten.squeeze.default"};
  if (std::ranges::find(kReshapes, op) != kReshapes.end()) {
    return reshaped_dims(before, after, dims);
  }
  return std::nullopt;
}

std::vector<std::optional<ParameterView>> parameter_views(const Program& program) {
  std::vector<std::optional<ParameterView>> views(program.nodes.size());
  for (std::size_t n = 0; n < views.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    if (node.outputs.empty()) continue;
    if (node.kind == NodeKind::kParameter) {
      ParameterView view{.parameter = n, .dims = {}};
      for (std::size_t dim = 0; dim < node.outputs[0].shape.size(); ++dim) {
        view.dims.push_back(static_cast<int>(dim));
      }
      views[n] = std::move(view);
      continue;
    }
    if (!node.computes()) continue;
    const std::vector<ValueRef> values = values_read(node);
    if (values.size() != 1 || !views[values[0].node]) continue;
    const ParameterView& read = *views[values[0].node];
    if (std::optional<std::vector<int>> dims = dims_after(program, node, read.dims)) {
      views[n] = ParameterView{.parameter = read.parameter, .dims = std::move(*dims)};
      continue;
    }
    // An op on each element, such as the addition of a number. full_like and its kin take only the
    // shape.
    const bool takes_shape_alone = node.op.find("_like") != std::string::npos ||
                                   node.op.find("aten.new_") != std::string::npos;
    const Shape& before = program.nodes[values[0].node].outputs[values[0].output].shape;
    if (!takes_shape_alone && before == node.outputs[0].shape) views[n] = read;
  }
  return views;
}

std::vector<ValueRef> factors_of(const ProgramNode& node) {
  const std::optional<ProductLetters> letters = product_letters(node);
  if (!letters) return {};
  return {letters->factors.begin(), letters->factors.end()};
}

bool is_product(const ProgramNode& node) { return product_letters(node).has_value(); }

std::optional<ParameterProduct> parameter_product(
    const Program& program, std::span<const std::optional<ParameterView>> views, std::size_t node) {
  const std::optional<ProductLetters> letters = product_letters(program.nodes[node]);
  if (!letters) return std::nullopt;
  const bool left = views[letters->factors[0].node].has_value();
  const bool right = views[letters->factors[1].node].has_value();
  if (left == right) return std::nullopt;
  const std::size_t side = left ? 0 : 1;
  const ParameterView& view = *views[letters->factors[side].node];
  const std::string& of_weight = letters->of_factor[side];
  const std::string& of_activation = letters->of_factor[1 - side];
  if (of_weight.size() != view.dims.size()) return std::nullopt;
  ParameterProduct product{.parameter = view.parameter,
                           .weight = letters->factors[side],
                           .activation = letters->factors[1 - side],
                           .bias = letters->bias};
  for (std::size_t i = 0; i < of_weight.size(); ++i) {
    const char letter = of_weight[i];
    const bool is_read = has_letter(of_activation, letter);
    const bool is_made = has_letter(letters->of_output, letter);
    int& dim = is_read == is_made ? product.expert_dim : is_made ? product.out_dim : product.in_dim;
    if (dim != kNoDim || view.dims[i] == kNoDim) continue;
    dim = view.dims[i];
    if (is_made && !is_read) product.feature_dim = place_of(letters->of_output, letter);
  }
  if (product.out_dim == kNoDim || product.in_dim == kNoDim) return std::nullopt;
  return product;
}

}  // namespace shardlab
