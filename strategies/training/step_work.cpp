#include "strategies/training/step_work.h"

#include <algorithm>
#include <utility>

#include "costmodel/base/index.h"
#include "strategies/training/model_work.h"
#include "strategies/training/pipeline.h"

namespace shardlab {
namespace {

std::vector<RankPiece> repeated(const std::vector<RankPiece>& pieces, std::int64_t times) {
  std::vector<RankPiece> result;
  for (std::int64_t i = 0; i < times; ++i) {
    result.insert(result.end(), pieces.begin(), pieces.end());
  }
  return result;
}

// The stage of block `i`. Stages share blocks equally where they can, as Megatron-LM does by
// default. Elsewhere the embedding and the output count as one block each, as with Megatron-LM's
// --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split. Where stages
// cannot share those equally either, which Megatron-LM refuses, the first ones take one more, as in
// torchtitan's generate_llm_fqn_per_model_part (which counts so for every number of blocks).
std::int64_t stage_of(std::int64_t i, std::int64_t blocks, std::int64_t stages) {
  if (blocks % stages == 0) return i / (blocks / stages);
  const std::int64_t parts = blocks + 2;
  const std::int64_t each = parts / stages;
  const std::int64_t longer = parts % stages;
  const std::int64_t part = i + 1;
  if (part < longer * (each + 1)) return part / (each + 1);
  return longer + (part - longer * (each + 1)) / each;
}

}  // namespace

StepWork::StepWork(const TrainingRun& run, double device_bytes) : run_(run) {
  expect_valid(run);
  if (run.recompute) {
    make(*run.recompute);
    return;
  }
  using Kind = Recomputation::Kind;
  for (const Kind kind : {Kind::kNone, Kind::kSelective, Kind::kFull}) {
    make({.kind = kind});
    if (memory_.peak_bytes <= device_bytes) return;
  }
}

void StepWork::make(const Recomputation& policy) {
  recompute_ = policy;
  blocks_.clear();
  stages_.assign(to_index(run_.spread.pp * run_.chunks), {});
  std::vector<std::pair<BlockPlace, Keeping>> made;
  std::vector<BlockPlace> places = blocks_of(run_.shape);
  for (std::int64_t i = 0; i < run_.shape.predicted_tokens; ++i) places.push_back(places.back());
  const auto stage_count = static_cast<std::int64_t>(stages_.size());
  const auto block_count = static_cast<std::int64_t>(places.size());

  blocks_.push_back(rank_block(run_, embedding_work(run_), Keeping::kAll));
  stages_.front().push_back({0, false});
  made.push_back({});
  for (std::int64_t i = 0; i < block_count; ++i) {
    const Keeping keeping = keeping_of(policy, i, block_count);
    std::size_t found = 0;
    for (std::size_t k = 1; k < made.size(); ++k) {
      if (made[k] == std::pair(places[to_index(i)], keeping)) found = k;
    }
    if (found == 0) {
      found = blocks_.size();
      blocks_.push_back(rank_block(run_, block_work(run_, places[to_index(i)]), keeping));
      made.emplace_back(places[to_index(i)], keeping);
    }
    stages_[to_index(stage_of(i, block_count, stage_count))].push_back({found, true});
  }
  stages_.back().push_back({blocks_.size(), false});
  // A loss that is not compiled runs in eager mode, and with it what computes the logits.
  TrainingRun output = run_;
  if (!output.compiled_loss && output.execution == Execution::kCompiled) {
    output.execution = Execution::kEager;
  }
  // In chunks, logits and their gradients are there for one part of the tokens at a time.
  output.seq /= run_.loss_chunks;
  RankBlock last = rank_block(output, output_work(output), Keeping::kAll);
  if (run_.loss_chunks > 1) {
    last.forward = repeated(last.forward, run_.loss_chunks);
    last.backward = repeated(last.backward, run_.loss_chunks);
    last.input_bytes *= to_real(run_.loss_chunks);
    last.gradient_operand_bytes *= to_real(run_.loss_chunks);
    last.kept_bytes += last.input_bytes;
  }
  blocks_.push_back(std::move(last));
  memory_ = memory_of();
}

TrainingMemory StepWork::memory_of() const {
  const Spread& spread = run_.spread;
  const bool full = run_.shards_weights();
  const DataGroups groups = run_.sharding == Sharding::kNone ? DataGroups() : data_groups(run_);
  const double shards = to_real(groups.shards);
  const double expert_shards = to_real(groups.expert_shards);
  TrainingMemory most;
  for (std::int64_t rank = 0; rank < spread.pp; ++rank) {
    TrainingMemory memory;
    double largest_unit = 0.0;
    double kept = 0.0;
    double kept_once = 0.0;
    double operands = 0.0;
    double working = 0.0;
    double elements = 0.0;
    for (std::int64_t chunk = 0; chunk < run_.chunks; ++chunk) {
      for (const Unit& unit : stages_[to_index(chunk * spread.pp + rank)]) {
        const RankBlock& block = blocks_[unit.block];
        const double all = block.weight_elements + block.expert_weight_elements;
        const double sharded =
            block.weight_elements / shards + block.expert_weight_elements / expert_shards;
        memory.parameters += full ? 4.0 * sharded : 2.0 * all;
        const bool trains = block.trained_elements > 0;
        if (trains) {
          memory.gradients += run_.reduces_once() ? run_.gradient_bytes * all : 4.0 * sharded;
          memory.optimizer += (full ? 8.0 : run_.optimizer_bytes) * sharded;
        }
        elements += all;
        largest_unit = std::max(largest_unit, all);
        operands += block.gradient_operand_bytes;
        // The output's backward pass follows its forward pass at once, except in GPipe.
        const bool is_output = unit.block + 1 == blocks_.size();
        (is_output && run_.schedule != PipelineSchedule::kGPipe ? kept_once : kept) +=
            block.kept_bytes;
        working = std::max(working, block.working_bytes);
      }
    }
    const Pipeline pipeline{.schedule = run_.schedule,
                            .ranks = spread.pp,
                            .chunks = run_.chunks,
                            .micro_batches = run_.grad_accum,
                            .stages = {}};
    const double held =
        spread.pp > 1 ? micro_batches_held(pipeline, rank) / to_real(run_.chunks) : 1.0;
    const double waiting = spread.pp > 1 ? micro_batches_without_gradients(pipeline, rank) : 0.0;
    memory.activations = kept * held + kept_once + operands * waiting;
    // Stages of a pipeline keep gathered weights (step_prediction.h).
    if (run_.sharding == Sharding::kKeptWeights || (full && spread.pp > 1)) {
      memory.gathered = 2.0 * elements;
    } else if (full) {
      memory.gathered = 2.0 * 2.0 * largest_unit;
    }
    if (full) memory.gathered += run_.gradient_bytes * largest_unit;
    memory.temporary = working;
    // Without accumulation, the backward pass allocates gradients as it frees activations, so the
    // two are never held at their full size together.
    if (full && run_.grad_accum == 1) {
      memory.gradients = std::max(0.0, memory.gradients - memory.activations);
    }
    memory.peak_bytes = memory.parameters + memory.gradients + memory.optimizer +
                        memory.activations + memory.gathered + memory.temporary;
    if (memory.peak_bytes > most.peak_bytes) most = memory;
  }
  return most;
}

}  // namespace shardlab
