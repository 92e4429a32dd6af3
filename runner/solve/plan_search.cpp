#include "runner/solve/plan_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "reports/number_text.h"
#include "runner/solve/fit_branching.h"
#include "runner/solve/held_bytes.h"
#include "runner/solve/solution_text.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/solvers/greedy_walk.h"

namespace shardlab {
namespace {

void add(BytesByValue& sum, const BytesByValue& more) {
  sum.resize(more.size());
  for (std::size_t n = 0; n < more.size(); ++n) {
    sum[n].resize(std::max(sum[n].size(), more[n].size()), 0.0);
    for (std::size_t v = 0; v < more[n].size(); ++v) sum[n][v] += more[n][v];
  }
}

// Why no plan fits. Where the device's memory and the smallest peak would read alike, both are told
// to the byte.
std::string misfit_text(bool is_proved, double most, double least_peak) {
  const bool read_alike = reports::bytes_text(most) == reports::bytes_text(least_peak);
  const auto text = [&](double bytes) {
    return read_alike ? format_fixed(bytes, 0) + " bytes" : reports::bytes_text(bytes);
  };
  return (is_proved
              ? "no plan fits into " + text(most)
              : "no plan was found that fits into " + text(most) + ", though there may be one") +
         "; the smallest peak of those that were tried is " + text(least_peak);
}

// The optimum's problem and network, with a plan that fits and a bound on all such plans.
FoundPlan with_plan(FoundPlan optimum, const TriedPlan& plan, double bound) {
  ExactSolution& solution = optimum.solution;
  solution.assignment = plan.assignment;
  solution.objective = plan.objective;
  solution.lower_bound = std::min(bound, plan.objective);
  solution.optimal = solution.objective - solution.lower_bound <= 1e-9 * solution.objective;
  solution.best = {{plan.assignment, plan.objective}};
  optimum.step = plan.step;
  optimum.is_optimum_of_network = false;
  return optimum;
}

FoundPlan without_plan(FoundPlan optimum, bool is_proved, double most, const TriedPlans& tried) {
  optimum.misfit = misfit_text(is_proved, most, tried.least_peak_bytes());
  optimum.is_misfit_proved = is_proved;
  optimum.solution.feasible = false;
  return optimum;
}

// The cheapest of the plans in a network with other costs.
const Assignment& cheapest_in(const CostNetwork& network, const std::vector<TriedPlan>& plans) {
  const auto cost = [&](const TriedPlan& plan) { return network.cost(plan.assignment); };
  return std::ranges::min_element(plans, {}, cost)->assignment;
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
  if (found.solution.feasible)
    found.step = figures_if_it_runs(planner_, found.solution.assignment, step_options);
  return found;
}

FoundPlan PlanSearch::best_that_fits(const ProblemOptions& options,
                                     const StepOptions& step_options) {
  FoundPlan optimum = best(options, step_options);
  if (!optimum.step || optimum.fits()) return optimum;
  TriedPlans tried(*optimum.network, planner_, step_options);
  tried.add(optimum.solution.assignment);
  if (options_.has_all_strategies && !is_time_up()) {
    ProblemOptions with_budget = options;
    with_budget.memory_budget_bytes = planner_.most_bytes();
    try {
      FoundPlan state_fits = best(with_budget, step_options);
      if (!state_fits.solution.feasible || state_fits.fits()) return state_fits;
      optimum.solution.lower_bound =
          std::max(optimum.solution.lower_bound, state_fits.solution.lower_bound);
      tried.add(state_fits.solution.assignment);
    } catch (const LimitError&) {  // too entangled; the other searches do without
    }
  }
  try_small_plans(options, step_options, tried);
  if (options_.has_all_strategies && ends_by_branching(optimum, tried)) return optimum;
  return by_charges(std::move(optimum), tried);
}

void PlanSearch::try_small_plans(const ProblemOptions& options, const StepOptions& step_options,
                                 TriedPlans& tried) const {
  const GreedyWalk walk =
      greedy_walk(tried.network(), sources_of(priced_.program, tried.all().front().assignment));
  if (!walk.stuck && tried.network().is_feasible(walk.assignment)) tried.add(walk.assignment);
  std::vector<ProblemOptions> small;
  if (options_.has_all_strategies && !options.parameter_budget) {
    small.push_back(options);
    small.back().parameter_budget = 1.0 / static_cast<double>(priced_.mesh.size());
  }
  if (options_.recipes) {
    for (const std::vector<LayoutMask>& masks : options_.recipes()) {
      small.push_back(options);
      small.back().masks.insert(small.back().masks.end(), masks.begin(), masks.end());
    }
  }
  for (const ProblemOptions& own : small) {
    // Each takes little time, so that they are tried until one fits even where there is none left.
    const bool is_stopped = options_.patience.stop != nullptr && *options_.patience.stop;
    if (is_stopped || (is_time_up() && tried.best() != nullptr)) return;
    try {
      const FoundPlan found = best(own, step_options);
      if (found.solution.feasible) tried.add(found.solution.assignment);
    } catch (const InputError&) {  // the masks contradict a pin, or it is too entangled
    }
  }
}

bool PlanSearch::ends_by_branching(FoundPlan& optimum, TriedPlans& tried) const {
  // Status: assumed; each solve of a program of 100 nodes takes some milliseconds.
  constexpr int kMostNodesInAll = 20'000;
  constexpr int kFewestSolves = 100;
  const int most_solves = kMostNodesInAll / std::max(optimum.network->variables(), 1);
  if (most_solves < kFewestSolves || is_time_up()) return false;
  FitBranching branching(
      priced_, planner_, *optimum.network, optimum.step_options,
      {.jobs = options_.jobs, .most_solves = most_solves, .patience = options_.patience});
  const FitBranching::Result result = branching.run(tried);
  if (result.is_complete) {
    optimum =
        tried.best() != nullptr
            ? with_plan(std::move(optimum), *tried.best(), result.lower_bound)
            : without_plan(std::move(optimum), !tries_recomputation_, planner_.most_bytes(), tried);
    return true;
  }
  optimum.solution.lower_bound = std::max(optimum.solution.lower_bound, result.lower_bound);
  return false;
}

FoundPlan PlanSearch::by_charges(FoundPlan optimum, TriedPlans& tried) const {
  const double most = planner_.most_bytes();
  double bound = optimum.solution.lower_bound;
  // The charge is for the bytes at a few points of the step, each of which has room for `most`.
  BytesByValue charged;
  int points = 0;
  std::vector<int> charged_tasks;
  const auto charge_peak_of = [&](const Assignment& assignment, const StepFigures& figures) {
    const int task = figures.memory.peak_task;
    if (std::ranges::find(charged_tasks, task) != charged_tasks.end()) return;
    charged_tasks.push_back(task);
    ++points;
    add(charged, bytes_held_at(priced_, planner_.blocks(),
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
    const ExactSolution solution =
        ExactSolver(network).solve({.jobs = options_.jobs,
                                    .explain = false,
                                    .patience = patience,
                                    .known = cheapest_in(network, tried.all())});
    bound = std::max(bound, solution.lower_bound - lambda * points * most);
    return tried.add(solution.assignment);
  };
  charge_peak_of(optimum.solution.assignment, *optimum.step);
  // From a charge of a hundredth of the objective for what is too much, up by factors of four.
  // What is too much counts as a thousandth of the memory at least, so that a charge is in
  // proportion where a few bytes are too much.
  const double too_much = std::max(optimum.step->memory.peak_bytes - most, 1e-3 * most);
  double above = 0.01 * optimum.solution.objective / too_much;
  double below = 0.0;  // the highest charge under which a plan was too large
  constexpr int kRaises = 14;
  bool found = false;
  for (int i = 0; i < kRaises && !found && !is_time_up(); ++i) {
    const TriedPlan plan = attempt(above);
    found = plan.fits();
    if (found) break;
    // A plan that can't run counts as one that does not fit, as the optimum.
    charge_peak_of(plan.assignment, plan.step.value_or(*optimum.step));
    below = above;
    above *= 4.0;
  }
  constexpr int kSteps = 6;
  for (int i = 0; found && i < kSteps && !is_time_up(); ++i) {
    const double middle = below > 0.0 ? std::sqrt(below * above) : above / 4.0;
    (attempt(middle).fits() ? above : below) = middle;
  }
  return tried.best() != nullptr ? with_plan(std::move(optimum), *tried.best(), bound)
                                 : without_plan(std::move(optimum), false, most, tried);
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
  tries_recomputation_ = true;
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
        const std::optional<StepFigures> step =
            figures_if_it_runs(planner_, ranked.assignment, step_options);
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
