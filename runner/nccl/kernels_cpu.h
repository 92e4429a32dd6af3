// Kernels of the CPU stand-in. They do the same work as on a GPU in plain loops, so that the path
// of a measurement can be tested; their times mean nothing.
#pragma once

#include <string>
#include <vector>

#include "runner/nccl/backend.h"

namespace shardlab {

[[nodiscard]] std::vector<double> time_cpu_kernel_us(const KernelShape& shape, int warmup,
                                                     int iterations, std::string& why_not);

}  // namespace shardlab
