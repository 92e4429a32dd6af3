// The thing under evaluation: rules, transitions, planner, models, order, policy and search under
// one name.
//
//   Stack stack = Stack::from_json(json, place, load_base);
//   StackEvaluator evaluator(stack, topology);
//   Selection choice = evaluator.select(call, mesh);        // candidates, prices, choice, ties
//   Plan plan = evaluator.on(mesh).plan(meta, from, to);    // one redistribution
//
// A stack is immutable; an evaluator holds the models and caches, one a thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/registry.h"
#include "costmodel/straggler.h"
#include "sim/redistribute.h"
#include "strategies/expansion.h"
#include "strategies/op_rule.h"
#include "strategies/search.h"
#include "strategies/selection.h"

namespace shardlab {

enum class SearchKind : std::uint8_t { kFull, kDijkstra, kExact };
[[nodiscard]] std::string_view to_string(SearchKind search);
[[nodiscard]] std::optional<SearchKind> search_from_name(std::string_view name);

struct Stack {
  std::string name;
  std::string title;
  std::string source;
  RuleSet rules = kDTensor213;
  RedistributionOptions redistribution;
  ModelChoice collective_model;
  ModelChoice compute_model;
  Straggler straggler;
  CandidateOrder order;
  Policy policy = Policy::kKeepInput;
  SearchKind search = SearchKind::kFull;
  // Added to every redistribution of an input that changes its placements.
  double transition_us = 0.0;

  // Reads "base" through the callback, which returns the JSON of a named stack. Throws ConfigError.
  using LoadBase = std::function<nlohmann::json(const std::string& name)>;
  [[nodiscard]] static Stack from_json(const nlohmann::json& json, const JsonPlace& place,
                                       const LoadBase& load_base = {});
  // The effective configuration: every key, defaults filled in.
  [[nodiscard]] nlohmann::json to_json() const;
};

// Prices of an expansion's candidates under one stack.
struct Pricing {
  std::vector<std::vector<double>>
      by_code;                     // input -> code -> redistribution in us (NaN: not asked)
  std::vector<double> compute_us;  // by candidate; empty when kernels are free
  std::vector<double> totals;      // by candidate; infinity is impossible
};

// One candidate, spelled out.
struct Candidate {
  std::vector<Placements> inputs;
  std::vector<Placements> outputs;
  std::vector<double> redistribute_us;
  double compute_us = 0.0;
  double total_us = 0.0;
};

struct Selection {
  // In the order in which the policy saw them. Empty after a priority-queue search, which lists
  // only its answer.
  std::vector<Candidate> candidates;
  std::size_t selected = 0;
  Candidate choice;
  std::vector<std::size_t> ties;
  std::optional<double> margin_us;
  bool flips_with_order = false;
  std::string search_note;  // why a priority-queue search fell back to full enumeration
};

struct SelectOptions {
  std::optional<SearchKind> search;
  std::optional<CandidateOrder> order;
  bool nesting_guard = true;
};

// A choice without its alternatives, for thousands of questions.
struct Decision {
  Candidate choice;
  std::size_t candidates = 0;
  std::size_t ties = 0;
  std::optional<double> margin_us;
  bool flips_with_order = false;
};

class StackEvaluator {
 public:
  StackEvaluator(const Stack& stack, const Topology& topology);
  StackEvaluator(const StackEvaluator&) = delete;
  StackEvaluator& operator=(const StackEvaluator&) = delete;

  [[nodiscard]] const Stack& stack() const { return stack_; }
  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] Redistributor& on(const DeviceMesh& mesh);
  [[nodiscard]] const CostModel& collective_model() const { return *collectives_; }
  [[nodiscard]] const ComputeModel& compute_model() const { return *kernels_; }

  // Throws InputError: unknown op, inputs that it can't take, an in-place op whose input would have
  // to move.
  [[nodiscard]] Selection select(const OpCall& call, const DeviceMesh& mesh,
                                 const SelectOptions& options = {});
  // The same for candidates that the caller lists or expands.
  [[nodiscard]] Selection select_from(const Expansion& expansion, const OpRule* rule,
                                      const OpCall& call, const DeviceMesh& mesh,
                                      const SelectOptions& options = {});
  // The choice alone, from an expansion under this stack's rules.
  [[nodiscard]] Decision decide(const Expansion& expansion, const Pricing& pricing,
                                const OpCall& call) const;

  [[nodiscard]] Pricing price(const Expansion& expansion, const OpRule* rule, const OpCall& call,
                              const DeviceMesh& mesh);
  [[nodiscard]] Candidate candidate(const Expansion& expansion, const Pricing& pricing,
                                    std::size_t index) const;
  // The local kernel of an op in these layouts, for the rank with the largest shards.
  [[nodiscard]] double compute_us(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh,
                                  std::span<const Placements> inputs,
                                  std::span<const Placements> outputs) const;

 private:
  [[nodiscard]] Policy policy_for(const OpCall& call) const;

  Stack stack_;
  Topology topology_;
  std::unique_ptr<CostModel> collectives_;
  std::unique_ptr<ComputeModel> kernels_;
  std::map<std::string, std::unique_ptr<Redistributor>> redistributors_;
};

}  // namespace shardlab
