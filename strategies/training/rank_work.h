// What a block runs on one rank as kernels and collectives: which operators are one kernel, and
// what runs again in the backward pass.
//
//   const Keeping keeping = keeping_of(policy, index, blocks);   // of the block at this index
//   const RankBlock block = rank_block(run, block_work(run, place), keeping);
//   for (const RankPiece& piece : block.forward) ...   // kernels, or a collective
//   block.kept_bytes                                   // what the backward pass needs
//
// What is kept. Without recomputation, every tensor of the forward pass that the backward pass
// reads. Under torch.compile, results of pointwise operators and of norms are computed again
// instead, which its partitioner does to save memory traffic; the rest is kept. With full
// recomputation only the block's input is kept; with selective recomputation also the results of
// attention and of every second product. Hand-written kernels keep a rank's own part of what tensor
// parallelism gathers (block_work.h). What a backward operator needs and is not kept runs again,
// and so does what that needs. Sources: PyTorch 2.13.0, torch/_functorch/partitioners.py (min-cut
// recomputation) and torch/utils/checkpoint.py; torchtitan 9dec370, its selective activation
// checkpointing by operator.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "costmodel/compute_model.h"
#include "strategies/steps/recomputation.h"
#include "strategies/training/block_work.h"

namespace shardlab {

enum class KernelClass : std::uint8_t { kGemm, kLowGemm, kAttention, kOther };
inline constexpr std::size_t kKernelClasses = 4;

struct RankKernel {
  KernelQuery query;
  KernelClass kind = KernelClass::kOther;
  std::string_view name;
};

struct RankCollective {
  Collective kind = Collective::kLocal;
  WorkGroup group = WorkGroup::kNone;
  double full_bytes = 0.0;
  bool beside = false;
  // Whether what runs beside it comes after it (a gather, then products) or before it.
  bool leads = false;
  bool early = false;  // whether kernels run beside it up to the piece that waits for it
};

// Kernels that run one after the other, or a collective.
struct RankPiece {
  std::vector<RankKernel> kernels;
  std::optional<RankCollective> collective;
  bool waits = false;  // whether the kernels wait for the early collective before them
};

struct RankBlock {
  std::vector<RankPiece> forward;
  std::vector<RankPiece> backward;  // includes the forward kernels that recomputation repeats
  double kept_bytes = 0.0;  // what a micro-batch keeps from its forward to its backward pass
  double gradient_operand_bytes = 0.0;  // what the products of the weights' gradients read
  double input_bytes = 0.0;             // the size of the tensor that the block reads
  double output_bytes = 0.0;
  double working_bytes = 0.0;  // the most that the backward pass holds at once besides kept_bytes
  double weight_elements = 0.0;
  double expert_weight_elements = 0.0;
  double trained_elements = 0.0;
};

// What a block keeps, resolved for one block: `every:N` is full for some blocks and none for
// others.
enum class Keeping : std::uint8_t { kAll, kInput, kSelected };
[[nodiscard]] Keeping keeping_of(const Recomputation& policy, std::int64_t block,
                                 std::int64_t blocks);

[[nodiscard]] RankBlock rank_block(const TrainingRun& run, const BlockWork& work, Keeping keeping);

}  // namespace shardlab
