// Sharding rows of a matrix product, from its einsum equation of one or two inputs ("mk,kn->mn").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strategies/rules/op_rule.h"

namespace shardlab {

class EinsumEquation {
 public:
  // Letters, a comma, "->". Throws TextError.
  [[nodiscard]] static EinsumEquation parse(std::string_view text);

  [[nodiscard]] const std::vector<std::string>& inputs() const { return inputs_; }
  [[nodiscard]] const std::string& output() const { return output_; }

  // Extents of all letters, from the inputs' shapes. Throws InputError when they disagree.
  [[nodiscard]] std::vector<std::int64_t> extents(std::span<const Shape> shapes,
                                                  std::string_view op) const;
  [[nodiscard]] Shape output_shape(std::span<const Shape> shapes, std::string_view op) const;
  // Two operations for every combination of letters.
  [[nodiscard]] double flops(std::span<const Shape> shapes) const;

  enum class Linearity : std::uint8_t { kNone, kPerInput, kPerInputAndAll };
  // Rows in PyTorch's order: batch dims, contracting dims, free dims of the left and of the right
  // input (letters ascending within each); then P(op) of one input with a replicated other, op in
  // sum and avg; then, with kPerInputAndAll and if every dim is a batch dim, P(op) of all inputs,
  // as PyTorch 2.13.0's generator has it although that is unsound for products: (1+2)(3+5) is 24,
  // 1*3 + 2*5 is 13. With concrete shards or placeholders.
  [[nodiscard]] Rows rows(Linearity linearity, bool placeholders) const;

 private:
  std::vector<std::string> inputs_;
  std::string output_;
  std::string letters_;  // all, ascending
};

}  // namespace shardlab
