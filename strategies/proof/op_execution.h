// Runs one op on virtual ranks: its local kernel on every rank's shards, and the same kernel on the
// whole tensors as the judge.
//
//   const std::vector outputs = {Layout::parse("P(sum)", 1)};
//   OpExecution done = execute_op(executor, call, inputs, outputs);
//   done.outputs[0], done.verified, done.mismatch
//
// The layouts are taken as given: the execution shows whether an op may be run in them. The judge
// assembles the inputs from their shards in double precision, so it judges the op and not how its
// inputs came about.
//
// An output is right when each element is at most (n + 1) u M from the judge's: n is the number of
// contributions to the element, u the dtype's unit roundoff, and M the sum of the contributions'
// magnitudes or, for a product, their product. A kernel rounds each contribution once, and the
// comparison rounds the judge's value, which is the last u. Integers must be equal.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/executor.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {

// What the local kernels return for the ranks' shards.
struct RankResults {
  std::vector<LocalResult> by_rank;  // by index into the mesh
  std::string failure;               // why a rank's kernel failed; the ranks after it were not run
};
// `output_shapes` are those of the whole outputs. Ranks that hold the same rows of all inputs share
// one run of the kernel. Throws LimitError.
[[nodiscard]] RankResults run_on_ranks(const Executor& executor, const OpCall& call,
                                       std::span<const DistributedTensor> inputs,
                                       std::span<const Shape> output_shapes,
                                       std::span<const Layout> outputs);
// Makes one distributed tensor of what the ranks return as output `o`. `global` is the value that
// it should have as a whole. Throws InputError if only some ranks have a mask.
[[nodiscard]] DistributedTensor output_of(const OpCall& call, const RankResults& results,
                                          std::size_t o, const Layout& layout, HostTensor global);

struct OpExecution {
  // The outputs in their layouts, with the judge's values as the global ones. Empty when a rank's
  // kernel failed, or when its result has another shape than the layout asks for.
  std::vector<DistributedTensor> outputs;
  bool verified = false;
  double max_abs_error = 0.0;
  // What failed, or the first wrong element: output, rank, element, found and expected.
  std::string mismatch;
};

// `inputs` are the op's tensors in order, lists flattened. Throws InputError for an op without
// kernel, for inputs that the op can't take as whole tensors and for an output layout that its
// result can't have. Throws LimitError.
[[nodiscard]] OpExecution execute_op(const Executor& executor, const OpCall& call,
                                     std::span<const DistributedTensor> inputs,
                                     std::span<const Layout> outputs);

}  // namespace shardlab
