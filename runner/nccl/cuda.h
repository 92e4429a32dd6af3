// Checks CUDA and NCCL calls: a call that fails throws an EnvironmentError with its name and its
// error.
//
//   check(cudaMalloc(&pointer, bytes), "cudaMalloc");
//   check(ncclCommInitRank(...), "ncclCommInitRank");
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "costmodel/base/error.h"
#include "runner/nccl/backend.h"

namespace shardlab {

inline void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw EnvironmentError(std::string(call) + ": " + cudaGetErrorName(code) + ": " +
                         cudaGetErrorString(code));
}

inline void check(ncclResult_t code, const char* call) {
  if (code == ncclSuccess) return;
  throw EnvironmentError(std::string(call) + ": " + ncclGetErrorString(code) +
                         "; NCCL_DEBUG=WARN prints more");
}

// Memory of the current device, filled with zeros before this returns, because other streams would
// not wait for the stream that fills it.
[[nodiscard]] inline DevicePointer device_memory(std::int64_t bytes) {
  void* block = nullptr;
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  check(cudaMalloc(&block, size), "cudaMalloc");
  DevicePointer out(static_cast<std::byte*>(block),
                    [](std::byte* pointer) { (void)cudaFree(pointer); });
  check(cudaMemset(block, 0, size), "cudaMemset");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  return out;
}

using Event = std::unique_ptr<CUevent_st, cudaError_t (*)(cudaEvent_t)>;
[[nodiscard]] inline Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return {event, cudaEventDestroy};
}
[[nodiscard]] inline double microseconds_between(const Event& begin, const Event& end) {
  float ms = 0.0F;
  check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "cudaEventElapsedTime");
  return static_cast<double>(ms) * 1e3;
}

// Puts one launch of a kernel on a stream. `launch` counts from 0 and picks one of several sets of
// arrays, so that no array stays in a cache. If there is no such kernel, the function is empty and
// the reason is set.
using Launch = std::function<void(cudaStream_t stream, int launch)>;
// Bytes that consecutive launches use before they use the same array again: several times the
// second-level cache of today's GPUs (50 MB on H100).
inline constexpr std::int64_t kColdBytes = std::int64_t{256} << 20U;
[[nodiscard]] int cold_copies(std::int64_t bytes_of_one);
// Fills a block with numbers within (-2, 2): with zeros, tensor cores draw less power and clock
// higher.
void fill_with_numbers(std::byte* block, std::int64_t bytes, DType dtype);

[[nodiscard]] Launch make_memory_kernel(const KernelShape& shape, std::string& why_not);
[[nodiscard]] Launch make_gemm(const KernelShape& shape, std::string& why_not);

}  // namespace shardlab
