// What measuring needs of a GPU library: ranks with memory, collectives among groups of them, times
// by events, kernels. The interface is small, so that NCCL's side (backend_nccl.cpp), its absence
// (backend_none.cpp; the build picks one of the two) and the stand-in on CPUs (backend_cpu.cpp) can
// be read side by side.
//
//   std::unique_ptr<Backend> backend = make_nccl_backend(meeting, ranks);
//   std::unique_ptr<Group> world = backend->make_group(one_colour);
//   DevicePointer buffer = backend->allocate(0, bytes);          // on the first rank of this process
//   world->time_us({Collective::kAllReduce, DType::kF32, ReduceOp::kSum, count}, buffers, 20)
//
// A process holds one or several ranks of the world, with a device each (or all one device). Unless
// a function says otherwise, its lists have one element for each rank of this process, in the order
// of the ranks. Every process of the world makes the same calls.
//
// Throws EnvironmentError, which names the call that failed, its code, and what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/dtype.h"
#include "costmodel/collective.h"
#include "runner/launch/rendezvous.h"
#include "sim/placement.h"

namespace shardlab {

// The ranks of this process: [first, first + local) of the world, which spans `hosts` hosts.
struct RankRange {
  std::int64_t world = 1;
  std::int64_t first = 0;
  std::int64_t local = 1;
  std::int64_t first_device = 0;
  bool one_device = false;  // all ranks of a host share device 0
};

// What runs the collectives, as the record names it.
struct BackendFacts {
  std::string device;     // the GPU's name
  std::string driver;     // version of the kernel driver
  std::string library;    // version of NCCL
  std::string transport;  // what joins the ranks of a host, where the backend knows
  std::string clocks;     // the highest: "SM 1980 MHz, memory 3201 MHz"
  std::string settings;   // what was forced
};

// One collective as one rank calls it. `count` is in elements of the larger of its two buffers; for
// an all-gather, a reduce-scatter and an all-to-all it is a multiple of the group's size.
struct CollectiveCall {
  Collective kind = Collective::kAllReduce;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  std::int64_t count = 0;
  std::int64_t root = 0;  // the root of a broadcast
};

using DevicePointer = std::shared_ptr<std::byte>;  // memory of a device: not to be dereferenced
struct CallBuffers {
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
};

// One communicator for each local rank: it joins the ranks of that rank's colour, in their order.
class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  // Makes one call on each local rank (calls may differ between groups), and waits until all are
  // done.
  virtual void run(std::span<const CollectiveCall> calls, std::span<const CallBuffers> buffers) = 0;
  // Times of consecutive calls, by local rank and iteration: from the rank's own start to its end.
  [[nodiscard]] virtual std::vector<std::vector<double>> time_us(
      const CollectiveCall& call, std::span<const CallBuffers> buffers, int iterations) = 0;
  // What the library itself expects the call to take.
  [[nodiscard]] virtual std::optional<double> estimate_us(const CollectiveCall& call,
                                                          std::span<const CallBuffers> buffers) = 0;
};

// One kernel on one device.
struct KernelShape {
  std::string_view name = {};  // gemm copy reshuffle elementwise reduction launch
  DType dtype = DType::kF32;
  std::int64_t rows = 0;     // rows of the matrix; m of a GEMM
  std::int64_t columns = 0;  // n
  std::int64_t inner = 0;    // k of a GEMM; columns of one piece of a reshuffle
  bool tf32 = false;         // a GEMM of f32 may round its inputs to TF32
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual BackendFacts facts() const = 0;
  [[nodiscard]] virtual const RankRange& ranks() const = 0;
  // Allocates on the device of local rank `local`.
  [[nodiscard]] virtual DevicePointer allocate(std::int64_t local, std::int64_t bytes) = 0;
  virtual void upload(std::int64_t local, std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::int64_t local, std::span<std::byte> to, const std::byte* from) = 0;
  // Makes the groups of this process. `colours` has one entry per rank of the world; every process
  // of the world makes the same call.
  [[nodiscard]] virtual std::unique_ptr<Group> make_group(
      std::span<const std::int64_t> colours) = 0;
  // Times of single launches on the device of local rank 0; empty, with the reason, for what the
  // backend lacks.
  [[nodiscard]] virtual std::vector<double> time_kernel_us(const KernelShape& shape, int warmup,
                                                           int iterations,
                                                           std::string& why_not) = 0;
  // Whether the backend reduces this; moving bytes works for every dtype.
  [[nodiscard]] virtual bool reduces(ReduceOp op, DType dtype) const = 0;
};

// Why there is no NCCL to measure with: this build has none, or there is no driver or no GPU. Empty
// where there is.
[[nodiscard]] std::string nccl_absence();
[[nodiscard]] std::int64_t visible_gpus();  // 0 without NCCL
[[nodiscard]] int nccl_runtime_version();   // NCCL's own count: 23004 is 2.30.4; 0 without NCCL
[[nodiscard]] std::unique_ptr<Backend> make_nccl_backend(Rendezvous& meeting,
                                                         const RankRange& ranks);
// Processes that pass bytes through TCP sockets, in the order of NCCL's ring; its times say nothing
// about GPUs.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(Rendezvous& meeting,
                                                        const RankRange& ranks);

// Sizes of a call's buffers in elements: of an all-gather's sender, a reduce-scatter's receiver.
[[nodiscard]] std::int64_t send_count(const CollectiveCall& call, std::int64_t group_size);
[[nodiscard]] std::int64_t receive_count(const CollectiveCall& call, std::int64_t group_size);

}  // namespace shardlab
