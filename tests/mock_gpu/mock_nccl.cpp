// The mock of NCCL: every rank sends what the others need, and reduces in an order of the mock's
// own, from the last rank to the first.
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "costmodel/base/dtype.h"
#include "sim/placement.h"
#include "sim/tensor_kernels.h"
#include "tests/mock_gpu/mock.h"
#include "tests/mock_gpu/peers.h"

struct ncclComm {
  std::shared_ptr<shardlab::mock_gpu::Peers> peers;
  std::string key;
  int rank = 0;
  int size = 1;
  int device = 0;
  int splits = 0;
  // It outlives the communicator, since work that waits for ever looks at it.
  std::shared_ptr<std::atomic<ncclResult_t>> error =
      std::make_shared<std::atomic<ncclResult_t>>(ncclSuccess);
};

namespace {

using namespace shardlab::mock_gpu;  // NOLINT(google-build-using-namespace): the API has none
using shardlab::DType;
using shardlab::ReduceOp;
using Bytes = std::vector<std::byte>;

constexpr int kMultiRankVersion = 23000;

int version() { return std::stoi(variable("MOCK_NCCL_VERSION", "23004")); }

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kReceive };

// One call of one rank. `count` is the number of elements of one rank's part, or of the whole where
// there are no parts.
struct Call {
  Kind kind = Kind::kSend;
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  int peer = 0;  // the other rank of a send or receive; the root of a broadcast
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;

  [[nodiscard]] bool is_between_two() const {
    return kind == Kind::kSend || kind == Kind::kReceive;
  }
};

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return DType::kI8;
    case ncclUint8:
      return DType::kU8;
    case ncclInt32:
      return DType::kI32;
    case ncclInt64:
      return DType::kI64;
    case ncclFloat16:
      return DType::kF16;
    case ncclFloat32:
      return DType::kF32;
    case ncclFloat64:
      return DType::kF64;
    case ncclBfloat16:
      return DType::kBF16;
  }
  return DType::kU8;
}

ReduceOp reduce_op_of(ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
      return ReduceOp::kSum;
    case ncclProd:
      return ReduceOp::kProduct;
    case ncclMax:
      return ReduceOp::kMax;
    case ncclMin:
      return ReduceOp::kMin;
    case ncclAvg:
      return ReduceOp::kAvg;
  }
  return ReduceOp::kSum;
}

std::size_t bytes_of(const Call& call) {
  return call.count * static_cast<std::size_t>(shardlab::itemsize(dtype_of(call.type)));
}
std::size_t whole_bytes(const Call& call) {
  return bytes_of(call) * static_cast<std::size_t>(call.comm->size);
}
std::size_t send_bytes(const Call& call) {
  return call.kind == Kind::kReduceScatter ? whole_bytes(call) : bytes_of(call);
}
std::size_t receive_bytes(const Call& call) {
  return call.kind == Kind::kAllGather ? whole_bytes(call) : bytes_of(call);
}
double full_bytes(const Call& call) {
  return static_cast<double>(std::max(send_bytes(call), receive_bytes(call)));
}
double time_us(const Call& call) {
  return kModel.link_us + full_bytes(call) / kModel.link_bytes_per_us;
}

// --- What a call does, on the thread of its stream ----------------------------------------------

// The text that names the call, by which ranks notice that they call different things.
std::string header_of(const Call& call) {
  const auto kind = static_cast<int>(call.kind == Kind::kReceive ? Kind::kSend : call.kind);
  return std::to_string(kind) + " " + std::to_string(call.count) + " " +
         std::to_string(static_cast<int>(call.type)) + " " +
         std::to_string(static_cast<int>(call.op)) + " " +
         std::to_string(call.is_between_two() ? 0 : call.peer) + "\n";
}

// What work on a stream holds of a communicator.
struct Channel {
  std::shared_ptr<Peers> peers;
  std::shared_ptr<std::atomic<ncclResult_t>> error;
  int rank = 0;
  int size = 1;

  explicit Channel(const ncclComm& comm)
      : peers(comm.peers), error(comm.error), rank(comm.rank), size(comm.size) {}

  void send(const Call& call, int peer, const std::byte* data, std::size_t size_bytes) const {
    const std::string header = header_of(call);
    Bytes message(header.size() + size_bytes);
    std::memcpy(message.data(), header.data(), header.size());
    if (size_bytes > 0) std::memcpy(message.data() + header.size(), data, size_bytes);
    peers->send(peer, message);
  }
  [[nodiscard]] Bytes receive(const Call& call, int peer) const {
    std::optional<Bytes> message = peers->receive(peer);
    const std::string header = header_of(call);
    if (!message) last_for_ever(ncclRemoteError);
    if (message->size() < header.size() ||
        std::memcmp(message->data(), header.data(), header.size()) != 0) {
      last_for_ever(ncclInvalidUsage);
    }
    message->erase(message->begin(), message->begin() + static_cast<std::ptrdiff_t>(header.size()));
    return std::move(*message);
  }
  [[noreturn]] void last_for_ever(ncclResult_t why) const {
    *error = why;
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
};

void write(std::byte* to, const Bytes& bytes) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
}

// The reduction of what all ranks contributed; the contributions stand by rank.
Bytes reduced(const Call& call, std::vector<Bytes> contributions) {
  const DType dtype = dtype_of(call.type);
  const ReduceOp op = reduce_op_of(call.op);
  const auto count = static_cast<std::int64_t>(call.count);
  const auto ranks = static_cast<std::int64_t>(contributions.size());
  for (Bytes& bytes : contributions) {
    shardlab::scale_contribution(op, dtype, bytes.data(), count, ranks, false);
  }
  Bytes out = std::move(contributions.back());
  for (std::size_t i = contributions.size() - 1; i > 0; --i) {
    shardlab::combine(op, dtype, out.data(), contributions[i - 1].data(), count);
  }
  shardlab::finish_reduction(op, dtype, out.data(), count, ranks, false);
  if (!out.empty() && variable("MOCK_NCCL_WRONG", "") == "sums") out.back() ^= std::byte{0x40};
  return out;
}

void run_collective(const Channel& channel, const Call& call) {
  const std::size_t bytes = bytes_of(call);
  const bool is_root = channel.rank == call.peer;
  for (int peer = 0; peer < channel.size; ++peer) {
    const bool scatters = call.kind == Kind::kReduceScatter;
    if (call.kind == Kind::kBroadcast && !is_root) break;
    channel.send(call, peer, call.send + (scatters ? bytes * static_cast<std::size_t>(peer) : 0),
                 bytes);
  }
  if (call.kind == Kind::kBroadcast) {
    write(call.receive, channel.receive(call, call.peer));
    return;
  }
  std::vector<Bytes> parts;
  for (int peer = 0; peer < channel.size; ++peer) parts.push_back(channel.receive(call, peer));
  if (call.kind == Kind::kAllGather) {
    for (std::size_t i = 0; i < parts.size(); ++i) write(call.receive + i * bytes, parts[i]);
  } else {
    write(call.receive, reduced(call, std::move(parts)));
  }
}

double run_calls(const Channel& channel, const std::vector<Call>& calls, double now) {
  for (const Call& call : calls) {
    if (call.kind == Kind::kSend) channel.send(call, call.peer, call.send, bytes_of(call));
  }
  for (const Call& call : calls) {
    if (call.kind == Kind::kReceive) write(call.receive, channel.receive(call, call.peer));
  }
  double longest_between_two = 0.0;
  for (const Call& call : calls) {
    if (call.is_between_two()) {
      longest_between_two = std::max(longest_between_two, time_us(call));
      continue;
    }
    run_collective(channel, call);
    now += jittered(time_us(call));
  }
  return now + jittered(longest_between_two);
}

// --- Groups -------------------------------------------------------------------------------------

struct Group {
  int depth = 0;
  std::vector<std::function<ncclResult_t()>> setups;  // each waits for other ranks
  std::vector<Call> calls;
};
thread_local Group group;

void launch(const std::vector<Call>& calls) {
  std::vector<std::pair<std::pair<ncclComm_t, cudaStream_t>, std::vector<Call>>> batches;
  for (const Call& call : calls) {
    const std::pair key = {call.comm, call.stream};
    auto found = std::find_if(batches.begin(), batches.end(),
                              [&](const auto& batch) { return batch.first == key; });
    if (found == batches.end()) found = batches.insert(found, {key, {}});
    found->second.push_back(call);
  }
  for (const auto& [key, batch] : batches) {
    enqueue(key.second, [channel = Channel(*key.first), batch = batch](double now) {
      return run_calls(channel, batch, now);
    });
  }
}

ncclResult_t set_up(const std::vector<std::function<ncclResult_t()>>& setups) {
  std::vector<ncclResult_t> results(setups.size(), ncclSuccess);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < setups.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        results[i] = setups[i]();
      } catch (const std::exception&) {
        results[i] = ncclSystemError;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const ncclResult_t result : results) {
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

ncclResult_t submit_setup(std::function<ncclResult_t()> setup) {
  if (group.depth == 0) return set_up({std::move(setup)});
  group.setups.push_back(std::move(setup));
  return ncclSuccess;
}

// Whether the buffers overlap in a way that NCCL does not allow. It allows calls in place: with one
// buffer, or with this rank's part of the larger one.
bool overlaps_wrongly(const Call& call) {
  if (call.send == nullptr || call.receive == nullptr) return false;
  const auto rank = static_cast<std::size_t>(call.comm->rank);
  const std::byte* send = call.send;
  const std::byte* receive = call.receive;
  if (call.kind == Kind::kAllGather && send == receive + rank * bytes_of(call)) return false;
  if (call.kind == Kind::kReduceScatter && receive == send + rank * bytes_of(call)) return false;
  const bool has_parts = call.kind == Kind::kAllGather || call.kind == Kind::kReduceScatter;
  if (!has_parts && send == receive) return false;
  return send < receive + receive_bytes(call) && receive < send + send_bytes(call);
}

// Writes the line in which NCCL's log names the algorithm and protocol that it chose.
void log_choice(const Call& call) {
  const std::string file = variable("NCCL_DEBUG_FILE", "");
  if (call.is_between_two() || call.comm->rank != 0 || file.empty() ||
      variable("NCCL_DEBUG", "") != "INFO" ||
      variable("NCCL_DEBUG_SUBSYS", "").find("TUNING") == std::string::npos) {
    return;
  }
  constexpr const char* kNames[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast"};
  constexpr double kSmall = 65536.0;
  const bool is_small = full_bytes(call) <= kSmall;
  const bool is_tree = is_small && call.kind == Kind::kAllReduce;
  std::ofstream(file, std::ios::app)
      << "mock:" << getpid() << ":" << getpid() << " [0] NCCL INFO "
      << kNames[static_cast<std::size_t>(call.kind)] << ": "
      << static_cast<std::int64_t>(full_bytes(call)) << " Bytes -> Algo "
      << (is_tree ? "TREE" : "RING") << " proto " << (is_small ? "LL" : "SIMPLE")
      << " channel{Lo..Hi}={0..3}\n";
}

ncclResult_t submit(const Call& call) {
  if (has_to_fail("ncclCollective")) return ncclInternalError;
  const int device = call.comm->device;
  const bool reads = call.kind != Kind::kReceive &&
                     (call.kind != Kind::kBroadcast || call.comm->rank == call.peer);
  const bool writes = call.kind != Kind::kSend;
  if (device_of(call.stream) != device || call.peer < 0 || call.peer >= call.comm->size ||
      (reads && !on_device(call.send, send_bytes(call), device)) ||
      (writes && !may_write(call.receive, receive_bytes(call), device)) || overlaps_wrongly(call)) {
    return ncclInvalidArgument;
  }
  group.calls.push_back(call);
  if (group.depth > 0) return ncclSuccess;
  log_choice(call);
  launch(std::exchange(group.calls, {}));
  return ncclSuccess;
}

const std::byte* as_bytes(const void* pointer) { return static_cast<const std::byte*>(pointer); }
std::byte* as_bytes(void* pointer) { return static_cast<std::byte*>(pointer); }

// --- Communicators -------------------------------------------------------------------------------

// NCCL reads this variable once per process.
const std::string& host_id() {
  static const std::string id = variable("NCCL_HOSTID", "this host");
  return id;
}

// Whether ranks may share GPUs: with the switch of NCCL 2.30, or if they pass for ranks of
// different hosts.
bool may_share(const std::vector<std::string>& cards) {
  std::vector<std::string> sorted = cards;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return true;
  return version() >= kMultiRankVersion && variable("NCCL_MULTI_RANK_GPU_ENABLE", "") == "1" &&
         variable("NCCL_NVLS_ENABLE", "") != "1";
}

// Writes the lines that NCCL's log has about a communicator: its group, and the figures that NCCL
// calculates with.
void log_table(const ncclComm& comm) {
  const std::string file = variable("NCCL_DEBUG_FILE", "");
  if (file.empty() || comm.rank != 0 || variable("NCCL_DEBUG", "") != "INFO" ||
      variable("NCCL_DEBUG_SUBSYS", "").find("TUNING") == std::string::npos) {
    return;
  }
  std::set<std::string> hosts;
  for (const std::string& card : comm.peers->cards())
    hosts.insert(card.substr(0, card.find(" GPU")));
  std::ofstream out(file, std::ios::app);
  const std::string start = "mock:1:1 [0] NCCL INFO ";
  const int code = version();
  out << start << "NCCL version " << code / 10000 << "." << code / 100 % 100 << "." << code % 100
      << "+cuda13.0\n"
      << start << "comm 0x1 rank 0 nRanks " << comm.size << " nNodes " << hosts.size()
      << " localRanks " << comm.size / static_cast<int>(hosts.size()) << " localRank 0 MNNVL 0\n"
      << start << "  Algorithm   | Tree | Ring | CollNetDirect |\n"
      << start
      << "  Protocol    | LL | LL128 | Simple | LL | LL128 | Simple | LL | LL128 | Simple |\n";
  for (const char* name : {"Broadcast", "AllGather", "ReduceScatter", "AllReduce"}) {
    out << start << name << " | 0.0/ 0.0 | 0.0/ 0.0 | 0.0/ 0.0 | " << kModel.link_us << "/ "
        << kModel.link_bytes_per_us / 1e3 << " | 31.0/ 0.0 | " << kModel.link_us << "/ "
        << kModel.link_bytes_per_us / 1e3 << " | 0.0/ 0.0 | 0.0/ 0.0 | 0.0/ 0.0 |\n";
  }
}

ncclResult_t make_comm(ncclComm_t* out, const std::string& key, int rank, int size, int device) {
  if (rank < 0 || rank >= size) return ncclInvalidArgument;
  auto comm = std::make_unique<ncclComm>();
  comm->key = key;
  comm->rank = rank;
  comm->size = size;
  comm->device = device;
  comm->peers = Peers::meet(key, rank, size, host_id() + " GPU " + std::to_string(device));
  if (!may_share(comm->peers->cards())) return ncclInvalidUsage;
  log_table(*comm);
  *out = comm.release();
  return ncclSuccess;
}

void dump_topology(int rank) {
  const std::string file = variable("NCCL_TOPO_DUMP_FILE", "");
  if (file.empty() || rank != 0) return;
  std::ofstream(file) << R"(<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="000000ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:0f:00.0" class="0x030200" vendor="0x10de" device="0x2335" subsystem_vendor="0x10de" subsystem_device="0x18be" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="90" rank="0" gdr="1"/>
    </pci>
  </cpu>
</system>
)";
}

}  // namespace

ncclResult_t ncclGetVersion(int* out) {
  *out = version();
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  const std::string key = std::to_string(getpid()) + "." + std::to_string(random());
  *id = {};
  std::memcpy(id->internal, key.data(), key.size());
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (has_to_fail("ncclCommInitRank")) return ncclSystemError;
  return submit_setup([=, device = current_device(), key = std::string(id.internal)] {
    dump_topology(rank);
    return make_comm(comm, key, rank, ranks, device);
  });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int colour, int key, ncclComm_t* split, ncclConfig_t*) {
  return submit_setup([=] {
    struct Wish {
      int colour;
      int key;
      int rank;
    };
    const Wish mine = {colour, key, comm->rank};
    std::vector<Wish> members;
    for (int peer = 0; peer < comm->size; ++peer) {
      comm->peers->send(peer, {reinterpret_cast<const std::byte*>(&mine), sizeof mine});
    }
    for (int peer = 0; peer < comm->size; ++peer) {
      const std::optional<Bytes> bytes = comm->peers->receive(peer);
      if (!bytes || bytes->size() != sizeof(Wish)) return ncclRemoteError;
      Wish wish{};
      std::memcpy(&wish, bytes->data(), sizeof wish);
      if (wish.colour == colour) members.push_back(wish);
    }
    std::sort(members.begin(), members.end(), [](const Wish& a, const Wish& b) {
      return std::pair(a.key, a.rank) < std::pair(b.key, b.rank);
    });
    const auto place = std::find_if(members.begin(), members.end(),
                                    [&](const Wish& wish) { return wish.rank == comm->rank; });
    const std::string name =
        comm->key + "." + std::to_string(comm->splits++) + "." + std::to_string(colour);
    return make_comm(split, name, static_cast<int>(place - members.begin()),
                     static_cast<int>(members.size()), comm->device);
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  *count = comm->size;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = *comm->error;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  const ncclResult_t result = set_up(std::exchange(group.setups, {}));
  if (result != ncclSuccess) return result;
  for (const Call& call : group.calls) log_choice(call);
  launch(std::exchange(group.calls, {}));
  return ncclSuccess;
}
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  if (group.depth != 1 || info->size != sizeof *info) return ncclInvalidUsage;
  group.depth = 0;
  double us = 0.0;
  for (const Call& call : std::exchange(group.calls, {})) {
    if (!call.is_between_two()) us = std::max(us, time_us(call));
  }
  if (us > 0.0) info->estimatedTime = static_cast<float>(us);
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return submit({.kind = Kind::kAllReduce,
                 .send = as_bytes(send),
                 .receive = as_bytes(receive),
                 .count = count,
                 .type = type,
                 .op = op,
                 .comm = comm,
                 .stream = stream});
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return submit({.kind = Kind::kReduceScatter,
                 .send = as_bytes(send),
                 .receive = as_bytes(receive),
                 .count = receive_count,
                 .type = type,
                 .op = op,
                 .comm = comm,
                 .stream = stream});
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return submit({.kind = Kind::kAllGather,
                 .send = as_bytes(send),
                 .receive = as_bytes(receive),
                 .count = send_count,
                 .type = type,
                 .comm = comm,
                 .stream = stream});
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return submit({.kind = Kind::kBroadcast,
                 .send = as_bytes(send),
                 .receive = as_bytes(receive),
                 .count = count,
                 .type = type,
                 .peer = root,
                 .comm = comm,
                 .stream = stream});
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return submit({.kind = Kind::kSend,
                 .send = as_bytes(send),
                 .count = count,
                 .type = type,
                 .peer = peer,
                 .comm = comm,
                 .stream = stream});
}
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return submit({.kind = Kind::kReceive,
                 .receive = as_bytes(receive),
                 .count = count,
                 .type = type,
                 .peer = peer,
                 .comm = comm,
                 .stream = stream});
}
