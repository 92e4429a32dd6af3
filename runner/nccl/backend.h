// What measuring needs from a GPU library: ranks with memory, collectives among groups of ranks,
// kernels, and times by events. The interface is small, so that its three implementations can be
// read side by side: NCCL (backend_nccl.cpp), a build without NCCL (backend_none.cpp; the build
// picks one of these two) and a substitute on CPUs (backend_cpu.cpp).
//
//   std::unique_ptr<Backend> backend = make_nccl_backend(meeting, ranks);
//   std::unique_ptr<Group> world = backend->make_group(one_colour);
//   DevicePointer buffer = backend->allocate(0, bytes);         // on this process's first rank
//   world->time_us({Collective::kAllReduce, DType::kF32, ReduceOp::kSum, count}, buffers, 20)
//
// A process holds one or several ranks of the world, each with a device of its own, or all with the
// same device. Unless a function says otherwise, its lists have one element for each rank of this
// process, in the order of the ranks. Every process of the world must make the same calls.
//
// Throws EnvironmentError, which names the call that failed, its error code, and a remedy.
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

// The ranks of this process are [first, first + local) of the world.
struct RankRange {
  std::int64_t world = 1;
  std::int64_t first = 0;
  std::int64_t local = 1;
  std::int64_t first_device = 0;
  bool one_device = false;  // all ranks of a host share device 0
};

// The hardware and software that run the collectives, as the record describes them.
struct BackendFacts {
  std::string device;     // the GPU's name
  std::string driver;     // version of the kernel driver
  std::string library;    // version of NCCL
  std::string transport;  // what connects the ranks of a host, if the backend knows
  std::string clocks;     // the highest: "SM 1980 MHz, memory 3201 MHz"
  std::string settings;   // what was forced
};

// One collective from the view of one rank. `count` is the number of elements of the larger of its
// two buffers. For an all-gather, a reduce-scatter and an all-to-all, it is a multiple of the
// group's size.
struct CollectiveCall {
  Collective kind = Collective::kAllReduce;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  std::int64_t count = 0;
  std::int64_t root = 0;  // the root of a broadcast
};

using DevicePointer =
    std::shared_ptr<std::byte>;  // device memory; the host must not dereference it
struct CallBuffers {
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
};

// One communicator for each local rank, which connects the ranks of that rank's colour in their
// order.
class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  // Makes one call on each local rank, and waits until all are done. Ranks of different groups may
  // make different calls.
  virtual void run(std::span<const CollectiveCall> calls, std::span<const CallBuffers> buffers) = 0;
  // Times of consecutive calls, by local rank and iteration, each from the rank's own start to its
  // end.
  [[nodiscard]] virtual std::vector<std::vector<double>> time_us(
      const CollectiveCall& call, std::span<const CallBuffers> buffers, int iterations) = 0;
  // The library's own estimate of the call's time.
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
  // Makes the groups of this process. `colours` has one entry per rank of the world. Every process
  // of the world must make the same call.
  [[nodiscard]] virtual std::unique_ptr<Group> make_group(
      std::span<const std::int64_t> colours) = 0;
  // Times of single launches on the device of local rank 0. If the backend lacks the kernel, they
  // are empty and the reason is set.
  [[nodiscard]] virtual std::vector<double> time_kernel_us(const KernelShape& shape, int warmup,
                                                           int iterations,
                                                           std::string& why_not) = 0;
  // Whether the backend can reduce this dtype with this op. It can move the bytes of every dtype.
  [[nodiscard]] virtual bool reduces(ReduceOp op, DType dtype) const = 0;
};

// Why NCCL can't be used: this build lacks it, or there is no driver or no GPU. "" if it can be
// used.
[[nodiscard]] std::string nccl_absence();
[[nodiscard]] std::int64_t visible_gpus();  // 0 without NCCL
[[nodiscard]] int nccl_runtime_version();   // in NCCL's notation: 23004 is 2.30.4; 0 without NCCL
[[nodiscard]] std::unique_ptr<Backend> make_nccl_backend(Rendezvous& meeting,
                                                         const RankRange& ranks);
// A backend whose processes pass bytes through TCP sockets, in the order of NCCL's ring. Its times
// say nothing about GPUs.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(Rendezvous& meeting,
                                                        const RankRange& ranks);

// Elements in each of a call's two buffers: a rank of an all-gather sends only its part, and a rank
// of a reduce-scatter receives only its part.
[[nodiscard]] std::int64_t send_count(const CollectiveCall& call, std::int64_t group_size);
[[nodiscard]] std::int64_t receive_count(const CollectiveCall& call, std::int64_t group_size);

}  // namespace shardlab
