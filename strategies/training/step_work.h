// What each rank computes, sends and keeps in a training step: the part of a prediction that does
// not depend on prices.
//
//   const StepWork work(run, 80.0 * kBytesPerGiB);
//   for (const StepWork::Unit& unit : work.stages().front()) work.blocks()[unit.block]
//   work.memory().peak_bytes
//
// A stage of the pipeline is a list of units: the embedding, blocks, and the output with its loss.
// Blocks of the same kind that keep the same tensors are one RankBlock (rank_work.h), made once.
#pragma once

#include <vector>

#include "strategies/training/rank_work.h"
#include "strategies/training/training_run.h"

namespace shardlab {

// Bytes on the rank that needs most of them. Their sum is `peak_bytes`.
struct TrainingMemory {
  double peak_bytes = 0.0;
  double parameters = 0.0;
  double gradients = 0.0;
  double optimizer = 0.0;
  double activations = 0.0;
  double gathered = 0.0;
  double temporary = 0.0;
};

// The work of one run, for all stages. Making it takes longer than pricing it.
class StepWork {
 public:
  // Throws InputError for sizes that do not fit. With `device_bytes` the recomputation of a run
  // that leaves it open is the first of none, selective and full that fits, which projects name
  // for all blocks alike. predict_fitting_step() also tries some of the blocks.
  StepWork(const TrainingRun& run, double device_bytes);

  [[nodiscard]] const TrainingRun& run() const { return run_; }
  [[nodiscard]] const TrainingMemory& memory() const { return memory_; }
  [[nodiscard]] const Recomputation& recompute() const { return recompute_; }

  struct Unit {
    std::size_t block = 0;  // index of the work
    bool is_block = true;   // not embedding or output
    friend bool operator==(const Unit&, const Unit&) = default;
  };
  [[nodiscard]] const std::vector<RankBlock>& blocks() const { return blocks_; }
  // The units of each stage, in order.
  [[nodiscard]] const std::vector<std::vector<Unit>>& stages() const { return stages_; }

 private:
  void make(const Recomputation& policy);
  [[nodiscard]] TrainingMemory memory_of() const;

  TrainingRun run_;
  Recomputation recompute_;
  std::vector<RankBlock> blocks_;
  std::vector<std::vector<Unit>> stages_;
  TrainingMemory memory_;
};

}  // namespace shardlab
