// Fixes nodes in order. After each, the rest splits into parts without edges between them, which
// are decided one by one, since their choices are independent.
#include "strategies/solvers/tie_break.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// A part of the network: its nodes and their values, numbered as in the whole.
struct Part {
  SmallNetwork network;
  std::vector<int> nodes;
  std::vector<std::vector<int>> values;
};

std::vector<int> roots_of(const SmallNetwork& network) {
  std::vector<int> root(to_index(network.nodes()));
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](int v) {
    while (root[to_index(v)] != v) v = root[to_index(v)] = root[to_index(root[to_index(v)])];
    return v;
  };
  for (const SmallNetwork::Edge& edge : network.edges) {
    const int a = find(edge.a);
    const int b = find(edge.b);
    root[to_index(std::max(a, b))] = std::min(a, b);
  }
  for (std::size_t v = 0; v < root.size(); ++v) root[v] = find(static_cast<int>(v));
  return root;
}

// The connected parts that are left of a part without its decided nodes. The costs of these nodes
// go to their neighbours or to `base`.
std::vector<Part> split(const Part& part, const std::vector<std::vector<int>>& kept, double& base) {
  const SmallNetwork& from = part.network;
  SmallNetwork left;
  std::vector<int> nodes;
  std::vector<int> number(to_index(from.nodes()), -1);
  left.first.push_back(0);
  for (int v = 0; v < from.nodes(); ++v) {
    const double* costs = from.costs.data() + from.first[to_index(v)];
    if (kept[to_index(v)].size() == 1) {
      base += costs[kept[to_index(v)][0]];
      continue;
    }
    number[to_index(v)] = static_cast<int>(nodes.size());
    nodes.push_back(v);
    for (const int x : kept[to_index(v)]) left.costs.push_back(costs[x]);
    left.first.push_back(left.costs.size());
  }
  for (const SmallNetwork::Edge& edge : from.edges) {
    const std::vector<int>& a = kept[to_index(edge.a)];
    const std::vector<int>& b = kept[to_index(edge.b)];
    const auto cost = [&](int x, int y) {
      return from.tables[edge.table + to_index(x) * to_index(from.values(edge.b)) + to_index(y)];
    };
    if (a.size() > 1 && b.size() > 1) {
      left.edges.push_back(
          {number[to_index(edge.a)], number[to_index(edge.b)], left.tables.size()});
      for (const int x : a) {
        for (const int y : b) left.tables.push_back(cost(x, y));
      }
    } else if (a.size() > 1) {
      double* sums = left.costs.data() + left.first[to_index(number[to_index(edge.a)])];
      for (std::size_t i = 0; i < a.size(); ++i) sums[i] += cost(a[i], b[0]);
    } else if (b.size() > 1) {
      double* sums = left.costs.data() + left.first[to_index(number[to_index(edge.b)])];
      for (std::size_t i = 0; i < b.size(); ++i) sums[i] += cost(a[0], b[i]);
    } else {
      base += cost(a[0], b[0]);
    }
  }
  const std::vector<int> root = roots_of(left);
  std::vector<Part> parts;
  std::vector<int> part_of(root.size(), -1);
  std::vector<int> number_in_part(root.size());
  for (std::size_t v = 0; v < root.size(); ++v) {
    int& p = part_of[to_index(root[v])];
    if (p < 0) {
      p = static_cast<int>(parts.size());
      parts.emplace_back();
      parts.back().network.first.push_back(0);
    }
    Part& to = parts[to_index(p)];
    number_in_part[v] = static_cast<int>(to.nodes.size());
    const int whole = nodes[v];
    to.nodes.push_back(part.nodes[to_index(whole)]);
    to.values.emplace_back();
    for (const int x : kept[to_index(whole)])
      to.values.back().push_back(part.values[to_index(whole)][to_index(x)]);
    to.network.costs.insert(to.network.costs.end(),
                            left.costs.begin() + static_cast<std::ptrdiff_t>(left.first[v]),
                            left.costs.begin() + static_cast<std::ptrdiff_t>(left.first[v + 1]));
    to.network.first.push_back(to.network.costs.size());
  }
  for (const SmallNetwork::Edge& edge : left.edges) {
    SmallNetwork& to = parts[to_index(part_of[to_index(root[to_index(edge.a)])])].network;
    const auto entries =
        static_cast<std::ptrdiff_t>(to_index(left.values(edge.a)) * to_index(left.values(edge.b)));
    const auto begin = left.tables.begin() + static_cast<std::ptrdiff_t>(edge.table);
    to.edges.push_back(
        {number_in_part[to_index(edge.a)], number_in_part[to_index(edge.b)], to.tables.size()});
    to.tables.insert(to.tables.end(), begin, begin + entries);
  }
  return parts;
}

}  // namespace

std::vector<int> lowest_solution(const SmallNetwork& network, double limit,
                                 const std::vector<int>& ranks) {
  std::vector<int> solution(to_index(network.nodes()), 0);
  Part whole{.network = network, .nodes = {}, .values = {}};
  std::vector<std::vector<int>> all;
  for (int v = 0; v < network.nodes(); ++v) {
    whole.nodes.push_back(v);
    std::vector<int> values(to_index(network.values(v)));
    std::iota(values.begin(), values.end(), 0);
    whole.values.push_back(values);
    all.push_back(std::move(values));
  }
  double base = 0.0;
  std::vector<Part> parts = split(whole, all, base);
  // How much the parts together may cost above the sum of their minima.
  double slack = limit - base;
  for (const Part& part : parts) {
    BucketTree tree(part.network);
    tree.run();
    slack -= tree.minimum();
  }
  for (int v = 0; v < network.nodes(); ++v) {
    if (all[to_index(v)].size() == 1) solution[to_index(v)] = 0;
  }
  while (!parts.empty()) {
    const Part part = std::move(parts.back());
    parts.pop_back();
    BucketTree tree(part.network);
    tree.run();
    const double minimum = tree.minimum();
    const std::vector<double> least = tree.min_marginals();
    // Rounding may put even the cheapest value slightly above the limit.
    const double most = minimum + std::max(slack, 0.0);
    std::vector<std::vector<int>> kept(part.nodes.size());
    bool chosen = false;
    double taken = minimum;
    for (std::size_t v = 0; v < part.nodes.size(); ++v) {
      const std::size_t first = part.network.first[v];
      const std::size_t count = part.network.first[v + 1] - first;
      std::size_t cheapest = 0;
      for (std::size_t x = 0; x < count; ++x) {
        if (least[first + x] <= most) kept[v].push_back(static_cast<int>(x));
        if (least[first + x] < least[first + cheapest]) cheapest = x;
      }
      if (kept[v].empty()) kept[v].push_back(static_cast<int>(cheapest));
      if (chosen || kept[v].size() == 1) continue;
      const auto rank = [&](int x) {
        const int value = part.values[v][to_index(x)];
        return ranks[network.first[to_index(part.nodes[v])] + to_index(value)];
      };
      const int lowest = *std::ranges::min_element(kept[v], {}, rank);
      kept[v] = {lowest};
      taken = std::max(minimum, least[first + to_index(lowest)]);
      chosen = true;
    }
    slack -= taken - minimum;
    for (std::size_t v = 0; v < part.nodes.size(); ++v) {
      if (kept[v].size() == 1) {
        solution[to_index(part.nodes[v])] = part.values[v][to_index(kept[v][0])];
      }
    }
    double ignored = 0.0;
    std::vector<Part> next = split(part, kept, ignored);
    // The parts of earlier nodes come first, so that the slack goes to them.
    std::ranges::sort(next, {}, [](const Part& p) { return -p.nodes[0]; });
    for (Part& p : next) parts.push_back(std::move(p));
  }
  return solution;
}

}  // namespace shardlab
