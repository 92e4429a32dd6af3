// From rows on one mesh dim to candidates on the whole mesh.
//
//   Expansion expansion = expand(rule, call, mesh);           // the valid candidates, no prices
//   expansion.candidate(i)                                     // its layouts
//
// Rows are filled (every placeholder by each kind of shard that occurs among the inputs: plain
// first, then strided by ascending factor), the all-replicate row is put first, and the cartesian
// power over the mesh dims is taken, last mesh dim fastest. A candidate is dropped, in this order,
// when a tensor would mix partials that must not be mixed, an in-place op would change its tensor's
// placements, an `out=` tensor's, an input would get an empty shard, or the op's own filter says
// so. Source: PyTorch 2.13.0, single_dim_strategy.py and expand_to_full_mesh_op_strategy.
//
// Each tensor has few distinct placements on one mesh dim, so a candidate's layout of a tensor is a
// number (a code), and whatever depends on that layout alone (validity, price) is computed once per
// code.
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

// More than this many combinations is an InputError: search with --search exact instead.
inline constexpr std::uint64_t kMaxCombinations = 50'000'000;

class Expansion {
 public:
  // Tensors of a candidate: the outputs, then the inputs.
  [[nodiscard]] std::size_t outputs() const { return outputs_; }
  [[nodiscard]] std::size_t inputs() const { return tensors_.size() - outputs_; }
  [[nodiscard]] std::size_t size() const { return candidates_.size(); }
  // Rows after filling, all-replicate first. Empty for follow rules.
  [[nodiscard]] const Rows& rows() const { return rows_; }
  // Why there is no candidate at all, when an in-place op is to blame; else empty.
  [[nodiscard]] const std::string& in_place_error() const { return in_place_error_; }

  // The codes of one input by candidate.
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
  // Likewise of a tensor: the outputs, then the inputs.
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
  // A code of input `i` is a number whose digits, one a mesh dim (the first is the most
  // significant), are indices of these placements. Empty for follow rules, whose codes are
  // positions in a list.
  [[nodiscard]] std::span<const Placement> digits(std::size_t input) const {
    return tensors_[outputs_ + input].entries;
  }
  // The code of input `i` as it is now; no code of a candidate when rows can't express it.
  [[nodiscard]] std::uint32_t current_code(std::size_t input) const {
    return tensors_[outputs_ + input].current;
  }
  // Codes of input `i` that some candidate uses, ascending.
  [[nodiscard]] std::vector<std::uint32_t> used_codes(std::size_t input) const;
  // Whether every input of the candidate has the placements that it has now.
  [[nodiscard]] bool keeps_inputs(std::size_t candidate) const;

 private:
  friend Expansion expand(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh);
  friend Expansion prepare_rows(const Rows& rows, std::size_t outputs, const OpCall& call,
                                const DeviceMesh& mesh);
  friend Expansion expand_rows(const Rows& rows, std::size_t outputs, const OpRule& rule,
                               const OpCall& call, const DeviceMesh& mesh);
  friend Expansion expand_candidates(std::span<const FollowCandidate> candidates,
                                     const OpCall& call, const DeviceMesh& mesh);

  // Not set to zero when made: they are written at once.
  using Numbers = boost::container::vector<std::uint32_t>;
  struct Combinations;
  class PartialsTable;

  struct Tensor {
    std::vector<Placement> entries;   // distinct placements on one mesh dim (rows)
    std::vector<Placements> layouts;  // code -> layout (follow rules)
    Numbers left;                     // what the two halves of a candidate add to its code
    Numbers right;
    std::uint32_t codes = 0;
    std::uint32_t current = kNoCode;  // of the tensor as it is now (inputs)
    std::optional<Layout> kept;       // behind that code, where it keeps its shard order
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
  // A candidate is a pair: a combination of rows on the outer mesh dims (its number, shifted) and
  // one on the inner mesh dims. Four bytes a candidate, however many tensors: memory that is
  // touched for the first time is most of the cost.
  Numbers candidates_;
  unsigned shift_ = 0;
  bool complete_ = false;  // every combination of rows is a candidate
  std::string in_place_error_;
};

// Throws InputError: inputs that the op can't take, a row of the wrong length, too many
// combinations.
[[nodiscard]] Expansion expand(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh);
// Rows and codes without the candidates, for searches that do without their list.
[[nodiscard]] Expansion prepare_expansion(const OpRule& rule, const OpCall& call,
                                          const DeviceMesh& mesh);
// The same from rows given by the caller, without the all-replicate row unless they have it.
[[nodiscard]] Expansion expand_rows(const Rows& rows, std::size_t outputs, const OpRule& rule,
                                    const OpCall& call, const DeviceMesh& mesh);
// Candidates as listed.
[[nodiscard]] Expansion expand_candidates(std::span<const FollowCandidate> candidates,
                                          const OpCall& call, const DeviceMesh& mesh);

// Rows with placeholders filled from the inputs' placements, the all-replicate row first if it is
// missing. Throws InputError when a row has not one entry per output and input.
[[nodiscard]] Rows fill_rows(const Rows& rows, std::size_t outputs, const OpCall& call);

// The call of one element of a foreach op; of an array among its arguments it gets its own number.
[[nodiscard]] OpCall foreach_child(const OpCall& call, std::size_t index);
[[nodiscard]] std::size_t foreach_size(const OpCall& call);  // throws InputError

}  // namespace shardlab
