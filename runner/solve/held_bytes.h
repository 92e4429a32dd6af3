// How many bytes each node's output holds at one point of a training step, by the node's strategy.
//
//   const BytesByValue bytes = bytes_held_at(priced, planner.blocks(), step,
//                                            figures.memory.peak_task);
//   bytes[n][v]   // bytes; bytes[n] is empty if the node's output is not alive there
//
// Their sum over the nodes is a lower bound on what a plan takes there: what moves make on the way
// is not counted.
#pragma once

#include <vector>

#include "runner/solve/solution.h"
#include "strategies/steps/model_blocks.h"
#include "strategies/steps/training_step.h"

namespace shardlab {

using BytesByValue = std::vector<std::vector<double>>;  // by node, then by value

// The bytes that each value of a node holds at least while a task of the step runs, whatever the
// values of the other nodes are. Parameters, buffers and the optimizer's state are always held.
[[nodiscard]] BytesByValue bytes_held_at(const PricedProgram& priced, const ModelBlocks& blocks,
                                         const TrainingStep& step, int task);

}  // namespace shardlab
