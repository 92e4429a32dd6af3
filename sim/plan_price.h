// Adds up the price of a plan, step by step. The bytes that a step leaves on a rank are those from
// which the next step starts. Everything that prices more than one step uses this.
//
//   PlanPrice<Micros> price(meta.bytes() / shards, meta.dtype);
//   price.add_step(pricer, Placement::shard(0), Placement::replicate(), 1);   // along mesh dim 1
//   price.add_step(pricer, Placement::replicate(), Placement::shard(1), 1);
//   price.sum()
//
// A pricer is a TransitionPricer or any class with its price() and copy(), for instance one that
// remembers prices.
#pragma once

#include "sim/edge_semantics.h"
#include "sim/tensor_spec.h"

namespace shardlab {

// `Sum` is Price, or Micros where only the total is needed: adding up its parts would take time.
template <class Sum>
class PlanPrice {
 public:
  // `local_bytes` is what a rank holds before the first step, and `before` the price of earlier
  // steps.
  PlanPrice(Bytes local_bytes, DType dtype, Sum before = {})
      : bytes_(local_bytes), dtype_(dtype), sum_(before) {}

  // Prices one more step along a mesh dim, or along the communicator of several merged mesh dims.
  // Returns what the pricer says about it.
  template <class Pricer, class Along>
  auto add_step(Pricer& pricer, const Placement& from, const Placement& to, const Along& along) {
    const auto step = pricer.price(from, to, along, bytes_, dtype_);
    add(sum_, step.price);
    bytes_ = step.bytes_after;
    return step;
  }
  // Adds the price of a strided copy of what a rank holds now.
  template <class Pricer>
  void add_copy(Pricer& pricer) {
    add(sum_, pricer.copy(bytes_, dtype_, true));
  }

  [[nodiscard]] const Sum& sum() const { return sum_; }
  [[nodiscard]] Bytes local_bytes() const { return bytes_; }  // held by a rank now

 private:
  static void add(Price& sum, const Price& price) { sum += price; }
  static void add(Micros& sum, const Price& price) { sum += price.total; }
  static void add(Micros& sum, Micros price) { sum += price; }

  Bytes bytes_;
  DType dtype_;
  Sum sum_;
};

// The price of an edge under semantics that ignore the plan: one step for each mesh dim whose
// placement changes. Assumes !semantics.follows_plan().
template <class Sum, class Pricer>
[[nodiscard]] Sum price_without_plan(const EdgeSemantics& semantics, Pricer& pricer,
                                     const TensorMeta& meta, Bytes local_bytes,
                                     const Placements& from, const Placements& to) {
  PlanPrice<Sum> price(local_bytes, meta.dtype);
  const MeshDimWalk walk = semantics.mesh_dim_walk(meta, from, to);
  bool copied = !walk.copies_first;
  const std::size_t ndim = from.size();
  for (std::size_t turn = 0; turn < ndim; ++turn) {
    const std::size_t m = walk.innermost_first ? ndim - 1 - turn : turn;
    if (from[m] == to[m]) continue;
    if (!copied) price.add_copy(pricer);
    copied = true;
    price.add_step(pricer, from[m], to[m], static_cast<int>(m));
  }
  return price.sum();
}

}  // namespace shardlab
