// The sharding rows of a product of matrices, derived from its einsum equation ("mk,kn->mn"), which
// has one or two inputs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/rules/op_rule.h"

namespace shardlab {

class EinsumEquation {
 public:
  // Reads letters, a comma between two inputs, and "->". Throws TextError.
  [[nodiscard]] static EinsumEquation parse(std::string_view text);

  [[nodiscard]] const std::vector<std::string>& inputs() const { return inputs_; }
  [[nodiscard]] const std::string& output() const { return output_; }

  // The extent of each letter, in alphabetical order of the letters. Throws InputError if the
  // inputs' shapes disagree on an extent.
  [[nodiscard]] std::vector<std::int64_t> extents(std::span<const Shape> shapes,
                                                  std::string_view op) const;
  [[nodiscard]] Shape output_shape(std::span<const Shape> shapes, std::string_view op) const;
  // One multiplication and one addition for every combination of values of the letters.
  [[nodiscard]] double flops(std::span<const Shape> shapes) const;
  // The product of matrices that an equation of two inputs computes: letters of both inputs and the
  // output are its batch, letters that only the inputs share are contracted, and those of one input
  // are its rows or columns. Nothing for another number of inputs.
  // `tensors`, which tell the layout of the inputs, may be global ones.
  [[nodiscard]] std::optional<GemmShape> gemm(std::span<const Shape> shapes,
                                              std::span<const TensorSpec* const> tensors) const;

  enum class Linearity : std::uint8_t { kNone, kPerInput, kPerInputAndAll };
  // The rows in PyTorch's order, with concrete shards or with placeholders:
  //   - a shard of each batch dim, each contracted dim, each free dim of the left input and each
  //     free dim of the right one, in alphabetical order within each of these groups;
  //   - unless kNone: one input is P(sum) or P(avg), the other one is replicated;
  //   - with kPerInputAndAll, if every dim is a batch dim: all inputs are P(sum) or P(avg). PyTorch
  //     2.13.0 lists these rows although they are wrong for products: (1+2)(3+5) is 24, but
  //     1*3 + 2*5 is 13.
  [[nodiscard]] Rows rows(Linearity linearity, bool placeholders) const;

 private:
  // What a rank computes with: if only one input is sharded on a letter, the local shapes disagree
  // on its extent, and the smaller one counts.
  [[nodiscard]] double local_extent(char letter, std::span<const Shape> shapes) const;

  std::vector<std::string> inputs_;
  std::string output_;
  std::string letters_;  // every letter of the equation, in alphabetical order
};

}  // namespace shardlab
