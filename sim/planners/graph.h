// The minimum-cost planner: Dijkstra over layouts (placements and shard order), one changed mesh
// dim an edge.
//
//   GraphPlanner planner(pricer);
//   planner.search(meta, from, to)    // the cheapest path; not found when nothing leads there
//
// Exact, and the same path as PyTorch's: among equally cheap paths the one that a
// first-in-first-out queue would pop first, with successors in PyTorch's order. What makes it fast
// changes no result: states are 128-bit codes, edge prices are tabled per (kind of edge, mesh dim,
// level of local bytes), and a state is dropped when its cost plus a lower bound on the rest
// exceeds the optimum. The bound is the exact answer of a relaxed problem that forgets tensor dims
// and shard order, so it holds for any cost model; the optimum comes from A* with it.
//
// Source of the semantics: PyTorch 2.13.0, _redistribute.py, get_next_state and find_min_cost_path.
// Sets that PyTorch iterates in hash order (partial ops, strided shards of the target) are taken in
// the order of their declaration and of the target's mesh dims. Not thread-safe: one planner a
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/placement.h"
#include "sim/tensor_spec.h"
#include "sim/transition.h"

namespace shardlab {

struct GraphMove {
  int mesh_dim;
  Placement from;
  Placement to;
  Layout after;
};

struct GraphSearchResult {
  bool found = false;
  std::vector<GraphMove> moves;
  double cost_us = 0.0;      // sum of one-step costs along the path
  double optimal_paths = 0;  // paths within 1e-12 relative of the minimum, when asked for
  std::size_t states_visited = 0;
};

class GraphPlanner {
 public:
  explicit GraphPlanner(const TransitionPricer& pricer);
  ~GraphPlanner();
  GraphPlanner(GraphPlanner&&) noexcept;
  GraphPlanner& operator=(GraphPlanner&&) = delete;

  // Strided shards are opaque here: decode them first where they encode a shard order.
  [[nodiscard]] GraphSearchResult search(const TensorMeta& meta, const Layout& from,
                                         const Layout& to, bool count_paths = false);

  // Explores everything reachable from `from` once; then paths to many targets are a lookup.
  // `targets` says which partial ops and strided shards may occur.
  void explore(const TensorMeta& meta, const Layout& from, std::span<const Placement> targets);
  [[nodiscard]] GraphSearchResult path_to(const Layout& to) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardlab
