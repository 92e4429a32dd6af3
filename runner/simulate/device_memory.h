// The memory that a training step takes on a device, beside the memory that there is.
//
//   const DeviceMemory memory = device_memory(step, program, device_bytes);
//   memory.fits(), memory.json(), memory.text(style)
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "costmodel/topology.h"
#include "runner/base/text_style.h"
#include "strategies/steps/step_memory.h"

namespace shardlab {

struct DeviceMemory : StepMemory {
  double device_bytes = 0.0;  // what a step may take
  std::string peak_at;        // "backward, at einsum_12"; "" if no task runs

  [[nodiscard]] bool fits() const { return peak_bytes <= device_bytes; }
  [[nodiscard]] nlohmann::json json() const;
  // A line: "  memory 10.19 GB at the peak, which fits into 79.99 GB (backward, at mm): ...".
  [[nodiscard]] std::string text(const TextStyle& style) const;
};

[[nodiscard]] DeviceMemory device_memory(const TrainingStep& step, const Program& program,
                                         double device_bytes);
// The memory of a topology's device, in bytes.
[[nodiscard]] double memory_of_device(const Topology& topology);

}  // namespace shardlab
