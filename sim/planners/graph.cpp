#include "sim/planners/graph.h"

#include <algorithm>
#include <limits>

#include "costmodel/error.h"

namespace shardlab {
namespace {

// A layout as a number: 16 bits a mesh dim, 12 for the placement's code in this search and 4 for its position in the
// shard order.
struct Key {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  [[nodiscard]] std::uint32_t field(int i) const {
    const std::uint64_t half = i < 4 ? low : high;
    return static_cast<std::uint32_t>(half >> (16U * static_cast<unsigned>(i & 3))) & 0xffffU;
  }
  void set(int i, std::uint32_t value) {
    std::uint64_t& half = i < 4 ? low : high;
    const unsigned shift = 16U * static_cast<unsigned>(i & 3);
    half = (half & ~(std::uint64_t{0xffff} << shift)) | (std::uint64_t{value} << shift);
  }
  [[nodiscard]] std::size_t hash() const {
    std::uint64_t x = low * 0x9e3779b97f4a7c15ULL ^ (high + 0x7f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 29U;
    x *= 0x94d049bb133111ebULL;
    return static_cast<std::size_t>(x ^ (x >> 32U));
  }
  friend bool operator==(const Key&, const Key&) = default;
};

constexpr std::uint32_t field_of(std::uint32_t code, std::uint32_t position) {
  return code | position << 12U;
}
constexpr std::uint32_t code_of(std::uint32_t field) { return field & 0xfffU; }
constexpr std::uint32_t position_of(std::uint32_t field) { return field >> 12U; }

constexpr std::uint32_t kNone = 0xffffffffU;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Two costs are one when they agree to this: sums of the same prices in another order.
constexpr double kSameCost = 1e-12;

struct Node {
  Key key;
  double cost = kInfinity;
  std::uint32_t parent = kNone;
  std::int8_t moved = -1;  // the mesh dim that changed on the way here
  bool visited = false;
};

struct HeapEntry {
  double cost;
  std::uint32_t counter;
  std::uint32_t node;
  // std::push_heap keeps the largest on top: invert.
  friend bool operator<(const HeapEntry& a, const HeapEntry& b) {
    return a.cost > b.cost || (a.cost == b.cost && a.counter > b.counter);
  }
};

// Open addressing, cleared between searches without giving memory back.
class NodeTable {
 public:
  void clear(std::size_t expected) {
    std::size_t wanted = 64;
    while (wanted < expected * 2) wanted *= 2;
    if (slots_.size() < wanted) slots_.resize(wanted);
    for (const std::uint32_t slot : used_) slots_[slot] = kNone;
    if (fresh_ != slots_.size()) {
      std::fill(slots_.begin(), slots_.end(), kNone);
      fresh_ = slots_.size();
    }
    used_.clear();
    nodes.clear();
  }

  std::uint32_t find_or_add(const Key& key) {
    if (nodes.size() * 2 >= slots_.size()) grow();
    std::size_t slot = key.hash() & (slots_.size() - 1);
    while (slots_[slot] != kNone) {
      if (nodes[slots_[slot]].key == key) return slots_[slot];
      slot = (slot + 1) & (slots_.size() - 1);
    }
    const auto index = static_cast<std::uint32_t>(nodes.size());
    slots_[slot] = index;
    used_.push_back(static_cast<std::uint32_t>(slot));
    nodes.push_back({.key = key});
    return index;
  }

  [[nodiscard]] std::uint32_t find(const Key& key) const {
    if (slots_.empty()) return kNone;
    std::size_t slot = key.hash() & (slots_.size() - 1);
    while (slots_[slot] != kNone) {
      if (nodes[slots_[slot]].key == key) return slots_[slot];
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return kNone;
  }

  std::vector<Node> nodes;

 private:
  void grow() {
    slots_.assign(slots_.size() * 2, kNone);
    fresh_ = slots_.size();
    used_.clear();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      std::size_t slot = nodes[i].key.hash() & (slots_.size() - 1);
      while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<std::uint32_t>(i);
      used_.push_back(static_cast<std::uint32_t>(slot));
    }
  }

  std::vector<std::uint32_t> slots_;
  std::vector<std::uint32_t> used_;
  std::size_t fresh_ = 0;
};

enum class EdgeKind : std::uint8_t {
  kGather0,     // S(0)->R
  kGather,      // S(d)->R
  kAllToAll00,  // between tensor dims, by whether each is dim 0 (both can't be)
  kAllToAll0d,
  kAllToAllD0,
  kAllToAllDd,
  kAllReduce,
  kScatter0,
  kScatter,
  kChunk,
  kPartition,       // R->P(op) that divides
  kPartitionFree,   // R->P(op) that keeps the value
  kOpaque,          // with a strided shard
};
constexpr std::size_t kEdgeKinds = 13;

}  // namespace

struct GraphPlanner::State {
  explicit State(const TransitionPricer& p) : pricer(p), ndim(p.mesh_ndim()) {}

  const TransitionPricer& pricer;
  int ndim;

  // Of the current search.
  TensorMeta meta;
  std::vector<Placement> codes;         // code -> placement; 0 is R, 1 + d is S(d)
  std::vector<std::uint32_t> partials;  // codes of the partial ops that R may become
  std::vector<std::uint32_t> strided;   // codes of the strided shards that R may become
  bool count_paths = false;
  bool has_target = false;
  Key target;
  std::array<std::array<std::int8_t, kMaxMeshDims>, kMaxTensorDims> target_order{};
  std::array<double, kMaxMeshDims> leave_shard{};    // least price of an edge out of a shard
  std::array<double, kMaxMeshDims> leave_partial{};  // least price of an edge out of a partial
  double bound = kInfinity;

  std::vector<double> edge_prices;
  NodeTable table;
  std::vector<HeapEntry> heap;
  std::uint32_t counter = 0;
  std::vector<std::vector<std::uint32_t>> tight;  // by node: predecessors on equally cheap paths
  std::size_t visited = 0;

  // The layout behind a key, ready for successors: tensor dims' lists of mesh dims.
  struct View {
    std::array<std::uint32_t, kMaxMeshDims> code;
    std::array<std::uint32_t, kMaxMeshDims> position;
    std::array<std::int8_t, kMaxTensorDims> count;
    std::array<std::array<std::int8_t, kMaxMeshDims>, kMaxTensorDims> list;
    std::uint32_t mask = 0;  // mesh dims that shard, as num_shards counts them
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
    // R may become a partial of any op that the source or a target has (PyTorch collects the op alone: a mask or norm
    // partial asks for P(sum)).
    std::array<bool, 8> ops{};
    for (const Placement& p : from.placements) {
      code_for(p);
      if (p.is_partial()) ops[static_cast<std::size_t>(p.reduce_op())] = true;
    }
    for (const Placement& p : targets) {
      const std::uint32_t code = code_for(p);
      if (p.is_partial()) ops[static_cast<std::size_t>(p.reduce_op())] = true;
      if (p.is_strided() && std::find(strided.begin(), strided.end(), code) == strided.end()) {
        strided.push_back(code);
      }
    }
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i]) partials.push_back(code_for(Placement::partial(static_cast<ReduceOp>(i))));
    }
    edge_prices.assign(kEdgeKinds * static_cast<std::size_t>(ndim) << static_cast<unsigned>(ndim),
                       -1.0);
    table.clear(256);
    heap.clear();
    counter = 0;
    tight.clear();
    visited = 0;
    bound = kInfinity;
    has_target = false;
  }

  [[nodiscard]] View view_of(const Key& key) const {
    View view;
    view.count.fill(0);
    view.mask = 0;
    for (int i = 0; i < ndim; ++i) {
      const auto m = static_cast<std::size_t>(i);
      view.code[m] = code_of(key.field(i));
      view.position[m] = position_of(key.field(i));
      const Placement& p = placement(view.code[m]);
      if (!p.is_shard_like()) continue;
      const auto d = static_cast<std::size_t>(p.dim());
      ++view.count[d];
      view.list[d][view.position[m]] = static_cast<std::int8_t>(i);
      view.mask |= 1U << static_cast<unsigned>(i);
    }
    return view;
  }

  // -- Prices ----------------------------------------------------------------------------------------------------------

  static EdgeKind kind_of(const Placement& from, const Placement& to) {
    if (from.is_strided() || to.is_strided()) return EdgeKind::kOpaque;
    if (from.is_shard()) {
      if (to.is_replicate()) return from.dim() == 0 ? EdgeKind::kGather0 : EdgeKind::kGather;
      if (from.dim() == 0) {
        return to.dim() == 0 ? EdgeKind::kAllToAll00 : EdgeKind::kAllToAll0d;
      }
      return to.dim() == 0 ? EdgeKind::kAllToAllD0 : EdgeKind::kAllToAllDd;
    }
    if (from.is_partial()) {
      if (to.is_replicate()) return EdgeKind::kAllReduce;
      return to.dim() == 0 ? EdgeKind::kScatter0 : EdgeKind::kScatter;
    }
    if (to.is_shard()) return EdgeKind::kChunk;
    return to.reduce_op() == ReduceOp::kSum ? EdgeKind::kPartition : EdgeKind::kPartitionFree;
  }

  // Price of an edge out of a state whose sharded mesh dims are `mask`: the state's local bytes are the tensor's over
  // the product of their sizes.
  double edge_price(const Placement& from, const Placement& to, int mesh_dim, std::uint32_t mask) {
    const EdgeKind kind = kind_of(from, to);
    if (kind == EdgeKind::kOpaque) {
      return pricer.price(from, to, mesh_dim, local_bytes(mask), meta.dtype).price.total.value();
    }
    const std::size_t slot =
        ((static_cast<std::size_t>(kind) * static_cast<std::size_t>(ndim) +
          static_cast<std::size_t>(mesh_dim))
         << static_cast<unsigned>(ndim)) +
        mask;
    double& price = edge_prices[slot];
    if (price < 0) {
      price = pricer.price(from, to, mesh_dim, local_bytes(mask), meta.dtype).price.total.value();
    }
    return price;
  }

  [[nodiscard]] Bytes local_bytes(std::uint32_t mask) const {
    std::int64_t shards = 1;
    for (int i = 0; i < ndim; ++i) {
      if ((mask >> static_cast<unsigned>(i)) & 1U) shards *= pricer.mesh_size(i);
    }
    return meta.bytes() / static_cast<double>(shards);
  }

  // -- Successors, in PyTorch's order ----------------------------------------------------------------------------------

  template <class Visit>
  void for_each_successor(const Key& key, Visit&& visit) {
    const View view = view_of(key);
    const int dims = rank();
    const auto shard_field = [&](int dim) {
      return field_of(1U + static_cast<std::uint32_t>(dim),
                      static_cast<std::uint32_t>(view.count[static_cast<std::size_t>(dim)]));
    };
    const auto last_of = [&](int dim) {
      const auto d = static_cast<std::size_t>(dim);
      return view.list[d][static_cast<std::size_t>(view.count[d] - 1)];
    };
    const auto move = [&](int mesh_dim, std::uint32_t field) {
      Key next = key;
      next.set(mesh_dim, field);
      visit(next, mesh_dim,
            edge_price(placement(view.code[static_cast<std::size_t>(mesh_dim)]),
                       placement(code_of(field)), mesh_dim, view.mask));
    };
    // 1, 2: the last mesh dim of each tensor dim moves to another tensor dim, or leaves.
    for (int a = 0; a < dims; ++a) {
      if (view.count[static_cast<std::size_t>(a)] == 0) continue;
      const int m = last_of(a);
      if (!placement(view.code[static_cast<std::size_t>(m)]).is_shard()) continue;
      for (int b = 0; b < dims; ++b) {
        if (b != a) move(m, shard_field(b));
      }
    }
    for (int a = 0; a < dims; ++a) {
      if (view.count[static_cast<std::size_t>(a)] == 0) continue;
      const int m = last_of(a);
      if (placement(view.code[static_cast<std::size_t>(m)]).is_shard()) move(m, 0);
    }
    // 3: P -> R
    for (int m = 0; m < ndim; ++m) {
      if (placement(view.code[static_cast<std::size_t>(m)]).is_partial()) move(m, 0);
    }
    // 4: R -> S(b)
    for (int m = 0; m < ndim; ++m) {
      if (view.code[static_cast<std::size_t>(m)] != 0) continue;
      for (int b = 0; b < dims; ++b) move(m, shard_field(b));
    }
    // 5: P -> S(b)
    for (int m = 0; m < ndim; ++m) {
      if (!placement(view.code[static_cast<std::size_t>(m)]).is_partial()) continue;
      for (int b = 0; b < dims; ++b) move(m, shard_field(b));
    }
    // 6: R -> P(op), unless the mix is forbidden
    if (!partials.empty()) {
      for (int m = 0; m < ndim; ++m) {
        if (view.code[static_cast<std::size_t>(m)] != 0) continue;
        for (const std::uint32_t code : partials) {
          if (may_mix(view, m, placement(code).reduce_op())) move(m, field_of(code, 0));
        }
      }
    }
    // 7: _S -> R
    for (int a = 0; a < dims; ++a) {
      if (view.count[static_cast<std::size_t>(a)] == 0) continue;
      const int m = last_of(a);
      if (placement(view.code[static_cast<std::size_t>(m)]).is_strided()) move(m, 0);
    }
    // 8: R -> _S of the target
    if (!strided.empty()) {
      for (int m = 0; m < ndim; ++m) {
        if (view.code[static_cast<std::size_t>(m)] != 0) continue;
        for (const std::uint32_t code : strided) {
          const auto d = static_cast<std::size_t>(placement(code).dim());
          move(m, field_of(code, static_cast<std::uint32_t>(view.count[d])));
        }
      }
    }
  }

  [[nodiscard]] bool may_mix(const View& view, int mesh_dim, ReduceOp op) const {
    for (int i = 0; i < ndim; ++i) {
      const Placement& p = placement(view.code[static_cast<std::size_t>(i)]);
      if (i == mesh_dim || !p.is_partial() || p.reduce_op() == op) continue;
      if (!is_linear(op) || !is_linear(p.reduce_op())) return false;
    }
    return true;
  }

  // -- The bound -------------------------------------------------------------------------------------------------------

  void aim_at(const Key& key) {
    target = key;
    has_target = true;
    for (auto& order : target_order) order.fill(-1);
    for (int i = 0; i < ndim; ++i) {
      const Placement& p = placement(code_of(key.field(i)));
      if (p.is_shard_like()) {
        target_order[static_cast<std::size_t>(p.dim())][position_of(key.field(i))] =
            static_cast<std::int8_t>(i);
      }
    }
    // Least price of every edge that leaves a shard or a partial, over all sets of sharded mesh dims.
    const Placement r = Placement::replicate();
    const Placement p = Placement::partial();
    const Placement s0 = Placement::shard(0);
    const Placement s1 = Placement::shard(1);
    const std::uint32_t masks = 1U << static_cast<unsigned>(ndim);
    for (int m = 0; m < ndim; ++m) {
      double shard = kInfinity;
      double partial = kInfinity;
      for (std::uint32_t mask = 0; mask < masks; ++mask) {
        if ((mask >> static_cast<unsigned>(m)) & 1U) {
          shard = std::min({shard, edge_price(s0, r, m, mask), edge_price(s0, s1, m, mask)});
          if (pricer.rules().prices_local_work) {
            shard = std::min({shard, edge_price(s1, r, m, mask), edge_price(s1, s0, m, mask),
                              edge_price(s1, Placement::shard(2), m, mask)});
          }
        } else {
          partial = std::min({partial, edge_price(p, r, m, mask), edge_price(p, s0, m, mask)});
          if (pricer.rules().prices_local_work) {
            partial = std::min(partial, edge_price(p, s1, m, mask));
          }
        }
      }
      leave_shard[static_cast<std::size_t>(m)] = shard;
      leave_partial[static_cast<std::size_t>(m)] = partial;
    }
  }

  // What every path from here to the target must still pay, at least.
  [[nodiscard]] double remaining(const Key& key) const {
    const View view = view_of(key);
    double sum = 0.0;
    std::uint32_t kept = 0;
    for (int d = 0; d < rank(); ++d) {
      const auto dim = static_cast<std::size_t>(d);
      for (int i = 0; i < view.count[dim]; ++i) {
        const std::int8_t m = view.list[dim][static_cast<std::size_t>(i)];
        if (target_order[dim][static_cast<std::size_t>(i)] != m ||
            code_of(target.field(m)) != view.code[static_cast<std::size_t>(m)]) {
          break;
        }
        kept |= 1U << static_cast<unsigned>(m);
      }
    }
    for (int m = 0; m < ndim; ++m) {
      const std::uint32_t code = view.code[static_cast<std::size_t>(m)];
      const Placement& p = placement(code);
      if (p.is_shard()) {
        if (!((kept >> static_cast<unsigned>(m)) & 1U)) sum += leave_shard[static_cast<std::size_t>(m)];
      } else if (p.is_partial() && code != code_of(target.field(m))) {
        sum += leave_partial[static_cast<std::size_t>(m)];
      }
    }
    return sum;
  }

  // Cost of a plan that certainly works: drop every shard that must go (last first), reduce every partial that must go
  // (straight into its target shard where that is the next of its tensor dim), then build the target. Infinity when it
  // does not reach the target.
  double known_plan_cost(const Key& from) {
    double cost = 0.0;
    Key key = from;
    const auto step_to = [&](int m, std::uint32_t field) {
      const View view = view_of(key);
      cost += edge_price(placement(view.code[static_cast<std::size_t>(m)]),
                         placement(code_of(field)), m, view.mask);
      key.set(m, field);
    };
    const auto next_of_target = [&](int m) {
      const Placement& wanted = placement(code_of(target.field(m)));
      if (!wanted.is_shard_like()) return true;
      const View view = view_of(key);
      const auto d = static_cast<std::size_t>(wanted.dim());
      if (static_cast<std::uint32_t>(view.count[d]) != position_of(target.field(m))) return false;
      for (int i = 0; i < view.count[d]; ++i) {
        if (view.list[d][static_cast<std::size_t>(i)] !=
            target_order[d][static_cast<std::size_t>(i)]) {
          return false;
        }
      }
      return true;
    };
    // Leave: last first within a tensor dim, straight to the target where possible.
    for (bool changed = true; changed;) {
      changed = false;
      const View view = view_of(key);
      for (int d = rank() - 1; d >= 0 && !changed; --d) {
        const auto dim = static_cast<std::size_t>(d);
        int agreeing = 0;
        while (agreeing < view.count[dim] &&
               view.list[dim][static_cast<std::size_t>(agreeing)] ==
                   target_order[dim][static_cast<std::size_t>(agreeing)] &&
               key.field(view.list[dim][static_cast<std::size_t>(agreeing)]) ==
                   target.field(view.list[dim][static_cast<std::size_t>(agreeing)])) {
          ++agreeing;
        }
        if (agreeing == view.count[dim]) continue;
        const int m = view.list[dim][static_cast<std::size_t>(view.count[dim] - 1)];
        const Placement& now = placement(view.code[static_cast<std::size_t>(m)]);
        const Placement& wanted = placement(code_of(target.field(m)));
        const bool direct = now.is_shard() && wanted.is_shard() && wanted.dim() != d &&
                            next_of_target(m);
        step_to(m, direct ? target.field(m) : 0U);
        changed = true;
      }
    }
    // Build: whatever is next of its tensor dim, until nothing changes.
    for (bool changed = true; changed;) {
      changed = false;
      for (int m = 0; m < ndim; ++m) {
        if (key.field(m) == target.field(m)) continue;
        const Placement& now = placement(code_of(key.field(m)));
        const Placement& wanted = placement(code_of(target.field(m)));
        if (wanted.is_shard_like() && !next_of_target(m)) continue;
        if (now.is_partial() && (wanted.is_partial() || wanted.is_strided())) step_to(m, 0);
        if (wanted.is_partial() &&
            std::find(partials.begin(), partials.end(), code_of(target.field(m))) ==
                partials.end()) {
          return kInfinity;
        }
        if (key.field(m) != target.field(m)) step_to(m, target.field(m));
        changed = true;
      }
    }
    return key == target ? cost : kInfinity;
  }

  // -- The search ------------------------------------------------------------------------------------------------------

  void push(const Key& key, double cost, std::uint32_t parent, int moved) {
    const std::uint32_t index = table.find_or_add(key);
    Node& node = table.nodes[index];
    if (count_paths) {
      if (tight.size() <= index) tight.resize(index + 1);
      if (cost < node.cost - kSameCost * node.cost) tight[index].clear();
      if (parent != kNone && cost <= node.cost + kSameCost * node.cost) {
        tight[index].push_back(parent);
      }
    }
    // A later entry of the same cost would be popped later: only a cheaper one counts.
    if (node.visited || cost >= node.cost) return;
    if (has_target && bound < kInfinity && cost + remaining(key) > bound) return;
    node.cost = cost;
    node.parent = parent;
    node.moved = static_cast<std::int8_t>(moved);
    heap.push_back({cost, counter++, index});
    std::push_heap(heap.begin(), heap.end());
  }

  // Returns the target's node, or kNone.
  std::uint32_t run(const Key& from) {
    push(from, 0.0, kNone, -1);
    std::uint32_t reached = kNone;
    while (!heap.empty()) {
      const HeapEntry entry = heap.front();
      std::pop_heap(heap.begin(), heap.end());
      heap.pop_back();
      if (reached != kNone &&
          entry.cost > table.nodes[reached].cost * (1 + kSameCost)) {
        break;
      }
      if (table.nodes[entry.node].visited) continue;
      table.nodes[entry.node].visited = true;
      ++visited;
      const Key key = table.nodes[entry.node].key;
      if (has_target && key == target) {
        reached = entry.node;
        if (!count_paths) break;
        continue;
      }
      for_each_successor(key, [&](const Key& next, int mesh_dim, double price) {
        if (price < kInfinity) push(next, entry.cost + price, entry.node, mesh_dim);
      });
    }
    return reached;
  }

  [[nodiscard]] GraphSearchResult trace(std::uint32_t node) const {
    GraphSearchResult result;
    result.found = true;
    result.cost_us = table.nodes[node].cost;
    result.states_visited = visited;
    for (std::uint32_t i = node; table.nodes[i].parent != kNone; i = table.nodes[i].parent) {
      const Node& after = table.nodes[i];
      const Node& before = table.nodes[after.parent];
      result.moves.push_back({after.moved, placement(code_of(before.key.field(after.moved))),
                              placement(code_of(after.key.field(after.moved))),
                              layout_of(after.key)});
    }
    std::reverse(result.moves.begin(), result.moves.end());
    return result;
  }

  double count_to(std::uint32_t node, std::vector<double>& memo, std::vector<bool>& on_path) const {
    if (table.nodes[node].parent == kNone) return 1.0;
    if (memo[node] >= 0) return memo[node];
    if (on_path[node]) return 0.0;  // a cycle of free steps is no further path
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

GraphSearchResult GraphPlanner::search(const TensorMeta& meta, const Layout& from,
                                       const Layout& to, bool count_paths) {
  State& s = *state_;
  SHARDLAB_CHECK(from.ndim() == s.ndim && to.ndim() == s.ndim, "layouts of another mesh");
  s.begin(meta, from, {to.placements.data(), to.placements.size()});
  s.count_paths = count_paths;
  const Key source = *s.find_key(from);
  s.aim_at(*s.find_key(to));
  const double known = s.known_plan_cost(source);
  s.bound = known + 1e-9 * known;
  const std::uint32_t reached = s.run(source);
  if (reached == kNone) {
    GraphSearchResult result;
    result.states_visited = s.visited;
    return result;
  }
  GraphSearchResult result = s.trace(reached);
  if (count_paths) {
    std::vector<double> memo(s.table.nodes.size(), -1.0);
    std::vector<bool> on_path(s.table.nodes.size(), false);
    s.tight.resize(s.table.nodes.size());
    result.optimal_paths = s.count_to(reached, memo, on_path);
  }
  return result;
}

void GraphPlanner::explore(const TensorMeta& meta, const Layout& from,
                           std::span<const Placement> targets) {
  State& s = *state_;
  s.begin(meta, from, targets);
  s.count_paths = false;
  s.run(*s.find_key(from));
}

GraphSearchResult GraphPlanner::path_to(const Layout& to) const {
  const std::optional<Key> key = state_->find_key(to);
  const std::uint32_t node = key ? state_->table.find(*key) : kNone;
  if (node == kNone || !state_->table.nodes[node].visited) return {};
  return state_->trace(node);
}

}  // namespace shardlab
