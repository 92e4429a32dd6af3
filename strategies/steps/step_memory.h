// How much memory a training step takes on one device, over the step.
//
//   const StepMemory memory = memory_of(step);
//   memory.peak_bytes, memory.parts        // at the peak, by MemoryPart
//   step.tasks[memory.peak_task]           // when
//   memory.reserved_bytes                  // what PyTorch's allocator reserves for it
//
// PyTorch's caching allocator has a pool of memory for each stream, and what one stream has freed
// serves that stream only. It therefore reserves the sum of what the pools hold at their own peaks,
// which torch.cuda.max_memory_reserved() says. Fragmentation within a pool is not counted. Source:
// PyTorch 2.13.0, c10/cuda/CUDACachingAllocator.cpp.
#pragma once

#include <array>
#include <vector>

#include "strategies/steps/training_step.h"

namespace shardlab {

using MemoryParts = std::array<double, kMemoryParts>;  // bytes, by MemoryPart

struct StepMemory {
  double peak_bytes = 0.0;
  MemoryParts parts = {};  // what the peak consists of
  double reserved_bytes = 0.0;
  int peak_task = -1;  // the task during which the peak is reached; -1 if no task runs
};

[[nodiscard]] StepMemory memory_of(const TrainingStep& step);
// The memory of the second and each later one of several such passes between two optimizer steps:
// the sums of the gradients are there from the beginning.
[[nodiscard]] StepMemory memory_of_later_pass(TrainingStep step);
// The memory during each task.
[[nodiscard]] std::vector<MemoryParts> memory_by_task(const TrainingStep& step);

}  // namespace shardlab
