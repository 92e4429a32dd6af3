// Times kernels on one device: GEMMs, copies, the reshuffles that a redistribution needs,
// elementwise kernels, reductions and empty launches. The roofline is fitted to these times.
//
//   const KernelRun result = measure_kernels(run, {.kernels = {"gemm", "copy"}});
//   result.rows, result.left_out     // "gemm f8e4m3: this shardlab was built without cuBLASLt"
#pragma once

#include <string>
#include <vector>

#include "costmodel/measurements/measurement_set.h"
#include "runner/measure/collective_run.h"

namespace shardlab {

struct KernelRequest {
  std::vector<std::string> kernels;  // names out of kLaunchedKernels
  double max_bytes = 0.0;            // most bytes that one launch reads and writes
  int warmup = 3;
  int iterations = 20;
};

struct KernelRun {
  std::vector<MeasuredKernel> rows;
  std::vector<std::string> left_out;
};

[[nodiscard]] KernelRun measure_kernels(const MeasuringRun& run, const KernelRequest& request);

// The shapes that are measured for one kernel: those whose launch moves up to max_bytes.
[[nodiscard]] std::vector<KernelShape> shapes_of(std::string_view kernel, double max_bytes);
// Bytes read and written by one launch, and its arithmetic operations (a multiply-add counts as
// two).
[[nodiscard]] double bytes_of(const KernelShape& shape);
[[nodiscard]] double flops_of(const KernelShape& shape);

}  // namespace shardlab
