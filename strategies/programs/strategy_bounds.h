// Lower bounds on what a program costs with each of its strategies, found without a price for any
// pair of strategies. A 4-D mesh has 10^9 such pairs.
//
//   StrategyBounds bounds(program, strategies, kernels, values, dtype_rules, redistributor);
//   for (int i = 0; i < 16; ++i) bounds.sweep();
//   const StrategyExcess excess = bounds.excess();
//   // an assignment in which node n has strategy s costs at least excess.bound + excess.of[n][s]
//
// The bounds are those of a dual ascent (strategies/solvers/dual_ascent.h, which explains messages
// and sweeps) with two differences. A message has a number for each layout of a value rather than
// for each strategy of a node, since an edge's price depends on nothing else. And an edge's least
// price above the messages is found for all layouts at once, by spreading the messages over the
// graph of layouts (sim/planners/graph_spread.h).
//
// Why the bounds hold: any messages move costs between edges and nodes without changing the cost
// of an assignment, so the sum of the least costs that are left is a lower bound, whatever the
// messages are. The spread never charges more than the redistributor does, so that each edge's
// least cost is a lower bound too. Constraints are the problem's own: forbidden values, pairs of
// equal layouts, and edges that must not communicate. Budgets and other limits, which only make
// assignments dearer, are left out. Numbers are exact up to rounding, 1e-12 of the terms.
//
// A sweep takes about 0.1 ms for each edge on a 4-D mesh. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "sim/planners/graph_spread.h"
#include "sim/redistribute.h"
#include "strategies/programs/dtype_chains.h"
#include "strategies/programs/program.h"
#include "strategies/programs/program_prices.h"
#include "strategies/programs/program_strategies.h"
#include "strategies/programs/sharding_problem.h"
#include "strategies/solvers/network.h"

namespace shardlab {

struct StrategyExcess {
  double bound = 0.0;  // no assignment costs less; infinite if there is none
  // By node and strategy: how much more than the bound an assignment with the strategy costs at
  // least. Infinite for a strategy that no assignment has.
  std::vector<std::vector<double>> of;
};

class StrategyBounds {
 public:
  // Whether edges cost what the graph planner's plans cost, step by step, so that the spread bounds
  // their prices, and every shard order that strided shards encode is known to the layouts.
  [[nodiscard]] static bool hold_for(const Redistributor& redistributor,
                                     const ProgramStrategies& strategies);

  // Assumes hold_for(). `kernels` lists the edges; `values` has the costs of the strategies by
  // themselves (make_values). Keeps references to the program, the strategies and the
  // redistributor.
  StrategyBounds(const Program& program, const ProgramStrategies& strategies,
                 const ProgramPrices& kernels, const ShardingProblem& values,
                 const DTypeRules& rules, const Redistributor& redistributor);

  // One sweep over all nodes; sweeps go forwards and backwards in turn. Returns the bound, which
  // never falls. If the sweep decodes, it also gives each node, in its order, the strategy that is
  // the cheapest beside those of the nodes before it and the messages of those that follow.
  double sweep(bool decodes = false);
  // By node: the strategy that the last decoding sweep gave it. Empty if it ran into a node without
  // any.
  [[nodiscard]] const std::vector<std::size_t>& decoded() const { return decoded_; }
  [[nodiscard]] StrategyExcess excess();
  // How many layouts of values a sweep goes through.
  [[nodiscard]] double layouts_per_sweep() const;
  // Forbids strategies: later bounds are about assignments without them.
  void forbid(std::size_t node, std::size_t strategy) { costs_[node][strategy] = kForbidden; }

 private:
  enum class EdgeKind : std::uint8_t { kMoves, kMovesForFree, kEqual };
  // One end of an edge: which of its distinct layouts each strategy of the node has.
  struct End {
    std::uint32_t node = 0;
    const DistinctLayouts* layouts = nullptr;
    std::vector<std::uint32_t> states = {};  // by distinct layout: its state in the edge's graph
    std::vector<double> message = {};        // by distinct layout
  };
  struct Edge {
    EdgeKind kind = EdgeKind::kMoves;
    LayoutSpread* spread = nullptr;  // null for kEqual
    std::size_t states = 0;
    End first;  // the earlier node, which makes the value
    End second;
  };

  // What the layouts of an edge may have besides R and plain shards, and the tensor's dims: edges
  // that agree in it share a graph.
  using GraphKey = std::pair<int, std::set<Placement>>;
  struct Spread {
    const LayoutGraph* graph = nullptr;
    LayoutSpread* prices = nullptr;
  };

  const DistinctLayouts& distinct(LayoutListId list);
  [[nodiscard]] GraphKey key_of(std::uint32_t meta, const PriceTable& table);
  void add_spreads(const ProgramPrices& kernels, const Redistributor& redistributor);
  void add_edge(EdgeKind kind, const Spread& spread, std::pair<std::uint32_t, LayoutListId> first,
                std::pair<std::uint32_t, LayoutListId> second);
  // For each layout of one end: the least price of an edge above the other end's message.
  void collect(const Edge& edge, bool to_second, std::vector<double>& least);
  // For each layout of one end: the price of the edge from, or to, one layout of the other end.
  void prices_from(const Edge& edge, bool to_second, std::uint32_t layout,
                   std::vector<double>& prices);
  void spread(const Edge& edge, bool to_second, std::vector<double>& out);
  static void add(const End& end, std::vector<double>& theta);

  const Program& program_;
  const ProgramStrategies& strategies_;
  double transition_us_;
  std::vector<std::vector<double>> costs_;  // by node and strategy
  std::map<LayoutListId, std::unique_ptr<DistinctLayouts>> distinct_;
  std::map<GraphKey, std::unique_ptr<LayoutGraph>> graphs_;
  std::vector<std::unique_ptr<LayoutSpread>> spreads_;
  std::vector<Spread> spread_of_;  // by table
  std::vector<Edge> edges_;
  std::vector<std::vector<std::uint32_t>> earlier_;  // by node: edges to earlier nodes
  std::vector<std::vector<std::uint32_t>> later_;
  std::vector<std::size_t> decoded_;
  std::vector<double> work_;
  bool forwards_ = true;
  bool fresh_ = true;  // whether no sweep has collected yet
};

}  // namespace shardlab
