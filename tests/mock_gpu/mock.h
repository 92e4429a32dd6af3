// A mock of a GPU, CUDA's runtime, NCCL and cuBLASLt in host memory. The program shardlab_mock_gpu
// is shardlab with this mock in their place, so that runner/nccl can be tested where there is none
// of them. The mock rehearses calls, order, sizes and errors. Its times are those of the model
// below and say nothing about GPUs.
//
// The mock is as strict as the real libraries where a mistake would otherwise only show on a GPU:
//   - every stream has a thread of its own and runs behind its caller. Code that reads before it
//     has waited gets old bytes, and the legacy default stream waits for no non-blocking one
//   - whatever a call reads or writes has to lie within one allocation of the stream's device
//   - a communicator's ranks meet in processes or threads and pass bytes through sockets, call by
//     call. If a rank is gone, the calls of its peers last for ever, and ncclRemoteError is what
//     they get if they ask. Ranks that share a GPU are refused where NCCL refuses them
//   - AddressSanitizer reports what is never given back as a leak
//
// The environment sets:
//   MOCK_GPUS          the number of GPUs (1); "driver" means that no fitting driver is there
//   MOCK_NCCL_VERSION  the version as NCCL counts it: 23004
//   MOCK_NCCL_WRONG    with "sums", every reduction has a wrong byte
//   MOCK_GPU_FAIL      with "cudaMalloc=3", the third such call of the process fails
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace shardlab::mock_gpu {

// Whether this call of the function is the one that has to fail.
[[nodiscard]] bool has_to_fail(const char* function);
[[nodiscard]] std::string variable(const char* name, const std::string& otherwise);
[[nodiscard]] int gpu_count();  // -1 if there is no driver

[[nodiscard]] int current_device();
// Whether the bytes lie within one allocation of this device. may_write() also notes that they were
// written.
[[nodiscard]] bool on_device(const void* begin, std::size_t bytes, int device);
[[nodiscard]] bool may_write(void* begin, std::size_t bytes, int device);

// How long work takes on the clock of a stream, in microseconds and give or take 1 %.
struct Model {
  double launch_us = 2.0;
  double memory_bytes_per_us = 3.0e6;
  double link_us = 10.0;
  double link_bytes_per_us = 1.0e5;
};
inline constexpr Model kModel;
[[nodiscard]] double jittered(double us);

// One piece of work of a stream, run in order on the stream's thread. It takes the stream's clock
// and returns the clock at its end.
using Work = std::function<double(double now_us)>;
void enqueue(cudaStream_t stream, Work work);  // nullptr means the legacy default stream
[[nodiscard]] int device_of(cudaStream_t stream);

}  // namespace shardlab::mock_gpu
