#include "sim/edge_semantics.h"

#include <algorithm>
#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/units.h"
#include "sim/registered_placement.h"

namespace shardlab {
namespace {

constexpr std::string_view kUnknownOrder =
    "the shard order behind a strided shard is unknown to the cost function (infinite cost)";
constexpr std::string_view kPartialOfReplicate =
    "AutoParallel cannot turn a replicated tensor into a partial";
constexpr std::string_view kNotOfAutoParallel = "AutoParallel has no registered placements";

// The default price of R->P in v3-rp. The value is assumed: the thread of pytorch/pytorch#172282
// never fixed one, and any value above zero breaks the ties.
constexpr Micros kReplicateToPartial{0.001};

PricedTransition unpriced(const StepQuery& step) {
  return {.collective = collective_of(step.from, step.to),
          .full_bytes = step.bytes,
          .bytes_after = step.bytes};
}

// -- Registered placements ------------------------------------------------------------------------

constexpr std::string_view kNoSuchStep =
    "no single step makes this change of a registered placement; the way over R does";

bool is_of_registered(const StepQuery& step) {
  return step.from.is_registered() || step.to.is_registered();
}

// The shares of the whole that the fullest and the emptiest rank hold.
RegisteredPlacement::Shares shares_of(const Placement& p, std::int64_t ranks) {
  if (p.is_registered()) return p.registered().shares(ranks);
  const double share = p.is_shard() ? 1.0 / static_cast<double>(ranks) : 1.0;
  return {share, share};
}

// A step to or from a registered placement. registered_placement.h says which bytes are priced.
// `exchange_penalty` is what an all_to_all costs beside its bytes.
PricedTransition price_registered(const StepModels& models, const StepQuery& step,
                                  Micros exchange_penalty) {
  PricedTransition result = unpriced(step);
  if (!is_one_step(step.from, step.to)) {
    result.price = Price::make_impossible(kNoSuchStep);
    return result;
  }
  const RegisteredPlacement::Shares before = shares_of(step.from, step.group.ranks);
  const RegisteredPlacement::Shares after = shares_of(step.to, step.group.ranks);
  const Bytes whole = step.bytes / before.largest;
  result.bytes_after = whole * after.largest;
  result.full_bytes = std::max(step.bytes, result.bytes_after);
  if (result.collective == Collective::kLocal) return result;
  const bool exchanges = result.collective == Collective::kAllToAll;
  if (!exchanges) {
    const RegisteredPlacement::Shares& parts = step.from.is_registered() ? before : after;
    const auto n = static_cast<double>(step.group.ranks);
    const bool equal = parts.largest == parts.smallest || step.group.ranks == 1;
    result.full_bytes = equal ? whole : whole * (1.0 - parts.smallest) * n / (n - 1.0);
  }
  result.price = models.collectives.price({result.collective, result.full_bytes, step.group});
  if (exchanges) {
    result.price.total += exchange_penalty;
    result.price.latency += exchange_penalty;
  }
  return result;
}

// -- DTensor ------------------------------------------------------------------------------------
//
// Each version derives from the version that its pull request changed, and overrides only that
// change.

// DTensor's cost function as it was before the first of the pull requests. It loops over the mesh
// dims and ignores the shard order. R->S keeps the bytes, and P->P' costs nothing (and does
// nothing).
class V0 : public EdgeSemantics {
 public:
  using EdgeSemantics::EdgeSemantics;

  [[nodiscard]] PricedTransition price_step(const StepModels& models,
                                            const StepQuery& step) const override {
    if (is_of_registered(step)) return price_registered(models, step, all_to_all_penalty());
    const Placement& from = step.from;
    const Placement& to = step.to;
    const Bytes bytes = step.bytes;
    PricedTransition result = unpriced(step);
    if ((from.is_strided() || to.is_strided()) && !prices_strided_shards()) return result;
    const double n = static_cast<double>(step.group.ranks);
    const auto run = [&](Bytes full_bytes) {
      result.full_bytes = full_bytes;
      result.price = models.collectives.price({result.collective, full_bytes, step.group});
    };
    if (from.is_shard_like() && to.is_replicate()) {
      result.bytes_after = bytes * n;
      run(result.bytes_after);
    } else if (from.is_shard_like() && to.is_shard_like()) {
      run(bytes);
      const Micros penalty = all_to_all_penalty();
      result.price.total += penalty;
      result.price.latency += penalty;
    } else if (from.is_partial() && to.is_replicate()) {
      run(bytes);
    } else if (from.is_partial() && to.is_shard_like()) {
      run(bytes);
      result.bytes_after = bytes / n;
    } else if (from.is_shard_like() && to.is_partial()) {
      result.price = Price::make_impossible("a shard can't become a partial");
    } else if (from.is_partial() && to.is_partial()) {
      result.price = partial_to_other_partial();
    } else if (from.is_replicate() && to.is_shard_like()) {
      result.bytes_after = bytes_of_chunk(bytes, n);
    } else if (from.is_replicate() && to.is_partial()) {
      result.price = Price::of(replicate_to_partial().value_or(Micros()), Micros());
    }
    return result;
  }

  [[nodiscard]] std::optional<KnownPrice> known_price(const Placements& from,
                                                      const Placements& /*to*/,
                                                      bool hides_order) const override {
    if (replicated_source_is_free() && is_replicated(from)) return KnownPrice{};
    if (follows_plan() && !prices_strided_shards() && hides_order) {
      return KnownPrice{kInfinity, kUnknownOrder};
    }
    return std::nullopt;
  }

  [[nodiscard]] bool follows_plan() const override { return false; }

 protected:
  // The penalty on an all-to-all, whose price is otherwise that of an all-gather of the local
  // bytes.
  [[nodiscard]] virtual Micros all_to_all_penalty() const { return Micros(1.0); }
  [[nodiscard]] virtual Price partial_to_other_partial() const { return {}; }
  // The bytes that a rank is assumed to hold after R->S.
  [[nodiscard]] virtual Bytes bytes_of_chunk(Bytes bytes, double /*ranks*/) const { return bytes; }
};

// The cost follows the planner's steps.
class V1 : public V0 {
 public:
  using V0::V0;
  [[nodiscard]] bool follows_plan() const override { return true; }
};

// R->S divides the bytes.
class V2 : public V1 {
 public:
  using V1::V1;

 protected:
  [[nodiscard]] Bytes bytes_of_chunk(Bytes bytes, double ranks) const override {
    return bytes / ranks;
  }
};

// P->P' is impossible.
class V3 : public V2 {
 public:
  using V2::V2;

 protected:
  [[nodiscard]] Price partial_to_other_partial() const override {
    return Price::make_impossible("a partial can't become another partial");
  }
};

// A planner may turn a shard into a P(sum) that the target asks for: each rank puts its shard into
// a tensor of zeros. The cost function, which knows only communication, does not offer this to
// strategies.
class V3WithSumsOfShards final : public V3 {
 public:
  using V3::V3;
  [[nodiscard]] bool plans_sums_of_shards() const override { return true; }
};

// An all-to-all has no penalty.
class V4 : public V3 {
 public:
  using V3::V3;

 protected:
  [[nodiscard]] Micros all_to_all_penalty() const override { return Micros(0.0); }
};

// A version in which R->P has a price. A fully replicated source is then no longer free.
template <class Version>
class WithPartitionPrice : public Version {
 public:
  WithPartitionPrice(std::string_view name, Micros replicate_to_partial)
      : Version(name), replicate_to_partial_(replicate_to_partial) {}

  [[nodiscard]] std::optional<Micros> replicate_to_partial() const override {
    return replicate_to_partial_;
  }
  [[nodiscard]] bool replicated_source_is_free() const override { return false; }

 private:
  Micros replicate_to_partial_;
};

using V3WithPartitionPrice = WithPartitionPrice<V3>;

// Local kernels around a collective have a price too, and strided shards are priced like plain
// ones. Each kernel reads and writes the bytes that it moves:
//   S(d)->R, d != 0       interleave the gathered chunks: the gathered bytes
//   S(a)->S(b)            pack unless b == 0, unpack unless a == 0: the local bytes each
//   P->S(d), d != 0       pack the chunks before the scatter: the local bytes
//   R->S(d)               keep a chunk: the chunk
//   R->P(sum), R->NP      divide: the local bytes; avg, max and min keep the value
// Source: AutoParallel's redistribution cost (its pull requests 125, 159 and 213); the chunk and
// partition kernels are DTensor's own (placement_types.py). Status: derived.
class VCompute final : public WithPartitionPrice<V4> {
 public:
  using WithPartitionPrice::WithPartitionPrice;

  [[nodiscard]] PricedTransition price_step(const StepModels& models,
                                            const StepQuery& step) const override {
    PricedTransition result = V4::price_step(models, step);
    if (result.price.is_possible() && step.group.ranks > 1) {
      result.price += local_work(models, step);
    }
    return result;
  }
  [[nodiscard]] bool chunk_is_free() const override { return false; }
  [[nodiscard]] bool prices_strided_shards() const override { return true; }

 private:
  [[nodiscard]] static Price local_work(const StepModels& models, const StepQuery& step) {
    const Placement& from = step.from;
    const Placement& to = step.to;
    const Bytes bytes = step.bytes;
    const double ranks = static_cast<double>(step.group.ranks);
    if (is_of_registered(step)) return registered_work(models, step);
    const auto reshuffle = [&](Bytes moved) { return models.copy(moved, step.dtype, true); };
    if (from.is_shard_like() && to.is_replicate()) {
      return from.dim() != 0 ? reshuffle(bytes * ranks) : Price();
    }
    if (from.is_shard_like() && to.is_shard_like()) {
      Price price;
      if (from.dim() != 0) price += reshuffle(bytes);
      if (to.dim() != 0) price += reshuffle(bytes);
      return price;
    }
    if (from.is_partial() && to.is_shard_like()) return to.dim() != 0 ? reshuffle(bytes) : Price();
    if (from.is_replicate() && to.is_shard_like()) {
      return models.copy(bytes / ranks, step.dtype, to.dim() != 0);
    }
    if (from.is_replicate() && to.is_partial()) {
      const bool divides =
          to.kind() == Placement::Kind::kNormPartial ||
          (to.kind() == Placement::Kind::kPartial && to.reduce_op() == ReduceOp::kSum);
      return divides ? models.kernels.price({Kernel::kElementwise, 2 * bytes, 0.0, step.dtype})
                     : Price();
    }
    return {};
  }

  // The same kernels around a registered placement. Parts that lie next to each other from dim 0 on
  // need no reshuffle, as S(0) needs none; a cut copies what is kept.
  [[nodiscard]] static Price registered_work(const StepModels& models, const StepQuery& step) {
    const auto scatters = [](const Placement& p) {
      return p.dim() != 0 || (p.is_registered() && !p.registered().is_contiguous());
    };
    const auto reshuffle = [&](Bytes moved) { return models.copy(moved, step.dtype, true); };
    const Bytes whole = step.bytes / shares_of(step.from, step.group.ranks).largest;
    const Bytes after = whole * shares_of(step.to, step.group.ranks).largest;
    if (step.to.is_replicate()) return scatters(step.from) ? reshuffle(whole) : Price();
    if (step.from.is_replicate()) return models.copy(after, step.dtype, scatters(step.to));
    if (step.from.is_partial()) return scatters(step.to) ? reshuffle(step.bytes) : Price();
    Price price;
    if (scatters(step.from)) price += reshuffle(step.bytes);
    if (scatters(step.to)) price += reshuffle(after);
    return price;
  }
};

// -- AutoParallel -------------------------------------------------------------------------------

// AutoParallel prices an edge by a loop over the mesh dims in which reshuffle copies have a price.
// R->S, P->P' and every change of a strided shard are free and keep the bytes.
// Only a partial can't be made of another placement. Source: meta-pytorch/autoparallel at a54c252,
// redistribute_cost.
class AutoParallelEdge final : public EdgeSemantics {
 public:
  using EdgeSemantics::EdgeSemantics;

  [[nodiscard]] PricedTransition price_step(const StepModels& models,
                                            const StepQuery& step) const override {
    const Placement& from = step.from;
    const Placement& to = step.to;
    const Bytes bytes = step.bytes;
    const double n = static_cast<double>(step.group.ranks);
    PricedTransition result = unpriced(step);
    if (is_of_registered(step)) {
      result.price = Price::make_impossible(kNotOfAutoParallel);
      return result;
    }
    const auto run = [&](Bytes full_bytes) {
      result.full_bytes = full_bytes;
      result.price = models.collectives.price({result.collective, full_bytes, step.group});
    };
    const auto copy = [&](Bytes moved) { return models.copy(moved, step.dtype, true); };
    if (from.is_shard() && to.is_replicate()) {
      result.bytes_after = bytes * n;
      run(result.bytes_after);
      if (from.dim() != 0) result.price += copy(result.bytes_after);
    } else if (from.is_shard() && to.is_shard()) {
      run(bytes);
      if (from.dim() != 0) result.price += copy(bytes);
      if (to.dim() != 0) result.price += copy(bytes);
    } else if (from.is_partial() && to.is_replicate()) {
      run(bytes);
    } else if (from.is_partial() && to.is_shard()) {
      run(bytes);
      if (to.dim() != 0) result.price += copy(bytes);
      result.bytes_after = bytes / n;
    } else if (!from.is_partial() && to.is_partial()) {
      result.price =
          Price::make_impossible("AutoParallel cannot turn another placement into a partial");
    }
    return result;
  }

  [[nodiscard]] std::optional<KnownPrice> known_price(const Placements& from, const Placements& to,
                                                      bool /*hides_order*/) const override {
    if (has_registered(from) || has_registered(to)) {
      return KnownPrice{kInfinity, kNotOfAutoParallel};
    }
    if (!is_replicated(from)) return std::nullopt;
    if (has_partial(to)) return KnownPrice{kInfinity, kPartialOfReplicate};
    return KnownPrice{};
  }

  [[nodiscard]] bool follows_plan() const override { return false; }
  // If both dims of a 2-D mesh reduce and scatter, the inner dim goes first, so that fewer bytes
  // cross the outer dim.
  [[nodiscard]] MeshDimWalk mesh_dim_walk(const TensorMeta& meta, const Placements& from,
                                          const Placements& to) const override {
    return {.innermost_first = from.size() == 2 && from[0] == Placement::partial() &&
                               from[1] == Placement::partial() && to[0].is_shard() &&
                               to[1].is_shard(),
            .copies_first = !meta.is_contiguous()};
  }
};

// -- The table ----------------------------------------------------------------------------------

template <class Semantics>
std::shared_ptr<const EdgeSemantics> plain(std::string_view name, Micros) {
  return std::make_shared<Semantics>(name);
}
template <class Semantics>
std::shared_ptr<const EdgeSemantics> with_parameter(std::string_view name,
                                                    Micros replicate_to_partial) {
  return std::make_shared<Semantics>(name, replicate_to_partial);
}

constexpr std::array<EdgeSemanticsRow, 9> kTable = {{
    {.name = "v0",
     .summary = "a loop over mesh dims, blind to shard order; R->S keeps the bytes; P->P' is free",
     .source = "before pytorch/pytorch#166747, #169304",
     .replicate_to_partial = std::nullopt,
     .make_with = plain<V0>},
    {.name = "v1",
     .summary = "the cost follows the planner's steps",
     .source = "pytorch/pytorch#166747, #169304",
     .replicate_to_partial = std::nullopt,
     .make_with = plain<V1>},
    {.name = "v2",
     .summary = "R->S divides the bytes",
     .source = "pytorch/pytorch#170107, #170108",
     .replicate_to_partial = std::nullopt,
     .make_with = plain<V2>},
    {.name = "v3",
     .summary = "P->P' is impossible; this is PyTorch 2.13.0's cost function",
     .source = "pytorch/pytorch#172042",
     .replicate_to_partial = std::nullopt,
     .make_with = plain<V3>},
    {.name = "v4",
     .summary = "all-to-all without the penalty of 1 us",
     .source = "pytorch/pytorch#178175 (closed)",
     .replicate_to_partial = std::nullopt,
     .make_with = plain<V4>},
    {.name = "v3-rp",
     .summary = "v3, and R->P costs a little, from a replicated source too",
     .source = "pytorch/pytorch#172282 (closed); the value is assumed",
     .replicate_to_partial = kReplicateToPartial,
     .make_with = with_parameter<V3WithPartitionPrice>},
    {.name = "v3-sp",
     .summary = "v3, and S->P(sum) is planned where the target asks for it, at an infinite price; "
                "this is the cost function of PyTorch 2.14.1 and 2.15.0",
     .source = "PyTorch 2.14.1, _redistribute.py, _get_shard_to_partial_target_states",
     .replicate_to_partial = std::nullopt,
     .make_with = plain<V3WithSumsOfShards>},
    {.name = "v-compute",
     .summary = "v4, and local kernels and reshuffle copies have a price",
     .source = "pytorch/pytorch#173420 (closed); copies as in AutoParallel",
     .replicate_to_partial = Micros(0.0),
     .make_with = with_parameter<VCompute>},
    {.name = "autoparallel",
     .summary = "AutoParallel's edge: a loop over the ends' mesh dims with reshuffle copies",
     .source = "meta-pytorch/autoparallel a54c252, cost_models/collective_runtime_estimation.py",
     .replicate_to_partial = std::nullopt,
     .make_with = plain<AutoParallelEdge>},
}};

}  // namespace

Collective collective_of(const Placement& from, const Placement& to) {
  if (from == to) return Collective::kLocal;
  if (from.is_partial() && to.is_replicate()) return Collective::kAllReduce;
  if (from.is_partial() && to.cuts()) return Collective::kReduceScatter;
  if (from.cuts() && to.is_replicate()) return Collective::kAllGather;
  if (from.cuts() && to.cuts()) return Collective::kAllToAll;
  return Collective::kLocal;
}

std::span<const EdgeSemanticsRow> all_edge_semantics() { return kTable; }

const EdgeSemanticsRow* find_edge_semantics(std::string_view name) {
  const auto row = std::find_if(kTable.begin(), kTable.end(),
                                [&](const EdgeSemanticsRow& each) { return each.name == name; });
  return row == kTable.end() ? nullptr : &*row;
}

std::shared_ptr<const EdgeSemantics> edge_semantics(std::string_view name) {
  const EdgeSemanticsRow* row = find_edge_semantics(name);
  SHARDLAB_CHECK(row != nullptr, "no edge semantics ", name);
  return row->make();
}

}  // namespace shardlab
