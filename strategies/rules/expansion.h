// From rows on one mesh dim to candidates on the whole mesh.
//
//   Expansion expansion = expand(rule, call, mesh);           // the valid candidates, no prices
//   expansion.input(c, 0)                                     // candidate c's layout of input 0
//
// First, rows are filled: each placeholder is replaced by every kind of shard that occurs among the
// inputs, the plain shard first, then strided ones by ascending factor. The row that replicates
// everything is put first. A candidate then chooses one row for each mesh dim; the choice on the
// last mesh dim changes fastest. It is dropped, and the reasons are tried in this order, when
//   - a tensor would mix partials that must not be mixed,
//   - an in-place op would change the placements of the tensor that it writes to,
//   - the op would change the placements of its `out=` tensor,
//   - an input would get an empty shard, or
//   - the filter of the op's rule rejects it.
// Source: PyTorch 2.13.0, single_dim_strategy.py and expand_to_full_mesh_op_strategy.
//
// Each tensor has few distinct placements on one mesh dim, so the layout that a candidate gives to
// a tensor is a number (its code), and whatever depends on that layout alone (validity, price) is
// computed once per code.
#pragma once

#include <boost/container/vector.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/mesh.h"
#include "strategies/rules/op_call.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

// More combinations than this are an InputError; --search exact does without them.
inline constexpr std::uint64_t kMaxCombinations = 50'000'000;

class Expansion {
 public:
  // A candidate gives a layout to each tensor: to the outputs, then to the inputs.
  [[nodiscard]] std::size_t outputs() const { return outputs_; }
  [[nodiscard]] std::size_t inputs() const { return tensors_.size() - outputs_; }
  [[nodiscard]] std::size_t size() const { return candidates_.size(); }
  // Rows after filling, all-replicate first. Empty for follow rules.
  [[nodiscard]] const Rows& rows() const { return rows_; }
  // Why there is no candidate at all, if the reason is that the op works in place; else empty.
  [[nodiscard]] const std::string& in_place_error() const { return in_place_error_; }

  // The codes that the candidates give to one tensor.
  class CodesOf {
   public:
    [[nodiscard]] std::size_t size() const { return candidates_.size(); }
    [[nodiscard]] std::uint32_t operator[](std::size_t candidate) const {
      const std::uint32_t halves = candidates_[candidate];
      return left_[halves >> shift_] + right_[halves & ((1U << shift_) - 1U)];
    }

   private:
    friend class Expansion;
    std::span<const std::uint32_t> candidates_;
    const std::uint32_t* left_ = nullptr;
    const std::uint32_t* right_ = nullptr;
    unsigned shift_ = 0;
  };

  // Codes of input `i`: how many there are, and the layout behind one.
  [[nodiscard]] std::uint32_t codes(std::size_t input) const {
    return tensors_[outputs_ + input].codes;
  }
  [[nodiscard]] CodesOf codes_of(std::size_t input) const {
    return codes_of_tensor(outputs_ + input);
  }
  // The same for a tensor, counted from the first output.
  [[nodiscard]] std::uint32_t tensor_codes(std::size_t tensor) const {
    return tensors_[tensor].codes;
  }
  [[nodiscard]] CodesOf codes_of_tensor(std::size_t tensor) const {
    CodesOf codes;
    codes.candidates_ = {candidates_.data(), candidates_.size()};
    codes.left_ = tensors_[tensor].left.data();
    codes.right_ = tensors_[tensor].right.data();
    codes.shift_ = shift_;
    return codes;
  }
  [[nodiscard]] Placements tensor_layout(std::size_t tensor, std::uint32_t code) const {
    return layout(tensor, code);
  }
  [[nodiscard]] std::uint32_t code(std::size_t candidate, std::size_t input) const {
    return codes_of(input)[candidate];
  }
  [[nodiscard]] Placements input(std::size_t candidate, std::size_t input) const {
    return layout(outputs_ + input, code(candidate, input));
  }
  [[nodiscard]] Placements output(std::size_t candidate, std::size_t output) const {
    return layout(output, codes_of_tensor(output)[candidate]);
  }
  [[nodiscard]] Layout input_layout(std::size_t input, std::uint32_t code) const {
    const Tensor& tensor = tensors_[outputs_ + input];
    if (code == tensor.current && tensor.kept) return *tensor.kept;
    return Layout(layout(outputs_ + input, code));
  }
  // The digits of a code are indices of these placements: one digit per mesh dim, the first mesh
  // dim the most significant. Empty for follow rules, whose codes are positions in a list of
  // layouts.
  [[nodiscard]] std::span<const Placement> digits(std::size_t input) const {
    return tensors_[outputs_ + input].entries;
  }
  // The code of the layout that the input has in the call. No candidate has this code when the rows
  // can't express that layout.
  [[nodiscard]] std::uint32_t current_code(std::size_t input) const {
    return tensors_[outputs_ + input].current;
  }
  // The codes that some candidate gives to the input, ascending.
  [[nodiscard]] std::vector<std::uint32_t> used_codes(std::size_t input) const;
  // Whether the candidate leaves every input as it is in the call.
  [[nodiscard]] bool keeps_inputs(std::size_t candidate) const;

 private:
  friend Expansion expand(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh);
  friend Expansion prepare_rows(const Rows& rows, std::size_t outputs, const OpCall& call,
                                const DeviceMesh& mesh);
  friend Expansion expand_rows(const Rows& rows, std::size_t outputs, const OpRule& rule,
                               const OpCall& call, const DeviceMesh& mesh);
  friend Expansion expand_candidates(std::span<const FollowCandidate> candidates,
                                     const OpCall& call, const DeviceMesh& mesh);

  // Unlike std::vector, this one does not zero its elements when it grows: they are written at
  // once.
  using Numbers = boost::container::vector<std::uint32_t>;
  struct Combinations;
  class PartialsTable;

  struct Tensor {
    std::vector<Placement> entries;   // distinct placements on one mesh dim (rows)
    std::vector<Placements> layouts;  // code -> layout (follow rules)
    Numbers left;                     // what the outer half of a candidate adds to its code
    Numbers right;                    // and what the inner half adds
    std::uint32_t codes = 0;
    std::uint32_t current = kNoCode;  // the code of an input's layout in the call
    std::optional<Layout> kept;       // that layout, where candidates keep its shard order
  };
  static constexpr std::uint32_t kNoCode = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] Placements layout(std::size_t tensor, std::uint32_t code) const;
  [[nodiscard]] std::uint32_t code_for(std::size_t tensor, const Placements& placements) const;
  [[nodiscard]] Combinations rows_as_combinations(PartialsTable& partials) const;
  [[nodiscard]] Combinations combine(const Combinations& rows, int mesh_dims,
                                     PartialsTable& partials) const;
  void pair_up(Combinations left, Combinations right, PartialsTable& partials);
  void drop_invalid(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh);

  int mesh_ndim_ = 0;
  std::size_t outputs_ = 1;
  Rows rows_;
  std::vector<Tensor> tensors_;
  // A candidate is a pair of halves: the number of a combination of rows on the outer mesh dims,
  // shifted to the left, and the number of one on the inner mesh dims. It takes four bytes however
  // many tensors there are, because touching new memory is most of the cost.
  Numbers candidates_;
  unsigned shift_ = 0;
  bool complete_ = false;  // whether every combination of rows is a candidate
  std::string in_place_error_;
};

// Expands a call. Throws InputError for inputs that the op can't take, for a row of the wrong
// length, and for too many combinations.
[[nodiscard]] Expansion expand(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh);
// Rows and codes without the list of candidates, for searches that do not need it.
[[nodiscard]] Expansion prepare_expansion(const OpRule& rule, const OpCall& call,
                                          const DeviceMesh& mesh);
// Expands rows that the caller gives; the all-replicate row is not added to them.
[[nodiscard]] Expansion expand_rows(const Rows& rows, std::size_t outputs, const OpRule& rule,
                                    const OpCall& call, const DeviceMesh& mesh);
// Takes the candidates of a follow rule as they are listed.
[[nodiscard]] Expansion expand_candidates(std::span<const FollowCandidate> candidates,
                                          const OpCall& call, const DeviceMesh& mesh);

// Fills the placeholders with the kinds of shards that the inputs have, and puts the all-replicate
// row first if it is missing. Throws InputError when a row has not one entry per output and input.
[[nodiscard]] Rows fill_rows(const Rows& rows, std::size_t outputs, const OpCall& call);

// The call that a foreach op makes for one element of its tensor lists. Where an argument is an
// array with one number per element, the call gets the number of its element.
[[nodiscard]] OpCall foreach_child(const OpCall& call, std::size_t index);
[[nodiscard]] std::size_t foreach_size(const OpCall& call);  // throws InputError

}  // namespace shardlab
