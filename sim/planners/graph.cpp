#include "sim/planners/graph.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "sim/planners/graph_edges.h"
#include "sim/planners/graph_nodes.h"
#include "sim/planners/graph_relaxed.h"

namespace shardlab {
namespace {

using namespace graph_search;

// The largest relative difference of costs that count as equal: they may be sums of the same prices
// in another order.
constexpr double kEqualCosts = 1e-12;
// The factor by which a bound is relaxed, to allow for rounding.
constexpr double kSlack = 1 + 1e-9;

}  // namespace

struct GraphPlanner::State {
  explicit State(const TransitionPricer& p)
      : ndim(p.mesh_ndim()), plans_sums(p.semantics().plans_sums_of_shards()), prices(p) {}

  int ndim;

  // What the current search is about.
  TensorMeta meta;
  std::vector<Placement> codes;         // code -> placement; 0 is R, 1 + d is S(d)
  std::vector<std::uint32_t> partials;  // codes of the partial ops that R may become
  std::vector<std::uint32_t> strided;   // codes of the strided shards that R may become
  bool plans_sums = false;  // whether a shard may become a P(sum) that the target asks for
  bool count_paths = false;
  bool has_target = false;
  Key target;
  std::array<std::array<std::int8_t, kMaxMeshDims>, kMaxTensorDims> target_order{};

  EdgePrices prices;
  RelaxedProblem relaxed;
  bool bounded = false;      // whether the relaxed problem is solved
  double bound = kInfinity;  // a state is dropped if every path through it costs more
  NodeTable table;
  Queue<Among::kFirstIn> by_cost;
  Queue<Among::kLastIn> by_promise;
  std::vector<std::vector<std::uint32_t>> tight;  // by node: parents on equally cheap paths
  std::size_t visited = 0;

  // The moves between the layouts that explorations have met. They do not depend on the tensor's
  // bytes, so that an exploration only has to look for the cheapest paths along them.
  struct Web {
    struct Arc {
      std::uint32_t node = 0;
      std::uint32_t mask = 0;  // the mesh dims that shard before the move
      EdgeKind kind = EdgeKind::kChunk;
      std::int8_t mesh_dim = 0;
    };
    struct Range {
      std::uint32_t begin = kNone;  // kNone: the node's moves are not listed yet
      std::uint32_t end = 0;
    };
    int rank = 0;
    std::uint32_t ops = 0;  // the partial ops that R may become
    std::vector<Placement> codes;
    NodeTable table;
    std::vector<Range> moves;  // by node of the table
    std::vector<Arc> arcs;
  };
  std::vector<std::unique_ptr<Web>> webs;
  Web* web = nullptr;  // the web of the last exploration; null if it had strided shards

  // The layout behind a key, in the form that its successors are made from: for each tensor dim the
  // list of mesh dims that shard it.
  struct View {
    std::array<std::uint32_t, kMaxMeshDims> code;
    std::array<std::int8_t, kMaxTensorDims> count;
    std::array<std::array<std::int8_t, kMaxMeshDims>, kMaxTensorDims> list;
    std::array<bool, kMaxTensorDims>
        agrees;                       // whether the target's list begins with all of this one
    std::uint32_t mask = 0;           // mesh dims that shard, as num_shards counts them
    std::uint32_t partial_ops = 0;    // one bit for each reduce op
    std::uint32_t relaxed_state = 0;  // state of the relaxed problem
  };

  [[nodiscard]] int rank() const { return meta.ndim(); }
  [[nodiscard]] const Placement& placement(std::uint32_t code) const { return codes[code]; }

  std::uint32_t code_for(const Placement& p) {
    if (p.is_replicate()) return 0;
    if (p.is_shard()) return 1U + static_cast<std::uint32_t>(p.dim());
    for (std::size_t i = 1 + static_cast<std::size_t>(rank()); i < codes.size(); ++i) {
      if (codes[i] == p) return static_cast<std::uint32_t>(i);
    }
    codes.push_back(p);
    return static_cast<std::uint32_t>(codes.size() - 1);
  }

  [[nodiscard]] std::optional<Key> find_key(const Layout& layout) const {
    Key key;
    for (int i = 0; i < ndim; ++i) {
      const auto it = std::find(codes.begin(), codes.end(), layout[i]);
      if (it == codes.end()) return std::nullopt;
      const int position = layout[i].is_shard_like() ? layout.order.position(i) : 0;
      key.set(i, field_of(static_cast<std::uint32_t>(it - codes.begin()),
                          static_cast<std::uint32_t>(position)));
    }
    return key;
  }

  [[nodiscard]] Layout layout_of(const Key& key) const {
    Layout layout;
    for (int i = 0; i < ndim; ++i) {
      layout.placements.push_back(placement(code_of(key.field(i))));
      layout.order.set(i, static_cast<int>(position_of(key.field(i))));
    }
    return layout;
  }

  void begin(const TensorMeta& tensor, const Layout& from, std::span<const Placement> targets) {
    meta = tensor;
    codes.assign(1, Placement::replicate());
    for (int d = 0; d < rank(); ++d) codes.push_back(Placement::shard(d));
    partials.clear();
    strided.clear();
    // R may become a partial of any op that the source or a target has. PyTorch collects only the
    // ops, so a mask or norm partial counts as P(sum).
    std::array<bool, 8> ops{};
    for (const Placement& p : from.placements) {
      code_for(p);
      if (p.is_partial()) ops[to_index(p.reduce_op())] = true;
    }
    for (const Placement& p : targets) {
      const std::uint32_t code = code_for(p);
      if (p.is_partial()) ops[to_index(p.reduce_op())] = true;
      if (p.is_strided() && std::find(strided.begin(), strided.end(), code) == strided.end()) {
        strided.push_back(code);
      }
    }
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i]) partials.push_back(code_for(Placement::partial(static_cast<ReduceOp>(i))));
    }
    prices.begin(meta);
    has_target = false;
    bounded = false;
    bound = kInfinity;
  }

  void aim_at(const Key& key) {
    target = key;
    has_target = true;
    for (auto& order : target_order) order.fill(-1);
    for (int i = 0; i < ndim; ++i) {
      const Placement& p = placement(code_of(key.field(i)));
      if (p.is_shard_like()) {
        target_order[to_index(p.dim())][position_of(key.field(i))] = static_cast<std::int8_t>(i);
      }
    }
  }

  // -- States -------------------------------------------------------------------------------------

  [[nodiscard]] View view_of(const Key& key) const {
    View view;
    view.count.fill(0);
    view.agrees.fill(true);
    for (int i = 0; i < ndim; ++i) {
      const std::uint32_t field = key.field(i);
      view.code[to_index(i)] = code_of(field);
      const Placement& p = placement(code_of(field));
      if (p.is_shard_like()) {
        const auto d = static_cast<std::size_t>(p.dim());
        ++view.count[d];
        view.list[d][position_of(field)] = static_cast<std::int8_t>(i);
        view.mask |= 1U << static_cast<unsigned>(i);
      } else if (p.is_partial()) {
        view.partial_ops |= 1U << static_cast<unsigned>(p.reduce_op());
      }
    }
    if (!bounded) return view;
    for (int m = 0; m < ndim; ++m) {
      if (placement(view.code[to_index(m)]).is_shard()) continue;
      view.relaxed_state =
          RelaxedProblem::with_place(view.relaxed_state, m, place_of(view, m, key.field(m)));
    }
    for (int d = 0; d < rank(); ++d) {
      const auto dim = static_cast<std::size_t>(d);
      for (int i = 0; i < view.count[dim]; ++i) {
        const int m = view.list[dim][to_index(i)];
        const RelaxedProblem::Place place = place_of(view, m, key.field(m));
        view.agrees[dim] = place == RelaxedProblem::kDone;
        view.relaxed_state = RelaxedProblem::with_place(view.relaxed_state, m, place);
      }
    }
    return view;
  }

  // The place that a mesh dim with this field has in the relaxed problem. A shard is taken to
  // follow, in the shard order, every shard of the same tensor dim that the view already holds.
  [[nodiscard]] RelaxedProblem::Place place_of(const View& view, int mesh_dim,
                                               std::uint32_t field) const {
    const std::uint32_t code = code_of(field);
    if (code == 0) return RelaxedProblem::kReplicated;
    const Placement& p = placement(code);
    const bool in_line = !p.is_shard() || view.agrees[to_index(p.dim())];
    if (in_line && field == target.field(mesh_dim)) return RelaxedProblem::kDone;
    return p.is_shard() ? RelaxedProblem::kAstray : RelaxedProblem::kPartial;
  }

  // -- Successors, in PyTorch's order -------------------------------------------------------------

  // Visits the states one step away from `key`: visit(next, mesh dim, price, relaxed state of
  // next).
  template <class Visit>
  void for_each_successor(const Key& key, Visit&& visit) {
    Successors<Visit> successors{*this, key, view_of(key), visit};
    successors.exchange_shards();
    successors.gather_shards();
    successors.reduce_partials();
    successors.cut_replicas();
    successors.scatter_partials();
    if (!partials.empty()) successors.make_partials();
    successors.gather_strided_shards();
    if (!strided.empty()) successors.make_strided_shards();
    if (plans_sums && has_target) successors.make_requested_sums();
  }

  template <class Visit>
  struct Successors {
    State& search;
    const Key& key;
    const View view;
    Visit& visit;

    // Only the last mesh dim that shards a tensor dim can leave it.
    void exchange_shards() {
      for (int a = 0; a < search.rank(); ++a) {
        if (!ends_in_plain_shard(a)) continue;
        for (int b = 0; b < search.rank(); ++b) {
          if (b == a) continue;
          move(last_of(a), shard_at_end(b),
               a == 0   ? EdgeKind::kAllToAll0
               : b == 0 ? EdgeKind::kAllToAllTo0
                        : EdgeKind::kAllToAll);
        }
      }
    }
    void gather_shards() {
      for (int a = 0; a < search.rank(); ++a) {
        if (!ends_in_plain_shard(a)) continue;
        move(last_of(a), 0, a == 0 ? EdgeKind::kGather0 : EdgeKind::kGather);
      }
    }
    void reduce_partials() {
      for (int m = 0; m < search.ndim; ++m) {
        if (placement_on(m).is_partial()) move(m, 0, EdgeKind::kAllReduce);
      }
    }
    void cut_replicas() {
      for (int m = 0; m < search.ndim; ++m) {
        if (code_on(m) != 0) continue;
        for (int b = 0; b < search.rank(); ++b) move(m, shard_at_end(b), EdgeKind::kChunk);
      }
    }
    void scatter_partials() {
      for (int m = 0; m < search.ndim; ++m) {
        if (!placement_on(m).is_partial()) continue;
        for (int b = 0; b < search.rank(); ++b) {
          move(m, shard_at_end(b), b == 0 ? EdgeKind::kScatter0 : EdgeKind::kScatter);
        }
      }
    }
    void make_partials() {
      for (int m = 0; m < search.ndim; ++m) {
        if (code_on(m) != 0) continue;
        for (const std::uint32_t code : search.partials) {
          const ReduceOp op = search.placement(code).reduce_op();
          if (!may_join(op, view.partial_ops)) continue;
          move(m, field_of(code, 0),
               op == ReduceOp::kSum ? EdgeKind::kPartition : EdgeKind::kPartitionFree);
        }
      }
    }
    void gather_strided_shards() {
      for (int a = 0; a < search.rank(); ++a) {
        if (shards_of(a) == 0) continue;
        if (placement_on(last_of(a)).is_strided()) move_opaque(last_of(a), 0);
      }
    }
    // R becomes only those strided shards that the target has.
    void make_strided_shards() {
      for (int m = 0; m < search.ndim; ++m) {
        if (code_on(m) != 0) continue;
        for (const std::uint32_t code : search.strided) {
          move_opaque(m, field_at_end(code, search.placement(code).dim()));
        }
      }
    }

    // A shard becomes P(sum) only if the target has P(sum) there, so no other path passes through
    // it.
    void make_requested_sums() {
      for (int a = 0; a < search.rank(); ++a) {
        if (!ends_in_plain_shard(a)) continue;
        const std::uint32_t wanted = code_of(search.target.field(last_of(a)));
        if (search.placement(wanted) == Placement::partial()) {
          move_at(last_of(a), field_of(wanted, 0), 0.0);
        }
      }
    }

   private:
    [[nodiscard]] std::uint32_t code_on(int m) const { return view.code[to_index(m)]; }
    [[nodiscard]] const Placement& placement_on(int m) const {
      return search.placement(code_on(m));
    }
    [[nodiscard]] int shards_of(int dim) const { return view.count[to_index(dim)]; }
    [[nodiscard]] int last_of(int dim) const {
      return view.list[to_index(dim)][to_index(shards_of(dim) - 1)];
    }
    [[nodiscard]] bool ends_in_plain_shard(int dim) const {
      return shards_of(dim) != 0 && placement_on(last_of(dim)).is_shard();
    }
    [[nodiscard]] std::uint32_t field_at_end(std::uint32_t code, int dim) const {
      return field_of(code, static_cast<std::uint32_t>(shards_of(dim)));
    }
    [[nodiscard]] std::uint32_t shard_at_end(int dim) const {
      return field_at_end(1U + static_cast<std::uint32_t>(dim), dim);
    }

    void move(int m, std::uint32_t field, EdgeKind kind) {
      if constexpr (requires(Key next) { visit.list(next, m, kind, view.mask); }) {
        Key next = key;
        next.set(m, field);
        visit.list(next, m, kind, view.mask);
        return;
      }
      move_at(m, field, search.prices.price(kind, m, view.mask));
    }
    void move_opaque(int m, std::uint32_t field) {
      move_at(m, field,
              search.prices.opaque_price(placement_on(m), search.placement(code_of(field)), m,
                                         view.mask));
    }
    void move_at(int m, std::uint32_t field, double price) {
      if (!(price < kInfinity)) return;
      Key next = key;
      next.set(m, field);
      const std::uint32_t relaxed_state =
          search.bounded
              ? RelaxedProblem::with_place(view.relaxed_state, m, search.place_of(view, m, field))
              : 0;
      visit(next, m, price, relaxed_state);
    }
  };

  // Whether one layout may have a partial of this op beside partials of the ops in the set `ops`.
  [[nodiscard]] static bool may_join(ReduceOp op, std::uint32_t ops) {
    constexpr std::uint32_t kLinear =
        1U << static_cast<unsigned>(ReduceOp::kSum) | 1U << static_cast<unsigned>(ReduceOp::kAvg);
    const std::uint32_t others = ops & ~(1U << static_cast<unsigned>(op));
    return others == 0 || (is_linear(op) && (others & ~kLinear) == 0);
  }

  // -- The search ---------------------------------------------------------------------------------

  // Solves the relaxed problem, so that searches have a lower bound on the cost that remains.
  void look_ahead(const Key& from) {
    RelaxedProblem::Rules rules{.ndim = ndim,
                                .moves_between_dims = rank() > 1,
                                .makes_partials = !partials.empty(),
                                .goals = {},
                                .sums_shards = {},
                                .shard_before = {},
                                .shard_after = {}};
    rules.shard_before.fill(-1);
    rules.shard_after.fill(-1);
    for (const auto& order : target_order) {
      for (std::size_t i = 1; i < order.size() && order[i] >= 0; ++i) {
        rules.shard_before[to_index(order[i])] = order[i - 1];
        rules.shard_after[to_index(order[i - 1])] = order[i];
      }
    }
    for (int m = 0; m < ndim; ++m) {
      const std::uint32_t code = code_of(target.field(m));
      using Goal = RelaxedProblem::Goal;
      Goal& wanted = rules.goals[to_index(m)];
      wanted = code == 0 ? Goal::kReplicate : Goal::kShard;
      if (placement(code).is_partial()) {
        const bool in_reach = std::find(partials.begin(), partials.end(), code) != partials.end();
        wanted = in_reach ? Goal::kPartial : Goal::kPartialOutOfReach;
        rules.sums_shards[to_index(m)] = plans_sums && placement(code) == Placement::partial();
      }
    }
    bounded = true;
    relaxed.solve(rules, view_of(from).relaxed_state, prices);
  }

  // Both return the target's node, or kNone. Taking nodes by cost, first in first out, finds
  // PyTorch's path. Taking them by promise (the cost so far plus a lower bound on the rest), last
  // in first out, reaches the target sooner and at the same cost, but not on the same path.
  std::uint32_t run_by_cost(const Key& from) { return run(from, by_cost); }
  std::uint32_t run_by_promise(const Key& from) { return run(from, by_promise); }

  template <Among kEquals>
  std::uint32_t run(const Key& from, Queue<kEquals>& queue) {
    constexpr bool kByCost = kEquals == Among::kFirstIn;
    table.clear(256);
    queue.clear();
    tight.clear();
    visited = 0;
    const auto push = [&](const Key& key, double cost, double promise, std::uint32_t parent,
                          int moved) {
      const std::uint32_t index = table.find_or_add(key);
      Node& node = table.nodes[index];
      if (count_paths && kByCost) note_parent(index, cost, parent);
      // Only a cheaper entry is pushed: one of equal cost would be popped after the entry that is
      // already in the queue.
      if (node.visited || cost >= node.cost) return;
      node.cost = cost;
      node.parent = parent;
      node.moved = static_cast<std::int8_t>(moved);
      if (!kByCost && key == target) bound = std::min(bound, cost * kSlack);
      queue.push(kByCost ? cost : promise, index);
    };
    push(from, 0.0, bounded ? relaxed.rest(view_of(from).relaxed_state) : 0.0, kNone, -1);
    std::uint32_t reached = kNone;
    while (!queue.empty()) {
      const auto entry = queue.pop();
      if (reached != kNone && entry.cost > table.nodes[reached].cost * (1 + kEqualCosts)) break;
      if (table.nodes[entry.node].visited) continue;
      table.nodes[entry.node].visited = true;
      ++visited;
      const Key key = table.nodes[entry.node].key;
      const double here = table.nodes[entry.node].cost;
      if (has_target && key == target) {
        reached = entry.node;
        if (!count_paths || !kByCost) break;
        continue;
      }
      for_each_successor(
          key, [&](const Key& next, int mesh_dim, double price, std::uint32_t relaxed_state) {
            const double cost = here + price;
            double promise = bounded ? cost + relaxed.rest(relaxed_state) : cost;
            if (promise > bound || promise == kInfinity) return;
            // If this promise equals the one of the node just popped, apart from rounding, they are
            // made equal, so that the search continues from here at once.
            const bool as_promised = promise <= entry.cost * (1 + kEqualCosts);
            if (!kByCost && as_promised) promise = entry.cost;
            push(next, cost, promise, entry.node, mesh_dim);
          });
    }
    return reached;
  }

  // -- Exploration --------------------------------------------------------------------------------

  // The web of the tensors with as many dims, for the partials of the current search. From here on
  // the web's codes are those of the search.
  void enter_web() {
    std::uint32_t ops = 0;
    for (const std::uint32_t code : partials) {
      ops |= 1U << static_cast<unsigned>(placement(code).reduce_op());
    }
    const auto found = std::ranges::find_if(
        webs, [&](const auto& known) { return known->rank == rank() && known->ops == ops; });
    if (found == webs.end()) {
      webs.push_back(std::make_unique<Web>());
      webs.back()->rank = rank();
      webs.back()->ops = ops;
      webs.back()->codes = codes;
      webs.back()->table.clear(256);
      web = webs.back().get();
      return;
    }
    web = found->get();
    const std::vector<Placement> own = std::exchange(codes, web->codes);
    for (std::uint32_t& code : partials) code = code_for(own[code]);
    for (const Placement& p : own) code_for(p);
    web->codes = codes;
  }

  struct MoveLister {
    Web& web;
    void operator()(const Key&, int, double, std::uint32_t) const {}
    void list(const Key& next, int mesh_dim, EdgeKind kind, std::uint32_t mask) const {
      web.arcs.push_back({.node = web.table.find_or_add(next),
                          .mask = mask,
                          .kind = kind,
                          .mesh_dim = static_cast<std::int8_t>(mesh_dim)});
    }
  };

  // The same search as run_by_cost() without a target, with the same path to every node that costs
  // at most the limit.
  void explore_web(const Key& from, double limit) {
    std::vector<Node>& nodes = web->table.nodes;
    for (Node& node : nodes) {
      node.cost = kInfinity;
      node.parent = kNone;
      node.visited = false;
    }
    by_cost.clear();
    visited = 0;
    const std::uint32_t start = web->table.find_or_add(from);
    nodes[start].cost = 0.0;
    nodes[start].moved = -1;
    by_cost.push(0.0, start);
    while (!by_cost.empty()) {
      const auto entry = by_cost.pop();
      const std::uint32_t here = entry.node;
      if (nodes[here].visited) continue;
      if (nodes[here].cost > limit) break;
      nodes[here].visited = true;
      ++visited;
      web->moves.resize(nodes.size());
      if (web->moves[here].begin == kNone) {
        web->moves[here].begin = static_cast<std::uint32_t>(web->arcs.size());
        const Key key = nodes[here].key;
        for_each_successor(key, MoveLister{*web});
        web->moves[here].end = static_cast<std::uint32_t>(web->arcs.size());
      }
      const Web::Range range = web->moves[here];
      const double cost_here = nodes[here].cost;
      for (std::uint32_t i = range.begin; i < range.end; ++i) {
        const Web::Arc& arc = web->arcs[i];
        Node& next = nodes[arc.node];
        if (next.visited || cost_here >= next.cost) continue;
        const double cost = cost_here + prices.price(arc.kind, arc.mesh_dim, arc.mask);
        if (cost >= next.cost) continue;
        next.cost = cost;
        next.parent = here;
        next.moved = arc.mesh_dim;
        by_cost.push(cost, arc.node);
      }
    }
  }

  // The nodes of the last exploration.
  [[nodiscard]] const NodeTable& explored() const { return web != nullptr ? web->table : table; }

  // Keeps the parents of a node that lie on equally cheap paths.
  void note_parent(std::uint32_t index, double cost, std::uint32_t parent) {
    const double known = table.nodes[index].cost;
    if (tight.size() <= index) tight.resize(index + 1);
    if (known == kInfinity || cost < known - kEqualCosts * known) tight[index].clear();
    const bool is_tight = cost <= known + kEqualCosts * known;
    if (is_tight && parent != kNone) tight[index].push_back(parent);
  }

  [[nodiscard]] GraphSearchResult trace(const NodeTable& among, std::uint32_t node) const {
    GraphSearchResult result;
    result.found = true;
    result.cost_us = among.nodes[node].cost;
    result.states_visited = visited;
    const auto parent_of = [&](std::uint32_t i) { return among.nodes[i].parent; };
    std::size_t left = 0;
    for (std::uint32_t i = node; parent_of(i) != kNone; i = parent_of(i)) ++left;
    result.moves.resize(left);
    for (std::uint32_t i = node; parent_of(i) != kNone; i = parent_of(i)) {
      const Node& after = among.nodes[i];
      const Node& before = among.nodes[after.parent];
      result.moves[--left] = {after.moved, placement(code_of(before.key.field(after.moved))),
                              placement(code_of(after.key.field(after.moved))),
                              layout_of(after.key)};
    }
    return result;
  }

  double count_to(std::uint32_t node, std::vector<double>& memo, std::vector<bool>& on_path) const {
    if (table.nodes[node].parent == kNone) return 1.0;
    if (memo[node] >= 0) return memo[node];
    if (on_path[node]) return 0.0;  // a cycle of free steps does not count as another path
    on_path[node] = true;
    double sum = 0.0;
    for (const std::uint32_t parent : tight[node]) sum += count_to(parent, memo, on_path);
    on_path[node] = false;
    return memo[node] = sum;
  }
};

GraphPlanner::GraphPlanner(const TransitionPricer& pricer)
    : state_(std::make_unique<State>(pricer)) {}
GraphPlanner::~GraphPlanner() = default;
GraphPlanner::GraphPlanner(GraphPlanner&&) noexcept = default;

GraphSearchResult GraphPlanner::search(const TensorMeta& meta, const Layout& from, const Layout& to,
                                       bool count_paths) {
  State& s = *state_;
  SHARDLAB_CHECK(from.ndim() == s.ndim && to.ndim() == s.ndim, "layouts of another mesh");
  s.begin(meta, from, {to.placements.data(), to.placements.size()});
  s.count_paths = count_paths;
  const Key source = *s.find_key(from);
  const std::optional<Key> target = s.find_key(to);
  if (!target) return {};  // the target shards a dim that the tensor lacks
  s.aim_at(*target);
  // The first run finds out what the cheapest path costs. The second one finds PyTorch's path, and
  // is fast because it only looks at states that keep within that cost. One mesh dim has too few
  // states for this to pay, and strided shards are not part of the relaxed problem.
  const bool look_ahead = s.ndim > 1 && !from.has_strided() && !to.has_strided();
  if (look_ahead) s.look_ahead(source);
  const bool reachable = !look_ahead || s.run_by_promise(source) != kNone;
  const std::uint32_t reached = reachable ? s.run_by_cost(source) : kNone;
  if (reached == kNone) {
    GraphSearchResult result;
    result.states_visited = s.visited;
    return result;
  }
  GraphSearchResult result = s.trace(s.table, reached);
  if (count_paths) {
    std::vector<double> memo(s.table.nodes.size(), -1.0);
    std::vector<bool> on_path(s.table.nodes.size(), false);
    s.tight.resize(s.table.nodes.size());
    result.optimal_paths = s.count_to(reached, memo, on_path);
  }
  return result;
}

void GraphPlanner::explore(const TensorMeta& meta, const Layout& from,
                           std::span<const Placement> targets, double limit_us) {
  State& s = *state_;
  s.begin(meta, from, targets);
  s.count_paths = false;
  if (from.has_strided() || !s.strided.empty()) {
    s.web = nullptr;
    s.run_by_cost(*s.find_key(from));
    return;
  }
  s.enter_web();
  s.explore_web(*s.find_key(from), limit_us);
}

GraphSearchResult GraphPlanner::path_to(const Layout& to) const {
  const std::uint32_t node = node_of(to);
  return node == kNoNode ? GraphSearchResult{} : state_->trace(state_->explored(), node);
}

std::size_t GraphPlanner::nodes() const { return state_->explored().nodes.size(); }

std::uint32_t GraphPlanner::node_of(const Layout& to) const {
  static_assert(kNoNode == kNone);
  const NodeTable& table = state_->explored();
  const std::optional<Key> key = state_->find_key(to);
  const std::uint32_t node = key ? table.find(*key) : kNone;
  return node != kNone && table.nodes[node].visited ? node : kNoNode;
}

GraphPlanner::Arrival GraphPlanner::arrival(std::uint32_t node) const {
  const State& s = *state_;
  const std::vector<Node>& nodes = s.explored().nodes;
  const Node& after = nodes[node];
  if (after.parent == kNone) return {kNoNode, -1, {}, {}};
  const auto placement_of = [&](const Node& at) {
    return s.placement(code_of(at.key.field(after.moved)));
  };
  return {after.parent, after.moved, placement_of(nodes[after.parent]), placement_of(after)};
}

void GraphPlanner::forget_prices() { state_->prices.forget(); }

}  // namespace shardlab
