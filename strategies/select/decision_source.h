// Decisions that are made elsewhere: by a live PyTorch, whole, or in a file of recorded choices.
//
//   stack.decisions = source;              // for the ops that source->decides()
//   StackEvaluator evaluator(stack, topology);
//   evaluator.select(call, mesh).choice    // what the source chose, at the source's prices
//
// The candidates of such an op come from the stack's RuleSource, and their prices and the choice
// among them from here. A source may be shared between threads.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/topology.h"
#include "sim/redistribute.h"
#include "strategies/rules/op_call.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

struct GivenDecision {
  std::vector<FollowCandidate> candidates;
  // By candidate and input: what redistributing the input costs in microseconds. The price is
  // infinite if the redistribution is impossible.
  std::vector<std::vector<double>> redistribute_us;
  // The candidate that was chosen; nothing if the source leaves the choice to the stack's policy.
  std::optional<std::size_t> chosen;
  // How many candidates there were, where more than those above were weighed.
  std::optional<std::size_t> weighed;
};

struct GivenPlan {
  std::vector<StepRequest> steps;
  // The price in microseconds, infinite if the redistribution is impossible; nothing if the source
  // does not know it, so that the steps are priced by the stack.
  std::optional<double> price_us;
};

class DecisionSource {
 public:
  DecisionSource() = default;
  DecisionSource(const DecisionSource&) = delete;
  DecisionSource& operator=(const DecisionSource&) = delete;
  virtual ~DecisionSource() = default;

  // Whether decisions about the op, which is given by its full name, are made here.
  [[nodiscard]] virtual bool decides(std::string_view op) const = 0;
  // Whether decisions come with all candidates. Without them nobody knows which ones tie.
  [[nodiscard]] virtual bool lists_candidates() const = 0;
  // The decision about an op on this mesh, which is laid on this topology. Throws InputError where
  // the source has no answer to this question, or where its prices are those of other hosts.
  [[nodiscard]] virtual GivenDecision decide(const OpCall& call, const DeviceMesh& mesh,
                                             const Topology& topology) = 0;

  // Whether plans are made here too. Otherwise the stack's own planner makes them, as it makes
  // those for which this source gives nothing.
  [[nodiscard]] virtual bool plans() const = 0;
  [[nodiscard]] virtual std::optional<GivenPlan> plan(const DeviceMesh& mesh,
                                                      const Topology& topology,
                                                      const TensorMeta& meta, const Layout& from,
                                                      const Layout& to) = 0;
  // Called before a plan that is a question of its own, and not a part of a decision about an op.
  // Throws ConfigError where the source answers only some such questions, and this is not one.
  virtual void expect_plan(const DeviceMesh& /*mesh*/, const TensorMeta& /*meta*/,
                           const Layout& /*from*/, const Layout& /*to*/) const {}
  // What decides here, otherwise than in the stack's release, which steps of these plans are merged
  // onto flattened meshes; empty if nothing does. The plans do not say it.
  [[nodiscard]] virtual const std::string& changed_merging() const {
    static const std::string nothing;
    return nothing;
  }
};

}  // namespace shardlab
