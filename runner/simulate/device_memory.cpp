#include "runner/simulate/device_memory.h"

#include "costmodel/base/index.h"
#include "runner/base/terminal.h"

namespace shardlab {
namespace {

// The decimal unit in which a peak of this size has digits to show.
struct MemoryUnit {
  explicit MemoryUnit(double peak_bytes) {
    if (peak_bytes >= 1e8) return;
    bytes = peak_bytes >= 1e5 ? 1e6 : 1e3;
    name = peak_bytes >= 1e5 ? " MB" : " kB";
  }
  [[nodiscard]] std::string figure(double of_bytes, const TextStyle& style) const {
    return style.rounded(of_bytes / bytes, 2);
  }

  double bytes = 1e9;
  const char* name = " GB";
};

}  // namespace

nlohmann::json DeviceMemory::json() const {
  nlohmann::json by_part;
  for (std::size_t p = 0; p < kMemoryParts; ++p) {
    by_part[std::string(to_string(static_cast<MemoryPart>(p)))] = parts[p];
  }
  return {{"peak_bytes", peak_bytes},         {"device_bytes", device_bytes}, {"fits", fits()},
          {"reserved_bytes", reserved_bytes}, {"peak_at", peak_at},           {"parts", by_part}};
}

std::string DeviceMemory::text(const TextStyle& style) const {
  const MemoryUnit unit(peak_bytes);
  const std::string device =
      MemoryUnit(device_bytes).figure(device_bytes, style) + MemoryUnit(device_bytes).name;
  std::string by_part;
  for (std::size_t p = 0; p < kMemoryParts; ++p) {
    if (parts[p] <= 0.0) continue;
    by_part += (by_part.empty() ? "" : ", ") + std::string(to_string(static_cast<MemoryPart>(p))) +
               " " + unit.figure(parts[p], style);
  }
  return "  memory " + unit.figure(peak_bytes, style) + unit.name + " at the peak, " +
         (fits() ? "which fits into " + device
                 : style.painted(Tone::kBad, "MORE THAN THE " + device + " that there are")) +
         " (" + printable(peak_at) + "): " + by_part + "; PyTorch's allocator reserves " +
         unit.figure(reserved_bytes, style) + "\n";
}

DeviceMemory device_memory(const TrainingStep& step, const Program& program, double device_bytes) {
  DeviceMemory memory{memory_of(step), device_bytes, {}};
  if (memory.peak_task >= 0) {
    const StepTask& task = step.tasks[to_index(memory.peak_task)];
    memory.peak_at = std::string(to_string(task.pass)) + ", at " + program.nodes[task.node].name;
  }
  return memory;
}

double memory_of_device(const Topology& topology) {
  return topology.device().memory_gib * kBytesPerGiB;
}

}  // namespace shardlab
