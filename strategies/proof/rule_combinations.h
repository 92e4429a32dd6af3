// What an op's rule says of one sample call: the combinations of input placements that are worth
// trying, and the outputs that the rule lists for each.
//
//   RuleCombinations rule_of_call(rule, execution);
//   rule_of_call.for_each([&](const Combination& inputs) { rule_of_call.listed(inputs); });
//
// What the rule lists is what expand() keeps for inputs that already have these placements, so
// filters and follow rules count too.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "strategies/proof/sample_execution.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

// Keeps references to the rule and the execution, which must outlive it.
class RuleCombinations {
 public:
  // Inputs of a pointwise op are tried in samples of the `registered` placements too.
  RuleCombinations(const OpRule& rule, const SampleExecution& execution,
                   std::span<const PlacementEntry* const> registered = {});

  // Visits all combinations of placements. For a call with too many (rule_proof.h), visits those
  // near a row.
  void for_each(const std::function<void(const Combination&)>& visit);

  // The outputs of the rows that the rule lists for inputs in these placements.
  [[nodiscard]] std::vector<Combination> listed(const Combination& inputs);

  // Whether a shard leaves a rank without rows.
  [[nodiscard]] bool has_empty_shard(const Combination& inputs, const Combination& outputs) const;
  // Whether these outputs are implied by a row that the rule lists: one in which an input is
  // P(avg), P(max) or P(min) where it is R here. A replicated tensor is already each of these.
  [[nodiscard]] bool is_implied(const Combination& inputs, const Combination& outputs);
  // Whether the tensors that the op writes to keep their placements.
  [[nodiscard]] bool may_write(const Combination& inputs, const Combination& outputs) const;

 private:
  // Mask partials are tried only where a row of the rule has them.
  void add_mask_partials();
  [[nodiscard]] std::size_t count() const;
  // Leaves out partials of inputs until there are few enough combinations. Returns whether it
  // succeeds.
  bool fit_combinations();
  // The rows that the rule lists, and all combinations that differ from one of them in one or two
  // tensors.
  [[nodiscard]] std::set<Combination> near_rows();
  // Gives the call's tensors these placements.
  void place(const Combination& inputs);
  // Whether the rule has a row with these inputs; true where that is not known without expanding.
  [[nodiscard]] bool has_row(const Combination& inputs);
  // Visits what the rule proposes for inputs in these placements.
  void for_each_candidate(
      const Combination& inputs,
      const std::function<void(const Expansion& expansion, std::size_t candidate)>& visit);

  const OpRule& rule_;
  const SampleExecution& execution_;
  OpCall call_;  // its layouts change from expansion to expansion
  std::vector<std::vector<Placement>> placements_;  // by tensor: the placements that are tried
};

}  // namespace shardlab
