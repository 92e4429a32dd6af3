#include "runner/solve/plan_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "costmodel/base/index.h"
#include "reports/number_text.h"
#include "runner/solve/solution_text.h"
#include "strategies/programs/sharding_network.h"

namespace shardlab {
namespace {

// Bytes by node and value.
using Weights = std::vector<std::vector<double>>;

// The bytes that each value of a node holds at least while a task runs, whatever the values of the
// other nodes are.
Weights weights_at(const PricedProgram& priced, const ModelBlocks& blocks, const TrainingStep& step,
                   int task) {
  const ProgramStrategies& strategies = priced.strategies;
  Weights weights(priced.program.nodes.size());
  for (const StepBuffer& buffer : step.buffers) {
    const bool lives = buffer.made_by >= 0 && buffer.made_by <= task && task <= buffer.last_use;
    if (!lives || !buffer.read_as) continue;
    const auto [n, output] = *buffer.read_as;
    // Once the backward pass may gather a weight, some assignments no longer need it as it was.
    if (blocks.is_weight[n] && task >= step.gathered_again[n]) continue;
    const NodeClass& own = strategies.of(n);
    std::vector<double>& bytes = weights[n];
    bytes.resize(own.strategies, 0.0);
    const TensorMeta& meta = priced.program.nodes[n].outputs[output];
    for (std::size_t v = 0; v < own.strategies; ++v) {
      const Placements& layout = strategies.layouts[strategies.layout(own, v, output)];
      bytes[v] += itemsize(meta.dtype) *
                  element_count(largest_local_shape(meta.shape, layout, priced.mesh));
    }
  }
  // Parameters, buffers and the optimizer's state.
  std::vector<double> per_element(priced.program.nodes.size(), 0.0);
  for (std::size_t n = 0; n < per_element.size(); ++n) {
    const ProgramNode& node = priced.program.nodes[n];
    if (node.kind != NodeKind::kParameter && node.kind != NodeKind::kBuffer) continue;
    per_element[n] = itemsize(node.outputs[0].dtype);
  }
  for (const auto& [source, gradient] : priced.program.pairs) {
    const bool learns = priced.program.nodes[source].kind == NodeKind::kParameter &&
                        priced.program.nodes[gradient].kind == NodeKind::kGradient;
    if (!learns) continue;
    per_element[source] += adam_bytes_per_element(priced.program.nodes[source].outputs[0].dtype);
  }
  for (std::size_t n = 0; n < per_element.size(); ++n) {
    if (per_element[n] <= 0.0) continue;
    const NodeClass& own = strategies.of(n);
    const Shape& shape = priced.program.nodes[n].outputs[0].shape;
    weights[n].resize(own.strategies, 0.0);
    for (std::size_t v = 0; v < own.strategies; ++v) {
      const Placements& layout = strategies.layouts[strategies.layout(own, v, 0)];
      weights[n][v] +=
          per_element[n] * element_count(largest_local_shape(shape, layout, priced.mesh));
    }
  }
  return weights;
}

void add(Weights& sum, const Weights& more) {
  sum.resize(more.size());
  for (std::size_t n = 0; n < more.size(); ++n) {
    sum[n].resize(std::max(sum[n].size(), more[n].size()), 0.0);
    for (std::size_t v = 0; v < more[n].size(); ++v) sum[n][v] += more[n][v];
  }
}

}  // namespace

bool PlanSearch::is_time_up() const { return options_.patience.seconds_left() <= 0.0; }

FoundPlan PlanSearch::best(ProblemOptions options, const StepOptions& step_options) const {
  FoundPlan found;
  found.step_options = step_options;
  options.runs = runs_under(priced_.program, planner_.blocks(), step_options.recomputation);
  found.problem = std::make_unique<ShardingProblem>(
      make_problem(priced_.program, priced_.mesh, priced_.strategies, priced_.prices, options));
  found.network = std::make_unique<CostNetwork>(network_of(*found.problem));
  found.solution =
      ExactSolver(*found.network)
          .solve({.jobs = options_.jobs, .patience = options_.patience, .known = options_.known});
  if (found.solution.feasible) found.step = figures(found.solution.assignment, step_options);
  return found;
}

std::optional<StepFigures> PlanSearch::figures(const Assignment& assignment,
                                               const StepOptions& step_options) const {
  try {
    return planner_.figures(assignment, step_options);
  } catch (const LimitError&) {
    throw;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

FoundPlan PlanSearch::best_that_fits(const ProblemOptions& options,
                                     const StepOptions& step_options) {
  FoundPlan optimum = best(options, step_options);
  if (!optimum.step || optimum.fits()) return optimum;
  if (!options_.has_all_strategies) return by_charges(std::move(optimum));
  ProblemOptions with_budget = options;
  with_budget.memory_budget_bytes = planner_.most_bytes();
  try {
    FoundPlan state_fits = best(with_budget, step_options);
    if (!state_fits.solution.feasible || state_fits.fits()) return state_fits;
    optimum.solution.lower_bound =
        std::max(optimum.solution.lower_bound, state_fits.solution.lower_bound);
  } catch (const LimitError&) {  // too entangled; charges do without
  }
  return by_charges(std::move(optimum));
}

FoundPlan PlanSearch::by_charges(FoundPlan optimum) const {
  const double most = planner_.most_bytes();
  double bound = optimum.solution.lower_bound;
  double least_peak = optimum.step->memory.peak_bytes;
  std::optional<ExactSolution> best;
  StepFigures best_figures;
  // The charge is for the bytes at a few points of the step, each of which has room for `most`.
  Weights charged;
  int points = 0;
  std::vector<int> charged_tasks;
  const auto charge_peak_of = [&](const Assignment& assignment, const StepFigures& figures) {
    const int task = figures.memory.peak_task;
    if (std::ranges::find(charged_tasks, task) != charged_tasks.end()) return;
    charged_tasks.push_back(task);
    ++points;
    add(charged, weights_at(priced_, planner_.blocks(),
                            planner_.step(assignment, optimum.step_options), task));
  };
  const auto attempt = [&](double lambda) {
    ShardingProblem with_charges = *optimum.problem;
    for (std::size_t n = 0; n < charged.size(); ++n) {
      for (std::size_t v = 0; v < charged[n].size(); ++v) {
        with_charges.costs[n][v] += lambda * charged[n][v];
      }
    }
    const CostNetwork network = network_of(with_charges);
    // Charges break the likeness of layers, on which a proof rests that is quick and exact.
    constexpr double kGap = 1e-3;
    Patience patience = options_.patience;
    patience.gap = kGap;
    ExactSolution solution =
        ExactSolver(network).solve({.jobs = options_.jobs, .explain = false, .patience = patience});
    bound = std::max(bound, solution.lower_bound - lambda * points * most);
    // A plan that can't run counts as one that does not fit, as the optimum.
    StepFigures figures =
        this->figures(solution.assignment, optimum.step_options).value_or(*optimum.step);
    least_peak = std::min(least_peak, figures.memory.peak_bytes);
    solution.objective = optimum.network->cost(solution.assignment);
    if (figures.fits() && (!best || solution.objective < best->objective)) {
      best = solution;
      best_figures = figures;
    }
    return std::pair(std::move(solution.assignment), std::move(figures));
  };
  charge_peak_of(optimum.solution.assignment, *optimum.step);
  // From a charge of a hundredth of the objective for what is too much, up by factors of four.
  double above = 0.01 * optimum.solution.objective / (optimum.step->memory.peak_bytes - most);
  double below = 0.0;  // the highest charge under which a plan was too large
  constexpr int kRaises = 14;
  bool found = false;
  for (int i = 0; i < kRaises && !found && !is_time_up(); ++i) {
    const auto [assignment, figures] = attempt(above);
    found = figures.fits();
    if (found) break;
    charge_peak_of(assignment, figures);
    below = above;
    above *= 4.0;
  }
  constexpr int kSteps = 6;
  for (int i = 0; found && i < kSteps && !is_time_up(); ++i) {
    const double middle = below > 0.0 ? std::sqrt(below * above) : above / 4.0;
    (attempt(middle).second.fits() ? above : below) = middle;
  }
  if (!best) {
    optimum.misfit = "no plan was found that fits into " + reports::bytes_text(most) +
                     "; the smallest peak of those that were tried is " +
                     reports::bytes_text(least_peak);
    optimum.solution.feasible = false;
    return optimum;
  }
  best->lower_bound = std::min(bound, best->objective);
  best->optimal = best->objective - best->lower_bound <= 1e-9 * best->objective;
  best->best = {{best->assignment, best->objective}};
  optimum.solution = std::move(*best);
  optimum.step = std::move(best_figures);
  optimum.is_optimum_of_network = false;
  return optimum;
}

FoundPlan PlanSearch::with_fewest_blocks(const ProblemOptions& options, StepOptions step,
                                         Recomputation::Kind kind) {
  step.recomputation.kind = kind;
  const auto with = [&](int blocks) {
    StepOptions own = step;
    own.recomputation.first_blocks = blocks;
    return best(options, own);
  };
  int most = static_cast<int>(planner_.blocks().names.size());
  FoundPlan found = with(most);
  int least = 1;
  while (found.fits() && least < most && !is_time_up()) {
    const int middle = least + (most - least) / 2;
    FoundPlan fewer = with(middle);
    if (fewer.fits()) {
      found = std::move(fewer);
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  return found;
}

FoundPlan PlanSearch::best_recomputation(const ProblemOptions& options,
                                         const StepOptions& step_options) {
  std::optional<FoundPlan> cheapest;
  std::optional<FoundPlan> smallest;  // the smallest plan of those that do not fit
  const auto offer = [&](FoundPlan found) {
    if (!found.solution.feasible || !found.step) return;
    if (found.fits()) {
      if (!cheapest || found.solution.objective < cheapest->solution.objective) {
        cheapest = std::move(found);
      }
    } else if (!smallest || found.step->memory.peak_bytes < smallest->step->memory.peak_bytes) {
      smallest = std::move(found);
    }
  };
  {
    FoundPlan plain = best(options, step_options);
    if (!plain.step || plain.fits()) return plain;
  }
  const bool has_blocks = !planner_.blocks().names.empty();
  for (const bool reshards : {false, true}) {
    StepOptions step = step_options;
    step.recomputation.reshards_weights = reshards;
    if (reshards) offer(best(options, step));
    if (!has_blocks) continue;
    offer(with_fewest_blocks(options, step, Recomputation::Kind::kSelective));
    offer(with_fewest_blocks(options, step, Recomputation::Kind::kFull));
  }
  // Other layouts may save more than running nodes again does.
  const StepOptions tightest = smallest ? smallest->step_options : step_options;
  offer(best_that_fits(options, step_options));
  if (cheapest) return std::move(*cheapest);
  return best_that_fits(options, tightest);
}

PlanSearch::StepSearch PlanSearch::shortest_step(FoundPlan start, const ProblemOptions& options,
                                                 const std::vector<std::vector<LayoutMask>>& masks,
                                                 bool fits) {
  const StepOptions step_options = start.step_options;
  const double bound = start.solution.lower_bound;
  StepSearch search{.found = std::move(start), .plans = 1};
  const auto offer = [&](FoundPlan plan) {
    if (!plan.solution.feasible || !plan.step) return false;
    ++search.plans;
    if (fits && !plan.fits()) return false;
    if (plan.step->step_us >= search.found.step->step_us * (1.0 - 1e-9)) return false;
    search.found = std::move(plan);
    search.found.is_optimum_of_network = false;
    return true;
  };
  // The next best sums. They share the problem of the optimum.
  if (search.found.network->budgets().empty()) {
    constexpr std::size_t kBest = 16;
    try {
      const ExactSolution best =
          ExactSolver(*search.found.network).solve({.jobs = options_.jobs, .best = kBest});
      for (const RankedAssignment& ranked : best.best) {
        if (is_time_up()) break;
        const std::optional<StepFigures> step = figures(ranked.assignment, step_options);
        if (!step) continue;
        ++search.plans;
        if (fits && !step->fits()) continue;
        if (step->step_us >= search.found.step->step_us) continue;
        search.found.solution.assignment = ranked.assignment;
        search.found.solution.objective = ranked.objective;
        search.found.step = step;
        search.found.is_optimum_of_network = false;
      }
    } catch (const LimitError&) {  // too entangled for further plans; other plans are left
    }
  }
  for (const std::vector<LayoutMask>& mask : masks) {
    if (is_time_up()) break;
    ProblemOptions own = options;
    own.masks.insert(own.masks.end(), mask.begin(), mask.end());
    try {
      offer(best(own, step_options));
    } catch (const InputError&) {  // the masks contradict a pin
    }
  }
  // One layout of all alike sources at a time, as long as that helps.
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> alike;
  for (std::size_t n = 0; n < priced_.program.nodes.size(); ++n) {
    const ProgramNode& node = priced_.program.nodes[n];
    if (!node.is_source()) continue;
    alike[{without_numbers(node.label.empty() ? node.name : node.label), node.outputs[0].text()}]
        .push_back(n);
  }
  bool goes_on = true;
  std::vector<LayoutMask> chosen;
  while (goes_on && !is_time_up()) {
    goes_on = false;
    for (const auto& [name, nodes] : alike) {
      const NodeClass& own = priced_.strategies.of(nodes.front());
      for (const LayoutId id : priced_.strategies.layouts.list_at(own.tensors[0])) {
        if (is_time_up()) break;
        const Placements& layout = priced_.strategies.layouts[id];
        const auto value = to_index(search.found.solution.assignment[nodes.front()]);
        if (priced_.strategies.layouts[priced_.strategies.layout(own, value, 0)] == layout)
          continue;
        ProblemOptions with = options;
        with.masks.insert(with.masks.end(), chosen.begin(), chosen.end());
        std::vector<LayoutMask> change;
        for (const std::size_t n : nodes) {
          change.push_back(
              {.node = n, .placements = {layout.begin(), layout.end()}, .by = "search"});
        }
        with.masks.insert(with.masks.end(), change.begin(), change.end());
        try {
          if (!offer(best(with, step_options))) continue;
        } catch (const InputError&) {  // the layout contradicts a pin or a recipe
          continue;
        }
        std::erase_if(chosen, [&nodes = nodes](const LayoutMask& mask) {
          return std::ranges::find(nodes, mask.node) != nodes.end();
        });
        chosen.insert(chosen.end(), change.begin(), change.end());
        goes_on = true;
      }
    }
  }
  ExactSolution& solution = search.found.solution;
  solution.lower_bound = std::min(bound, solution.objective);
  solution.optimal = solution.objective - solution.lower_bound <= 1e-9 * solution.objective;
  solution.best = {{solution.assignment, solution.objective}};
  return search;
}

}  // namespace shardlab
