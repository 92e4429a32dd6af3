#include "sim/transition.h"

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// An assumption: the thread of #172282 never fixed a value; any above zero breaks the ties.
constexpr Micros kReplicateToPartial{0.001};

constexpr std::array<TransitionRules, 8> kRules = {{
    {.name = "v0",
     .summary = "loop over mesh dims, blind to shard order; R->S keeps the bytes; P->P' free",
     .source = "before pytorch/pytorch#166747, #169304",
     .follows_plan = false,
     .replicate_to_shard_divides_bytes = false,
     .partial_to_partial_impossible = false},
    {.name = "v1",
     .summary = "cost follows the planner's steps",
     .source = "pytorch/pytorch#166747, #169304",
     .replicate_to_shard_divides_bytes = false,
     .partial_to_partial_impossible = false},
    {.name = "v2",
     .summary = "R->S divides the bytes",
     .source = "pytorch/pytorch#170107, #170108",
     .partial_to_partial_impossible = false},
    {.name = "v3",
     .summary = "P->P' impossible; PyTorch 2.13.0's cost function",
     .source = "pytorch/pytorch#172042"},
    {.name = "v4",
     .summary = "all-to-all without the penalty of 1 us",
     .source = "pytorch/pytorch#178175 (closed)",
     .all_to_all_penalty = Micros(0.0)},
    {.name = "v3-rp",
     .summary = "v3, and R->P costs a little, from a replicated source too",
     .source = "pytorch/pytorch#172282 (closed); the value is assumed",
     .replicate_to_partial = kReplicateToPartial,
     .replicated_source_is_free = false},
    {.name = "v-compute",
     .summary = "v4, and local kernels and reshuffle copies have a price",
     .source = "pytorch/pytorch#173420 (closed); copies as in AutoParallel",
     .all_to_all_penalty = Micros(0.0),
     .replicated_source_is_free = false,
     .prices_local_work = true,
     .prices_strided = true},
    {.name = "autoparallel",
     .summary = "AutoParallel's edge: a loop over the ends' mesh dims with reshuffle copies",
     .source = "meta-pytorch/autoparallel a54c252, cost_models/collective_runtime_estimation.py",
     .follows_plan = false,
     .replicate_to_shard_divides_bytes = false,
     .partial_to_partial_impossible = false,
     .autoparallel = true},
}};

}  // namespace

std::span<const TransitionRules> all_transition_rules() { return kRules; }

Collective collective_of(const Placement& from, const Placement& to) {
  if (from == to) return Collective::kLocal;
  if (from.is_partial() && to.is_replicate()) return Collective::kAllReduce;
  if (from.is_partial() && to.is_shard_like()) return Collective::kReduceScatter;
  if (from.is_shard_like() && to.is_replicate()) return Collective::kAllGather;
  if (from.is_shard_like() && to.is_shard_like()) return Collective::kAllToAll;
  return Collective::kLocal;
}

TransitionPricer::TransitionPricer(const DeviceMesh& mesh, const Topology& topology,
                                   const TransitionRules& rules, const CostModel& collectives,
                                   const ComputeModel& kernels)
    : rules_(rules), collectives_(collectives), kernels_(kernels), mesh_ndim_(mesh.ndim()) {
  for (int i = 0; i < mesh_ndim_; ++i) {
    spans_[to_index(i)] = mesh.span(i, topology);
  }
}

PricedTransition TransitionPricer::price(const Placement& from, const Placement& to,
                                         const GroupSpan& group, Bytes bytes, DType dtype) const {
  PricedTransition result{.bytes_after = bytes};
  if (from == to) return result;
  result.collective = collective_of(from, to);
  result.full_bytes = bytes;
  if (rules_.autoparallel) return autoparallel_price(from, to, group, bytes, dtype);
  if (!rules_.prices_strided && (from.is_strided() || to.is_strided())) return result;

  const double n = static_cast<double>(group.ranks);
  if (from.is_shard_like() && to.is_replicate()) {
    result.bytes_after = bytes * n;
    result.full_bytes = result.bytes_after;
    result.price = collectives_.price({Collective::kAllGather, result.full_bytes, group});
  } else if (from.is_shard_like() && to.is_shard_like()) {
    result.price = collectives_.price({Collective::kAllToAll, bytes, group});
    result.price.total += rules_.all_to_all_penalty;
    result.price.latency += rules_.all_to_all_penalty;
  } else if (from.is_partial() && to.is_replicate()) {
    result.price = collectives_.price({Collective::kAllReduce, bytes, group});
  } else if (from.is_partial() && to.is_shard_like()) {
    result.price = collectives_.price({Collective::kReduceScatter, bytes, group});
    result.bytes_after = bytes / n;
  } else if (from.is_shard_like() && to.is_partial()) {
    result.price = Price::make_impossible("a shard can't become a partial");
  } else if (from.is_partial() && to.is_partial()) {
    if (rules_.partial_to_partial_impossible) {
      result.price = Price::make_impossible("a partial can't become another partial");
    }
  } else if (from.is_replicate() && to.is_shard_like()) {
    if (rules_.replicate_to_shard_divides_bytes) result.bytes_after = bytes / n;
  } else if (from.is_replicate() && to.is_partial()) {
    result.price = Price::of(rules_.replicate_to_partial, Micros());
  }
  if (rules_.prices_local_work && result.price.is_possible() && group.ranks > 1) {
    result.price += local_work(from, to, n, bytes, dtype);
  }
  return result;
}

// One mesh dim of AutoParallel's edge. R->S and P->P' are free and keep the bytes, and so is whatever
// touches a strided shard; only a partial can't be made of another placement. Source:
// meta-pytorch/autoparallel at a54c252, redistribute_cost, restated in autoparallel.md 3.2.
PricedTransition TransitionPricer::autoparallel_price(const Placement& from, const Placement& to,
                                                      const GroupSpan& group, Bytes bytes,
                                                      DType dtype) const {
  const double n = static_cast<double>(group.ranks);
  PricedTransition result{
      .collective = collective_of(from, to), .full_bytes = bytes, .bytes_after = bytes};
  const auto run = [&](Bytes full_bytes) {
    result.full_bytes = full_bytes;
    result.price = collectives_.price({result.collective, full_bytes, group});
  };
  if (from.is_shard() && to.is_replicate()) {
    result.bytes_after = bytes * n;
    run(result.bytes_after);
    if (from.dim() != 0) result.price += copy(result.bytes_after, dtype, true);
  } else if (from.is_shard() && to.is_shard()) {
    run(bytes);
    if (from.dim() != 0) result.price += copy(bytes, dtype, true);
    if (to.dim() != 0) result.price += copy(bytes, dtype, true);
  } else if (from.is_partial() && to.is_replicate()) {
    run(bytes);
  } else if (from.is_partial() && to.is_shard()) {
    run(bytes);
    if (to.dim() != 0) result.price += copy(bytes, dtype, true);
    result.bytes_after = bytes / n;
  } else if (!from.is_partial() && to.is_partial()) {
    result.price = Price::make_impossible("AutoParallel makes no partial of another placement");
  }
  return result;
}

// Local kernels around a collective, each reading and writing the bytes that it moves:
//   S(d)->R, d != 0       interleave the gathered chunks: the gathered bytes
//   S(a)->S(b)            pack unless b == 0, unpack unless a == 0: the local bytes each
//   P->S(d), d != 0       pack the chunks before the scatter: the local bytes
//   R->S(d)               keep a chunk: the chunk
//   R->P(sum), R->NP      divide: the local bytes; avg, max, min keep the value
// Source: AutoParallel's redistribution cost (pull requests 125, 159, 213), restated in
// dtensor-semantics 6.6; the chunk and partition kernels are DTensor's own (placement_types.py).
// Status: derived.
Price TransitionPricer::local_work(const Placement& from, const Placement& to, double ranks,
                                   Bytes bytes, DType dtype) const {
  const auto reshuffle = [&](Bytes moved) { return copy(moved, dtype, true); };
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
  if (from.is_replicate() && to.is_shard_like()) return copy(bytes / ranks, dtype, to.dim() != 0);
  if (from.is_replicate() && to.is_partial()) {
    const bool divides =
        to.kind() == Placement::Kind::kNormPartial ||
        (to.kind() == Placement::Kind::kPartial && to.reduce_op() == ReduceOp::kSum);
    return divides ? kernels_.price({Kernel::kElementwise, 2 * bytes, 0.0, dtype}) : Price();
  }
  return {};
}

}  // namespace shardlab
