// Implements backend.h with NCCL and the CUDA runtime. It is plain C++ and needs no CUDA compiler.
// Source of the calls: NCCL's user guide (communicators, groups, ncclGroupSimulateEnd since 2.22,
// ncclCommSplit since 2.18) and CUDA's manual of the runtime.
#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "costmodel/base/index.h"
#include "runner/nccl/cuda.h"

namespace shardlab {
namespace {

// Launches between two events. A kernel is timed within a sequence of the same kernel, because
// programs run it in sequences too.
constexpr int kLaunchesPerSample = 10;

std::optional<ncclDataType_t> type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return ncclFloat64;
    case DType::kF32:
      return ncclFloat32;
    case DType::kF16:
      return ncclFloat16;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kI64:
      return ncclInt64;
    case DType::kI32:
      return ncclInt32;
    case DType::kI8:
      return ncclInt8;
    case DType::kU8:
      return ncclUint8;
    default:
      return std::nullopt;
  }
}

std::optional<ncclRedOp_t> op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kAvg:
      return ncclAvg;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kProduct:
      return ncclProd;
    default:
      return std::nullopt;
  }
}

using Stream = std::shared_ptr<CUstream_st>;
Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return {stream, [](cudaStream_t s) { (void)cudaStreamDestroy(s); }};
}

using Comm = std::shared_ptr<ncclComm>;
Comm owned(ncclComm_t comm) {
  return {comm, [](ncclComm_t c) { (void)ncclCommDestroy(c); }};
}

struct Device {
  int index = 0;
  Stream stream;
  Comm comm;  // the communicator of the world
};

std::string version_text(int version, int major_unit, int minor_unit) {
  return std::to_string(version / major_unit) + "." +
         std::to_string(version % major_unit / minor_unit) +
         (minor_unit == 100 ? "." + std::to_string(version % minor_unit) : "");
}

class NcclGroup final : public Group {
 public:
  NcclGroup(const std::vector<Device>& devices, std::vector<Comm> comms, Deadline deadline)
      : devices_(devices), comms_(std::move(comms)), deadline_(deadline) {
    for (const Comm& comm : comms_) {
      int count = 0;
      int rank = 0;
      check(ncclCommCount(comm.get(), &count), "ncclCommCount");
      check(ncclCommUserRank(comm.get(), &rank), "ncclCommUserRank");
      sizes_.push_back(count);
      ranks_.push_back(rank);
    }
  }

  void run(std::span<const CollectiveCall> calls, std::span<const CallBuffers> buffers) override {
    check(ncclGroupStart(), "ncclGroupStart");
    for (std::size_t i = 0; i < comms_.size(); ++i) enqueue(i, calls[i], buffers[i]);
    check(ncclGroupEnd(), "ncclGroupEnd");
    wait();
  }

  std::vector<std::vector<double>> time_us(const CollectiveCall& call,
                                           std::span<const CallBuffers> buffers,
                                           int iterations) override {
    std::vector<std::vector<Event>> events(comms_.size());
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      check(cudaSetDevice(devices_[i].index), "cudaSetDevice");
      for (int n = 0; n < 2 * iterations; ++n) events[i].push_back(make_event());
    }
    const auto record = [&](std::size_t n) {
      for (std::size_t i = 0; i < comms_.size(); ++i) {
        check(cudaSetDevice(devices_[i].index), "cudaSetDevice");
        check(cudaEventRecord(events[i][n].get(), devices_[i].stream.get()), "cudaEventRecord");
      }
    };
    for (int n = 0; n < iterations; ++n) {
      record(to_index(2 * n));
      check(ncclGroupStart(), "ncclGroupStart");
      for (std::size_t i = 0; i < comms_.size(); ++i) enqueue(i, call, buffers[i]);
      check(ncclGroupEnd(), "ncclGroupEnd");
      record(to_index(2 * n + 1));
    }
    wait();
    std::vector<std::vector<double>> times(comms_.size());
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      for (int n = 0; n < iterations; ++n) {
        times[i].push_back(
            microseconds_between(events[i][to_index(2 * n)], events[i][to_index(2 * n + 1)]));
      }
    }
    return times;
  }

  std::optional<double> estimate_us(const CollectiveCall& call,
                                    std::span<const CallBuffers> buffers) override {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    check(ncclGroupStart(), "ncclGroupStart");
    for (std::size_t i = 0; i < comms_.size(); ++i) enqueue(i, call, buffers[i]);
    if (ncclGroupSimulateEnd(&info) != ncclSuccess) return std::nullopt;
    // If NCCL has no estimate (for send and receive), it leaves the initial value, or 0.
    const auto estimate = static_cast<double>(info.estimatedTime);
    return estimate > 0.0 ? std::optional(estimate) : std::nullopt;
  }

 private:
  void enqueue(std::size_t i, const CollectiveCall& call, const CallBuffers& buffers) {
    const Device& device = devices_[i];
    cudaStream_t stream = device.stream.get();
    ncclComm_t comm = comms_[i].get();
    const std::int64_t size = sizes_[i];
    check(cudaSetDevice(device.index), "cudaSetDevice");
    // Dtypes that NCCL lacks can be moved as bytes, but not reduced.
    const std::optional<ncclDataType_t> known = type_of(call.dtype);
    const ncclDataType_t type = known.value_or(ncclUint8);
    const std::int64_t scale = known ? 1 : itemsize(call.dtype);
    const std::size_t count = to_index(call.count * scale);
    const std::size_t part = to_index(call.count * scale / size);
    const std::size_t part_bytes = to_index(call.count / size * itemsize(call.dtype));
    const void* send = buffers.send;
    void* receive = buffers.receive;
    switch (call.kind) {
      case Collective::kAllReduce:
      case Collective::kReduceScatter: {
        const std::optional<ncclRedOp_t> op = op_of(call.op);
        SHARDLAB_CHECK(known && op, "NCCL cannot reduce ", to_string(call.dtype));
        if (call.kind == Collective::kAllReduce) {
          check(ncclAllReduce(send, receive, count, type, *op, comm, stream), "ncclAllReduce");
        } else {
          check(ncclReduceScatter(send, receive, part, type, *op, comm, stream),
                "ncclReduceScatter");
        }
        return;
      }
      case Collective::kAllGather:
        check(ncclAllGather(send, receive, part, type, comm, stream), "ncclAllGather");
        return;
      case Collective::kBroadcast:
        check(ncclBroadcast(send, receive, count, type, static_cast<int>(call.root), comm, stream),
              "ncclBroadcast");
        return;
      case Collective::kAllToAll:
        check(ncclGroupStart(), "ncclGroupStart");
        for (int peer = 0; peer < size; ++peer) {
          check(
              ncclSend(buffers.send + to_index(peer) * part_bytes, part, type, peer, comm, stream),
              "ncclSend");
          check(ncclRecv(buffers.receive + to_index(peer) * part_bytes, part, type, peer, comm,
                         stream),
                "ncclRecv");
        }
        check(ncclGroupEnd(), "ncclGroupEnd");
        return;
      case Collective::kSendRecv: {
        const auto next = static_cast<int>((ranks_[i] + 1) % size);
        const auto previous = static_cast<int>((ranks_[i] + size - 1) % size);
        check(ncclGroupStart(), "ncclGroupStart");
        check(ncclSend(send, count, type, next, comm, stream), "ncclSend");
        check(ncclRecv(receive, count, type, previous, comm, stream), "ncclRecv");
        check(ncclGroupEnd(), "ncclGroupEnd");
        return;
      }
      default:
        throw EnvironmentError(std::string(to_string(call.kind)) + " can't be measured");
    }
  }

  // cudaStreamSynchronize is not used, because it would not notice an error of a communicator.
  void wait() {
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      check(cudaSetDevice(devices_[i].index), "cudaSetDevice");
      while (true) {
        const cudaError_t state = cudaStreamQuery(devices_[i].stream.get());
        if (state == cudaSuccess) break;
        if (state != cudaErrorNotReady) check(state, "cudaStreamQuery");
        ncclResult_t error = ncclSuccess;
        check(ncclCommGetAsyncError(comms_[i].get(), &error), "ncclCommGetAsyncError");
        if (error != ncclInProgress) check(error, "NCCL, while a collective runs");
        if (std::chrono::steady_clock::now() > deadline_) {
          throw EnvironmentError("a collective did not end within the time limit");
        }
        std::this_thread::yield();
      }
    }
  }

  const std::vector<Device>& devices_;
  std::vector<Comm> comms_;
  Deadline deadline_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> ranks_;
};

class NcclBackend final : public Backend {
 public:
  NcclBackend(Rendezvous& meeting, const RankRange& ranks)
      : ranks_(ranks), deadline_(meeting.deadline()) {
    int gpus = 0;
    check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
    for (std::int64_t i = 0; i < ranks.local; ++i) {
      const std::int64_t index = ranks.one_device ? 0 : ranks.first_device + i;
      if (index >= gpus) {
        throw EnvironmentError("measure: rank " + std::to_string(ranks.first + i) + " needs GPU " +
                               std::to_string(index) + ", but this host has " +
                               std::to_string(gpus) + " GPUs; valid: fewer --ranks, or --one-gpu");
      }
      Device device;
      device.index = static_cast<int>(index);
      check(cudaSetDevice(device.index), "cudaSetDevice");
      device.stream = make_stream();
      devices_.push_back(std::move(device));
    }
    ncclUniqueId id{};
    if (meeting.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    const std::string text = meeting.broadcast(std::string(id.internal, sizeof id.internal));
    if (text.size() != sizeof id.internal) {
      throw EnvironmentError("the ranks have different versions of NCCL");
    }
    std::memcpy(id.internal, text.data(), text.size());
    std::vector<ncclComm_t> comms(devices_.size(), nullptr);
    check(ncclGroupStart(), "ncclGroupStart");
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      check(cudaSetDevice(devices_[i].index), "cudaSetDevice");
      check(ncclCommInitRank(&comms[i], static_cast<int>(ranks.world), id,
                             static_cast<int>(ranks.first) + static_cast<int>(i)),
            "ncclCommInitRank");
    }
    check(ncclGroupEnd(), "ncclCommInitRank");
    for (std::size_t i = 0; i < devices_.size(); ++i) devices_[i].comm = owned(comms[i]);
  }

  BackendFacts facts() const override {
    BackendFacts facts;
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, devices_[0].index), "cudaGetDeviceProperties");
    facts.device = properties.name;
    int version = 0;
    check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
    facts.driver = "CUDA " + version_text(version, 1000, 10);
    facts.library = version_text(nccl_runtime_version(), 10000, 100);
    int clock_khz = 0;
    int memory_khz = 0;
    if (cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, devices_[0].index) ==
            cudaSuccess &&
        cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, devices_[0].index) ==
            cudaSuccess) {
      facts.clocks = "SM " + std::to_string(clock_khz / 1000) + " MHz, memory " +
                     std::to_string(memory_khz / 1000) + " MHz, at most";
    }
    return facts;
  }
  const RankRange& ranks() const override { return ranks_; }

  DevicePointer allocate(std::int64_t local, std::int64_t bytes) override {
    check(cudaSetDevice(devices_[to_index(local)].index), "cudaSetDevice");
    return device_memory(bytes);
  }
  void upload(std::int64_t local, std::byte* to, std::span<const std::byte> from) override {
    check(cudaSetDevice(devices_[to_index(local)].index), "cudaSetDevice");
    check(cudaMemcpy(to, from.data(), from.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  void download(std::int64_t local, std::span<std::byte> to, const std::byte* from) override {
    check(cudaSetDevice(devices_[to_index(local)].index), "cudaSetDevice");
    check(cudaMemcpy(to.data(), from, to.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  }

  std::unique_ptr<Group> make_group(std::span<const std::int64_t> colours) override {
    std::vector<Comm> comms;
    if (std::all_of(colours.begin(), colours.end(),
                    [&](std::int64_t colour) { return colour == colours[0]; })) {
      for (const Device& device : devices_) comms.push_back(device.comm);
    } else {
      std::vector<ncclComm_t> split(devices_.size(), nullptr);
      check(ncclGroupStart(), "ncclGroupStart");
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        const std::int64_t rank = ranks_.first + static_cast<std::int64_t>(i);
        check(cudaSetDevice(devices_[i].index), "cudaSetDevice");
        check(ncclCommSplit(devices_[i].comm.get(), static_cast<int>(colours[to_index(rank)]),
                            static_cast<int>(rank), &split[i], nullptr),
              "ncclCommSplit");
      }
      check(ncclGroupEnd(), "ncclCommSplit");
      for (ncclComm_t comm : split) comms.push_back(owned(comm));
    }
    return std::make_unique<NcclGroup>(devices_, std::move(comms), deadline_);
  }

  std::vector<double> time_kernel_us(const KernelShape& shape, int warmup, int iterations,
                                     std::string& why_not) override {
    check(cudaSetDevice(devices_[0].index), "cudaSetDevice");
    cudaStream_t stream = devices_[0].stream.get();
    const Launch launch =
        shape.name == "gemm" ? make_gemm(shape, why_not) : make_memory_kernel(shape, why_not);
    std::vector<double> times;
    if (!launch) return times;
    int count = 0;
    const auto sample = [&] {
      for (int i = 0; i < kLaunchesPerSample; ++i) launch(stream, count++);
    };
    for (int i = 0; i < warmup; ++i) sample();
    std::vector<Event> events;
    for (int i = 0; i <= iterations; ++i) events.push_back(make_event());
    check(cudaEventRecord(events[0].get(), stream), "cudaEventRecord");
    for (int i = 0; i < iterations; ++i) {
      sample();
      check(cudaEventRecord(events[to_index(i + 1)].get(), stream), "cudaEventRecord");
    }
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    for (int i = 0; i < iterations; ++i) {
      times.push_back(microseconds_between(events[to_index(i)], events[to_index(i + 1)]) /
                      kLaunchesPerSample);
    }
    return times;
  }

  bool reduces(ReduceOp op, DType dtype) const override {
    return type_of(dtype).has_value() && op_of(op).has_value();
  }

 private:
  RankRange ranks_;
  Deadline deadline_;
  std::vector<Device> devices_;
};

}  // namespace

std::string nccl_absence() {
  int gpus = 0;
  const cudaError_t code = cudaGetDeviceCount(&gpus);
  if (code == cudaErrorInsufficientDriver) {
    return "no NVIDIA driver that fits CUDA " + version_text(CUDART_VERSION, 1000, 10) +
           " is here (cudaGetDeviceCount: " + cudaGetErrorName(code) + ")";
  }
  if (code != cudaSuccess) {
    return std::string("no GPU is here (cudaGetDeviceCount: ") + cudaGetErrorName(code) + ")";
  }
  return gpus > 0 ? "" : "no GPU is here";
}

std::int64_t visible_gpus() {
  int gpus = 0;
  return cudaGetDeviceCount(&gpus) == cudaSuccess ? gpus : 0;
}

int nccl_runtime_version() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

std::unique_ptr<Backend> make_nccl_backend(Rendezvous& meeting, const RankRange& ranks) {
  return std::make_unique<NcclBackend>(meeting, ranks);
}

}  // namespace shardlab
