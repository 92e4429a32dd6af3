#include "strategies/rules/einsum.h"

#include <algorithm>
#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/kernel_work.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace {

bool contains(std::string_view text, char letter) {
  return text.find(letter) != std::string_view::npos;
}
int position(std::string_view text, char letter) { return static_cast<int>(text.find(letter)); }

}  // namespace

EinsumEquation EinsumEquation::parse(std::string_view text) {
  constexpr std::string_view kForm = "an equation of one or two inputs, such as mk,kn->mn";
  const auto fail = [&](std::size_t position, std::string_view expected) {
    throw TextError("einsum equation", text, position, expected);
  };
  EinsumEquation equation;
  equation.inputs_.emplace_back();
  std::size_t i = 0;
  for (; i < text.size() && text.substr(i, 2) != "->"; ++i) {
    if (text[i] == ',') {
      if (equation.inputs_.size() == 2) fail(i, "at most two inputs");
      equation.inputs_.emplace_back();
    } else if (text[i] < 'a' || text[i] > 'z') {
      fail(i, kForm);
    } else if (contains(equation.inputs_.back(), text[i])) {
      fail(i, "distinct letters in one input");
    } else {
      equation.inputs_.back() += text[i];
      if (!contains(equation.letters_, text[i])) equation.letters_ += text[i];
    }
  }
  if (i == text.size()) fail(i, "\"->\" and the output's letters");
  for (i += 2; i < text.size(); ++i) {
    if (!contains(equation.letters_, text[i])) fail(i, "letters of the inputs");
    if (contains(equation.output_, text[i])) fail(i, "distinct letters in the output");
    equation.output_ += text[i];
  }
  std::sort(equation.letters_.begin(), equation.letters_.end());
  return equation;
}

std::vector<std::int64_t> EinsumEquation::extents(std::span<const Shape> shapes,
                                                  std::string_view op) const {
  const auto fail = [&] {
    std::string found;
    for (const Shape& shape : shapes) {
      found += (found.empty() ? "[" : ", [");
      for (std::size_t i = 0; i < shape.size(); ++i) {
        found += (i == 0 ? "" : ",") + std::to_string(shape[i]);
      }
      found += "]";
    }
    std::string wanted;
    for (const std::string& input : inputs_) wanted += (wanted.empty() ? "" : ",") + input;
    throw InputError(std::string(op) + ": shapes do not fit " + wanted + "->" + output_ +
                     ": found " + found);
  };
  if (shapes.size() != inputs_.size()) fail();
  std::vector<std::int64_t> extents(letters_.size(), -1);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (shapes[i].size() != inputs_[i].size()) fail();
    for (std::size_t d = 0; d < inputs_[i].size(); ++d) {
      std::int64_t& extent = extents[to_index(position(letters_, inputs_[i][d]))];
      if (extent >= 0 && extent != shapes[i][d]) fail();
      extent = shapes[i][d];
    }
  }
  return extents;
}

Shape EinsumEquation::output_shape(std::span<const Shape> shapes, std::string_view op) const {
  const std::vector<std::int64_t> all = extents(shapes, op);
  Shape shape;
  for (const char letter : output_) {
    shape.push_back(all[to_index(position(letters_, letter))]);
  }
  return shape;
}

double EinsumEquation::local_extent(char letter, std::span<const Shape> shapes) const {
  std::int64_t extent = -1;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!contains(inputs_[i], letter)) continue;
    const std::int64_t here = shapes[i][to_index(position(inputs_[i], letter))];
    extent = extent < 0 ? here : std::min(extent, here);
  }
  return static_cast<double>(extent);
}

double EinsumEquation::flops(std::span<const Shape> shapes) const {
  double flops = 2.0;
  for (const char letter : letters_) flops *= local_extent(letter, shapes);
  return flops;
}

std::optional<GemmShape> EinsumEquation::gemm(std::span<const Shape> shapes,
                                              std::span<const TensorSpec* const> tensors) const {
  if (inputs_.size() != 2) return std::nullopt;
  GemmShape gemm{.batch = 1.0, .m = 1.0, .n = 1.0, .k = 1.0};
  // Letters of one class take part in the product as one dim: b(atch), k (contracted), m or n.
  const auto class_of = [&](char letter) {
    if (!contains(inputs_[1], letter)) return 'm';
    if (!contains(inputs_[0], letter)) return 'n';
    return contains(output_, letter) ? 'b' : 'k';
  };
  for (const char letter : letters_) {
    const char kind = class_of(letter);
    double& extent = kind == 'm'   ? gemm.m
                     : kind == 'n' ? gemm.n
                     : kind == 'b' ? gemm.batch
                                   : gemm.k;
    extent *= local_extent(letter, shapes);
  }
  // PyTorch computes [batch, m, n] and permutes it, so n is the length of the result's rows.
  std::array<double, 3> lengths = {1.0, 1.0, gemm.batch * gemm.m > 1.0 ? gemm.n : 1.0};
  for (std::size_t i = 0; i < 2; ++i) {
    std::string classes;
    for (const char letter : inputs_[i]) classes += class_of(letter);
    lengths[i] = row_length(tensors[i]->meta, shapes[i], classes);
  }
  gemm.row_multiple = row_multiple(lengths);
  return gemm;
}

Rows EinsumEquation::rows(Linearity linearity, bool placeholders) const {
  const auto shard = [&](std::string_view term, char letter) {
    const int dim = position(term, letter);
    return placeholders ? RowEntry::any_shard(dim) : RowEntry(Placement::shard(dim));
  };
  const bool two = inputs_.size() == 2;
  std::string batch;
  std::string contracting;
  std::string left;
  std::string right;
  for (const char letter : letters_) {
    const bool in_all = contains(inputs_[0], letter) && (!two || contains(inputs_[1], letter));
    if (!contains(output_, letter)) {
      contracting += letter;
    } else if (in_all) {
      batch += letter;
    } else {
      (contains(inputs_[0], letter) ? left : right) += letter;
    }
  }
  Rows rows;
  for (const char letter : batch) {
    Row row = {shard(output_, letter)};
    for (const std::string& input : inputs_) row.push_back(shard(input, letter));
    rows.push_back(row);
  }
  for (const char letter : contracting) {
    // Only a letter that both inputs have can be split over both.
    if (two && (!contains(inputs_[0], letter) || !contains(inputs_[1], letter))) continue;
    Row row = {Placement::partial()};
    for (const std::string& input : inputs_) row.push_back(shard(input, letter));
    rows.push_back(row);
  }
  for (const char letter : left) {
    rows.push_back({shard(output_, letter), shard(inputs_[0], letter), Placement::replicate()});
  }
  for (const char letter : right) {
    rows.push_back({shard(output_, letter), Placement::replicate(), shard(inputs_[1], letter)});
  }
  if (linearity == Linearity::kNone) return rows;
  const bool elementwise = contracting.empty() && left.empty() && right.empty();
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
    const Placement p = Placement::partial(op);
    if (two) {
      rows.push_back({p, p, Placement::replicate()});
      rows.push_back({p, Placement::replicate(), p});
    } else {
      rows.push_back({p, p});
    }
  }
  if (linearity == Linearity::kPerInputAndAll && elementwise && two) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      const Placement p = Placement::partial(op);
      rows.push_back({p, p, p});
    }
  }
  return rows;
}

}  // namespace shardlab
