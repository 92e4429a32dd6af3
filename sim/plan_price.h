// The price of a plan, step by step: the bytes that a step leaves on a rank are those that the next
// step starts from. Whatever prices more than one step does it here.
//
//   PlanPrice<Micros> price(meta.bytes() / shards, meta.dtype);
//   price.add_step(pricer, Placement::shard(0), Placement::replicate(), 1);   // along mesh dim 1
//   price.add_step(pricer, Placement::replicate(), Placement::shard(1), 1);
//   price.sum()
//
// A pricer is a TransitionPricer, or whatever has its price() and copy(): one that remembers what it
// has priced, say.
#pragma once

#include "sim/edge_semantics.h"
#include "sim/tensor_spec.h"

namespace shardlab {

// `Sum` is a Price, or Micros where the total is enough and its parts would only cost time.
template <class Sum>
class PlanPrice {
 public:
  // `local_bytes`: what a rank holds before the first step. `before`: what is already paid.
  PlanPrice(Bytes local_bytes, DType dtype, Sum before = {})
      : bytes_(local_bytes), dtype_(dtype), sum_(before) {}

  // `along`: a mesh dim, or the communicator of a step that is merged onto a flattened mesh. Returns
  // what the pricer says of the step.
  template <class Pricer, class Along>
  auto add_step(Pricer& pricer, const Placement& from, const Placement& to, const Along& along) {
    const auto step = pricer.price(from, to, along, bytes_, dtype_);
    add(sum_, step.price);
    bytes_ = step.bytes_after;
    return step;
  }
  // A strided copy of what a rank holds now.
  template <class Pricer>
  void add_copy(Pricer& pricer) {
    add(sum_, pricer.copy(bytes_, dtype_, true));
  }

  [[nodiscard]] const Sum& sum() const { return sum_; }
  [[nodiscard]] Bytes local_bytes() const { return bytes_; }  // that a rank holds now

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
