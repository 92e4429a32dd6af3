// When a pipeline's stages work on which micro-batch, and how long a step takes.
//
//   const PipelineTimes times = simulate_pipeline({.schedule = PipelineSchedule::k1F1B, .ranks = 4,
//       .chunks = 1, .micro_batches = 16, .stages = stages});
//   times.total_us, times.bubble_us
//
// A model is cut into ranks * chunks stages; rank r holds stages r, r + ranks, r + 2 * ranks and so
// on. Forward passes of a stage wait for those of the stage before, backward passes for those of
// the stage after, and each transfer between ranks takes the time that the stage says. A transfer
// runs beside the kernels; the rank that receives waits.
// Sources: Huang et al. 2019 (GPipe); Narayanan et al. 2021 (1F1B, interleaved); Qi et al. 2024
// (zero bubble, H1: the gradients of weights fill the bubble). When FSDP's weights are there:
// PyTorch 2.13.0, torch/distributed/pipelining/stage.py, whose backward passes set
// reshard_after_backward to false.
#pragma once

#include <cstdint>
#include <vector>

#include "strategies/training/training_run.h"

namespace shardlab {

struct StageTimes {
  double forward_us = 0.0;
  double backward_us = 0.0;  // includes the gradients of weights
  double weights_us = 0.0;   // the part of backward_us that zero-bubble schedules may move
  double send_us = 0.0;      // to the next stage, and of the gradient back
  // What a pass takes in addition if it has to gather the stage's weights, since the pass before it
  // has left none.
  double forward_gather_us = 0.0;
  double backward_gather_us = 0.0;
};

struct Pipeline {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  std::int64_t ranks = 1;
  std::int64_t chunks = 1;
  std::int64_t micro_batches = 1;
  std::vector<StageTimes> stages;  // ranks * chunks of them
  // Whether a forward pass drops the weights that it gathered. A backward pass keeps them.
  bool forward_drops_weights = false;
};

struct PipelineTimes {
  double total_us = 0.0;
  double bubble_us = 0.0;    // what the rank with the most work waits
  std::int64_t busiest = 0;  // the rank with the most work
  // How many passes of each stage gather its weights.
  std::vector<std::int64_t> forward_gathers;
  std::vector<std::int64_t> backward_gathers;
};

// Throws InputError if the ranks have several stages each, and the number of micro-batches is no
// multiple of the number of ranks. All other pipelines run.
[[nodiscard]] PipelineTimes simulate_pipeline(const Pipeline& pipeline);

// How many micro-batches a rank holds at most between their forward and backward passes, counted in
// stages of that rank.
[[nodiscard]] double micro_batches_held(const Pipeline& pipeline, std::int64_t rank);
// How many micro-batches wait on a rank, while it holds that many others, for the pass that
// computes their weights' gradients. None, unless the schedule splits the backward pass: then rank
// r runs that pass r turns late.
[[nodiscard]] double micro_batches_without_gradients(const Pipeline& pipeline, std::int64_t rank);

}  // namespace shardlab
