// Expands the rows of a rule, which are for one mesh dim, to candidates for the whole mesh.
//
//   Expansion expansion = expand(rule, call, mesh);           // the valid candidates, no prices
//   expansion.input(c, 0)                                     // candidate c's layout of input 0
//
// First, rows are filled: each placeholder is replaced by every kind of shard that occurs among the
// inputs, the plain shard first, then strided ones by ascending factor. The row that replicates
// everything is put first. A candidate then chooses one row for each mesh dim; in the list of
// candidates the choice on the last mesh dim changes fastest. A candidate is dropped, for the first
// of these reasons that holds, if
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

// A call with more combinations than this is refused with an InputError; --search exact does not
// enumerate them.
inline constexpr std::uint64_t kMaxCombinations = 50'000'000;

class Expansion {
 public:
  // A candidate gives a layout to each tensor: to the outputs, then to the inputs.
  [[nodiscard]] std::size_t outputs() const { return outputs_; }
  [[nodiscard]] std::size_t inputs() const { return tensors_.size() - outputs_; }
  [[nodiscard]] std::size_t size() const { return candidates_.size(); }
  // The rows after their placeholders are filled. The one that replicates everything comes first.
  // Empty for follow rules.
  [[nodiscard]] const Rows& rows() const { return rows_; }
  // The error message, if there is no candidate because the op works in place; otherwise empty.
  [[nodiscard]] const std::string& in_place_error() const { return in_place_error_; }

  // The code that each candidate gives to one tensor.
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

  // The number of codes that an input has, and its code in each candidate.
  [[nodiscard]] std::uint32_t codes(std::size_t input) const {
    return tensors_[outputs_ + input].codes;
  }
  [[nodiscard]] CodesOf codes_of(std::size_t input) const {
    return codes_of_tensor(outputs_ + input);
  }
  // The same for any tensor; `tensor` counts the outputs first, then the inputs.
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
    // A layout that is kept in another sense of its strided shards is another layout.
    const bool keeps = tensor.kept && tensor.kept->encodes_order() != own_strided_;
    if (code == tensor.current && tensor.kept && (keeps || !tensor.kept->has_strided())) {
      return *tensor.kept;
    }
    Layout asked(layout(outputs_ + input, code));
    asked.own_strided = own_strided_;
    return asked;
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
  // The codes that at least one candidate gives to the input, in ascending order.
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

  // Unlike std::vector, this container can grow without zeroing its new elements, which are
  // overwritten anyway.
  using Numbers = boost::container::vector<std::uint32_t>;
  struct Combinations;
  class PartialsTable;

  struct Tensor {
    std::vector<Placement> entries;   // distinct placements on one mesh dim (rows)
    std::vector<Placements> layouts;  // code -> layout (follow rules)
    Numbers left;   // what the outer half of a candidate adds to the tensor's code
    Numbers right;  // what the inner half of a candidate adds to it
    std::uint32_t codes = 0;
    std::uint32_t current = kNoCode;  // the code of an input's layout in the call
    std::optional<Layout> kept;       // the input's layout, if candidates keep its shard order
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
  // shifted to the left, and the number of one on the inner mesh dims. A candidate takes four bytes
  // however many tensors the op has, because most of the cost of an expansion is touching new
  // memory.
  Numbers candidates_;
  unsigned shift_ = 0;
  bool complete_ = false;     // whether every combination of rows is a candidate
  bool own_strided_ = false;  // asks_own_strided() of the call
  std::string in_place_error_;
};

// Expands a call. Throws InputError for inputs that the op can't take, for a row of the wrong
// length, and for too many combinations.
[[nodiscard]] Expansion expand(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh);
// Prepares the rows and codes but no list of candidates, for searches that do not need the list.
[[nodiscard]] Expansion prepare_expansion(const OpRule& rule, const OpCall& call,
                                          const DeviceMesh& mesh);
// Expands rows that the caller gives; the all-replicate row is not added to them.
[[nodiscard]] Expansion expand_rows(const Rows& rows, std::size_t outputs, const OpRule& rule,
                                    const OpCall& call, const DeviceMesh& mesh);
// Makes an expansion of the candidates that a follow rule lists.
[[nodiscard]] Expansion expand_candidates(std::span<const FollowCandidate> candidates,
                                          const OpCall& call, const DeviceMesh& mesh);

// Fills the placeholders with the kinds of shards that the inputs have, and puts the all-replicate
// row first if it is missing. Throws InputError if a row does not have exactly one entry for each
// output and input.
[[nodiscard]] Rows fill_rows(const Rows& rows, std::size_t outputs, const OpCall& call);

// Whether the strided shards that strategies ask for are placements of their own: as those of the
// first input that has any. Source: _input_use_strided in expand_to_full_mesh_op_strategy of
// torch/distributed/tensor/_ops/utils.py, PyTorch 2.13.0.
[[nodiscard]] bool asks_own_strided(const OpCall& call);
// The layout that a strategy with these placements asks of an input of the call.
[[nodiscard]] Layout asked_layout(const OpCall& call, const Placements& placements);
// The layout of an output with these placements. Its strided shards are placements of their own
// unless those of an input encode a shard order. Source: _view_ops.py, and
// _propagate_use_strided_shard_flag in _sharding_prop.py beside it.
[[nodiscard]] Layout made_layout(const OpCall& call, const Placements& placements);

// Whether the op takes lists of tensors (_foreach_add.List, _fused_adamw_), each element of which
// is a decision of its own.
[[nodiscard]] bool is_foreach(std::string_view op);
// The call that a foreach op makes for one element of its tensor lists. If an argument is an array
// with one number per element, the call gets only the number that belongs to its element.
[[nodiscard]] OpCall foreach_child(const OpCall& call, std::size_t index);
[[nodiscard]] std::size_t foreach_size(const OpCall& call);  // throws InputError

}  // namespace shardlab
