// Values are dropped by their excess, and pairs by the excesses of both values and the pair's own
// cost. This is repeated until nothing more is dropped.
#include "strategies/solvers/restricted.h"

#include <algorithm>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// The pairs of values of one edge, in reparametrised costs.
class PairCosts {
 public:
  PairCosts(const CutNetwork& cut, const Reparametrisation& costs, std::size_t edge)
      : edge_(cut.edges()[edge]),
        low_(costs.edge[edge]),
        table_(cut.pool() + edge_.a_major),
        a_(costs.messages.data() + edge_.a_message),
        b_(costs.messages.data() + edge_.b_message),
        a_own_(costs.own.data() + edge_.a_message),
        b_own_(costs.own.data() + edge_.b_message),
        a_excess_(costs.excess.data() + cut.first(edge_.a)),
        b_excess_(costs.excess.data() + cut.first(edge_.b)) {}

  // The cost of a pair, above the edge's least cost.
  [[nodiscard]] double cost(int x, int y) const {
    return table_[to_index(x) * to_index(edge_.b_values) + to_index(y)] - a_[x] - b_[y] - low_;
  }
  // A lower bound on how much an assignment with both values costs above the bound.
  [[nodiscard]] double excess(int x, int y) const {
    return cost(x, y) + (a_excess_[x] - a_own_[x]) + (b_excess_[y] - b_own_[y]);
  }

 private:
  const CutEdge& edge_;
  double low_;
  const double* table_;
  const double* a_;
  const double* b_;
  const double* a_own_;
  const double* b_own_;
  const double* a_excess_;
  const double* b_excess_;
};

}  // namespace

void Restricted::make_consistent(const CutNetwork& cut, const Reparametrisation& costs,
                                 double tolerance) {
  const std::size_t edges = cut.edges().size();
  std::vector<int> changed(to_index(cut.nodes()), 0);
  std::vector<int> seen(edges, -1);
  const auto revise = [&](std::size_t e, bool side_a) {
    const CutEdge& edge = cut.edges()[e];
    const PairCosts pairs(cut, costs, e);
    std::vector<int>& own = kept_[to_index(side_a ? edge.a : edge.b)];
    const std::vector<int>& other = kept_[to_index(side_a ? edge.b : edge.a)];
    const std::size_t before = own.size();
    std::erase_if(own, [&](int x) {
      return std::none_of(other.begin(), other.end(), [&](int y) {
        return (side_a ? pairs.excess(x, y) : pairs.excess(y, x)) <= tolerance;
      });
    });
    empty_ = empty_ || own.empty();
    return own.size() < before;
  };
  int step = 0;
  for (bool again = true; again;) {
    again = false;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t i = 0; i < edges; ++i) {
        const std::size_t e = pass == 0 ? i : edges - 1 - i;
        const CutEdge& edge = cut.edges()[e];
        if (std::max(changed[to_index(edge.a)], changed[to_index(edge.b)]) <= seen[e]) continue;
        ++step;
        for (const bool side_a : {false, true, false}) {
          if (!revise(e, side_a)) continue;
          if (empty_) return;
          changed[to_index(side_a ? edge.a : edge.b)] = step;
          again = true;
        }
        seen[e] = step;
      }
    }
  }
}

Restricted::Restricted(const CutNetwork& cut, const Reparametrisation& costs, double tolerance)
    : tolerance_(tolerance), kept_(to_index(cut.nodes())) {
  for (int v = 0; v < cut.nodes(); ++v) {
    const double* excess = costs.excess.data() + cut.first(v);
    for (int x = 0; x < static_cast<int>(cut.values(v).size()); ++x) {
      if (excess[x] <= tolerance) kept_[to_index(v)].push_back(x);
    }
    empty_ = empty_ || kept_[to_index(v)].empty();
  }
  if (!empty_) make_consistent(cut, costs, tolerance);
  if (empty_) return;

  std::vector<int> small(to_index(cut.nodes()), -1);
  network_.first.push_back(0);
  for (int v = 0; v < cut.nodes(); ++v) {
    if (kept_[to_index(v)].size() == 1) continue;
    small[to_index(v)] = static_cast<int>(nodes_.size());
    nodes_.push_back(v);
    network_.first.push_back(network_.first.back() + kept_[to_index(v)].size());
  }
  std::size_t entries = 0;
  for (const CutEdge& edge : cut.edges()) {
    if (small[to_index(edge.a)] < 0 || small[to_index(edge.b)] < 0) continue;
    network_.edges.push_back(
        {.a = small[to_index(edge.a)], .b = small[to_index(edge.b)], .table = entries});
    entries += kept_[to_index(edge.a)].size() * kept_[to_index(edge.b)].size();
  }
}

void Restricted::fill(const CutNetwork& cut, const Reparametrisation& costs) {
  std::vector<int> small(to_index(cut.nodes()), -1);
  network_.costs.reserve(network_.first.back());
  for (int v = 0, next = 0; v < cut.nodes(); ++v) {
    const double* own = costs.node.data() + cut.first(v);
    if (kept_[to_index(v)].size() == 1) {
      base_ += own[kept_[to_index(v)][0]];
      continue;
    }
    small[to_index(v)] = next++;
    for (const int x : kept_[to_index(v)]) network_.costs.push_back(own[x]);
  }
  for (std::size_t e = 0; e < cut.edges().size(); ++e) {
    const CutEdge& edge = cut.edges()[e];
    const PairCosts pairs(cut, costs, e);
    const std::vector<int>& a = kept_[to_index(edge.a)];
    const std::vector<int>& b = kept_[to_index(edge.b)];
    if (a.size() == 1 && b.size() == 1) {
      base_ += pairs.cost(a[0], b[0]);
    } else if (a.size() == 1 || b.size() == 1) {
      const bool of_b = a.size() == 1;
      double* sums =
          network_.costs.data() + network_.first[to_index(small[to_index(of_b ? edge.b : edge.a)])];
      const std::vector<int>& values = of_b ? b : a;
      for (std::size_t i = 0; i < values.size(); ++i) {
        sums[i] += of_b ? pairs.cost(a[0], values[i]) : pairs.cost(values[i], b[0]);
      }
    } else {
      for (const int x : a) {
        for (const int y : b) {
          // A pair that is proved too expensive is forbidden, just as such values are dropped.
          network_.tables.push_back(pairs.excess(x, y) <= tolerance_ ? pairs.cost(x, y)
                                                                     : kForbidden);
        }
      }
    }
  }
}

std::vector<int> Restricted::positions(const std::vector<int>& solution) const {
  std::vector<int> out;
  out.reserve(kept_.size());
  for (const std::vector<int>& values : kept_) out.push_back(values[0]);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    out[to_index(nodes_[i])] = kept_[to_index(nodes_[i])][to_index(solution[i])];
  }
  return out;
}

}  // namespace shardlab
