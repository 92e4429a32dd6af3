// A GPU, CUDA's runtime, NCCL and cuBLASLt in host memory, so that runner/nccl runs, and is tested,
// where there is none of them: the program shardlab_mock_gpu is shardlab with these in their place.
// A rehearsal of calls, order, sizes and errors; its times are those of the model below, and say
// nothing about GPUs.
//
// As strict as the real ones where a mistake would otherwise wait for a GPU to show itself:
//   - every stream has a thread of its own and runs behind its caller: what reads before it waited
//     gets old bytes, and the legacy default stream waits for no non-blocking one
//   - whatever a call reads or writes has to lie within one allocation of the stream's device
//   - a communicator's ranks meet in processes or threads and pass bytes through sockets, call by
//     call; a rank that is gone makes its peers' calls last for ever, with ncclRemoteError for
//     those who ask; ranks that share a GPU are refused where NCCL refuses them
//   - what is never given back is a leak to AddressSanitizer
//
// Set from outside by the environment:
//   MOCK_GPUS          number of GPUs (1); "driver": there is no driver that fits
//   MOCK_NCCL_VERSION  as NCCL counts them: 23004
//   MOCK_GPU_FAIL      "cudaMalloc=3": the third such call of the process fails
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
[[nodiscard]] int gpu_count();  // -1: no driver

[[nodiscard]] int current_device();
// Whether the bytes lie within one allocation of this device; "to write": they are no longer fresh.
[[nodiscard]] bool on_device(const void* begin, std::size_t bytes, int device);
[[nodiscard]] bool may_write(void* begin, std::size_t bytes, int device);

// The clock of a stream, us: work takes what the model says, give or take 1 %.
struct Model {
  double launch_us = 2.0;
  double memory_bytes_per_us = 3.0e6;
  double link_us = 10.0;
  double link_bytes_per_us = 1.0e5;
};
inline constexpr Model kModel;
[[nodiscard]] double jittered(double us);

// Work of a stream, done in order on its thread: gets the stream's clock, returns it moved on.
using Work = std::function<double(double now_us)>;
void enqueue(cudaStream_t stream, Work work);  // nullptr: the legacy default stream
[[nodiscard]] int device_of(cudaStream_t stream);

}  // namespace shardlab::mock_gpu
