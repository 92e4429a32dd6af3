#include "sim/planners/graph.h"

#include <algorithm>
#include <limits>

#include "costmodel/error.h"

namespace shardlab {
namespace {

// A layout as a number: 16 bits a mesh dim, 12 for the placement's code in this search and 4 for
// its position in the shard order.
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
// What a bound leaves to rounding.
constexpr double kSlack = 1 + 1e-9;

struct Node {
  Key key;
  double cost = kInfinity;
  std::uint32_t parent = kNone;
  std::int8_t moved = -1;  // the mesh dim that changed on the way here
  bool visited = false;
};

// Nodes by ascending cost; among equals the first in comes first out, or the last in. Most edges
// cost nothing, so most nodes that enter cost as much as the one that was just taken: those wait in
// a list of their own, outside the heap.
enum class Among : std::uint8_t { kFirstIn, kLastIn };
template <Among kEquals>
class Queue {
 public:
  struct Entry {
    double cost;
    std::uint32_t node;
  };

  void clear() {
    heap_.clear();
    equals_.clear();
    taken_ = 0;
    counter_ = 0;
    now_ = -1.0;
  }
  [[nodiscard]] bool empty() const { return heap_.empty() && taken_ == equals_.size(); }

  void push(double cost, std::uint32_t node) {
    if (cost == now_) {
      equals_.push_back(node);
      return;
    }
    heap_.push_back({cost, kEquals == Among::kFirstIn ? counter_++ : counter_--, node});
    std::push_heap(heap_.begin(), heap_.end());
  }

  // Assumes !empty().
  Entry pop() {
    // What waits in the list entered later than all of the heap.
    const bool older_in_heap = !heap_.empty() && heap_.front().cost == now_;
    if (taken_ < equals_.size() && !(kEquals == Among::kFirstIn && older_in_heap)) {
      if (kEquals == Among::kFirstIn) return {now_, equals_[taken_++]};
      const std::uint32_t node = equals_.back();
      equals_.pop_back();
      return {now_, node};
    }
    if (taken_ == equals_.size()) {
      equals_.clear();
      taken_ = 0;
    }
    const Item item = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    now_ = item.cost;
    return {item.cost, item.node};
  }

 private:
  struct Item {
    double cost;
    std::int32_t counter;
    std::uint32_t node;
    // std::push_heap keeps the largest on top: invert.
    friend bool operator<(const Item& a, const Item& b) {
      return a.cost > b.cost || (!(a.cost < b.cost) && a.counter > b.counter);
    }
  };

  std::vector<Item> heap_;
  std::vector<std::uint32_t> equals_;
  std::size_t taken_ = 0;  // of equals_
  std::int32_t counter_ = 0;
  double now_ = -1.0;  // of what was taken last
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
  kGather0,      // S(0)->R
  kGather,       // S(d)->R
  kAllToAll0,    // S(0)->S(d)
  kAllToAllTo0,  // S(d)->S(0)
  kAllToAll,     // S(d)->S(e)
  kAllReduce,
  kScatter0,  // P->S(0)
  kScatter,
  kChunk,
  kPartition,      // R->P(op) that divides
  kPartitionFree,  // R->P(op) that keeps the value
};
constexpr std::size_t kEdgeKinds = 11;

// Prices of edges without strided shards. A price depends on the kind of edge, the mesh dim and the
// local bytes before it, and the bytes only on the product of the sizes of the mesh dims that
// shard. Sets of mesh dims with one product share their prices: they are one level (6 levels for
// the 32 sets of a mesh 2x2x2x2x2). Each price is asked once a search.
class EdgePrices {
 public:
  explicit EdgePrices(const TransitionPricer& pricer) : pricer_(pricer) {
    const auto ndim = static_cast<unsigned>(pricer.mesh_ndim());
    for (std::uint32_t mask = 0; mask < 1U << ndim; ++mask) {
      std::int64_t product = 1;
      for (unsigned m = 0; m < ndim; ++m) {
        if ((mask >> m & 1U) != 0) product *= pricer.mesh_size(static_cast<int>(m));
      }
      const auto level = std::find(products_.begin(), products_.end(), product) - products_.begin();
      if (level == std::ssize(products_)) products_.push_back(product);
      level_.push_back(static_cast<std::uint16_t>(level));
    }
  }

  void begin(const TensorMeta& meta) {
    bytes_ = meta.bytes();
    dtype_ = meta.dtype;
    prices_.assign(kEdgeKinds * static_cast<std::size_t>(pricer_.mesh_ndim()) * products_.size(),
                   kUnknown);
  }

  // Of an edge out of a state whose sharded mesh dims are `mask`.
  [[nodiscard]] double price(EdgeKind kind, int mesh_dim, std::uint32_t mask) {
    const std::size_t level = level_[mask];
    double& price =
        prices_[(static_cast<std::size_t>(kind) * static_cast<std::size_t>(pricer_.mesh_ndim()) +
                 static_cast<std::size_t>(mesh_dim)) *
                    products_.size() +
                level];
    if (price == kUnknown) {
      const auto& [from, to] = kExamples[static_cast<std::size_t>(kind)];
      price = ask(from, to, mesh_dim, level);
    }
    return price;
  }

  // Of an edge with a strided shard, which no kind covers.
  [[nodiscard]] double opaque_price(const Placement& from, const Placement& to, int mesh_dim,
                                    std::uint32_t mask) const {
    return ask(from, to, mesh_dim, level_[mask]);
  }

 private:
  static constexpr double kUnknown = -1.0;
  static constexpr std::array<std::pair<Placement, Placement>, kEdgeKinds> kExamples = {{
      {Placement::shard(0), Placement::replicate()},
      {Placement::shard(1), Placement::replicate()},
      {Placement::shard(0), Placement::shard(1)},
      {Placement::shard(1), Placement::shard(0)},
      {Placement::shard(1), Placement::shard(2)},
      {Placement::partial(), Placement::replicate()},
      {Placement::partial(), Placement::shard(0)},
      {Placement::partial(), Placement::shard(1)},
      {Placement::replicate(), Placement::shard(0)},
      {Placement::replicate(), Placement::partial(ReduceOp::kSum)},
      {Placement::replicate(), Placement::partial(ReduceOp::kMax)},
  }};

  [[nodiscard]] double ask(const Placement& from, const Placement& to, int mesh_dim,
                           std::size_t level) const {
    const Bytes local = bytes_ / static_cast<double>(products_[level]);
    return pricer_.price(from, to, mesh_dim, local, dtype_).price.total.value();
  }

  const TransitionPricer& pricer_;
  std::vector<std::int64_t> products_;  // by level
  std::vector<std::uint16_t> level_;    // by set of mesh dims
  Bytes bytes_ = 0.0;
  DType dtype_ = DType::kF32;
  std::vector<double> prices_;
};

// A simpler problem whose exact answer bounds the real one from below.
//
// It forgets the tensor dim and the order of shards. A mesh dim is in one of four places:
// replicated; a shard or a partial that is not the target's (astray, partial); or done: what the
// target has there, a shard only if all shards before it on its tensor dim are done too. The places
// of all mesh dims are a number, two bits each. Which mesh dims shard is kept, so edges keep their
// prices (the least one where kinds differ by tensor dim). Every real edge changes one place along
// an edge of this problem that costs no more, or changes nothing here: hence no real path can cost
// less than the one found here, whatever the cost model.
class RelaxedProblem {
 public:
  enum Place : std::uint32_t { kReplicated, kAstray, kPartial, kDone };

  // What the target has on each mesh dim: R, a shard, or a partial (which R can become or not).
  enum class Goal : std::uint8_t { kReplicate, kShard, kPartial, kPartialOutOfReach };

  struct Rules {
    int ndim;
    bool moves_between_dims;  // a tensor of one dim has no all-to-all
    bool makes_partials;      // some partial op may occur
    std::array<Goal, kMaxMeshDims> goals;
    // The mesh dims next to a shard of the target on its tensor dim; -1 when there is none.
    std::array<int, kMaxMeshDims> shard_before;
    std::array<int, kMaxMeshDims> shard_after;
  };

  // Distances to the target of all numbers that are nearer than `source`: Dijkstra backwards.
  void solve(const Rules& rules, std::uint32_t source, EdgePrices& prices) {
    rules_ = rules;
    rest_.assign(std::size_t{1} << static_cast<unsigned>(2 * rules.ndim), kInfinity);
    steps_.assign(kSteps * static_cast<std::size_t>(rules.ndim)
                      << static_cast<unsigned>(rules.ndim),
                  kUnknown);
    queue_.clear();
    radius_ = kInfinity;
    relax(goal(), 0.0);
    while (!queue_.empty()) {
      const auto entry = queue_.pop();
      if (entry.cost > rest_[entry.node]) continue;
      if (entry.node == source) {
        radius_ = entry.cost;
        return;
      }
      relax_predecessors(entry.node, entry.cost, prices);
    }
  }

  // At least this much is left to pay. What lies beyond the source's distance counts as if at that
  // distance.
  [[nodiscard]] double rest(std::uint32_t number) const { return std::min(rest_[number], radius_); }

  static std::uint32_t with_place(std::uint32_t number, int mesh_dim, Place place) {
    const auto shift = static_cast<unsigned>(2 * mesh_dim);
    return (number & ~(3U << shift)) | place << shift;
  }

 private:
  enum Step : std::size_t { kGather, kAllToAll, kAllReduce, kScatter, kChunk, kPartition };
  static constexpr std::size_t kSteps = 6;

  [[nodiscard]] std::uint32_t goal() const {
    std::uint32_t number = 0;
    for (int m = 0; m < rules_.ndim; ++m) {
      if (goal_of(m) != Goal::kReplicate) number = with_place(number, m, kDone);
    }
    return number;
  }
  // A shard is done only while the one before it is.
  [[nodiscard]] bool may_be_done(std::uint32_t number, int m) const {
    const int before = rules_.shard_before[static_cast<std::size_t>(m)];
    return goal_of(m) == Goal::kShard && (before < 0 || place_of(number, before) == kDone);
  }
  [[nodiscard]] bool must_be_done(std::uint32_t number, int m) const {
    const int after = rules_.shard_after[static_cast<std::size_t>(m)];
    return after >= 0 && place_of(number, after) == kDone;
  }
  [[nodiscard]] Goal goal_of(int m) const { return rules_.goals[static_cast<std::size_t>(m)]; }
  [[nodiscard]] static Place place_of(std::uint32_t number, int m) {
    return static_cast<Place>(number >> static_cast<unsigned>(2 * m) & 3U);
  }

  void relax(std::uint32_t number, double cost) {
    if (!(cost < rest_[number])) return;
    rest_[number] = cost;
    queue_.push(cost, number);
  }

  void relax_predecessors(std::uint32_t number, double cost, EdgePrices& prices) {
    std::uint32_t mask = 0;
    for (int m = 0; m < rules_.ndim; ++m) {
      const Place place = place_of(number, m);
      const bool shards = place == kAstray || (place == kDone && goal_of(m) == Goal::kShard);
      mask |= static_cast<std::uint32_t>(shards) << static_cast<unsigned>(m);
    }
    for (int m = 0; m < rules_.ndim; ++m) {
      const auto from = [&](Place place, Step step) {
        // The mesh dims that shard before the edge.
        const std::uint32_t bit = 1U << static_cast<unsigned>(m);
        const bool leaves_shard = step == kGather || step == kAllToAll;
        const std::uint32_t before = leaves_shard ? mask | bit : mask & ~bit;
        relax(with_place(number, m, place), cost + price(step, m, before, prices));
      };
      const Goal wanted = goal_of(m);
      switch (place_of(number, m)) {
        case kReplicated:
          from(kAstray, kGather);
          from(kPartial, kAllReduce);
          if (may_be_done(number, m)) from(kDone, kGather);
          if (wanted >= Goal::kPartial) from(kDone, kAllReduce);
          break;
        case kAstray:
          from(kReplicated, kChunk);
          from(kPartial, kScatter);
          if (may_be_done(number, m) && rules_.moves_between_dims) from(kDone, kAllToAll);
          if (wanted >= Goal::kPartial) from(kDone, kScatter);
          break;
        case kPartial:
          if (rules_.makes_partials) from(kReplicated, kPartition);
          break;
        case kDone:
          if (wanted == Goal::kPartial) from(kReplicated, kPartition);
          if (wanted != Goal::kShard || must_be_done(number, m)) break;
          from(kReplicated, kChunk);
          from(kPartial, kScatter);
          if (rules_.moves_between_dims) from(kAstray, kAllToAll);
          break;
      }
    }
  }

  // The least price over the kinds of edges that are one step here.
  double price(Step step, int mesh_dim, std::uint32_t mask, EdgePrices& prices) {
    double& known =
        steps_[((static_cast<std::size_t>(step) * static_cast<std::size_t>(rules_.ndim) +
                 static_cast<std::size_t>(mesh_dim))
                << static_cast<unsigned>(rules_.ndim)) +
               mask];
    if (known != kUnknown) return known;
    const auto least = [&](auto... kinds) {
      return std::min({prices.price(kinds, mesh_dim, mask)...});
    };
    switch (step) {
      case kGather:
        return known = least(EdgeKind::kGather0, EdgeKind::kGather);
      case kAllToAll:
        return known = least(EdgeKind::kAllToAll0, EdgeKind::kAllToAllTo0, EdgeKind::kAllToAll);
      case kAllReduce:
        return known = least(EdgeKind::kAllReduce);
      case kScatter:
        return known = least(EdgeKind::kScatter0, EdgeKind::kScatter);
      case kChunk:
        return known = least(EdgeKind::kChunk);
      case kPartition:
        return known = least(EdgeKind::kPartition, EdgeKind::kPartitionFree);
    }
    return 0.0;
  }

  static constexpr double kUnknown = -1.0;

  Rules rules_{};
  std::vector<double> steps_;  // prices by step, mesh dim and set of mesh dims that shard before it
  std::vector<double> rest_;   // by number
  double radius_ = kInfinity;
  Queue<Among::kLastIn> queue_;
};

}  // namespace

struct GraphPlanner::State {
  explicit State(const TransitionPricer& p) : ndim(p.mesh_ndim()), prices(p) {}

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

  EdgePrices prices;
  RelaxedProblem relaxed;
  bool bounded = false;      // whether the relaxed problem is solved
  double bound = kInfinity;  // states that cost more with what is left to pay are dropped
  NodeTable table;
  Queue<Among::kFirstIn> by_cost;
  Queue<Among::kLastIn> by_promise;
  std::vector<std::vector<std::uint32_t>> tight;  // by node: predecessors on equally cheap paths
  std::size_t visited = 0;

  // The layout behind a key, ready for successors: tensor dims' lists of mesh dims.
  struct View {
    std::array<std::uint32_t, kMaxMeshDims> code;
    std::array<std::int8_t, kMaxTensorDims> count;
    std::array<std::array<std::int8_t, kMaxMeshDims>, kMaxTensorDims> list;
    std::array<bool, kMaxTensorDims> agrees;  // the whole list is how the target's begins
    std::uint32_t mask = 0;                   // mesh dims that shard, as num_shards counts them
    std::uint32_t partial_ops = 0;            // one bit a reduce op
    std::uint32_t places = 0;                 // number in the relaxed problem
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
    // R may become a partial of any op that the source or a target has (PyTorch collects the op
    // alone: a mask or norm partial asks for P(sum)).
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
        target_order[static_cast<std::size_t>(p.dim())][position_of(key.field(i))] =
            static_cast<std::int8_t>(i);
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
      view.code[static_cast<std::size_t>(i)] = code_of(field);
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
      if (placement(view.code[static_cast<std::size_t>(m)]).is_shard()) continue;
      view.places = RelaxedProblem::with_place(view.places, m, place_of(view, m, key.field(m)));
    }
    for (int d = 0; d < rank(); ++d) {
      const auto dim = static_cast<std::size_t>(d);
      for (int i = 0; i < view.count[dim]; ++i) {
        const int m = view.list[dim][static_cast<std::size_t>(i)];
        const RelaxedProblem::Place place = place_of(view, m, key.field(m));
        view.agrees[dim] = place == RelaxedProblem::kDone;
        view.places = RelaxedProblem::with_place(view.places, m, place);
      }
    }
    return view;
  }

  // Where `field` on this mesh dim is in the relaxed problem. A shard comes after those of its
  // tensor dim in the view.
  [[nodiscard]] RelaxedProblem::Place place_of(const View& view, int mesh_dim,
                                               std::uint32_t field) const {
    const std::uint32_t code = code_of(field);
    if (code == 0) return RelaxedProblem::kReplicated;
    const Placement& p = placement(code);
    const bool in_line = !p.is_shard() || view.agrees[static_cast<std::size_t>(p.dim())];
    if (in_line && field == target.field(mesh_dim)) return RelaxedProblem::kDone;
    return p.is_shard() ? RelaxedProblem::kAstray : RelaxedProblem::kPartial;
  }

  // -- Successors, in PyTorch's order -------------------------------------------------------------

  // visit(next, mesh dim, price, number of `next` in the relaxed problem)
  template <class Visit>
  void for_each_successor(const Key& key, Visit&& visit) {
    const View view = view_of(key);
    const int dims = rank();
    const auto code_on = [&](int m) { return view.code[static_cast<std::size_t>(m)]; };
    const auto shards_of = [&](int dim) { return view.count[static_cast<std::size_t>(dim)]; };
    const auto last_of = [&](int dim) {
      return view.list[static_cast<std::size_t>(dim)][static_cast<std::size_t>(shards_of(dim) - 1)];
    };
    const auto field_at_end = [&](std::uint32_t code, int dim) {
      return field_of(code, static_cast<std::uint32_t>(shards_of(dim)));
    };
    const auto move_to = [&](int m, std::uint32_t field, double price) {
      if (!(price < kInfinity)) return;
      Key next = key;
      next.set(m, field);
      const std::uint32_t places =
          bounded ? RelaxedProblem::with_place(view.places, m, place_of(view, m, field)) : 0;
      visit(next, m, price, places);
    };
    const auto move = [&](int m, std::uint32_t field, EdgeKind kind) {
      move_to(m, field, prices.price(kind, m, view.mask));
    };
    const auto move_opaque = [&](int m, std::uint32_t field) {
      move_to(m, field,
              prices.opaque_price(placement(code_on(m)), placement(code_of(field)), m, view.mask));
    };
    const auto shard_code = [](int dim) { return 1U + static_cast<std::uint32_t>(dim); };
    // 1, 2: the last mesh dim of each tensor dim moves to another tensor dim, or leaves.
    for (int a = 0; a < dims; ++a) {
      if (shards_of(a) == 0) continue;
      const int m = last_of(a);
      if (!placement(code_on(m)).is_shard()) continue;
      for (int b = 0; b < dims; ++b) {
        if (b == a) continue;
        move(m, field_at_end(shard_code(b), b),
             a == 0   ? EdgeKind::kAllToAll0
             : b == 0 ? EdgeKind::kAllToAllTo0
                      : EdgeKind::kAllToAll);
      }
    }
    for (int a = 0; a < dims; ++a) {
      if (shards_of(a) == 0) continue;
      const int m = last_of(a);
      if (!placement(code_on(m)).is_shard()) continue;
      move(m, 0, a == 0 ? EdgeKind::kGather0 : EdgeKind::kGather);
    }
    // 3: P -> R
    for (int m = 0; m < ndim; ++m) {
      if (placement(code_on(m)).is_partial()) move(m, 0, EdgeKind::kAllReduce);
    }
    // 4: R -> S(b)
    for (int m = 0; m < ndim; ++m) {
      if (code_on(m) != 0) continue;
      for (int b = 0; b < dims; ++b) move(m, field_at_end(shard_code(b), b), EdgeKind::kChunk);
    }
    // 5: P -> S(b)
    for (int m = 0; m < ndim; ++m) {
      if (!placement(code_on(m)).is_partial()) continue;
      for (int b = 0; b < dims; ++b) {
        move(m, field_at_end(shard_code(b), b), b == 0 ? EdgeKind::kScatter0 : EdgeKind::kScatter);
      }
    }
    // 6: R -> P(op), unless the mix is forbidden
    for (int m = 0; m < ndim && !partials.empty(); ++m) {
      if (code_on(m) != 0) continue;
      for (const std::uint32_t code : partials) {
        const ReduceOp op = placement(code).reduce_op();
        if (!may_join(op, view.partial_ops)) continue;
        move(m, field_of(code, 0),
             op == ReduceOp::kSum ? EdgeKind::kPartition : EdgeKind::kPartitionFree);
      }
    }
    // 7: _S -> R
    for (int a = 0; a < dims; ++a) {
      if (shards_of(a) == 0) continue;
      const int m = last_of(a);
      if (placement(code_on(m)).is_strided()) move_opaque(m, 0);
    }
    // 8: R -> _S of the target
    for (int m = 0; m < ndim && !strided.empty(); ++m) {
      if (code_on(m) != 0) continue;
      for (const std::uint32_t code : strided) {
        move_opaque(m, field_at_end(code, placement(code).dim()));
      }
    }
  }

  // Whether a partial of this op may stand beside those of `ops`.
  [[nodiscard]] static bool may_join(ReduceOp op, std::uint32_t ops) {
    constexpr std::uint32_t kLinear =
        1U << static_cast<unsigned>(ReduceOp::kSum) | 1U << static_cast<unsigned>(ReduceOp::kAvg);
    const std::uint32_t others = ops & ~(1U << static_cast<unsigned>(op));
    return others == 0 || (is_linear(op) && (others & ~kLinear) == 0);
  }

  // -- The search ---------------------------------------------------------------------------------

  // Solves the relaxed problem, so that `bounded` searches can look ahead.
  void look_ahead(const Key& from) {
    RelaxedProblem::Rules rules{.ndim = ndim,
                                .moves_between_dims = rank() > 1,
                                .makes_partials = !partials.empty(),
                                .goals = {},
                                .shard_before = {},
                                .shard_after = {}};
    rules.shard_before.fill(-1);
    rules.shard_after.fill(-1);
    for (const auto& order : target_order) {
      for (std::size_t i = 1; i < order.size() && order[i] >= 0; ++i) {
        rules.shard_before[static_cast<std::size_t>(order[i])] = order[i - 1];
        rules.shard_after[static_cast<std::size_t>(order[i - 1])] = order[i];
      }
    }
    for (int m = 0; m < ndim; ++m) {
      const std::uint32_t code = code_of(target.field(m));
      using Goal = RelaxedProblem::Goal;
      Goal& wanted = rules.goals[static_cast<std::size_t>(m)];
      wanted = code == 0 ? Goal::kReplicate : Goal::kShard;
      if (placement(code).is_partial()) {
        const bool in_reach = std::find(partials.begin(), partials.end(), code) != partials.end();
        wanted = in_reach ? Goal::kPartial : Goal::kPartialOutOfReach;
      }
    }
    bounded = true;
    relaxed.solve(rules, view_of(from).places, prices);
  }

  // Returns the target's node, or kNone. By cost, first in first out, is PyTorch's way. By promise
  // (cost and what is left to pay at least), last in first out, the target comes sooner and at the
  // same cost, but not on the same path.
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
      // A later entry of the same cost would be taken later: only a cheaper one counts.
      if (node.visited || cost >= node.cost) return;
      node.cost = cost;
      node.parent = parent;
      node.moved = static_cast<std::int8_t>(moved);
      if (!kByCost && key == target) bound = std::min(bound, cost * kSlack);
      queue.push(kByCost ? cost : promise, index);
    };
    push(from, 0.0, bounded ? relaxed.rest(view_of(from).places) : 0.0, kNone, -1);
    std::uint32_t reached = kNone;
    while (!queue.empty()) {
      const auto entry = queue.pop();
      if (reached != kNone && entry.cost > table.nodes[reached].cost * (1 + kSameCost)) break;
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
      for_each_successor(key,
                         [&](const Key& next, int mesh_dim, double price, std::uint32_t places) {
                           const double cost = here + price;
                           double promise = bounded ? cost + relaxed.rest(places) : cost;
                           if (promise > bound || promise == kInfinity) return;
                           // As promised, but for rounding: the search goes on from here at once.
                           const bool as_promised = promise <= entry.cost * (1 + kSameCost);
                           if (!kByCost && as_promised) promise = entry.cost;
                           push(next, cost, promise, entry.node, mesh_dim);
                         });
    }
    return reached;
  }

  // Keeps the predecessors on equally cheap paths.
  void note_parent(std::uint32_t index, double cost, std::uint32_t parent) {
    const double known = table.nodes[index].cost;
    if (tight.size() <= index) tight.resize(index + 1);
    if (known == kInfinity || cost < known - kSameCost * known) tight[index].clear();
    const bool is_tight = cost <= known + kSameCost * known;
    if (is_tight && parent != kNone) tight[index].push_back(parent);
  }

  [[nodiscard]] GraphSearchResult trace(std::uint32_t node) const {
    GraphSearchResult result;
    result.found = true;
    result.cost_us = table.nodes[node].cost;
    result.states_visited = visited;
    const auto parent_of = [&](std::uint32_t i) { return table.nodes[i].parent; };
    std::size_t left = 0;
    for (std::uint32_t i = node; parent_of(i) != kNone; i = parent_of(i)) ++left;
    result.moves.resize(left);
    for (std::uint32_t i = node; parent_of(i) != kNone; i = parent_of(i)) {
      const Node& after = table.nodes[i];
      const Node& before = table.nodes[after.parent];
      result.moves[--left] = {after.moved, placement(code_of(before.key.field(after.moved))),
                              placement(code_of(after.key.field(after.moved))),
                              layout_of(after.key)};
    }
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

GraphSearchResult GraphPlanner::search(const TensorMeta& meta, const Layout& from, const Layout& to,
                                       bool count_paths) {
  State& s = *state_;
  SHARDLAB_CHECK(from.ndim() == s.ndim && to.ndim() == s.ndim, "layouts of another mesh");
  s.begin(meta, from, {to.placements.data(), to.placements.size()});
  s.count_paths = count_paths;
  const Key source = *s.find_key(from);
  s.aim_at(*s.find_key(to));
  // First what the cheapest path costs, then the cheapest path that PyTorch finds: most of the
  // speed is that the latter looks only at states that keep within that cost. On one mesh dim there
  // are too few states for that to pay; strided shards are no part of the relaxed problem.
  const bool look_ahead = s.ndim > 1 && !from.has_strided() && !to.has_strided();
  if (look_ahead) s.look_ahead(source);
  const bool reachable = !look_ahead || s.run_by_promise(source) != kNone;
  const std::uint32_t reached = reachable ? s.run_by_cost(source) : kNone;
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
  s.run_by_cost(*s.find_key(from));
}

GraphSearchResult GraphPlanner::path_to(const Layout& to) const {
  const std::optional<Key> key = state_->find_key(to);
  const std::uint32_t node = key ? state_->table.find(*key) : kNone;
  if (node == kNone || !state_->table.nodes[node].visited) return {};
  return state_->trace(node);
}

}  // namespace shardlab
