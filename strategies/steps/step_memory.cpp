#include "strategies/steps/step_memory.h"

#include <algorithm>
#include <numeric>

#include "costmodel/base/index.h"

namespace shardlab {

std::vector<MemoryParts> memory_by_task(const TrainingStep& step) {
  const std::size_t tasks = step.tasks.size();
  std::vector<MemoryParts> change(tasks + 1, MemoryParts{});
  for (const StepBuffer& buffer : step.buffers) {
    const auto part = static_cast<std::size_t>(buffer.part);
    change[to_index(std::max(buffer.made_by, 0))][part] += buffer.bytes;
    const std::size_t freed = to_index(buffer.last_use) + 1;
    if (freed < change.size()) change[freed][part] -= buffer.bytes;
  }
  std::vector<MemoryParts> by_task;
  MemoryParts now{};
  for (std::size_t t = 0; t < tasks; ++t) {
    for (std::size_t p = 0; p < kMemoryParts; ++p) now[p] += change[t][p];
    by_task.push_back(now);
  }
  return by_task;
}

namespace {

// The sum of the peaks of all streams.
double reserved(const TrainingStep& step) {
  const std::size_t tasks = step.tasks.size();
  std::array<std::vector<double>, kStreams> change;
  for (std::vector<double>& of_stream : change) of_stream.assign(tasks + 1, 0.0);
  for (const StepBuffer& buffer : step.buffers) {
    std::vector<double>& own = change[to_index(buffer.pool)];
    own[to_index(std::max(buffer.made_by, 0))] += buffer.bytes;
    const std::size_t freed = to_index(buffer.last_use) + 1;
    if (freed < own.size()) own[freed] -= buffer.bytes;
  }
  double sum = 0.0;
  for (const std::vector<double>& own : change) {
    double now = 0.0;
    double peak = 0.0;
    for (const double by : own) {
      now += by;
      peak = std::max(peak, now);
    }
    sum += peak;
  }
  return sum;
}

}  // namespace

StepMemory memory_of(const TrainingStep& step) {
  StepMemory memory;
  const std::vector<MemoryParts> by_task = memory_by_task(step);
  for (std::size_t t = 0; t < by_task.size(); ++t) {
    const double bytes = std::accumulate(by_task[t].begin(), by_task[t].end(), 0.0);
    if (bytes <= memory.peak_bytes) continue;
    memory.peak_bytes = bytes;
    memory.parts = by_task[t];
    memory.peak_task = static_cast<int>(t);
  }
  memory.reserved_bytes = reserved(step);
  return memory;
}

StepMemory memory_of_later_pass(TrainingStep step) {
  for (StepBuffer& buffer : step.buffers) {
    if (buffer.part == MemoryPart::kGradients) buffer.made_by = -1;
  }
  return memory_of(step);
}

}  // namespace shardlab
