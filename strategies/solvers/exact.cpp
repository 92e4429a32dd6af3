#include "strategies/solvers/exact.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/solvers/budget_search.h"
#include "strategies/solvers/certificate.h"
#include "strategies/solvers/list_elimination.h"
#include "strategies/solvers/repeated_layers.h"
#include "strategies/solvers/tie_break.h"

namespace shardlab {
namespace {

Assignment values_of(const CutNetwork& cut, const std::vector<int>& positions) {
  Assignment out;
  out.reserve(positions.size());
  for (std::size_t v = 0; v < positions.size(); ++v) {
    out.push_back(cut.values(static_cast<int>(v))[to_index(positions[v])]);
  }
  return out;
}

// A bound and an objective may be this far apart and still agree: 1e-9 of the sum of the terms on
// either side, plus what rounding leaves where the terms are zero (1e-12 us, which is negligible).
double agreement(const CostNetwork& network, const Assignment& assignment) {
  double sum = std::abs(network.constant());
  for (int v = 0; v < network.variables(); ++v) {
    sum += std::abs(network.costs(v)[to_index(assignment[to_index(v)])]);
  }
  for (const CostEdge& edge : network.edges()) {
    sum += std::abs(network.tables()[to_index(edge.table)].at(assignment[to_index(edge.first)],
                                                              assignment[to_index(edge.second)]));
  }
  return 2e-9 * sum + 1e-12;
}

// For each value of the nodes that are left, the rank of its text among the texts of its domain.
std::vector<int> text_ranks(const CostNetwork& network, const CutNetwork& cut,
                            const BoundSearch& search) {
  std::vector<int> ranks;
  std::vector<std::vector<int>> of_domain(network.domains().size());
  const SmallNetwork& small = search.tied().network();
  for (std::size_t i = 0; i < search.tied().nodes().size(); ++i) {
    const int v = search.tied().nodes()[i];
    std::vector<int>& order = of_domain[to_index(network.domain(v))];
    if (order.empty()) {
      const std::vector<std::string>& names = network.domain_names(v);
      std::vector<int> sorted(names.size());
      std::iota(sorted.begin(), sorted.end(), 0);
      std::ranges::stable_sort(sorted, {}, [&](int x) { return names[to_index(x)]; });
      order.resize(names.size());
      for (std::size_t r = 0; r < sorted.size(); ++r)
        order[to_index(sorted[r])] = static_cast<int>(r);
    }
    for (int x = 0; x < small.values(static_cast<int>(i)); ++x) {
      const int position = search.position(v, search.tied().kept()[to_index(v)][to_index(x)]);
      ranks.push_back(order[to_index(cut.values(v)[to_index(position)])]);
    }
  }
  return ranks;
}

// Empty if the assignment is, or if the cut network lacks one of its values.
std::vector<int> positions_in(const CutNetwork& cut, const Assignment& assignment) {
  std::vector<int> positions;
  for (std::size_t v = 0; v < assignment.size(); ++v) {
    const std::span<const int> values = cut.values(static_cast<int>(v));
    const auto it = std::ranges::lower_bound(values, assignment[v]);
    if (it == values.end() || *it != assignment[v]) return {};
    positions.push_back(static_cast<int>(it - values.begin()));
  }
  return positions;
}

}  // namespace

std::vector<double> ExactSolver::start(const CutNetwork& cut) const {
  if (messages_.empty()) return repeated_layer_messages(cut);
  std::vector<double> out(cut.messages());
  for (std::size_t e = 0; e < cut.edges().size(); ++e) {
    const CutEdge& to = cut.edges()[e];
    const bool in_order = network_.edges()[e].first == to.a;
    const std::size_t first = message_offsets_[e];
    const std::size_t second = first + to_index(network_.values(network_.edges()[e].first));
    const std::span<const int> a = cut.values(to.a);
    const std::span<const int> b = cut.values(to.b);
    for (std::size_t x = 0; x < a.size(); ++x) {
      out[to.a_message + x] = messages_[(in_order ? first : second) + to_index(a[x])];
    }
    for (std::size_t y = 0; y < b.size(); ++y) {
      out[to.b_message + y] = messages_[(in_order ? second : first) + to_index(b[y])];
    }
  }
  return out;
}

void ExactSolver::keep(const CutNetwork& cut, const std::vector<double>& messages) {
  if (messages_.empty()) {
    std::size_t next = 0;
    for (const CostEdge& edge : network_.edges()) {
      message_offsets_.push_back(next);
      next += to_index(network_.values(edge.first)) + to_index(network_.values(edge.second));
    }
    messages_.assign(next, 0.0);
  }
  for (std::size_t e = 0; e < cut.edges().size(); ++e) {
    const CutEdge& from = cut.edges()[e];
    const bool in_order = network_.edges()[e].first == from.a;
    const std::size_t first = message_offsets_[e];
    const std::size_t second = first + to_index(network_.values(network_.edges()[e].first));
    const std::span<const int> a = cut.values(from.a);
    const std::span<const int> b = cut.values(from.b);
    for (std::size_t x = 0; x < a.size(); ++x) {
      messages_[(in_order ? first : second) + to_index(a[x])] = messages[from.a_message + x];
    }
    for (std::size_t y = 0; y < b.size(); ++y) {
      messages_[(in_order ? second : first) + to_index(b[y])] = messages[from.b_message + y];
    }
  }
}

std::optional<double> ExactSolver::minimum(const std::vector<Restriction>& restrictions,
                                           const Patience& patience) const {
  const CutNetwork cut(network_, restrictions);
  if (cut.wiped_out() >= 0) return kForbidden;
  BoundSearch search(cut, {});
  // Without a time limit, what is too entangled throws.
  const bool has_limit = patience.until.has_value() || patience.stop != nullptr;
  search.run(start(cut), {.takes_gap = has_limit, .until = patience.until, .stop = patience.stop});
  if (search.gave_up()) return std::nullopt;
  return search.minimum();
}

void ExactSolver::solve_plain(const CutNetwork& cut, const ExactOptions& options,
                              ExactSolution& solution) {
  BoundSearch search(cut, {});
  search.run(start(cut), options.patience, positions_in(cut, options.known));
  solution.sweeps = search.sweeps();
  solution.feasible = search.is_feasible();
  if (!solution.feasible) return;
  keep(cut, search.messages());
  if (search.gave_up()) {
    if (options.margins || options.best > 1) {
      throw LimitError(options.patience.seconds_left() > 0.0
                           ? "the optimum is not known, so that nothing can be compared with it"
                           : "there was no time left to prove again that the plan is the optimum");
    }
    solution.assignment = values_of(cut, search.best());
    solution.objective = network_.cost(solution.assignment);
    if (options.proves) {
      solution.lower_bound = proven_bound(network_, options.restrictions, search.proof(), {});
    }
    solution.best = {{solution.assignment, solution.objective}};
    return;
  }
  const Restricted& tied = search.tied();
  const double limit = search.minimum() + search.tolerance() - search.tied_bound() - tied.base();
  solution.assignment = values_of(
      cut,
      search.positions(lowest_solution(tied.network(), limit, text_ranks(network_, cut, search))));
  solution.objective = network_.cost(solution.assignment);
  if (options.proves) {
    solution.lower_bound = proven_bound(network_, options.restrictions, search.proof(), {});
  }
  solution.best = {{solution.assignment, solution.objective}};
  if (options.margins || options.best > 1) {
    const NearOptima near(network_, cut, search, options.patience);
    if (options.margins) {
      solution.optima = near.optima();
      solution.margins = near.margins(
          solution.assignment,
          [&](const Restriction& others) {
            std::vector<Restriction> all = options.restrictions;
            all.push_back(others);
            return minimum(all, options.patience);
          },
          options.jobs);
    }
    if (options.best > 1) solution.best = near.best(options.best, solution.best.front());
  }
}

ExactSolution ExactSolver::solve(const ExactOptions& options) {
  ExactSolution solution;
  for (const Restriction& restriction : options.restrictions) {
    SHARDLAB_CHECK(restriction.variable >= 0 && restriction.variable < network_.variables() &&
                       std::ranges::is_sorted(restriction.allowed),
                   "restriction of ", restriction.variable);
  }
  const CutNetwork cut(network_, options.restrictions);
  if (cut.wiped_out() < 0) {
    if (network_.budgets().empty()) {
      solve_plain(cut, options, solution);
    } else if (!budget_out_of_reach(network_, options.restrictions)) {
      const BudgetResult result =
          search_within_budgets(network_, cut, start(cut), options.patience);
      solution.sweeps = result.sweeps;
      solution.feasible = result.feasible;
      if (result.feasible) {
        solution.assignment = values_of(cut, result.best);
        solution.objective = network_.cost(solution.assignment);
        solution.multipliers = result.multipliers;
        if (options.proves) {
          solution.lower_bound =
              proven_bound(network_, options.restrictions, result.proof, result.multipliers);
        }
        solution.best = {{solution.assignment, solution.objective}};
      }
    }
  }
  if (!solution.feasible) {
    if (options.explain) solution.conflict = find_conflict(network_, options.restrictions);
    return solution;
  }
  if (options.proves) {
    solution.lower_bound = std::min(solution.lower_bound, solution.objective);
  }
  solution.optimal = options.proves && solution.objective - solution.lower_bound <=
                                           agreement(network_, solution.assignment);
  return solution;
}

}  // namespace shardlab
