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
//
// FSDP without a pipeline reduces the gradients of each micro-batch, unless the run says `no_sync`.
// With `no_sync`, and in a pipeline, each rank sums up whole gradients in the dtype in which they
// are reduced, and reduces them once: with the last backward pass, or in a pipeline after it. In a
// pipeline, weights stay gathered after a backward pass, so that the next forward pass has them.
// Source: PyTorch 2.13.0, torch/distributed/pipelining/stage.py, backward_maybe_with_nosync()
// and perform_reduce_grad(), and FSDPParamGroup.post_backward(). step_work.h counts the memory of
// it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "strategies/training/pipeline.h"
#include "strategies/training/step_chain.h"
#include "strategies/training/step_prices.h"
#include "strategies/training/step_work.h"

namespace shardlab {

struct StepBreakdown {
  double gemm_us = 0.0;
  double attention_us = 0.0;
  double other_us = 0.0;
  // The time of communication beside which no kernel runs, by kind of collective. Two more keys are
  // "contention", the time that kernels lose to collectives beside them, and "waiting", the time
  // that ranks on many hosts wait for each other.
  std::map<std::string, double> exposed_us;
  ClassTimes contention_us = {};  // exposed_us["contention"] by the kernels that lose it
  // Not parts of the step, but of the two kinds of work that it consists of: the GEMMs in 8 and 4
  // bits, which gemm_us contains, and all collectives, whether exposed or not.
  double low_gemm_us = 0.0;
  double collectives_us = 0.0;
  double bubble_us = 0.0;
  double host_us = 0.0;
};

struct StepPrediction {
  double step_us = 0.0;
  double tokens_per_s_per_gpu = 0.0;
  double mfu = 0.0;  // model FLOPs utilisation: share of the peak rate in bf16, from 0 to 1
  StepBreakdown breakdown;
  TrainingMemory memory;
  Recomputation recompute;  // which one was used
  // Both passes of one micro-batch on the first stage; empty unless it was asked for.
  std::vector<StepSpan> timeline;
};

[[nodiscard]] StepPrediction predict_step(const StepWork& work, const StepModel& model,
                                          bool with_timeline = false);
[[nodiscard]] StepPrediction predict_step(const TrainingRun& run, const StepModel& model);
// The shortest step that fits into the device's memory, whatever recomputation the run names:
// without recomputation, or with it, selective or full, for as few of the first blocks as fit. Full
// recomputation of all blocks if nothing fits.
[[nodiscard]] StepPrediction predict_fitting_step(const TrainingRun& run, const StepModel& model,
                                                  bool with_timeline = false);

}  // namespace shardlab
