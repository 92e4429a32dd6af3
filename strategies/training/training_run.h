// One training run: how a model is spread over the ranks, and how each rank runs it.
//
//   TrainingRun run{.shape = *find_model_shape("llama3-70b")};
//   run.spread = Spread::parse("fsdp=32,tp=8");
//   run.seq = 8192;
//   run.micro_batch = 16;
//
// The words are those of PyTorch, torchtitan and Megatron. Ranks are laid out with `tp` innermost,
// then `cp`, the data-parallel ranks, and `pp` outermost. Experts are spread over ranks that hold
// different tokens: `ep` divides dp * fsdp * cp * tp, as TP ranks have different parts of a
// sequence.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/base/enum_names.h"
#include "strategies/steps/recomputation.h"
#include "strategies/training/model_shape.h"

namespace shardlab {

// How many ranks each kind of parallelism has.
struct Spread {
  std::int64_t dp = 1;    // replicas of the parameters
  std::int64_t fsdp = 1;  // shards of the parameters; these ranks have different data
  std::int64_t tp = 1;    // tensor parallel, with sequence parallelism
  std::int64_t pp = 1;    // stages of the pipeline
  std::int64_t cp = 1;    // context parallel: parts of each sequence
  std::int64_t ep = 1;    // over how many ranks the experts are spread

  [[nodiscard]] std::int64_t ranks() const { return dp * fsdp * tp * pp * cp; }
  // Reads "dp=8,fsdp=16,tp=8,pp=1"; what is not named is 1. Throws TextError.
  [[nodiscard]] static Spread parse(std::string_view text);
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Spread&, const Spread&) = default;
};

// What data-parallel ranks share among them.
enum class Sharding : std::uint8_t {
  kNone,         // DDP: every rank has everything
  kOptimizer,    // the optimizer's state; ZeRO-1, Megatron's distributed optimizer
  kKeptWeights,  // weights are gathered once, before the forward pass; ZeRO-2, SHARD_GRAD_OP
  kFull,         // weights are gathered for each block and each pass; ZeRO-3, FULL_SHARD
};
template <>
struct EnumNames<Sharding> {
  static constexpr std::string_view kKind = "sharding";
  static constexpr std::array kNames = {
      Named{Sharding::kNone, "none"}, Named{Sharding::kOptimizer, "optimizer"},
      Named{Sharding::kKeptWeights, "kept-weights"}, Named{Sharding::kFull, "full"}};
};

// Who makes one kernel of several operators.
enum class Execution : std::uint8_t {
  kEager,     // nobody: each operator is a kernel, which the host launches
  kCompiled,  // torch.compile, by the rules of steps/fusion.h
  kLibrary,   // hand-written kernels for norms, activations and rotary embedding, as Megatron has
};
template <>
struct EnumNames<Execution> {
  static constexpr std::string_view kKind = "execution";
  static constexpr std::array kNames = {Named{Execution::kEager, "eager"},
                                        Named{Execution::kCompiled, "compiled"},
                                        Named{Execution::kLibrary, "library"}};
};

// The formats in which linear layers compute. Embedding, output projection and attention stay in
// bf16.
enum class Precision : std::uint8_t {
  kBF16,
  kFP8,           // one scale a tensor
  kFP8Rowwise,    // one scale a row
  kFP8Blockwise,  // one scale for each 128 elements, 128x128 for weights
  kMXFP8,         // one scale for each 32 elements
  kNVFP4,         // one scale for each 16 elements
};
template <>
struct EnumNames<Precision> {
  static constexpr std::string_view kKind = "precision";
  static constexpr std::array kNames = {Named{Precision::kBF16, "bf16"},
                                        Named{Precision::kFP8, "fp8-tensorwise"},
                                        Named{Precision::kFP8Rowwise, "fp8-rowwise"},
                                        Named{Precision::kFP8Blockwise, "fp8-blockwise"},
                                        Named{Precision::kMXFP8, "mxfp8"},
                                        Named{Precision::kNVFP4, "nvfp4"},
                                        Named{Precision::kFP8, "fp8"}};
};

enum class PipelineSchedule : std::uint8_t { kGPipe, k1F1B, kInterleaved, kZeroBubble };
template <>
struct EnumNames<PipelineSchedule> {
  static constexpr std::string_view kKind = "pipeline schedule";
  static constexpr std::array kNames = {Named{PipelineSchedule::kGPipe, "gpipe"},
                                        Named{PipelineSchedule::k1F1B, "1f1b"},
                                        Named{PipelineSchedule::kInterleaved, "interleaved"},
                                        Named{PipelineSchedule::kZeroBubble, "zero-bubble"}};
};

enum class Task : std::uint8_t { kPretrain, kLora };
template <>
struct EnumNames<Task> {
  static constexpr std::string_view kKind = "task";
  static constexpr std::array kNames = {Named{Task::kPretrain, "pretrain"},
                                        Named{Task::kLora, "lora"}};
};

struct TrainingRun {
  ModelShape shape;
  Spread spread;
  Sharding sharding = Sharding::kFull;
  std::int64_t seq = 4096;
  std::int64_t micro_batch = 1;  // sequences of each data-parallel rank in one forward pass
  std::int64_t grad_accum = 1;   // forward passes of each rank between two optimizer steps
  Precision precision = Precision::kBF16;
  Execution execution = Execution::kEager;
  // Nothing: what fits into the device's memory.
  std::optional<Recomputation> recompute = Recomputation{};
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  std::int64_t chunks = 1;        // stages that each rank of the pipeline holds
  bool async_tp = false;          // whether TP's collectives are cut up and run beside the matmuls
  bool overlap_tp = false;        // the same by Transformer Engine's user buffers
  bool overlap_gradients = true;  // whether gradients are reduced beside the backward pass
  bool gathers_fp8 = false;       // whether weights travel in 8 bits
  bool overlap_experts = false;   // whether the experts' exchanges run beside other micro-batches
  // Whether a token is sent once to each rank that has experts for it (DeepEP), not once for each
  // expert.
  bool sends_once = false;
  bool flash_attention = true;  // FlashAttention-2; false: cuDNN's, or FlashAttention-3
  std::int64_t loss_chunks =
      1;                      // parts of the tokens for which logits and loss are computed in turn
  bool compiled_loss = true;  // whether torch.compile sees the loss, where it sees the model
  bool fused_loss = false;    // whether one kernel computes the loss from bf16 logits
  bool graphs = false;        // CUDA graphs: the host launches nothing
  Task task = Task::kPretrain;
  // Whether FSDP reduces gradients with the last micro-batch alone, as under FSDP2's
  // set_requires_gradient_sync(False), which sums them up in the dtype in which they are reduced.
  bool no_sync = false;
  // Whether weights are copied out of what was gathered, and gradients into what is reduced, as
  // under fully_shard (FSDP2); flat parameters (FSDP1) and Megatron's buffers need no copies.
  bool copies_weights = true;
  // Bytes of a gradient element, as it is reduced and, where gradients are whole, as it is kept:
  // reduce_dtype of FSDP2's MixedPrecisionPolicy.
  double gradient_bytes = 4.0;
  double optimizer_bytes = 12.0;  // bytes kept for each parameter: weights and two moments in f32
  // Read and written by the optimizer's step for each parameter. A fused AdamW reads weight,
  // gradient and two moments and writes three of them, all in f32.
  double update_bytes = 28.0;
  double load_imbalance = 1.0;  // tokens of the busiest expert's rank over the mean

  [[nodiscard]] std::int64_t data_ranks() const { return spread.dp * spread.fsdp; }
  [[nodiscard]] bool shards_weights() const {
    return sharding == Sharding::kFull || sharding == Sharding::kKeptWeights;
  }
  // Whether each rank sums up its whole gradients over the micro-batches and reduces them once, and
  // not after each micro-batch. So do ranks that have whole weights, and pipelines.
  [[nodiscard]] bool reduces_once() const {
    return !shards_weights() || spread.pp > 1 || (no_sync && grad_accum > 1);
  }
  // Whether kernels of their own add the whole gradients of a micro-batch to those before, as
  // autograd does. In NVIDIA's libraries the products of the weights' gradients add them up.
  [[nodiscard]] bool adds_whole_gradients() const {
    return shards_weights() || execution != Execution::kLibrary;
  }
  [[nodiscard]] double tokens_per_step() const;  // the tokens of all ranks
};

// Over how many ranks weights and their gradients are sharded, and how many replicas of these
// shards there are. Without sharding all data-parallel ranks are one group, which reduces the
// gradients. The optimizer's state alone is sharded over fsdp, with dp replicas of each shard;
// where fsdp is 1, it is sharded over dp. ZeRO-1 shards it over all data-parallel ranks unless the
// user says how large its groups are (InternEvo's zero1.size), or how many of them there are
// (Megatron-LM's --num-distributed-optimizer-instances). Experts are already spread over `ep`
// of the ranks, which come out of the shards (fsdp * cp * tp) as long as these divide, and out of
// the replicas (dp) beyond that.
// Source: torchtitan b5bcd76, distributed/parallel_dims.py: dp_replicate stands outside of the mesh
// of efsdp and ep, and efsdp is dp_shard * cp * tp / ep. It has no ep that reaches into the
// replicas, for which the rule here is assumed.
struct DataGroups {
  std::int64_t shards = 1;
  std::int64_t replicas = 1;
  std::int64_t expert_shards = 1;
  std::int64_t expert_replicas = 1;
};
[[nodiscard]] DataGroups data_groups(const TrainingRun& run);

// Throws InputError for sizes that do not divide each other, with what is valid. Sequences are cut
// equally: into 2 * cp parts, of which each rank takes one from the front and one from the end, and
// over tp. Sources: PyTorch 2.13.0, the balancing of torch/distributed/tensor/experimental/
// _context_parallel/_load_balancer.py refuses other lengths for cp; Megatron-LM 00caa53,
// megatron/core/tensor_parallel/mappings.py, _split_along_first_dim() refuses them for tp;
// torchtitan b5bcd76, distributed/parallel_dims.py, has seq_len_divisor for both.
void expect_valid(const TrainingRun& run);

}  // namespace shardlab
