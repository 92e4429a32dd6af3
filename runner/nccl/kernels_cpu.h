// Kernels of the CPU backend. They do the work of the GPU's kernels in plain loops, so that the
// path of a measurement can be tested. Their times mean nothing.
#pragma once

#include <string>
#include <vector>

#include "runner/nccl/backend.h"

namespace shardlab {

[[nodiscard]] std::vector<double> time_cpu_kernel_us(const KernelShape& shape, int warmup,
                                                     int iterations, std::string& why_not);

}  // namespace shardlab
