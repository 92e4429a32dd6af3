// Recomputation: which forward nodes run a second time in the backward pass, so that their results
// need not be kept until then (activation checkpointing).
//
//   const Recomputation policy = Recomputation::parse("every:2");
//   const std::vector<bool> again = recomputed_nodes(program, blocks, policy);   // by node
//
//   none        everything that the backward pass reads is kept
//   full        of each block, only what other blocks read is kept
//   every:N     the same, for every N-th block, beginning with the first
//   selective   of each block, the results of attention and of every second matrix product are kept
//               as well, even those that the backward pass does not read: the cache of saved
//               results holds them until the block runs again. Source: torchtitan 9dec370, its
//               selective activation checkpointing by operator; PyTorch 2.13.0,
//               torch/utils/checkpoint.py.
//   full:N, selective:N   the same, for the first N blocks
//
// A node runs again only if the backward pass needs its result, so what a block computes last never
// does. Which nodes run again does not depend on their layouts: their kernels and the moves of what
// they read count twice in the objective, which is still proved.
//
// Weights (what is computed from parameters alone, gathered parameters among it) are dropped after
// the forward pass and made again in the backward pass, if asked for. The unit that the forward
// pass uses last keeps them, as the backward pass begins with it. Source: PyTorch 2.13.0,
// torch.distributed.fsdp.fully_shard (reshard_after_forward).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "strategies/programs/program.h"
#include "strategies/steps/model_blocks.h"

namespace shardlab {

struct Recomputation {
  enum class Kind : std::uint8_t { kNone, kFull, kSelective, kEvery };
  Kind kind = Kind::kNone;
  int every = 1;          // kEvery
  int first_blocks = -1;  // how many blocks it is for, from the first one on; -1: all
  bool reshards_weights = false;

  // Reads the text of --recompute. Throws TextError.
  [[nodiscard]] static Recomputation parse(std::string_view text);
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Recomputation&, const Recomputation&) = default;
};

[[nodiscard]] std::vector<bool> recomputed_nodes(const Program& program, const ModelBlocks& blocks,
                                                 const Recomputation& policy);

// How often each node runs in a step under this policy, for ProblemOptions.
[[nodiscard]] std::vector<int> runs_under(const Program& program, const ModelBlocks& blocks,
                                          const Recomputation& policy);

// The nodes whose results the policy holds until their block runs again, by node.
[[nodiscard]] std::vector<bool> held_nodes(const Program& program, const ModelBlocks& blocks,
                                           const Recomputation& policy);

}  // namespace shardlab
