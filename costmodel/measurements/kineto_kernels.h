// The kernels in a trace of PyTorch's profiler, each with the operator that launched it.
//
//   const TracedKernels traced =
//       read_kineto_kernels(json["traceEvents"], {"t.json", "/traceEvents"});
//   traced.calls.front().kernel                    // "gemm"
//   measured_kernels(traced.calls)                 // one row for each shape
//
// A kernel is a complete event (ph X) of the category `kernel`, or `gpu_memcpy` and `gpu_memset`
// for copies and fills. Its args name, as "External id", the operator (`cpu_op`) that launched it,
// which has the shapes of its arguments if the profiler ran with record_shapes=True:
//   "Input Dims": [[8192, 4096], [4096, 1024]], "Input type": ["c10::BFloat16", "c10::BFloat16"],
//   "Input Strides": [[4096, 1], [1, 4096]], "Concrete Inputs": ["", ""]
// All kernels of one call of an operator are one entry of `calls`, whose time is their sum. A copy
// inside a device names its bytes itself.
//
// Collectives (kineto_trace.h) are not among them, and neither are copies from and to the host,
// which wait for it. The durations are those of the device, without the launch.
//
// Source: as in kineto_trace.h; the operators are in profiled_operator.h.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/json_reader.h"
#include "costmodel/measurements/measurement_set.h"

namespace shardlab {

// The largest reading of a clock and the longest event in a trace.
inline constexpr double kMaxClockUs = 1e30;

// What the device did, in one event.
struct DeviceEvent {
  enum class Kind : std::uint8_t { kKernel, kCollective, kCopy, kHostCopy, kFill };

  Kind kind = Kind::kKernel;
  const nlohmann::json* event = nullptr;
  const nlohmann::json* op =
      nullptr;  // the operator that launched it; null if the trace names none
  std::string_view name;
  double begin_us = 0.0;
  double us = 0.0;
};

// What the device did, in the order of the trace. They point into `events`. Throws ConfigError for
// a time that is no number.
[[nodiscard]] std::vector<DeviceEvent> device_events(const nlohmann::json& events,
                                                     const JsonPlace& place);

struct TracedKernels {
  std::vector<MeasuredKernel> calls;  // one for each call of an operator, in the order of the trace
  double total_us = 0.0;              // the time of all kernels, including those that are left out
  std::map<std::string, double> left_out_us;  // by operator; "" where the trace does not have it
};

// Throws ConfigError as device_events does.
[[nodiscard]] TracedKernels read_kineto_kernels(const nlohmann::json& events,
                                                const JsonPlace& place);

// The calls, joined to one row for each kind and shape, in the order of their first calls. The time
// is the median.
[[nodiscard]] std::vector<MeasuredKernel> measured_kernels(std::span<const MeasuredKernel> calls);

// A sentence about what is left out, "" for nothing: "12.5 % of the time of kernels is left out:
// 4.0 % in kernels whose operator the trace does not have, and operators that have no price or no
// shapes here: aten::index 6.1 %, aten::cat 2.4 %".
[[nodiscard]] std::string left_out_text(const TracedKernels& traced);

}  // namespace shardlab
