// The graph of all layouts between which the graph planner moves one tensor, and what it costs to
// come to each of them from the cheapest of many others.
//
//   const LayoutGraph graph(pricer.mesh_ndim(), meta.ndim(), layouts);  // and all that moves reach
//   LayoutSpread spread(graph, pricer);
//   spread.begin(meta);
//   std::vector<double> costs(graph.size(), kInfinity);
//   costs[graph.state(from)] = 3.0;
//   spread.onwards(costs);      // costs[graph.state(to)] == 3.0 + the price of the cheapest plan
//
// With a start cost for every layout, `onwards` finds the least sum of a start cost and a plan's
// price for all targets at once, where a table of all pairs would have millions of entries: a
// tensor of 5 dims on a mesh of 4 has 4,256 layouts and 60,000 moves. It takes a fraction of a
// millisecond.
//
// The prices are lower bounds on Redistributor::cost_us with the graph planner and without merges
// in the price, apart from rounding: the planner's path is one of this graph's, since the graph
// has all its moves, and a plan that makes a P(sum) of a shard has an infinite price. Mostly they
// are equal. This holds for semantics that divide the bytes in R->S, and whose prices know no more
// of a step than its kind and the bytes that a rank holds: all but v0, v1, autoparallel and
// functions of the user's. A strided shard that encodes no shard order is a kind of placement of
// its own, as for the planner, except that all strided shards of one tensor dim count as one kind,
// with the least price of any. The structure of the graph does not depend on the tensor's shape, so
// that tensors share it.
//
// Throws LimitError for more than kMostStates layouts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/placement.h"
#include "sim/planners/graph_edges.h"
#include "sim/tensor_spec.h"
#include "sim/transition.h"

namespace shardlab {

class LayoutGraph {
 public:
  static constexpr std::size_t kMostStates = 1U << 20U;

  // Has these layouts, and all to which moves lead from them. Assumes that their shards name dims
  // of the tensor, and that no strided shards encode a shard order.
  LayoutGraph(int mesh_ndim, int tensor_ndim, std::span<const Layout> layouts);

  [[nodiscard]] std::size_t size() const { return keys_.size(); }
  // Assumes that the layout is in the graph.
  [[nodiscard]] std::uint32_t state(const Layout& layout) const;
  // The same for any layout; nothing for one that is not in the graph.
  [[nodiscard]] std::optional<std::uint32_t> find(const Layout& layout) const;
  // The state in which no mesh dim shards or sums.
  [[nodiscard]] std::uint32_t replicated() const { return replicated_; }

 private:
  friend class LayoutSpread;

  // A layout as a number: for each mesh dim a byte with the placement's code and its position in
  // the shard order.
  using Key = std::uint64_t;
  struct Arc {
    std::uint32_t state = 0;  // where the move leads to, or comes from
    std::uint32_t price = 0;  // which price: see LayoutSpread
  };
  // The arcs of each state, one list after another.
  struct Arcs {
    std::vector<std::uint32_t> begin;
    std::vector<Arc> arcs;
  };
  // The states that differ in one mesh dim alone, which replicates, shards a tensor dim at the end
  // of its order, or has partial values. Every move is between two states of one line, and its
  // price depends on the line and the kinds of placement alone. One look at each state of a line
  // passes on all moves between them, which are as many as pairs of states; the line is looked at
  // again for as long as one of its costs has fallen.
  struct Line {
    std::uint32_t replicated;
    std::uint32_t shards;    // where its states of members_ begin: by tensor dim, then by strided_
    std::uint32_t partials;  // where its partials begin and end
    std::uint32_t partials_end;
    std::uint32_t prices;  // the mesh dim, and the set of the others that shard: see LayoutSpread
  };
  struct LinePartial {
    std::uint32_t state;
    // The place in LinePrices of the move by which the replicated state becomes it: an EdgeKind, or
    // the last place, which is infinite, if there is no such move.
    std::size_t price;
  };

  // The placement that stands for this one.
  [[nodiscard]] static Placement kind_of(const Placement& p);
  [[nodiscard]] std::optional<Key> key_of(const Layout& layout) const;
  std::uint32_t add(Key key);
  void add_lines();
  void add_line(std::uint32_t state, int mesh_dim);
  template <class Visit>
  void for_each_move(Key key, Visit&& visit) const;

  int mesh_ndim_;
  int tensor_ndim_;
  std::vector<Placement> codes_;
  std::vector<std::uint32_t> strided_;  // the codes of strided shards, one for each tensor dim
  std::vector<Placement> all_strided_;
  std::vector<Key> keys_;
  std::unordered_map<Key, std::uint32_t> states_;
  std::uint32_t replicated_ = 0;
  Arcs onwards_;
  Arcs backwards_;
  std::vector<Line> lines_;
  std::vector<std::uint32_t> members_;
  std::vector<LinePartial> partials_;
  // For each state as many entries as the mesh has dims: first the lines that hold the state, then
  // lines_.size(), which is the number of no line, up to the end.
  std::vector<std::uint32_t> lines_of_;
  std::uint32_t price_ids_ = 0;      // the numbers of prices are below this
  std::vector<std::uint32_t> used_;  // the prices that arcs have
};

class LayoutSpread {
 public:
  LayoutSpread(const LayoutGraph& graph, const TransitionPricer& pricer);

  // Whether a step's price depends only on what the graph knows of it, so that what this class
  // charges is a lower bound on the prices of the graph planner's plans.
  [[nodiscard]] static bool bounds_prices(const TransitionPricer& pricer);

  // The prices of a tensor, which the models are asked for now. Keeps no reference to the meta.
  void begin(const TensorMeta& meta);

  // What it costs to come from one state to those that cost at most `limit`. All others are charged
  // `limit` or more. Takes time only for the states within the limit. The result is valid until the
  // next call.
  std::span<const double> from(std::uint32_t state, double limit);

  // costs[y] = the least costs[x] + price(x, y) over all states x.
  void onwards(std::span<double> costs) { spread<true>(costs); }
  // costs[x] = the least price(x, y) + costs[y] over all states y.
  void backwards(std::span<double> costs) { spread<false>(costs); }
  // The same by moves that cost nothing alone.
  void onwards_for_free(std::span<double> costs) { spread_for_free(graph_.onwards_, costs, true); }
  void backwards_for_free(std::span<double> costs) {
    spread_for_free(graph_.backwards_, costs, false);
  }

 private:
  // By EdgeKind: the prices of a line's moves. The last one, of no move, is infinite.
  using LinePrices = std::array<double, graph_search::kEdgeKinds + 1>;
  struct StridedPrices {
    double made;  // the price of making the strided shard from the replicated state
    double gathered;
  };

  template <bool kAhead>
  void spread(std::span<double> costs);
  template <bool kAhead>
  void update(const LayoutGraph::Line& line, std::span<double> costs);
  void begin_lines();
  void spread_for_free(const LayoutGraph::Arcs& arcs, std::span<double> costs, bool ahead);
  void leave_replicated(std::span<double> costs, double replicated, double least, bool ahead) const;

  struct Entry {
    double cost;
    std::uint32_t state;
  };
  const LayoutGraph& graph_;
  graph_search::EdgePrices prices_of_edges_;
  bool replicated_is_free_;
  int mesh_ndim_;
  std::vector<double> prices_;
  std::vector<LinePrices> line_prices_;        // by Line::prices
  std::vector<StridedPrices> strided_prices_;  // by Line::prices and strided shard
  std::vector<char>
      stale_;               // by line: whether the cost of a state has fallen since its last update
  std::vector<char> fell_;  // by state: whether its cost has fallen since it was last passed on
  // For from(): costs by state, infinite apart from the states that it reached, and the states
  // whose cost has still to be passed on.
  std::vector<double> charged_;
  std::vector<std::uint32_t> reached_;
  std::vector<std::uint32_t> waiting_;
};

}  // namespace shardlab
