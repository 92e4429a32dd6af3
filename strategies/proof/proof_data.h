// Made-up values for proofs: the values of a whole tensor, and what each rank holds of it in one
// placement.
//
//   Doubles whole = draw_values(meta, sample.values[0], seed);
//   ignore_some_targets(sample.call, 0, whole);           // does nothing unless 0 holds targets
//   DistributedValues parts = distribute(memory, meta, whole, few, p, mesh, seed);
//   parts.locals[rank]
//
// Values and contributions are small multiples of 1/4, so that sums, averages and products of them
// are exact. The same seed gives the same values.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/host_tensor.h"
#include "sim/mesh.h"
#include "sim/tensor_spec.h"
#include "strategies/proof/op_sample.h"

namespace shardlab {

using Doubles = std::vector<double>;

// The values of one tensor of a sample call, row-major.
[[nodiscard]] Doubles draw_values(const TensorMeta& meta, const SampleCall::Values& values,
                                  std::uint64_t seed);

// Where `values` are the targets of a loss that ignores one of them (the argument ignore_index of
// its schema), and none of them is that one, lets some of them be it, but not all. They are such
// ones that shards along any dim hold different numbers of them, so that an average of the shards'
// means is not the mean. `tensor` is the index of the values' tensor in call.tensors().
void ignore_some_targets(const OpCall& call, std::size_t tensor, Doubles& values);

// Whether proofs make up contributions of this reduction to tensors of the dtype. Truth values have
// only maxima and minima, since a sum of them is their disjunction.
[[nodiscard]] bool has_contributions(ReduceOp op, DType dtype);

struct DistributedValues {
  std::vector<HostTensor> locals;  // by rank
  std::vector<RowLists> rows;      // by rank: which rows of the whole it holds
};
// With `few` the values are -1, 0 and 1, and contributions are small too, so that many of them are
// equal. With a mask partial every rank holds all values, and the kernel masks those that belong to
// other ranks' rows.
[[nodiscard]] DistributedValues distribute(HostMemory& memory, const TensorMeta& meta,
                                           const Doubles& values, bool few, const Placement& p,
                                           const DeviceMesh& mesh, std::uint64_t seed);

}  // namespace shardlab
