// What the blocks of a model run on one rank: attention, feed-forward layers, experts, state-space
// layers, the embedding, and the output with the loss.
//
//   const BlockWork block = block_work(run, {BlockKind::kDense});
//   const BlockWork first = embedding_work(run);
//   const BlockWork last = output_work(run);
//
// Tensor parallelism is Megatron's with sequence parallelism: the sequence is gathered before the
// projections of attention and of the feed-forward layer, and the results are reduced and scattered
// after them. Context parallelism gives each rank its part of each sequence; keys and values travel
// in a ring beside the attention. Experts exchange tokens before and after their products. Sources:
// Korthikanti et al. 2022; Liu et al. 2023 (ring attention); Lepikhin et al. 2020 (GShard).
#pragma once

#include "strategies/training/block_work.h"

namespace shardlab {

[[nodiscard]] BlockWork block_work(const TrainingRun& run, const BlockPlace& place);
[[nodiscard]] BlockWork embedding_work(const TrainingRun& run);
[[nodiscard]] BlockWork output_work(const TrainingRun& run);

}  // namespace shardlab
