#include "strategies/proof/rule_proof.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "costmodel/base/error.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/proof/rule_combinations.h"
#include "strategies/proof/sample_execution.h"

namespace shardlab {
namespace {

// Findings by row, each with its smallest witness.
class Findings {
 public:
  void add(RuleFinding finding) {
    const auto [slot, is_new] = by_row_.try_emplace(finding.row, finding);
    if (is_new) return;
    finding.calls = slot->second.calls + 1;
    if (finding.elements < slot->second.elements) {
      slot->second = std::move(finding);
    } else {
      slot->second.calls = finding.calls;
    }
  }
  [[nodiscard]] std::vector<RuleFinding> take() {
    std::vector<RuleFinding> all;
    for (auto& [row, finding] : by_row_) all.push_back(std::move(finding));
    return all;
  }

 private:
  std::map<std::string, RuleFinding> by_row_;
};

// The placements of one output that are worth a row of their own. R implies P(avg), P(max) and
// P(min), so where R is right it stands alone. Otherwise every right placement counts, since an
// output that is right as a shard is not right as a partial.
std::vector<Placement> worth_listing(const std::vector<Placement>& right) {
  for (const Placement& p : right) {
    if (p.is_replicate()) return {p};
  }
  return right;
}

// All ways to choose one placement for each output.
std::vector<Combination> products(const std::vector<std::vector<Placement>>& by_output) {
  std::vector<Combination> all = {{}};
  for (const std::vector<Placement>& choices : by_output) {
    std::vector<Combination> longer;
    for (const Combination& head : all) {
      for (const Placement& p : choices) {
        longer.push_back(head);
        longer.back().push_back(p);
      }
    }
    all = std::move(longer);
  }
  return all;
}

Row as_row(const Combination& outputs, const Combination& inputs) {
  Row row;
  for (const Placement& p : outputs) row.emplace_back(p);
  for (const Placement& p : inputs) row.emplace_back(p);
  return row;
}

// The sum of truth values is their maximum, so P(max) stands for both.
Combination with_one_or(Combination outputs, std::span<const WholeOutput> expected) {
  for (std::size_t o = 0; o < std::min(outputs.size(), expected.size()); ++o) {
    const Placement sum = Placement::partial(ReduceOp::kSum);
    if (expected[o].meta.dtype == DType::kB8 && outputs[o] == sum) {
      outputs[o] = Placement::partial(ReduceOp::kMax);
    }
  }
  return outputs;
}

bool is_product(const Placement& p) {
  return p.kind() == Placement::Kind::kPartial && p.reduce_op() == ReduceOp::kProduct;
}

// Why a right combination with a registered placement is not listed; empty if there is no reason.
// Rules propose one registered placement for the same dims of all tensors, and never beside a
// shard.
std::string_view reason_of_registered(const Combination& outputs, const Combination& inputs) {
  const Placement* registered = nullptr;
  bool differs = false;
  bool shards = false;
  for (const Combination* side : {&outputs, &inputs}) {
    for (const Placement& p : *side) {
      shards = shards || p.is_shard_like();
      if (!p.is_registered()) continue;
      differs = differs || (registered != nullptr && *registered != p);
      registered = &p;
    }
  }
  if (registered == nullptr) return "";
  if (shards) return "a shard and a registered placement hold the same rows of this shape";
  if (differs) return "a registered placement is proposed for the same tensor dims of all tensors";
  return "";
}

// Collects what the sample calls of an op show about its rule.
class RuleProver {
 public:
  // Only pointwise ops pass registered placements.
  RuleProver(const OpRule& rule, const std::vector<const PlacementEntry*>& registered)
      : rule_(rule) {
    if (rule.is_pointwise) registered_ = registered;
  }

  // Leaves out a call that the kernel or the rule refuses.
  void add_call(const SampleCall& sample, std::int64_t ranks, int data_sets) {
    std::optional<SampleExecution> execution;
    std::optional<RuleCombinations> combinations;
    try {
      execution.emplace(sample, ranks, data_sets, registered_);
      combinations.emplace(rule_, *execution, registered_);
    } catch (const InputError& error) {
      refusal_ = error.what();
      return;
    }
    ++calls_;
    combinations->for_each([&](const Combination& inputs) {
      ++combinations_;
      const std::vector<Combination> listed = combinations->listed(inputs);
      add_unsound(*execution, inputs, listed);
      add_missing(*execution, *combinations, inputs, listed);
    });
  }

  // Throws InputError when every call was left out.
  [[nodiscard]] RuleProof take() {
    RuleProof proof;
    proof.op = rule_.op;
    if (calls_ == 0) {
      throw InputError(proof.op + " has no sample call on which its rules can be proved" +
                       (refusal_.empty() ? "" : ": " + refusal_));
    }
    proof.calls = calls_;
    proof.combinations = combinations_;
    proof.accepted = accepted_.size();
    proof.unsound = unsound_.take();
    proof.missing = missing_.take();
    proof.known_omissions = omissions_.take();
    return proof;
  }

 private:
  static RuleFinding finding(const SampleExecution& execution, const Combination& outputs,
                             const Combination& inputs) {
    return RuleFinding{.row = row_text(outputs, inputs),
                       .call = execution.text(),
                       .mesh = execution.mesh().size(),
                       .elements = execution.elements()};
  }

  void add_unsound(SampleExecution& execution, const Combination& inputs,
                   const std::vector<Combination>& listed) {
    for (const Combination& outputs : listed) {
      RuleFinding row = finding(execution, outputs, inputs);
      accepted_.insert(row.row);
      row.detail = execution.fault(inputs, outputs);
      if (!row.detail.empty()) unsound_.add(std::move(row));
    }
  }

  void add_missing(SampleExecution& execution, RuleCombinations& combinations,
                   const Combination& inputs, std::vector<Combination> listed) {
    std::vector<std::vector<Placement>> right = execution.right_outputs(inputs);
    const auto is_empty = [](const std::vector<Placement>& placements) {
      return placements.empty();
    };
    if (std::any_of(right.begin(), right.end(), is_empty)) return;
    for (Combination& outputs : listed) outputs = with_one_or(outputs, execution.outputs());
    for (auto& placements : right) placements = worth_listing(placements);
    for (const Combination& outputs : products(right)) {
      if (std::find(listed.begin(), listed.end(), outputs) != listed.end() ||
          !combinations.may_write(inputs, outputs) ||
          combinations.has_empty_shard(inputs, outputs) ||
          combinations.is_implied(inputs, outputs)) {
        continue;
      }
      RuleFinding row = finding(execution, outputs, inputs);
      row.reason = reason_to_omit(execution.call(), outputs, inputs);
      (row.reason.empty() ? missing_ : omissions_).add(std::move(row));
    }
  }

  // Why the rule need not list a combination that is right; empty if there is no reason.
  [[nodiscard]] std::string reason_to_omit(const OpCall& call, const Combination& outputs,
                                           const Combination& inputs) const {
    std::string reason;
    reason = reason_of_registered(outputs, inputs);
    if (!reason.empty()) return reason;
    if (rule_.excuse != nullptr) reason = rule_.excuse(call, as_row(outputs, inputs));
    const bool product = std::any_of(inputs.begin(), inputs.end(), is_product) ||
                         std::any_of(outputs.begin(), outputs.end(), is_product);
    return reason.empty() && product ? "only prod produces P(product)" : reason;
  }

  const OpRule& rule_;
  std::vector<const PlacementEntry*> registered_;
  std::string refusal_;  // why the last refused call was left out
  std::size_t calls_ = 0;
  std::size_t combinations_ = 0;
  std::set<std::string> accepted_;
  Findings unsound_;
  Findings missing_;
  Findings omissions_;
};

}  // namespace

bool is_provable(const OpRule& rule) {
  return find_op_kernel(rule.op) != nullptr && !sample_calls_of(rule.op, 1).empty();
}

RuleProof prove_rule(const OpRule& rule, const RuleProofOptions& options) {
  if (find_op_kernel(rule.op) == nullptr) {
    throw InputError(std::string(rule.op) +
                     " has no reference kernel, so its rules can't be proved");
  }
  RuleProver prover(rule, options.registered);
  for (const SampleCall& sample : sample_calls_of(rule.op, 1)) {
    for (const std::int64_t ranks : options.mesh_sizes) {
      if (options.stop != nullptr && *options.stop) {
        RuleProof stopped = prover.take();
        stopped.complete = false;
        return stopped;
      }
      prover.add_call(sample, ranks, options.data_sets);
    }
  }
  return prover.take();
}

}  // namespace shardlab
