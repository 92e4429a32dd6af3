// How long a training step takes, how much memory it needs, and where the time goes.
//
//   const StepModel model{*collectives, *kernels, topology, {}};
//   const StepPrediction step = predict_step(run, model);
//   step.step_us, step.tokens_per_s_per_gpu, step.breakdown.gemm_us
//
// The blocks of a rank are priced kernel by kernel (rank_work.h) and run on streams: kernels,
// collectives of activations, gathers of weights, reductions of gradients, and the host, which
// issues them. Tasks that run at once share the multiprocessors and the links
// (sim/flows/fluid_streams.h). With a pipeline, the passes of each stage are then put in order
// (pipeline.h). One rank stands for all ranks of its stage, so that the time to predict does not
// grow with the number of ranks. The optimizer's step and the norm of the gradients follow.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/compute_model.h"
#include "costmodel/cost_model.h"
#include "costmodel/topology.h"
#include "sim/flows/fluid_streams.h"
#include "strategies/training/pipeline.h"
#include "strategies/training/rank_work.h"
#include "strategies/training/training_run.h"

namespace shardlab {

// How far a cluster's steps are from the prices of the stack's models. Each factor divides a price,
// so that 1 means that the models' prices hold.
struct StepFactors {
  double rate = 1.0;      // of all kernels
  double gemm = 1.0;      // GEMMs in bf16
  double low_gemm = 1.0;  // GEMMs in 8 and 4 bits
  double grouped = 1.0;   // grouped GEMMs, on top of the two above
  double attention = 1.0;
  double memory = 1.0;   // all other kernels
  double links = 1.0;    // transfers inside a scale-up domain
  double network = 1.0;  // transfers between domains
  double host_us = 5.0;  // the host's time to launch one kernel
  // Share of the multiprocessors that a collective takes, and how often each byte that it moves
  // passes the device's memory.
  double collective_share = 0.1;
  double memory_passes = 3.0;
  double waiting = 0.005;  // added to the step for each doubling of the hosts, as a share of it
  double fixed_us = 10e3;  // of each step: the optimizer's many launches, data, logging
};

struct StepModel {
  const CostModel& collectives;
  const ComputeModel& kernels;
  const Topology& topology;
  StepFactors factors;
};

struct StepBreakdown {
  double gemm_us = 0.0;
  double attention_us = 0.0;
  double other_us = 0.0;
  std::map<std::string, double> exposed_us;  // by kind of collective
  // Not parts of the step, but of the two kinds of work that it consists of: the GEMMs in 8 and 4
  // bits, which gemm_us contains, and all collectives, whether exposed or not.
  double low_gemm_us = 0.0;
  double collectives_us = 0.0;
  double bubble_us = 0.0;
  double host_us = 0.0;
};

struct TrainingMemory {
  double peak_bytes = 0.0;
  double parameters = 0.0;
  double gradients = 0.0;
  double optimizer = 0.0;
  double activations = 0.0;
  double gathered = 0.0;
  double temporary = 0.0;
};

// One task of the pictured micro-batch.
struct StepSpan {
  std::string name;
  std::string stream;
  double start_us = 0.0;
  double end_us = 0.0;
};

struct StepPrediction {
  double step_us = 0.0;
  double tokens_per_s_per_gpu = 0.0;
  double mfu = 0.0;  // of the peak rate in bf16, from 0 to 1
  StepBreakdown breakdown;
  TrainingMemory memory;
  Recomputation recompute;         // which one was used
  std::vector<StepSpan> timeline;  // of one micro-batch on the first stage; empty unless asked for
};

// The work of a run, which does not depend on prices. Making it takes longer than pricing it.
class StepWork {
 public:
  // Throws InputError for sizes that do not fit. With `device_bytes` the recomputation of a run
  // that leaves it open is the least that fits.
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

[[nodiscard]] StepPrediction predict_step(const StepWork& work, const StepModel& model,
                                          bool with_timeline = false);
[[nodiscard]] StepPrediction predict_step(const TrainingRun& run, const StepModel& model);

}  // namespace shardlab
