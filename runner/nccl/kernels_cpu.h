// Kernels of the CPU stand-in: the same work as on a GPU, in plain loops, for the way of a
// measurement and not for its figures.
#pragma once

#include <string>
#include <vector>

#include "runner/nccl/backend.h"

namespace shardlab {

[[nodiscard]] std::vector<double> time_cpu_kernel_us(const KernelShape& shape, int warmup,
                                                     int iterations, std::string& why_not);

}  // namespace shardlab
