#include "tests/support/reference_graph_planner.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "costmodel/base/index.h"

namespace shardlab::testing_support {
namespace {

constexpr double kSame = 1e-12;

bool mixes(const std::vector<Placement>& placements) {
  std::set<ReduceOp> ops;
  for (const Placement& p : placements) {
    if (p.is_partial()) ops.insert(p.reduce_op());
  }
  return ops.size() > 1 && ops != std::set<ReduceOp>{ReduceOp::kSum, ReduceOp::kAvg};
}

}  // namespace

// The text of a state, with order indices wherever a tensor dim is sharded more than once, so that
// no two states have the same text.
std::string ReferenceGraphPlanner::State::text() const {
  std::string text;
  for (std::size_t m = 0; m < placements.size(); ++m) {
    text += placements[m].text();
    if (!placements[m].is_shard_like()) continue;
    const std::vector<int>& list = order.at(placements[m].dim());
    if (list.size() < 2) continue;
    const auto position = std::find(list.begin(), list.end(), static_cast<int>(m)) - list.begin();
    text += "[" + std::to_string(position) + "]";
  }
  return text;
}

ReferenceGraphPlanner::State ReferenceGraphPlanner::state_of(const Layout& layout) {
  State state;
  for (int m = 0; m < layout.ndim(); ++m) {
    state.placements.push_back(layout[m]);
    if (layout[m].is_shard_like()) state.order[layout[m].dim()].push_back(m);
  }
  for (auto& [dim, list] : state.order) {
    std::sort(list.begin(), list.end(),
              [&](int a, int b) { return layout.order.position(a) < layout.order.position(b); });
  }
  return state;
}

void ReferenceGraphPlanner::prepare(const TensorMeta& meta, const Layout& from, const Layout& to) {
  meta_ = meta;
  std::set<ReduceOp> ops;
  strided_.clear();
  for (const Layout* layout : {&from, &to}) {
    for (const Placement& p : layout->placements) {
      if (p.is_partial()) ops.insert(p.reduce_op());
    }
  }
  ops_.assign(ops.begin(), ops.end());
  for (const Placement& p : to.placements) {
    if (p.is_strided() && std::find(strided_.begin(), strided_.end(), p) == strided_.end()) {
      strided_.push_back(p);
    }
  }
}

std::vector<ReferenceGraphPlanner::Edge> ReferenceGraphPlanner::successors(
    const State& state) const {
  double shards = 1;
  for (std::size_t m = 0; m < state.placements.size(); ++m) {
    if (state.placements[m].is_shard_like()) {
      shards *= static_cast<double>(mesh_.size(static_cast<int>(m)));
    }
  }
  std::vector<Edge> edges;
  // Mesh dim m leaves its list, in which it must be the last, and joins the list of the new
  // placement.
  const auto move = [&](int m, const Placement& to) {
    const auto index = static_cast<std::size_t>(m);
    const Placement from = state.placements[index];
    State next = state;
    if (from.is_shard_like()) {
      next.order[from.dim()].pop_back();
      if (next.order[from.dim()].empty()) next.order.erase(from.dim());
    }
    next.placements[index] = to;
    if (to.is_shard_like()) next.order[to.dim()].push_back(m);
    const double cost =
        pricer_.price(from, to, m, meta_.bytes() / shards, meta_.dtype).price.total.value();
    edges.push_back({std::move(next), cost});
  };
  const int tensor_dims = meta_.ndim();
  const int mesh_dims = mesh_.ndim();
  const auto at = [&](int m) { return state.placements[to_index(m)]; };
  for (const auto& [a, list] : state.order) {  // 1: S(a)->S(b)
    if (!at(list.back()).is_shard()) continue;
    for (int b = 0; b < tensor_dims; ++b) {
      if (b != a) move(list.back(), Placement::shard(b));
    }
  }
  for (const auto& [a, list] : state.order) {  // 2: S(a)->R
    if (at(list.back()).is_shard()) move(list.back(), Placement::replicate());
  }
  for (int m = 0; m < mesh_dims; ++m) {  // 3: P->R
    if (at(m).is_partial()) move(m, Placement::replicate());
  }
  for (int m = 0; m < mesh_dims; ++m) {  // 4: R->S(b)
    if (!at(m).is_replicate()) continue;
    for (int b = 0; b < tensor_dims; ++b) move(m, Placement::shard(b));
  }
  for (int m = 0; m < mesh_dims; ++m) {  // 5: P->S(b)
    if (!at(m).is_partial()) continue;
    for (int b = 0; b < tensor_dims; ++b) move(m, Placement::shard(b));
  }
  for (int m = 0; m < mesh_dims; ++m) {  // 6: R->P(op)
    if (!at(m).is_replicate()) continue;
    for (const ReduceOp op : ops_) {
      std::vector<Placement> placements = state.placements;
      placements[to_index(m)] = Placement::partial(op);
      if (!mixes(placements)) move(m, Placement::partial(op));
    }
  }
  for (const auto& [a, list] : state.order) {  // 7: _S->R
    if (at(list.back()).is_strided()) move(list.back(), Placement::replicate());
  }
  for (int m = 0; m < mesh_dims; ++m) {  // 8: R->_S of the target
    if (!at(m).is_replicate()) continue;
    for (const Placement& p : strided_) move(m, p);
  }
  return edges;
}

ReferencePlan ReferenceGraphPlanner::search(const TensorMeta& meta, const Layout& from,
                                            const Layout& to) {
  prepare(meta, from, to);
  struct Entry {
    State state;
    std::string path;
    std::vector<double> step_us;
  };
  const std::string target = state_of(to).text();
  std::map<std::pair<double, int>, Entry> queue;  // first in, first out among equal costs
  std::set<std::string> visited;
  int counter = 0;
  queue[{0.0, counter}] = {state_of(from), state_of(from).text(), {}};
  while (!queue.empty()) {
    const double cost = queue.begin()->first.first;
    const Entry entry = std::move(queue.begin()->second);
    queue.erase(queue.begin());
    if (entry.state.text() == target) {
      return {true, entry.path, cost, entry.step_us, visited.size()};
    }
    if (!visited.insert(entry.state.text()).second) continue;
    for (Edge& edge : successors(entry.state)) {
      const std::string text = edge.next.text();
      if (visited.contains(text)) continue;
      if (edge.cost_us == std::numeric_limits<double>::infinity()) continue;
      Entry next{std::move(edge.next), entry.path + "->" + text, entry.step_us};
      next.step_us.push_back(edge.cost_us);
      queue[{cost + edge.cost_us, ++counter}] = std::move(next);
    }
  }
  return {};
}

std::map<std::string, double> ReferenceGraphPlanner::distances(const Layout& from) const {
  std::map<std::string, double> known;
  std::map<std::pair<double, int>, State> queue;
  int counter = 0;
  queue[{0.0, counter}] = state_of(from);
  while (!queue.empty()) {
    const double cost = queue.begin()->first.first;
    const State state = std::move(queue.begin()->second);
    queue.erase(queue.begin());
    if (!known.emplace(state.text(), cost).second) continue;
    for (Edge& edge : successors(state)) {
      if (known.contains(edge.next.text())) continue;
      queue[{cost + edge.cost_us, ++counter}] = std::move(edge.next);
    }
  }
  return known;
}

double ReferenceGraphPlanner::count_optimal_paths(const TensorMeta& meta, const Layout& from,
                                                  const Layout& to) {
  prepare(meta, from, to);
  const std::string target = state_of(to).text();
  const std::map<std::string, double> least = distances(from);
  const auto goal = least.find(target);
  if (goal == least.end()) return 0;
  // Walks every path on which each state is reached at its least cost.
  double count = 0;
  const auto walk = [&](const auto& self, const State& state, double cost) -> void {
    if (state.text() == target) {
      ++count;
      return;
    }
    for (const Edge& edge : successors(state)) {
      const double reached = cost + edge.cost_us;
      const double wanted = least.at(edge.next.text());
      if (reached <= wanted * (1 + kSame) && reached <= goal->second * (1 + kSame)) {
        self(self, edge.next, reached);
      }
    }
  };
  walk(walk, state_of(from), 0.0);
  return count;
}

}  // namespace shardlab::testing_support
