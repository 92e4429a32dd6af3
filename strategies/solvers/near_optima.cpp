// Tolerances grow step by step until enough assignments lie within them.
#include "strategies/solvers/near_optima.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/parallel.h"
#include "strategies/solvers/list_elimination.h"

namespace shardlab {
namespace {

// The most joint costs that one elimination may take. Status: assumed; a quarter of a second.
constexpr double kMostWork = 3e7;
constexpr std::size_t kMostNearItems = 20'000'000;
constexpr int kNearSweeps = 16;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The least cost with one of these values. If trying all of them at once is too much work, they are
// tried one by one. Nothing if time was up.
std::optional<double> least_of(const NearOptima::Resolve& resolve, const Restriction& values) {
  try {
    return resolve(values);
  } catch (const LimitError&) {
    if (values.allowed.size() == 1) throw;
  }
  double least = kForbidden;
  for (const int value : values.allowed) {
    const std::optional<double> cost = resolve({.variable = values.variable, .allowed = {value}});
    if (!cost) return std::nullopt;
    least = std::min(least, *cost);
  }
  return least;
}

}  // namespace

NearOptima::NearOptima(const CostNetwork& network, const CutNetwork& cut, const BoundSearch& search,
                       const Patience& patience)
    : network_(network), cut_(cut), search_(search), patience_(patience) {
  DualAscent dual(cut);
  dual.set_messages(search.messages());
  for (int i = 0; i < kNearSweeps; ++i) dual.sweep();
  costs_ = dual.reparametrised();
  for (const double excess : costs_.excess) all_ = std::max(all_, excess);
  // The bound of a pair of values is at most the sum of their excesses and the edge's own cost.
  for (std::size_t e = 0; e < cut.edges().size(); ++e) {
    const CutEdge& edge = cut.edges()[e];
    const std::size_t entries = to_index(edge.a_values) * to_index(edge.b_values);
    for (std::size_t i = 0; i < entries; ++i) {
      const double cost = cut.pool()[edge.a_major + i];
      if (cost < kForbidden) all_ = std::max(all_, std::abs(cost));
    }
  }
  for (const double message : costs_.messages) all_ = std::max(all_, std::abs(message));
  all_ = 8.0 * all_ + 2.0 * search.tolerance();
}

std::unique_ptr<NearOptima::Level> NearOptima::level(double tolerance, double most_work) const {
  auto out = std::make_unique<Level>(Restricted(cut_, costs_, tolerance));
  if (out->tree.work() > most_work) return nullptr;
  SHARDLAB_CHECK(!out->part.empty(), "the optimum was dropped at ", tolerance);
  out->part.fill(cut_, costs_);
  out->tree.run();
  return out;
}

double NearOptima::first_tolerance() const {
  return std::max(search_.minimum() - costs_.bound, 0.0) + search_.tolerance();
}

std::optional<double> NearOptima::optima() const {
  const double tolerance = first_tolerance();
  const double work_left = patience_.work_left();
  const std::unique_ptr<Level> near = level(tolerance, std::min(BoundSearch::kMostWork, work_left));
  if (near == nullptr && work_left < BoundSearch::kMostWork) return std::nullopt;
  if (near == nullptr)
    throw LimitError("too many assignments are near the optimum to count the optima");
  // Costs that differ only by rounding count as equal.
  const CountAlgebra algebra{.limit = tolerance - near->part.base(),
                             .same = 1e-5 * search_.tolerance()};
  const ListElimination<CountAlgebra> lists(near->part.network(), near->tree, algebra,
                                            kMostNearItems);
  double count = 0.0;
  for (const CountAlgebra::Item& item : lists.items()) count += item.count;
  return count;
}

std::vector<double> NearOptima::margins(const Assignment& assignment, const Resolve& resolve,
                                        int jobs) const {
  const double minimum = search_.minimum();
  std::vector<double> margins(assignment.size(), kForbidden);
  std::vector<int> open;
  for (int v = 0; v < cut_.nodes(); ++v) {
    if (cut_.values(v).size() > 1) open.push_back(v);
  }
  double tolerance = std::max(4.0 * first_tolerance(), 1e-4 * all_);
  for (; !open.empty(); tolerance *= 3.0) {
    const std::unique_ptr<Level> near =
        level(tolerance, std::min(kMostWork, patience_.work_left()));
    if (near == nullptr) break;
    const std::vector<double> least = near->tree.min_marginals();
    const SmallNetwork& small = near->part.network();
    for (std::size_t i = 0; i < near->part.nodes().size(); ++i) {
      const int v = near->part.nodes()[i];
      for (int x = 0; x < small.values(static_cast<int>(i)); ++x) {
        const int value = cut_.values(v)[to_index(near->part.kept()[to_index(v)][to_index(x)])];
        if (value == assignment[to_index(v)]) continue;
        const double above = near->part.base() + least[small.first[i] + to_index(x)];
        if (above > tolerance) continue;  // something that was left out may be cheaper
        margins[to_index(v)] =
            std::min(margins[to_index(v)], std::max(0.0, costs_.bound + above - minimum));
      }
    }
    std::erase_if(open, [&](int v) { return margins[to_index(v)] < kForbidden; });
    if (tolerance >= all_) return margins;  // the remaining nodes have no other value
  }
  parallel_for(
      open.size(), jobs, [] { return std::make_unique<int>(); },
      [&](int&, std::size_t i) {
        const int v = open[i];
        margins[to_index(v)] = kUnknown;
        if (patience_.seconds_left() <= 0.0) return;
        Restriction others{.variable = v, .allowed = {}};
        for (const int x : cut_.values(v)) {
          if (x != assignment[to_index(v)]) others.allowed.push_back(x);
        }
        const std::optional<double> least = least_of(resolve, others);
        if (least) margins[to_index(v)] = std::max(0.0, *least - minimum);
      });
  return margins;
}

std::vector<RankedAssignment> NearOptima::best(std::size_t count,
                                               const RankedAssignment& first) const {
  std::vector<RankedAssignment> found;
  for (double tolerance = first_tolerance();; tolerance = std::max(4.0 * tolerance, 1e-6 * all_)) {
    const std::unique_ptr<Level> near = level(tolerance, BoundSearch::kMostWork);
    if (near == nullptr) {
      throw LimitError("the " + std::to_string(count) +
                       " best assignments differ too much in cost to be searched for");
    }
    const std::vector<SmallSolution> solutions =
        near->tree.cheapest(count, tolerance - near->part.base());
    if (solutions.size() < count && tolerance < all_) continue;
    for (const SmallSolution& solution : solutions) {
      RankedAssignment next;
      const std::vector<int> positions = near->part.positions(solution.values);
      for (int v = 0; v < cut_.nodes(); ++v) {
        next.assignment.push_back(cut_.values(v)[to_index(positions[to_index(v)])]);
      }
      next.objective = network_.cost(next.assignment);
      found.push_back(std::move(next));
    }
    break;
  }
  const auto is_first = [&](const RankedAssignment& ranked) {
    return ranked.assignment == first.assignment;
  };
  if (std::erase_if(found, is_first) == 0 && found.size() == count) found.pop_back();
  const auto lower_text = [&](const RankedAssignment& a, const RankedAssignment& b) {
    for (std::size_t v = 0; v < a.assignment.size(); ++v) {
      if (a.assignment[v] == b.assignment[v]) continue;
      const int node = static_cast<int>(v);
      const std::string& left = network_.value_name(node, a.assignment[v]);
      const std::string& right = network_.value_name(node, b.assignment[v]);
      return left != right ? left < right : a.assignment[v] < b.assignment[v];
    }
    return false;
  };
  std::ranges::stable_sort(found, {}, &RankedAssignment::objective);
  // Assignments of equal cost are put in the order of their texts.
  for (auto begin = found.begin(); begin != found.end();) {
    const auto end = std::find_if(begin, found.end(), [&](const RankedAssignment& ranked) {
      return ranked.objective > begin->objective + search_.tolerance();
    });
    std::stable_sort(begin, end, lower_text);
    begin = end;
  }
  found.insert(found.begin(), first);
  return found;
}

}  // namespace shardlab
