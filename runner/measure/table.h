// Prints a measurement in the form of nccl-tests' table, and measured kernels as a table of their
// own.
//
//   nccl_tests_table(set)    "#  size  count  type ..." per collective; shardlab can read it again
//   kernel_table(set, style)
//
// Source of the format: NVIDIA/nccl-tests, src/common.cu; bus bandwidth: doc/PERFORMANCE.md.
#pragma once

#include <string>

#include "costmodel/measurements/measurement_set.h"
#include "runner/base/text_style.h"

namespace shardlab {

[[nodiscard]] std::string nccl_tests_table(const MeasurementSet& set);
[[nodiscard]] std::string kernel_table(const MeasurementSet& set, const TextStyle& style);

}  // namespace shardlab
