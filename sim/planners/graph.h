// The minimum-cost planner: Dijkstra's algorithm over layouts (placements and shard order), where
// each edge changes one mesh dim.
//
//   GraphPlanner planner(pricer);
//   planner.search(meta, from, to)    // the cheapest path; not found when nothing leads there
//
// The result is exact, and it is the path that PyTorch finds: among equally cheap paths the one
// that a first-in-first-out queue pops first, with successors in PyTorch's order. Three things make
// it fast without changing any result. States are codes of 128 bits. Prices of edges are kept by
// kind of edge, mesh dim and level of local bytes. And a state is dropped when its cost plus a
// lower bound on the rest exceeds the optimum. That bound is the exact answer of a relaxed problem
// that forgets tensor dims and shard order; A* with the same bound finds the optimum first.
//
// One example is priced for each kind of edge (EdgePrices). So the result is exact for cost models
// that price all partial ops alike and tell tensor dim 0 from the others at most, as the models of
// shardlab do. A cost function of the user's own may tell more apart; then the path need not be the
// cheapest, although its price is that of the path.
//
// Exact means by the prices of edges, which depend on the layouts before and after each edge alone.
// Where a stack prices a whole path by another rule, the path found need not be the cheapest by
// that rule: under dtensor-v1, cutting R does not divide the bytes that later steps move, so of two
// paths that the planner takes for equally dear one may cost more. PyTorch of that time was so too.
//
// Source of the semantics: PyTorch 2.13.0, _redistribute.py, get_next_state and find_min_cost_path.
// Where PyTorch iterates over sets in hash order, this planner takes partial ops in the order of
// their declaration and strided shards in the order of the target's mesh dims. Every thread needs a
// planner of its own.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "costmodel/base/units.h"
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
  double cost_us = 0.0;      // sum of the prices of the edges
  double optimal_paths = 0;  // paths within 1e-12 relative of the minimum; 0 when not counted
  std::size_t states_visited = 0;
};

class GraphPlanner {
 public:
  explicit GraphPlanner(const TransitionPricer& pricer);
  ~GraphPlanner();
  GraphPlanner(GraphPlanner&&) noexcept;
  GraphPlanner& operator=(GraphPlanner&&) = delete;

  // The cheapest path. Strided shards are opaque here: callers decode those that encode a shard
  // order. Throws ContractError for layouts of another mesh.
  [[nodiscard]] GraphSearchResult search(const TensorMeta& meta, const Layout& from,
                                         const Layout& to, bool count_paths = false);

  // Explores once all layouts that can be reached from `from` at a cost of at most `limit_us`, so
  // that path_to() only looks paths up; layouts beyond the limit may be left out. `targets` has the
  // partials and strided shards that may occur. The next search or exploration ends this one.
  void explore(const TensorMeta& meta, const Layout& from, std::span<const Placement> targets,
               double limit_us = kInfinity);
  [[nodiscard]] GraphSearchResult path_to(const Layout& to) const;

  // The layouts that the exploration reached are the nodes of a tree: the path to a layout is the
  // path to the node before it, and one move more. Whoever adds something up along many paths can
  // so do it once for each node.
  static constexpr std::uint32_t kNoNode = 0xffffffffU;
  struct Arrival {
    std::uint32_t before;  // kNoNode for the source, where nothing moved
    int mesh_dim;
    Placement from;
    Placement to;
  };
  [[nodiscard]] std::size_t nodes() const;                      // nodes are numbered below this
  [[nodiscard]] std::uint32_t node_of(const Layout& to) const;  // kNoNode if it was not reached
  [[nodiscard]] Arrival arrival(std::uint32_t node) const;

  // Prices are asked for again from here on, because the models' factors have changed. The moves
  // between layouts do not depend on prices, and stay known.
  void forget_prices();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardlab
