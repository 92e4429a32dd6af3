// Runs one op on virtual ranks: its local kernel on every rank's shards, and the same kernel on the
// whole tensors as the judge.
//
//   OpExecution done = execute_op(executor, call, inputs, {Layout::parse("P(sum)", 1)});
//   done.outputs[0], done.verified, done.mismatch
//
// The layouts are taken as given: whether an op may be run in them is what the execution shows. The
// judge assembles the inputs from their shards (in double precision), so it judges the op and not
// how its inputs came there.
//
// An output is right when each element is at most (n + 1) u M from the judge's: n contributions to
// it, u the dtype's unit roundoff, M the sum of their magnitudes (of a product: the product).
// A kernel rounds each contribution once; the judge's value, as the comparison rounds it, has the
// last u. Integers must be equal.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/executor.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {

// What the local kernels make of the ranks' shards.
struct RankResults {
  std::vector<LocalResult> by_rank;  // by index into the mesh
  std::string failure;               // of the first rank whose kernel has no result, which ends it
};
// `output_shapes`: of the whole outputs. Ranks with the same bytes at the same places compute once.
// Throws LimitError.
[[nodiscard]] RankResults run_on_ranks(const Executor& executor, const OpCall& call,
                                       std::span<const DistributedTensor> inputs,
                                       std::span<const Shape> output_shapes,
                                       std::span<const Layout> outputs);
// Makes a tensor of output `o` of what the ranks hold. `global`: what it ought to stand for. Throws
// InputError: only some ranks have a mask.
[[nodiscard]] DistributedTensor output_of(const OpCall& call, const RankResults& results,
                                          std::size_t o, const Layout& layout, HostTensor global);

struct OpExecution {
  // In their layouts, with the judge's values as global. Empty when a rank's
  // kernel failed or its result has a shape that the layout does not give it.
  std::vector<DistributedTensor> outputs;
  bool verified = false;
  double max_abs_error = 0.0;
  std::string mismatch;  // the first one: output, rank, element, found, expected; or what failed
};

// `inputs`: the op's tensors in order, lists flattened. Throws InputError: no kernel for the op,
// inputs that it can't take as a whole, an output layout that its result can't have; LimitError.
[[nodiscard]] OpExecution execute_op(const Executor& executor, const OpCall& call,
                                     std::span<const DistributedTensor> inputs,
                                     std::span<const Layout> outputs);

}  // namespace shardlab
