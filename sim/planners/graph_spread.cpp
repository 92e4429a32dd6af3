#include "sim/planners/graph_spread.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <typeinfo>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

using graph_search::EdgeKind;
using graph_search::kEdgeKinds;

// A byte of a key: five bits of code, three of position.
constexpr std::uint32_t kMostCodes = 32;
constexpr std::uint32_t byte_of(std::uint32_t code, std::uint32_t position) {
  return code | position << 5U;
}
constexpr std::uint32_t byte(std::uint64_t key, int m) {
  return static_cast<std::uint32_t>(key >> (8U * static_cast<unsigned>(m))) & 0xffU;
}
constexpr std::uint64_t with_byte(std::uint64_t key, int m, std::uint32_t value) {
  const unsigned shift = 8U * static_cast<unsigned>(m);
  return (key & ~(std::uint64_t{0xff} << shift)) | std::uint64_t{value} << shift;
}

static_assert(kMaxMeshDims <= 8, "a key has a byte for each mesh dim");

// Whether one layout may have a partial of this op beside partials of the ops in the set `ops`.
bool may_join(ReduceOp op, std::uint32_t ops) {
  constexpr std::uint32_t kLinear =
      1U << static_cast<unsigned>(ReduceOp::kSum) | 1U << static_cast<unsigned>(ReduceOp::kAvg);
  const std::uint32_t others = ops & ~(1U << static_cast<unsigned>(op));
  return others == 0 || (is_linear(op) && (others & ~kLinear) == 0);
}

// The number of a price: by kind of edge, mesh dim, and the set of mesh dims that shard. Behind the
// kinds of EdgeKind come two for each strided shard: it is made of R, and gathered.
std::uint32_t price_id(std::uint32_t kind, int mesh_dim, std::uint32_t mask, int mesh_ndim) {
  const auto ndim = static_cast<std::uint32_t>(mesh_ndim);
  return ((kind * ndim + static_cast<std::uint32_t>(mesh_dim)) << ndim) + mask;
}

}  // namespace

Placement LayoutGraph::kind_of(const Placement& p) {
  return p.is_strided() ? Placement::strided_shard(p.dim(), 1) : p;
}

std::optional<LayoutGraph::Key> LayoutGraph::key_of(const Layout& layout) const {
  Key key = 0;
  for (int m = 0; m < mesh_ndim_; ++m) {
    const auto found = std::find(codes_.begin(), codes_.end(), kind_of(layout[m]));
    if (found == codes_.end()) return std::nullopt;
    const int position = layout[m].is_shard_like() ? layout.order.position(m) : 0;
    key = with_byte(key, m,
                    byte_of(static_cast<std::uint32_t>(found - codes_.begin()),
                            static_cast<std::uint32_t>(position)));
  }
  return key;
}

std::uint32_t LayoutGraph::add(Key key) {
  const auto [it, is_new] = states_.try_emplace(key, static_cast<std::uint32_t>(keys_.size()));
  if (is_new) {
    if (keys_.size() == kMostStates) {
      throw LimitError("more than " + std::to_string(kMostStates) +
                       " layouts of one tensor; valid: a mesh of fewer dims");
    }
    keys_.push_back(key);
  }
  return it->second;
}

std::uint32_t LayoutGraph::state(const Layout& layout) const {
  const std::optional<std::uint32_t> found = find(layout);
  SHARDLAB_CHECK(found.has_value(), layout.text(), " is not in the graph");
  return *found;
}

std::optional<std::uint32_t> LayoutGraph::find(const Layout& layout) const {
  const std::optional<Key> key = key_of(layout);
  const auto found = key ? states_.find(*key) : states_.end();
  return found == states_.end() ? std::nullopt : std::optional(found->second);
}

// The moves of GraphPlanner, without those of strided shards and without sums made of shards.
template <class Visit>
void LayoutGraph::for_each_move(Key key, Visit&& visit) const {
  std::array<int, kMaxTensorDims> count{};
  std::array<int, kMaxTensorDims> last{};
  std::uint32_t mask = 0;
  std::uint32_t ops = 0;
  const auto code_on = [&](int m) { return byte(key, m) & (kMostCodes - 1); };
  for (int m = 0; m < mesh_ndim_; ++m) {
    const Placement& p = codes_[code_on(m)];
    if (p.is_shard_like()) {
      ++count[to_index(p.dim())];
      mask |= 1U << static_cast<unsigned>(m);
    } else if (p.is_partial()) {
      ops |= 1U << static_cast<unsigned>(p.reduce_op());
    }
  }
  for (int m = 0; m < mesh_ndim_; ++m) {
    const Placement& p = codes_[code_on(m)];
    if (!p.is_shard_like()) continue;
    const auto position = static_cast<int>(byte(key, m) >> 5U);
    if (position + 1 == count[to_index(p.dim())]) last[to_index(p.dim())] = m;
  }
  const auto at_end = [&](std::uint32_t code, int dim) {
    return byte_of(code, static_cast<std::uint32_t>(count[to_index(dim)]));
  };
  const auto shard_at_end = [&](int dim) {
    return at_end(1U + static_cast<std::uint32_t>(dim), dim);
  };
  const auto move = [&](int m, std::uint32_t value, EdgeKind kind) {
    visit(with_byte(key, m, value),
          price_id(static_cast<std::uint32_t>(kind), m, mask, mesh_ndim_));
  };
  // `i` counts the strided shards; `gathers` tells the two moves of one apart.
  const auto move_strided = [&](int m, std::uint32_t value, std::size_t i, bool gathers) {
    const auto kind = static_cast<std::uint32_t>(kEdgeKinds + 2 * i + (gathers ? 1 : 0));
    visit(with_byte(key, m, value), price_id(kind, m, mask, mesh_ndim_));
  };
  for (int a = 0; a < tensor_ndim_; ++a) {
    if (count[to_index(a)] == 0) continue;
    const int m = last[to_index(a)];
    if (codes_[code_on(m)].is_strided()) {
      const auto found = std::find(strided_.begin(), strided_.end(), code_on(m));
      move_strided(m, 0, static_cast<std::size_t>(found - strided_.begin()), true);
      continue;
    }
    move(m, 0, a == 0 ? EdgeKind::kGather0 : EdgeKind::kGather);
    for (int b = 0; b < tensor_ndim_; ++b) {
      if (b == a) continue;
      move(m, shard_at_end(b),
           a == 0   ? EdgeKind::kAllToAll0
           : b == 0 ? EdgeKind::kAllToAllTo0
                    : EdgeKind::kAllToAll);
    }
  }
  for (int m = 0; m < mesh_ndim_; ++m) {
    const Placement& p = codes_[code_on(m)];
    if (p.is_shard_like()) continue;
    if (p.is_partial()) move(m, 0, EdgeKind::kAllReduce);
    for (int b = 0; b < tensor_ndim_; ++b) {
      move(m, shard_at_end(b),
           p.is_replicate() ? EdgeKind::kChunk
           : b == 0         ? EdgeKind::kScatter0
                            : EdgeKind::kScatter);
    }
    if (!p.is_replicate()) continue;
    for (std::size_t i = 0; i < strided_.size(); ++i) {
      move_strided(m, at_end(strided_[i], codes_[strided_[i]].dim()), i, false);
    }
    for (std::size_t code = to_index(tensor_ndim_) + 1; code < codes_.size(); ++code) {
      const Placement& made = codes_[code];
      if (!made.is_partial()) continue;
      const ReduceOp op = made.reduce_op();
      if (made != Placement::partial(op) || !may_join(op, ops)) continue;
      move(m, static_cast<std::uint32_t>(code),
           op == ReduceOp::kSum ? EdgeKind::kPartition : EdgeKind::kPartitionFree);
    }
  }
}

// Assumes that the state replicates on this mesh dim. Every state to which it moves on this mesh
// dim is in the graph. Of the partials that move to it, those that the graph has become members.
void LayoutGraph::add_line(std::uint32_t state, int mesh_dim) {
  const Key key = keys_[state];
  std::array<std::uint32_t, kMaxTensorDims> count{};
  std::uint32_t mask = 0;
  std::uint32_t ops = 0;
  for (int m = 0; m < mesh_ndim_; ++m) {
    const Placement& p = codes_[byte(key, m) & (kMostCodes - 1)];
    if (p.is_shard_like()) {
      ++count[to_index(p.dim())];
      mask |= 1U << static_cast<unsigned>(m);
    } else if (p.is_partial()) {
      ops |= 1U << static_cast<unsigned>(p.reduce_op());
    }
  }
  Line line{.replicated = state,
            .shards = static_cast<std::uint32_t>(members_.size()),
            .partials = static_cast<std::uint32_t>(partials_.size()),
            .partials_end = 0,
            .prices = price_id(0, mesh_dim, mask, mesh_ndim_)};
  const auto add_shard = [&](std::uint32_t code) {
    const std::uint32_t position = count[to_index(codes_[code].dim())];
    members_.push_back(states_.at(with_byte(key, mesh_dim, byte_of(code, position))));
  };
  for (std::uint32_t d = 0; d < to_index(tensor_ndim_); ++d) add_shard(1U + d);
  for (const std::uint32_t code : strided_) add_shard(code);
  for (std::size_t code = to_index(tensor_ndim_) + 1; code < codes_.size(); ++code) {
    const Placement& p = codes_[code];
    if (!p.is_partial()) continue;
    const auto found = states_.find(with_byte(key, mesh_dim, static_cast<std::uint32_t>(code)));
    if (found == states_.end()) continue;
    const ReduceOp op = p.reduce_op();
    const bool is_made = p == Placement::partial(op) && may_join(op, ops);
    const EdgeKind move = op == ReduceOp::kSum ? EdgeKind::kPartition : EdgeKind::kPartitionFree;
    partials_.push_back({found->second, is_made ? to_index(move) : kEdgeKinds});
  }
  line.partials_end = static_cast<std::uint32_t>(partials_.size());
  lines_.push_back(line);
}

void LayoutGraph::add_lines() {
  for (std::uint32_t s = 0; s < keys_.size(); ++s) {
    for (int m = 0; m < mesh_ndim_; ++m) {
      if (byte(keys_[s], m) == 0) add_line(s, m);
    }
  }
  const auto lanes = to_index(mesh_ndim_);
  lines_of_.assign(keys_.size() * lanes, static_cast<std::uint32_t>(lines_.size()));
  std::vector<std::uint8_t> known(keys_.size(), 0);
  const auto join = [&](std::uint32_t state, std::size_t line) {
    lines_of_[state * lanes + known[state]++] = static_cast<std::uint32_t>(line);
  };
  const std::size_t shards = to_index(tensor_ndim_) + strided_.size();
  for (std::size_t l = 0; l < lines_.size(); ++l) {
    const Line& line = lines_[l];
    join(line.replicated, l);
    for (std::size_t i = 0; i < shards; ++i) join(members_[line.shards + i], l);
    for (std::size_t i = line.partials; i < line.partials_end; ++i) join(partials_[i].state, l);
  }
}

LayoutGraph::LayoutGraph(int mesh_ndim, int tensor_ndim, std::span<const Layout> layouts)
    : mesh_ndim_(mesh_ndim), tensor_ndim_(tensor_ndim) {
  codes_.push_back(Placement::replicate());
  for (int d = 0; d < tensor_ndim; ++d) codes_.push_back(Placement::shard(d));
  const auto add_code = [&](const Placement& p) {
    if (std::find(codes_.begin(), codes_.end(), p) == codes_.end()) codes_.push_back(p);
  };
  // As in PyTorch, R becomes a partial of any op that some layout has; mask and norm partials count
  // as sums.
  for (const Layout& layout : layouts) {
    for (const Placement& p : layout.placements) {
      add_code(kind_of(p));
      if (p.is_strided() && std::ranges::find(all_strided_, p) == all_strided_.end()) {
        all_strided_.push_back(p);
      }
      if (p.is_partial()) add_code(Placement::partial(p.reduce_op()));
    }
  }
  for (std::uint32_t code = 0; code < codes_.size(); ++code) {
    if (codes_[code].is_strided()) strided_.push_back(code);
  }
  SHARDLAB_CHECK(codes_.size() <= kMostCodes, codes_.size(), " placements");
  replicated_ = add(0);
  for (const Layout& layout : layouts) add(*key_of(layout));
  for (std::size_t s = 0; s < keys_.size(); ++s) {
    onwards_.begin.push_back(static_cast<std::uint32_t>(onwards_.arcs.size()));
    for_each_move(keys_[s], [&](Key next, std::uint32_t price) {
      onwards_.arcs.push_back({add(next), price});
    });
  }
  onwards_.begin.push_back(static_cast<std::uint32_t>(onwards_.arcs.size()));
  backwards_.begin.assign(keys_.size() + 1, 0);
  for (const Arc& arc : onwards_.arcs) ++backwards_.begin[arc.state + 1];
  for (std::size_t s = 0; s < keys_.size(); ++s) backwards_.begin[s + 1] += backwards_.begin[s];
  backwards_.arcs.resize(onwards_.arcs.size());
  std::vector<std::uint32_t> next(backwards_.begin.begin(), backwards_.begin.end() - 1);
  for (std::uint32_t s = 0; s < keys_.size(); ++s) {
    for (std::uint32_t i = onwards_.begin[s]; i < onwards_.begin[s + 1]; ++i) {
      const Arc& arc = onwards_.arcs[i];
      backwards_.arcs[next[arc.state]++] = {s, arc.price};
    }
  }
  add_lines();
  price_ids_ =
      price_id(static_cast<std::uint32_t>(kEdgeKinds + 2 * strided_.size()), 0, 0, mesh_ndim);
  std::vector<bool> seen(price_ids_, false);
  for (const Arc& arc : onwards_.arcs) {
    if (!seen[arc.price]) used_.push_back(arc.price);
    seen[arc.price] = true;
  }
}

LayoutSpread::LayoutSpread(const LayoutGraph& graph, const TransitionPricer& pricer)
    : graph_(graph),
      prices_of_edges_(pricer),
      replicated_is_free_(pricer.semantics().replicated_source_is_free()),
      mesh_ndim_(pricer.mesh_ndim()),
      prices_(graph.price_ids_, kInfinity) {}

// The semantics have to be shardlab's own, since a function of the user's may price each tensor dim
// in its own way, and R->S has to leave each rank with its share of the bytes.
bool LayoutSpread::bounds_prices(const TransitionPricer& pricer) {
  const EdgeSemantics& semantics = pricer.semantics();
  const EdgeSemanticsRow* row = find_edge_semantics(semantics.name());
  if (row == nullptr) return false;
  const std::shared_ptr<const EdgeSemantics> own = row->make();
  const EdgeSemantics& known = *own;
  if (typeid(known) != typeid(semantics)) return false;
  for (int m = 0; m < pricer.mesh_ndim(); ++m) {
    const double ranks = static_cast<double>(pricer.mesh_size(m));
    const Bytes bytes = 1024.0 * ranks;
    const PricedTransition cut =
        pricer.price(Placement::replicate(), Placement::shard(0), m, bytes, DType::kF32);
    if (cut.bytes_after != bytes / ranks) return false;
  }
  return true;
}

void LayoutSpread::begin(const TensorMeta& meta) {
  prices_of_edges_.forget();
  prices_of_edges_.begin(meta);
  const auto ndim = static_cast<std::uint32_t>(mesh_ndim_);
  for (const std::uint32_t id : graph_.used_) {
    const std::uint32_t mask = id & ((1U << ndim) - 1U);
    const std::uint32_t kind = (id >> ndim) / ndim;
    const auto m = static_cast<int>((id >> ndim) % ndim);
    if (kind < kEdgeKinds) {
      prices_[id] = prices_of_edges_.price(static_cast<EdgeKind>(kind), m, mask);
      continue;
    }
    const int dim = graph_.codes_[graph_.strided_[(kind - kEdgeKinds) / 2]].dim();
    const bool gathers = (kind - kEdgeKinds) % 2 == 1;
    const Placement whole = Placement::replicate();
    prices_[id] = kInfinity;
    for (const Placement& strided : graph_.all_strided_) {
      if (strided.dim() != dim) continue;
      prices_[id] =
          std::min(prices_[id], prices_of_edges_.opaque_price(gathers ? strided : whole,
                                                              gathers ? whole : strided, m, mask));
    }
  }
  begin_lines();
}

// A line's moves out of a shard are priced with its own mesh dim among those that shard.
void LayoutSpread::begin_lines() {
  const auto ndim = static_cast<std::uint32_t>(mesh_ndim_);
  const std::size_t strided = graph_.strided_.size();
  line_prices_.resize(ndim << ndim);
  strided_prices_.resize(line_prices_.size() * strided);
  for (std::uint32_t id = 0; id < line_prices_.size(); ++id) {
    const auto m = static_cast<int>(id >> ndim);
    const std::uint32_t mask = id & ((1U << ndim) - 1U);
    const std::uint32_t with_own = mask | 1U << static_cast<unsigned>(m);
    const auto of = [&](std::size_t kind, std::uint32_t sharding) {
      return prices_[price_id(static_cast<std::uint32_t>(kind), m, sharding, mesh_ndim_)];
    };
    for (std::size_t kind = 0; kind < kEdgeKinds; ++kind) {
      const bool leaves_shard = kind <= to_index(EdgeKind::kAllToAll);
      line_prices_[id][kind] = of(kind, leaves_shard ? with_own : mask);
    }
    line_prices_[id][kEdgeKinds] = kInfinity;
    for (std::size_t i = 0; i < strided; ++i) {
      strided_prices_[id * strided + i] = {.made = of(kEdgeKinds + 2 * i, mask),
                                           .gathered = of(kEdgeKinds + 2 * i + 1, with_own)};
    }
  }
}

// Semantics may say that an edge from a fully replicated source costs nothing, whatever the target.
// Only a plan that starts at the replicated layout is free; a plan that passes through it is not.
// `replicated` and `least` are the costs of that layout and of the cheapest one before the spread.
void LayoutSpread::leave_replicated(std::span<double> costs, double replicated, double least,
                                    bool ahead) const {
  if (!replicated_is_free_) return;
  if (ahead) {
    for (double& cost : costs) cost = std::min(cost, replicated);
  } else {
    costs[graph_.replicated()] = std::min(costs[graph_.replicated()], least);
  }
}

// Passes costs on in the order in which they fell. The region within the limit is mostly small, so
// that this is faster than a queue in the order of costs.
std::span<const double> LayoutSpread::from(std::uint32_t state, double limit) {
  charged_.resize(graph_.size(), kInfinity);
  fell_.resize(graph_.size(), 0);
  for (const std::uint32_t s : reached_) charged_[s] = kInfinity;
  reached_.assign(1, state);
  waiting_.assign(1, state);
  charged_[state] = 0.0;
  if (replicated_is_free_ && state == graph_.replicated()) {
    charged_.assign(graph_.size(), 0.0);
    reached_.resize(graph_.size());
    std::iota(reached_.begin(), reached_.end(), 0U);
    return charged_;
  }
  const LayoutGraph::Arcs& arcs = graph_.onwards_;
  for (std::size_t next = 0; next < waiting_.size(); ++next) {
    const std::uint32_t s = waiting_[next];
    fell_[s] = 0;
    for (std::uint32_t i = arcs.begin[s]; i < arcs.begin[s + 1]; ++i) {
      const LayoutGraph::Arc arc = arcs.arcs[i];
      const double cost = charged_[s] + prices_[arc.price];
      if (!(cost < charged_[arc.state]) || cost > limit) continue;
      if (charged_[arc.state] == kInfinity) reached_.push_back(arc.state);
      charged_[arc.state] = cost;
      if (fell_[arc.state] == 0) waiting_.push_back(arc.state);
      fell_[arc.state] = 1;
    }
  }
  return charged_;
}

// Lowers the costs of a line's states by every move within the line. The line becomes stale again
// where a cost falls, because a second move within it may pay, as in S(1)->S(0)->R. Of the shards,
// only the cheapest is tried as a source of moves. It is also tried as a source of itself, which is
// harmless, since no price is negative.
template <bool kAhead>
void LayoutSpread::update(const LayoutGraph::Line& line, std::span<double> costs) {
  const LinePrices& prices = line_prices_[line.prices];
  const auto price = [&](EdgeKind kind) { return prices[to_index(kind)]; };
  const auto dims = to_index(graph_.tensor_ndim_);
  const std::size_t strided = graph_.strided_.size();
  const std::span members = std::span(graph_.members_).subspan(line.shards, dims + strided);
  const std::span partials =
      std::span(graph_.partials_).subspan(line.partials, line.partials_end - line.partials);
  const StridedPrices* strided_prices = strided_prices_.data() + line.prices * strided;
  const auto lanes = to_index(mesh_ndim_);
  const auto lower = [&](std::uint32_t state, double cost) {
    if (!(cost < costs[state])) return;
    costs[state] = cost;
    const std::uint32_t* lines = graph_.lines_of_.data() + state * lanes;
    for (std::size_t i = 0; i < lanes; ++i) stale_[lines[i]] = 1;
  };

  const double first = dims > 0 ? costs[members[0]] : kInfinity;
  double others = kInfinity;
  for (std::size_t d = 1; d < dims; ++d) others = std::min(others, costs[members[d]]);
  double here = costs[line.replicated];
  if constexpr (kAhead) {
    double partial = kInfinity;
    for (const auto& p : partials) partial = std::min(partial, costs[p.state]);
    here = std::min({here, first + price(EdgeKind::kGather0), others + price(EdgeKind::kGather),
                     partial + price(EdgeKind::kAllReduce)});
    for (std::size_t i = 0; i < strided; ++i) {
      here = std::min(here, costs[members[dims + i]] + strided_prices[i].gathered);
    }
    lower(line.replicated, here);
    const double cut = here + price(EdgeKind::kChunk);
    if (dims > 0) {
      lower(members[0], std::min({cut, others + price(EdgeKind::kAllToAllTo0),
                                  partial + price(EdgeKind::kScatter0)}));
    }
    const double other =
        std::min({cut, first + price(EdgeKind::kAllToAll0), others + price(EdgeKind::kAllToAll),
                  partial + price(EdgeKind::kScatter)});
    for (std::size_t d = 1; d < dims; ++d) lower(members[d], other);
    for (const auto& p : partials) lower(p.state, here + prices[p.price]);
    for (std::size_t i = 0; i < strided; ++i) {
      lower(members[dims + i], here + strided_prices[i].made);
    }
  } else {
    here = std::min({here, first + price(EdgeKind::kChunk), others + price(EdgeKind::kChunk)});
    for (const auto& p : partials) here = std::min(here, costs[p.state] + prices[p.price]);
    for (std::size_t i = 0; i < strided; ++i) {
      here = std::min(here, costs[members[dims + i]] + strided_prices[i].made);
    }
    lower(line.replicated, here);
    if (dims > 0) {
      lower(members[0],
            std::min(here + price(EdgeKind::kGather0), others + price(EdgeKind::kAllToAll0)));
    }
    const double other =
        std::min({here + price(EdgeKind::kGather), first + price(EdgeKind::kAllToAllTo0),
                  others + price(EdgeKind::kAllToAll)});
    for (std::size_t d = 1; d < dims; ++d) lower(members[d], other);
    const double partial =
        std::min({here + price(EdgeKind::kAllReduce), first + price(EdgeKind::kScatter0),
                  others + price(EdgeKind::kScatter)});
    for (const auto& p : partials) lower(p.state, partial);
    for (std::size_t i = 0; i < strided; ++i) {
      lower(members[dims + i], here + strided_prices[i].gathered);
    }
  }
}

// Rounds over the lines in which a cost has fallen, in either direction in turn, until none falls.
// Most states are reached within a few moves, so that this is faster than a queue in the order of
// costs.
template <bool kAhead>
void LayoutSpread::spread(std::span<double> costs) {
  const double replicated = costs[graph_.replicated()];
  const double least = *std::ranges::min_element(costs);
  const std::size_t lines = graph_.lines_.size();
  stale_.assign(lines + 1, 1);
  bool again = true;
  for (bool upwards = true; again; upwards = !upwards) {
    again = false;
    for (std::size_t i = 0; i < lines; ++i) {
      const std::size_t l = upwards ? i : lines - 1 - i;
      if (stale_[l] == 0) continue;
      stale_[l] = 0;  // before the update, which passes a cost on by single moves within the line
      update<kAhead>(graph_.lines_[l], costs);
      again = true;
    }
  }
  leave_replicated(costs, replicated, least, kAhead);
}
template void LayoutSpread::spread<true>(std::span<double> costs);
template void LayoutSpread::spread<false>(std::span<double> costs);

void LayoutSpread::spread_for_free(const LayoutGraph::Arcs& arcs, std::span<double> costs,
                                   bool ahead) {
  const double replicated = costs[graph_.replicated()];
  std::vector<Entry> starts;
  for (std::uint32_t s = 0; s < costs.size(); ++s) {
    if (costs[s] < kInfinity) starts.push_back({costs[s], s});
  }
  std::ranges::sort(starts, {}, &Entry::cost);
  const double least = starts.empty() ? kInfinity : starts.front().cost;
  // States are taken by ascending cost, each followed by all that it reaches for free.
  std::vector<bool> done(costs.size(), false);
  std::vector<std::uint32_t> queue;
  for (const Entry& entry : starts) {
    if (done[entry.state]) continue;
    done[entry.state] = true;
    queue.push_back(entry.state);
    while (!queue.empty()) {
      const std::uint32_t s = queue.back();
      queue.pop_back();
      for (std::uint32_t i = arcs.begin[s]; i < arcs.begin[s + 1]; ++i) {
        const LayoutGraph::Arc arc = arcs.arcs[i];
        if (done[arc.state] || prices_[arc.price] > 0.0) continue;
        done[arc.state] = true;
        costs[arc.state] = entry.cost;
        queue.push_back(arc.state);
      }
    }
  }
  leave_replicated(costs, replicated, least, ahead);
}

}  // namespace shardlab
