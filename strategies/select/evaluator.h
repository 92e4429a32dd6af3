// Answers questions under one stack: the price of every candidate, the choice, its ties and its
// margin.
//
//   StackEvaluator evaluator(stack, topology);
//   Selection choice = evaluator.select(call, mesh);        // candidates, prices, choice, ties
//   Plan plan = evaluator.on(mesh).plan(meta, from, to);    // one redistribution
//
// An evaluator holds the models and caches, so each thread needs one of its own. Prices are in
// microseconds.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/cost_factors.h"
#include "sim/redistribute.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/op_rule.h"
#include "strategies/select/exact_search.h"
#include "strategies/select/search.h"
#include "strategies/select/selection.h"
#include "strategies/select/stack.h"

namespace shardlab {

// The prices of an expansion's candidates under one stack.
struct Pricing {
  // For each input and code: the price of the redistribution; NaN where no candidate asks for it.
  std::vector<std::vector<double>> by_code;
  std::vector<double> compute_us;  // by candidate; empty when kernels are free
  std::vector<double> totals;      // by candidate; infinity where it is impossible
  // Set where the decision was made elsewhere (decision_source.h): the candidate that was chosen,
  // and how many were weighed.
  std::optional<std::size_t> chosen = {};
  std::optional<std::size_t> weighed = {};
};

// One candidate with its layouts and prices.
struct Candidate {
  std::vector<Placements> inputs;
  std::vector<Placements> outputs;
  std::vector<double> redistribute_us;
  double compute_us = 0.0;
  double total_us = 0.0;
};

// How a selection was found, and what that took.
enum class SearchMethod : std::uint8_t { kEnumeration, kQueue, kBounds };
template <>
struct EnumNames<SearchMethod> {
  static constexpr std::string_view kKind = "search method";
  static constexpr std::array kNames = {Named{SearchMethod::kEnumeration, "enumeration"},
                                        Named{SearchMethod::kQueue, "queue"},
                                        Named{SearchMethod::kBounds, "bounds"}};
};
struct SearchEffort {
  SearchMethod method = SearchMethod::kEnumeration;
  // Candidates that the enumeration lists; layouts of all inputs that the queue looks at; partial
  // and whole candidates that the bounds examine.
  std::size_t states_visited = 0;
  // Moves of one input from its layout into another one that are priced; for the queue, changes of
  // one placement along one mesh dim. An input that stays where it is counts, too, at its price of
  // 0.
  std::size_t prices_asked = 0;
};

struct Selection {
  // The candidates in the order in which the policy saw them. After a search that does not
  // enumerate, these are only the candidates at the minimum.
  std::vector<Candidate> candidates;
  std::size_t selected = 0;
  Candidate choice;
  std::vector<std::size_t> ties;
  std::optional<double> margin_us;
  bool flips_with_order = false;
  std::string search_note;             // why a search fell back to full enumeration; "": it did not
  std::optional<SearchEffort> effort;  // nothing where the decision was made elsewhere
};

struct SelectOptions {
  std::optional<SearchKind> search = {};
  std::optional<CandidateOrder> order = {};
  std::optional<bool> nesting_guard = {};
  const OpRule* rule = nullptr;  // used instead of the rule that the stack's rule set has
};

// A choice without its alternatives, for asking thousands of questions.
struct Decision {
  Candidate choice;
  std::size_t candidates = 0;
  std::size_t ties = 0;  // candidates at the lowest price; 0 where the others are not known
  std::optional<double> margin_us;
  bool flips_with_order = false;
};

// The factors that set_factors() was given; the models refer to them.
struct WhatIf {
  CostFactors factors;
  std::vector<double>* thresholds =
      nullptr;  // where kernels note their thresholds; null: they are not noted
};

class StackEvaluator {
 public:
  StackEvaluator(const Stack& stack, const Topology& topology);
  StackEvaluator(const StackEvaluator&) = delete;
  StackEvaluator& operator=(const StackEvaluator&) = delete;

  [[nodiscard]] const Stack& stack() const { return stack_; }
  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] Redistributor& on(const DeviceMesh& mesh);
  // Whether the stack's plans are made elsewhere (decision_source.h), and not by on(mesh).
  [[nodiscard]] bool plans_elsewhere() const;
  // The plan by which the stack redistributes a tensor, wherever it is made. A planner among the
  // options makes the plan here, as on(mesh) does.
  [[nodiscard]] Plan plan(const DeviceMesh& mesh, const TensorMeta& meta, const Layout& from,
                          const Layout& to, const PlanOptions& options = {});
  // The same for a question of its own, which a file of recorded choices may not hold. Throws
  // ConfigError then.
  [[nodiscard]] Plan asked_plan(const DeviceMesh& mesh, const TensorMeta& meta, const Layout& from,
                                const Layout& to, const PlanOptions& options = {});
  [[nodiscard]] const CostModel& collective_model() const { return *collectives_; }
  [[nodiscard]] const ComputeModel& compute_model() const { return *kernels_; }

  // Scales all prices from here on: what would the stack choose if every latency were f times as
  // long? Factors of 1 change no digit of a price. The first call invalidates the references that
  // on(), collective_model() and compute_model() have returned.
  void set_factors(const CostFactors& factors);
  // Calls `ask`, which prices something with this evaluator. Returns the factors of the launch
  // floor at which one of the kernels that `ask` prices leaves the floor, ascending and without
  // duplicates. Assumes that set_factors() has been called.
  [[nodiscard]] std::vector<double> launch_thresholds(const std::function<void()>& ask);

  // Throws InputError for an unknown op, for inputs that the op cannot take, and for an in-place op
  // whose input would have to move.
  [[nodiscard]] Selection select(const OpCall& call, const DeviceMesh& mesh,
                                 const SelectOptions& options = {});
  // Selects among the candidates of an expansion that the caller has made.
  [[nodiscard]] Selection select_from(const Expansion& expansion, const OpRule* rule,
                                      const OpCall& call, const DeviceMesh& mesh,
                                      const SelectOptions& options = {});
  // Only the choice, from an expansion under this stack's rules, whatever the stack's search is.
  [[nodiscard]] Decision decide(const Expansion& expansion, const Pricing& pricing,
                                const OpRule* rule, const OpCall& call, const DeviceMesh& mesh);
  // The same, found by the stack's search. The queue may choose what the expansion does not list,
  // and its price is that of the queue's steps.
  [[nodiscard]] Decision decide_by_search(const Expansion& expansion, const Pricing& pricing,
                                          const OpRule& rule, const OpCall& call,
                                          const DeviceMesh& mesh);
  // Whether the stack's choice may differ from the cheapest candidate of the full enumeration,
  // because PyTorch's queue makes it.
  [[nodiscard]] bool chooses_by_queue(const OpCall& call) const;

  // Where only cheap candidates matter, moves of one input that cost more than `limit_us` may be
  // given as infinite, and so may the totals of candidates that need them.
  [[nodiscard]] Pricing price(const Expansion& expansion, const OpRule* rule, const OpCall& call,
                              const DeviceMesh& mesh, double limit_us = kInfinity);
  [[nodiscard]] Candidate candidate(const Expansion& expansion, const Pricing& pricing,
                                    std::size_t index) const;
  // The time that the local kernel of an op takes in these layouts, on the rank with the largest
  // shards. If kernels are free under the stack, a roofline model prices it; the policy
  // compute-time compares these times.
  [[nodiscard]] double kernel_us(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh,
                                 std::span<const Placements> inputs,
                                 std::span<const Placements> outputs) const;
  // The price of the same kernel under the stack.
  [[nodiscard]] double compute_us(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh,
                                  std::span<const Placements> inputs,
                                  std::span<const Placements> outputs) const;

 private:
  void make_models();
  void forget_prices();
  [[nodiscard]] bool is_decided_elsewhere(const OpCall& call) const;
  [[nodiscard]] Pricing given_prices(const Expansion& expansion, const OpCall& call,
                                     const DeviceMesh& mesh) const;
  [[nodiscard]] Policy policy_for(const OpCall& call) const;
  [[nodiscard]] bool prices_kernels() const;
  [[nodiscard]] Selection select_priced(const Expansion& expansion, const Pricing& pricing,
                                        const OpRule* rule, const OpCall& call,
                                        const DeviceMesh& mesh, const CandidateOrder& order);
  [[nodiscard]] Selection select_by_bounds(const OpRule& rule, const OpCall& call,
                                           const DeviceMesh& mesh, const CandidateOrder& order,
                                           ExactSearchOrder search);
  [[nodiscard]] Selection select_by_steps(const OpRule& rule, const OpCall& call,
                                          const DeviceMesh& mesh, const SearchResult& found) const;
  [[nodiscard]] double kernel_us_under(const ComputeModel& kernels, const OpRule& rule,
                                       const OpCall& call, const DeviceMesh& mesh,
                                       std::span<const Placements> inputs,
                                       std::span<const Placements> outputs) const;

  Stack stack_;
  Topology topology_;
  std::unique_ptr<CostModel> collectives_;
  std::unique_ptr<ComputeModel> kernels_;
  std::unique_ptr<WhatIf> what_if_;         // null until factors are set; the models refer to it
  std::unique_ptr<ComputeModel> roofline_;  // for kernel_us(), if kernels_ are free
  std::map<std::string, std::unique_ptr<Redistributor>> redistributors_;
};

}  // namespace shardlab
