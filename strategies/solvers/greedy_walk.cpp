#include "strategies/solvers/greedy_walk.h"

#include <algorithm>
#include <map>
#include <queue>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// For each variable: the edges to variables that are given, or decided before it. Edges between
// given variables are in no list.
std::vector<std::vector<int>> edges_by_decider(const CostNetwork& network,
                                               const Assignment& given) {
  std::vector<std::vector<int>> edges(to_index(network.variables()));
  for (std::size_t e = 0; e < network.edges().size(); ++e) {
    const CostEdge& edge = network.edges()[e];
    const int first = given[to_index(edge.first)] < 0 ? edge.first : -1;
    const int second = given[to_index(edge.second)] < 0 ? edge.second : -1;
    const int decider = std::max(first, second);
    if (decider >= 0) edges[to_index(decider)].push_back(static_cast<int>(e));
  }
  return edges;
}

// What a value costs at its variable: its own cost, and that of the edges to variables that are
// already decided.
double local_cost(const CostNetwork& network, std::span<const int> edges, const Assignment& decided,
                  int variable, int value) {
  double cost = network.costs(variable)[to_index(value)];
  for (const int e : edges) {
    const CostEdge& edge = network.edges()[to_index(e)];
    const int row = edge.first == variable ? value : decided[to_index(edge.first)];
    const int column = edge.second == variable ? value : decided[to_index(edge.second)];
    cost += network.tables()[to_index(edge.table)].at(row, column);
  }
  return cost;
}

// The most variables that all the networks to solve may have together, since the time of an optimum
// grows with the number of variables. Status: assumed; some 6 s.
constexpr int kNodesSolved = 200'000;

// Optima of the network with the first variables of the walk fixed, each found once.
class Completions {
 public:
  Completions(const CostNetwork& network, ExactSolver& solver, const Assignment& given,
              const Assignment& walk)
      : network_(network), solver_(solver), given_(given), walk_(walk) {}

  [[nodiscard]] int found() const { return static_cast<int>(by_length_.size()); }
  // The optimum with variables 0 to length - 1 fixed.
  const RankedAssignment& of(int length) {
    const auto [it, is_new] = by_length_.try_emplace(length);
    if (!is_new) return it->second;
    if (length == network_.variables()) {
      it->second = {walk_, network_.cost(walk_)};
      return it->second;
    }
    std::vector<Restriction> fixed;
    for (int v = 0; v < network_.variables(); ++v) {
      if (given_[to_index(v)] >= 0 || v < length) fixed.push_back({v, {walk_[to_index(v)]}});
    }
    ExactSolution best = solver_.solve({.restrictions = std::move(fixed), .explain = false});
    SHARDLAB_CHECK(best.feasible, "the walk itself completes its first ", length, " variables");
    it->second = {std::move(best.assignment), best.objective};
    return it->second;
  }

 private:
  const CostNetwork& network_;
  ExactSolver& solver_;
  const Assignment& given_;
  const Assignment& walk_;
  std::map<int, RankedAssignment> by_length_;
};

// The variables of the walk from `begin` to `end` - 1.
struct Interval {
  int begin = 0;
  int end = 0;
  double regret_us = 0.0;
  // The interval of the largest regret comes first; of equal ones, the earliest.
  friend bool operator<(const Interval& a, const Interval& b) {
    return a.regret_us != b.regret_us ? a.regret_us < b.regret_us : a.begin > b.begin;
  }
};

}  // namespace

GreedyWalk greedy_walk(const CostNetwork& network, const Assignment& given) {
  const std::vector<std::vector<int>> edges = edges_by_decider(network, given);
  GreedyWalk walk{.assignment = given, .stuck = {}};
  for (int v = 0; v < network.variables(); ++v) {
    if (given[to_index(v)] >= 0) continue;
    double least = kForbidden;
    for (int x = 0; x < network.values(v); ++x) {
      const double cost = local_cost(network, edges[to_index(v)], walk.assignment, v, x);
      if (!(cost < least)) continue;
      least = cost;
      walk.assignment[to_index(v)] = x;
    }
    if (least == kForbidden) return {.assignment = {}, .stuck = v};
  }
  return walk;
}

GreedyRegret greedy_regret(const CostNetwork& network, ExactSolver& solver, const Assignment& given,
                           const Assignment& walk, const RegretOptions& options) {
  Completions completions(network, solver, given, walk);
  const std::vector<std::vector<int>> edges = edges_by_decider(network, given);
  const double total = completions.of(network.variables()).objective;
  GreedyRegret regret{.optimum_us = completions.of(0).objective, .choices = {}, .rest_us = 0.0};
  const int most = std::max(options.optima, kNodesSolved / std::max(1, network.variables()));
  // Optima are exact only to 1e-9, so a smaller regret than this counts as none.
  const double nothing = 1e-8 * total;
  std::priority_queue<Interval> open;
  open.push({0, network.variables(), total - regret.optimum_us});
  while (!open.empty() && regret.choices.size() < options.choices) {
    const Interval worst = open.top();
    if (worst.regret_us <= nothing) break;
    open.pop();
    const int middle = worst.begin + (worst.end - worst.begin) / 2;
    if (middle == worst.begin) {
      const int v = worst.begin;
      const RankedAssignment& before = completions.of(v);
      ChoiceRegret choice{.first = v, .last = v, .regret_us = worst.regret_us};
      choice.instead = before.assignment[to_index(v)];
      choice.local_us = local_cost(network, edges[to_index(v)], walk, v, choice.instead) -
                        local_cost(network, edges[to_index(v)], walk, v, walk[to_index(v)]);
      choice.later_us = choice.regret_us + choice.local_us;
      regret.choices.push_back(choice);
      continue;
    }
    if (completions.found() >= most) {
      regret.choices.push_back(
          {.first = worst.begin, .last = worst.end - 1, .regret_us = worst.regret_us});
      continue;
    }
    const double between = completions.of(middle).objective;
    const double before = completions.of(worst.begin).objective;
    const double after = completions.of(worst.end).objective;
    open.push({worst.begin, middle, between - before});
    open.push({middle, worst.end, after - between});
  }
  for (; !open.empty(); open.pop()) regret.rest_us += std::max(0.0, open.top().regret_us);
  return regret;
}

}  // namespace shardlab
