#include "strategies/programs/plan_flips.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/select/scaled_parameters.h"
#include "strategies/solvers/exact.h"

namespace shardlab {
namespace {

// Prices that differ by at most this share are equal: optima are exact only to 1e-9 of the sum of
// all terms.
constexpr double kEqual = 4e-9;
// Prices of one plan that differ by at most this share count as the same. The share can be this
// small because both prices are summed in the same order.
constexpr double kSameLine = 1e-11;

}  // namespace

// The search over the factors of one parameter: prices of the plan and of the optimum at each.
class PlanFlips::Search {
 public:
  Search(PlanFlips& flips, const ScaledParameter& parameter, const Assignment& plan)
      : flips_(flips), parameter_(parameter), plan_(plan) {}

  // The factors at which kernels leave their floor, ascending; empty when the stack has no launch
  // floor.
  [[nodiscard]] std::vector<double> thresholds() {
    flips_.evaluator_.set_factors({});
    return flips_.evaluator_.launch_thresholds([&] { static_cast<void>(prices_at(1.0)); });
  }

  // The first flip on the way from 1 to `end`.
  [[nodiscard]] std::optional<PlanFlip> flip(double end, const std::vector<double>& thresholds) {
    std::optional<PlanFlip> found;
    double begin = 1.0;
    for (const double stop : stops(end, thresholds)) {
      found = flip_between(begin, stop);
      if (found) break;
      begin = stop;
    }
    flips_.evaluator_.set_factors({});
    if (found && parameter_.inverse) found->factor = 1.0 / found->factor;
    return found;
  }

 private:
  // The ends of the intervals to search on the way to `end`. It is only for the launch floor that
  // the factors at which prices bend are known.
  [[nodiscard]] std::vector<double> stops(double end, const std::vector<double>& thresholds) const {
    std::vector<double> inside;
    if (parameter_.factor == &CostFactors::launch) {
      for (const double threshold : thresholds) {
        if (threshold > std::min(1.0, end) && threshold < std::max(1.0, end)) {
          inside.push_back(threshold);
        }
      }
    }
    std::ranges::sort(inside, {}, [](double f) { return std::abs(std::log(f)); });
    std::vector<double> kept;
    for (const double stop : inside) {
      const double last = kept.empty() ? 1.0 : kept.back();
      if (std::abs(std::log(stop / last)) >= kFlipTolerance) kept.push_back(stop);
    }
    kept.push_back(end);
    return kept;
  }

  [[nodiscard]] ProgramPrices prices_at(double f) {
    CostFactors factors;
    factors.*parameter_.factor = f;
    flips_.evaluator_.set_factors(factors);
    ProgramPrices prices(flips_.program_, flips_.strategies_, flips_.evaluator_, flips_.mesh_);
    return prices;
  }
  [[nodiscard]] ShardingProblem problem_of(const ProgramPrices& prices) const {
    return make_problem(flips_.program_, flips_.mesh_, flips_.strategies_, prices, flips_.options_);
  }

  struct Solved {
    double plan_us = 0.0;
    double optimum_us = 0.0;
    Assignment optimum;

    [[nodiscard]] bool plan_is_optimal() const {
      return plan_us <= optimum_us + kEqual * std::abs(optimum_us);
    }
  };
  [[nodiscard]] Solved solve_at(double f) {
    const CostNetwork network = network_of(problem_of(prices_at(f)));
    ExactSolution best = ExactSolver(network).solve({.explain = false});
    SHARDLAB_CHECK(best.feasible, "at ", f, " the plan itself is feasible");
    return {network.cost(plan_), best.objective, std::move(best.assignment)};
  }

  // The plan's price at a factor, and how much less another plan costs there.
  struct Pair {
    double plan_us = 0.0;
    double saved_us = 0.0;
  };
  [[nodiscard]] Pair compare_at(double f, const Assignment& other) {
    const ProgramPrices prices = prices_at(f);
    // Constraints do not depend on factors, so the priced edges are enough.
    ShardingProblem edges;
    edges.names.resize(flips_.program_.nodes.size());
    edges.priced = prices.edges();
    edges.runs = flips_.options_.runs;
    edges.runs.resize(edges.names.size(), 1);
    const double plan_us = edges.breakdown(flips_.strategies_, prices, plan_).total_us();
    return {plan_us, plan_us - edges.breakdown(flips_.strategies_, prices, other).total_us()};
  }

  // On the way from `dearer` to `cheaper`, finds the factor at which the other plan becomes the
  // cheaper one.
  [[nodiscard]] double crossing(const Assignment& other, double dearer, double cheaper) {
    double low_us = compare_at(dearer, other).saved_us;
    double high_us = compare_at(cheaper, other).saved_us;
    if (low_us >= 0.0) return dearer;
    constexpr int kMostSteps = 60;
    for (int step = 0; step < kMostSteps; ++step) {
      if (std::abs(cheaper / dearer - 1.0) < 1e-9) break;
      // The next factor to try is the one at which both plans would cost the same if prices were
      // linear. Every third time it is the middle of the interval, in case they are not.
      const double part = step % 3 == 2 ? 0.5 : low_us / (low_us - high_us);
      const double middle = dearer + part * (cheaper - dearer);
      const Pair between = compare_at(middle, other);
      if (std::abs(between.saved_us) <= kSameLine * between.plan_us) return middle;
      (between.saved_us < 0.0 ? dearer : cheaper) = middle;
      (between.saved_us < 0.0 ? low_us : high_us) = between.saved_us;
    }
    return cheaper;
  }

  [[nodiscard]] bool is_line(double begin, double end) {
    const auto plan_us = [&](double f) { return compare_at(f, plan_).plan_us; };
    const double ends_us = (plan_us(begin) + plan_us(end)) / 2.0;
    return std::abs(plan_us((begin + end) / 2.0) - ends_us) <= kSameLine * ends_us;
  }

  // Assumes that the plan is optimal at `begin`.
  [[nodiscard]] std::optional<PlanFlip> flip_between(double begin, double end) {
    const Solved solved = solve_at(end);
    if (!solved.plan_is_optimal()) {
      const double meet = crossing(solved.optimum, begin, end);
      if (std::abs(meet / begin - 1.0) > 1e-9 && std::abs(meet / end - 1.0) > 1e-9) {
        if (std::optional<PlanFlip> nearer = flip_between(begin, meet)) return nearer;
      }
      return found(meet, end, solved.optimum);
    }
    if (std::abs(std::log(end / begin)) <= kFlipTolerance || is_line(begin, end)) {
      return std::nullopt;
    }
    const double middle = std::sqrt(begin * end);
    if (std::optional<PlanFlip> nearer = flip_between(begin, middle)) return nearer;
    return flip_between(middle, end);
  }

  [[nodiscard]] PlanFlip found(double meet, double beyond, const Assignment& other) {
    PlanFlip flip{.factor = meet,
                  .objective_us = compare_at(meet, other).plan_us,
                  .instead = plan_,
                  .nodes = {}};
    const CostNetwork network = network_of(problem_of(prices_at(beyond)));
    for (const std::vector<int>& group : changed_groups(network, other)) {
      Assignment with = plan_;
      for (const int v : group) with[to_index(v)] = other[to_index(v)];
      if (!(cost_at(network, group, with) <
            cost_at(network, group, plan_) - kSameLine * flip.objective_us)) {
        continue;
      }
      for (const int v : group) flip.instead[to_index(v)] = other[to_index(v)];
      flip.nodes.insert(flip.nodes.end(), group.begin(), group.end());
    }
    std::ranges::sort(flip.nodes);
    return flip;
  }

  // The nodes at which `other` differs from the plan; edges connect the nodes within each group.
  [[nodiscard]] std::vector<std::vector<int>> changed_groups(const CostNetwork& network,
                                                             const Assignment& other) const {
    std::vector<int> root(to_index(network.variables()));
    std::iota(root.begin(), root.end(), 0);
    const auto root_of = [&](int v) {
      while (root[to_index(v)] != v) v = root[to_index(v)] = root[to_index(root[to_index(v)])];
      return v;
    };
    const auto differs = [&](int v) { return plan_[to_index(v)] != other[to_index(v)]; };
    for (const CostEdge& edge : network.edges()) {
      if (differs(edge.first) && differs(edge.second)) {
        root[to_index(root_of(edge.first))] = root_of(edge.second);
      }
    }
    std::vector<std::vector<int>> by_root(to_index(network.variables()));
    for (int v = 0; v < network.variables(); ++v) {
      if (differs(v)) by_root[to_index(root_of(v))].push_back(v);
    }
    std::erase_if(by_root, [](const std::vector<int>& group) { return group.empty(); });
    return by_root;
  }

  // What the values of a group cost, together with all edges that touch them.
  [[nodiscard]] static double cost_at(const CostNetwork& network, const std::vector<int>& group,
                                      const Assignment& assignment) {
    std::vector<bool> is_in(to_index(network.variables()), false);
    double cost = 0.0;
    for (const int v : group) {
      is_in[to_index(v)] = true;
      cost += network.costs(v)[to_index(assignment[to_index(v)])];
    }
    for (const CostEdge& edge : network.edges()) {
      if (!is_in[to_index(edge.first)] && !is_in[to_index(edge.second)]) continue;
      cost += network.tables()[to_index(edge.table)].at(assignment[to_index(edge.first)],
                                                        assignment[to_index(edge.second)]);
    }
    return cost;
  }

  PlanFlips& flips_;
  const ScaledParameter& parameter_;
  const Assignment& plan_;
};

PlanFlips::PlanFlips(const Program& program, const DeviceMesh& mesh,
                     const ProgramStrategies& strategies, const ProblemOptions& options,
                     const Stack& stack, const Topology& topology)
    : program_(program),
      mesh_(mesh),
      strategies_(strategies),
      options_(options),
      evaluator_(stack, topology) {}

std::vector<PlanRange> PlanFlips::of(const Assignment& plan) {
  std::vector<PlanRange> ranges;
  for (const ScaledParameter& parameter : kScaledParameters) {
    Search search(*this, parameter, plan);
    const std::vector<double> thresholds = search.thresholds();
    if (parameter.factor == &CostFactors::launch && thresholds.empty()) continue;
    PlanRange range{.parameter = parameter.name, .below = {}, .above = {}};
    range.above =
        search.flip(parameter.inverse ? 1.0 / kMostPlanFactor : kMostPlanFactor, thresholds);
    range.below =
        search.flip(parameter.inverse ? kMostPlanFactor : 1.0 / kMostPlanFactor, thresholds);
    ranges.push_back(std::move(range));
  }
  return ranges;
}

}  // namespace shardlab
