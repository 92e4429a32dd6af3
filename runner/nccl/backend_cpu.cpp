// The substitute for NCCL on CPUs. Ranks are processes, or threads of one process, that pass bytes
// through TCP sockets between each pair of ranks. The launcher, the rendezvous, the watchdog and
// the whole path of a measurement are tested with it. Its times say nothing about GPUs.
//
// Algorithms: rings for all_gather, reduce_scatter and all_reduce (a reduce_scatter and then an
// all_gather; chunk c is x[c+1] + x[c+2] + ... + x[c], as in sim/fake_group.h). In all_to_all,
// members exchange in pairs; in broadcast, the root sends to each member; in send_recv, each rank
// sends to the next. Source: Patarasuk and Yuan 2009 (rings). Status: derived.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/parallel.h"
#include "runner/launch/guests.h"
#include "runner/nccl/backend.h"
#include "runner/nccl/kernels_cpu.h"
#include "sim/fake_group.h"
#include "sim/tensor_kernels.h"

namespace shardlab {
namespace {

// The connections of one rank to every rank of the world, by rank.
using Mesh = std::vector<Socket>;

// What a rank says first to a rank that it connects to.
struct Introduction {
  std::int64_t rank = 0;
  std::array<char, kMaxSecret> secret = {};
};

Introduction introduction_of(std::int64_t rank, const std::string& secret) {
  Introduction mine{.rank = rank};
  std::copy(secret.begin(), secret.end(), mine.secret.begin());
  return mine;
}

// "127.0.0.1 4711\n", a line for each of a process's ranks.
std::vector<std::pair<std::string, int>> places_in(std::string_view text, std::int64_t process) {
  std::vector<std::pair<std::string, int>> places;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::size_t blank = std::min(line.find(' '), line.size());
    const std::string_view port = line.substr(std::min(blank + 1, line.size()));
    int number = 0;
    const auto read = std::from_chars(port.data(), port.data() + port.size(), number);
    if (read.ec != std::errc() || read.ptr != port.data() + port.size() || number < 1 ||
        number > 65535) {
      throw EnvironmentError("rendezvous: " + rank_name(process) +
                             " does not say where it listens; valid: an address and a port");
    }
    places.emplace_back(line.substr(0, blank), number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return places;
}

// Connects the ranks: first each local rank listens, then every process learns all addresses, and
// then each rank connects to the lower ranks and accepts connections from the higher ones.
std::vector<Mesh> connect_mesh(Rendezvous& meeting, const RankRange& ranks) {
  std::vector<Socket> listeners;
  std::string mine;
  for (std::int64_t i = 0; i < ranks.local; ++i) {
    listeners.push_back(listen_on(meeting.address(), 0));
    mine += meeting.address() + " " + std::to_string(port_of(listeners.back())) + "\n";
  }
  std::vector<std::pair<std::string, int>> places;
  const std::vector<std::string> all = meeting.all_gather(mine);
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (const auto& place : places_in(all[r], static_cast<std::int64_t>(r))) {
      places.push_back(place);
    }
  }
  if (std::ssize(places) != ranks.world) {
    throw EnvironmentError("rendezvous: the processes name " + std::to_string(places.size()) +
                           " ports for " + std::to_string(ranks.world) + " ranks");
  }
  std::vector<Mesh> meshes(to_index(ranks.local));
  const Deadline deadline = meeting.deadline();
  run_together(to_index(ranks.local), [&](std::size_t i) {
    Mesh& mesh = meshes[i];
    mesh.resize(to_index(ranks.world));
    const std::int64_t me = ranks.first + static_cast<std::int64_t>(i);
    for (std::int64_t peer = 0; peer < me; ++peer) {
      mesh[to_index(peer)] =
          connect_to(places[to_index(peer)].first, places[to_index(peer)].second, deadline);
      const Introduction mine_here = introduction_of(me, meeting.secret());
      send_all(mesh[to_index(peer)], std::as_bytes(std::span(&mine_here, 1)), deadline,
               rank_name(peer));
    }
    std::int64_t left = ranks.world - 1 - me;
    const auto judge = [&](Socket guest, std::span<const std::byte> bytes) {
      Introduction theirs;
      std::memcpy(&theirs, bytes.data(), sizeof theirs);
      const bool is_ours = theirs.secret == introduction_of(0, meeting.secret()).secret &&
                           theirs.rank > me && theirs.rank < ranks.world &&
                           !mesh[to_index(theirs.rank)].is_open();
      if (is_ours) mesh[to_index(theirs.rank)] = std::move(guest);
      return is_ours && --left == 0;
    };
    if (left > 0 && !hear_guests(listeners[i], sizeof(Introduction), deadline, judge)) {
      throw EnvironmentError("the ranks can't connect to each other");
    }
  });
  return meshes;
}

// The part of one local rank in a collective.
class Member {
 public:
  Member(const Mesh& mesh, std::vector<std::int64_t> members, std::int64_t rank, Deadline deadline)
      : mesh_(mesh), members_(std::move(members)), deadline_(deadline) {
    me_ = std::find(members_.begin(), members_.end(), rank) - members_.begin();
  }

  [[nodiscard]] std::int64_t size() const { return std::ssize(members_); }

  void run(const CollectiveCall& call, const CallBuffers& buffers) const {
    const std::int64_t item = itemsize(call.dtype);
    const std::int64_t bytes = call.count * item;
    switch (call.kind) {
      case Collective::kAllGather:
        copy(buffers.receive + me_ * bytes / size(), buffers.send, bytes / size());
        pass_around(buffers.receive, even_chunks(bytes), me_);
        return;
      case Collective::kReduceScatter: {
        std::vector<std::byte> work(buffers.send, buffers.send + bytes);
        scale(call, work);
        reduce_around(call, work.data(), even_chunks(call.count));
        const std::int64_t part = call.count / size();
        copy(buffers.receive, work.data() + me_ * part * item, part * item);
        finish(call, buffers.receive, part);
        return;
      }
      case Collective::kAllReduce:
        all_reduce(call, buffers);
        return;
      case Collective::kAllToAll:
        all_to_all(buffers, bytes / size());
        return;
      case Collective::kBroadcast:
        broadcast(call, buffers, bytes);
        return;
      case Collective::kSendRecv:
        swap_with(me_ + 1, {buffers.send, to_index(bytes)}, me_ - 1,
                  {buffers.receive, to_index(bytes)});
        return;
      default:
        throw EnvironmentError(std::string(to_string(call.kind)) + " can't be measured");
    }
  }

 private:
  struct Part {
    std::int64_t offset;
    std::int64_t size;
  };
  [[nodiscard]] std::vector<Part> even_chunks(std::int64_t count) const {
    std::vector<Part> parts;
    for (std::int64_t c = 0; c < size(); ++c) {
      parts.push_back({c * (count / size()), count / size()});
    }
    return parts;
  }
  static void copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
    if (to != from && bytes > 0) std::memmove(to, from, to_index(bytes));
  }
  [[nodiscard]] std::int64_t wrap(std::int64_t member) const {
    return ((member % size()) + size()) % size();
  }

  // Sends to one member and receives from another at the same time.
  void swap_with(std::int64_t to, std::span<const std::byte> out, std::int64_t from,
                 std::span<std::byte> in) const {
    to = wrap(to);
    from = wrap(from);
    if (to == me_) {
      if (!in.empty()) std::memmove(in.data(), out.data(), in.size());
      return;
    }
    const std::int64_t receiver = members_[to_index(to)];
    const std::int64_t sender = members_[to_index(from)];
    exchange(mesh_[to_index(receiver)], out, rank_name(receiver), mesh_[to_index(sender)], in,
             rank_name(sender), deadline_);
  }

  // All-gathers bytes in place around a ring. At the start, this member has only chunk `mine`.
  void pass_around(std::byte* data, std::span<const Part> parts, std::int64_t mine) const {
    for (std::int64_t step = 0; step + 1 < size(); ++step) {
      const Part& out = parts[to_index(wrap(mine - step))];
      const Part& in = parts[to_index(wrap(mine - step - 1))];
      swap_with(me_ + 1, {data + out.offset, to_index(out.size)}, me_ - 1,
                {data + in.offset, to_index(in.size)});
    }
  }

  // Reduce-scatters elements in place around a ring. At the end, member c has the whole sum of
  // chunk c.
  void reduce_around(const CollectiveCall& call, std::byte* data,
                     std::span<const Part> parts) const {
    const std::int64_t item = itemsize(call.dtype);
    std::vector<std::byte> incoming;
    for (std::int64_t step = 0; step + 1 < size(); ++step) {
      const Part& out = parts[to_index(wrap(me_ - 1 - step))];
      const Part& in = parts[to_index(wrap(me_ - 2 - step))];
      incoming.resize(to_index(in.size * item));
      swap_with(me_ + 1, {data + out.offset * item, to_index(out.size * item)}, me_ - 1, incoming);
      // What arrived is the sum so far, and this rank adds its own elements to it.
      if (in.size == 0) continue;
      combine(call.op, call.dtype, incoming.data(), data + in.offset * item, in.size);
      std::memcpy(data + in.offset * item, incoming.data(), incoming.size());
    }
  }

  void all_reduce(const CollectiveCall& call, const CallBuffers& buffers) const {
    const std::int64_t item = itemsize(call.dtype);
    std::vector<std::byte> work(buffers.send, buffers.send + call.count * item);
    scale(call, work);
    std::vector<Part> parts;
    for (std::int64_t c = 0; c < size(); ++c) {
      const Chunk chunk = chunk_of(call.count, size(), c);
      parts.push_back({chunk.offset, chunk.size});
    }
    reduce_around(call, work.data(), parts);
    for (Part& part : parts) part = {part.offset * item, part.size * item};
    pass_around(work.data(), parts, me_);
    finish(call, work.data(), call.count);
    copy(buffers.receive, work.data(), std::ssize(work));
  }

  void all_to_all(const CallBuffers& buffers, std::int64_t piece) const {
    // For a call in place, the bytes to send are copied first, because received bytes overwrite
    // them.
    std::vector<std::byte> kept;
    const std::byte* send = buffers.send;
    if (send == buffers.receive) {
      kept.assign(send, send + piece * size());
      send = kept.data();
    }
    copy(buffers.receive + me_ * piece, send + me_ * piece, piece);
    for (std::int64_t step = 1; step < size(); ++step) {
      const std::int64_t to = wrap(me_ + step);
      const std::int64_t from = wrap(me_ - step);
      swap_with(to, {send + to * piece, to_index(piece)}, from,
                {buffers.receive + from * piece, to_index(piece)});
    }
  }

  void broadcast(const CollectiveCall& call, const CallBuffers& buffers, std::int64_t bytes) const {
    if (me_ != call.root) {
      const std::int64_t root = members_[to_index(call.root)];
      receive_all(mesh_[to_index(root)], {buffers.receive, to_index(bytes)}, deadline_,
                  rank_name(root));
      return;
    }
    for (const std::int64_t member : members_) {
      if (member == members_[to_index(me_)]) continue;
      send_all(mesh_[to_index(member)], {buffers.send, to_index(bytes)}, deadline_,
               rank_name(member));
    }
    copy(buffers.receive, buffers.send, bytes);
  }

  void scale(const CollectiveCall& call, std::vector<std::byte>& values) const {
    scale_contribution(call.op, call.dtype, values.data(), call.count, size(), false);
  }
  void finish(const CollectiveCall& call, std::byte* values, std::int64_t count) const {
    finish_reduction(call.op, call.dtype, values, count, size(), false);
  }

  const Mesh& mesh_;
  std::vector<std::int64_t> members_;
  std::int64_t me_ = 0;
  Deadline deadline_;
};

class CpuGroup final : public Group {
 public:
  CpuGroup(const std::vector<Mesh>& meshes, const RankRange& ranks,
           std::span<const std::int64_t> colours, Deadline deadline) {
    for (std::int64_t i = 0; i < ranks.local; ++i) {
      const std::int64_t rank = ranks.first + i;
      std::vector<std::int64_t> members;
      for (std::int64_t other = 0; other < ranks.world; ++other) {
        if (colours[to_index(other)] == colours[to_index(rank)]) members.push_back(other);
      }
      members_.emplace_back(meshes[to_index(i)], std::move(members), rank, deadline);
    }
  }

  void run(std::span<const CollectiveCall> calls, std::span<const CallBuffers> buffers) override {
    for_each([&](std::size_t i) { members_[i].run(calls[i], buffers[i]); });
  }

  std::vector<std::vector<double>> time_us(const CollectiveCall& call,
                                           std::span<const CallBuffers> buffers,
                                           int iterations) override {
    std::vector<std::vector<double>> times(members_.size());
    for_each([&](std::size_t i) {
      for (int n = 0; n < iterations; ++n) {
        const auto begin = std::chrono::steady_clock::now();
        members_[i].run(call, buffers[i]);
        const std::chrono::duration<double, std::micro> took =
            std::chrono::steady_clock::now() - begin;
        times[i].push_back(took.count());
      }
    });
    return times;
  }

  std::optional<double> estimate_us(const CollectiveCall&, std::span<const CallBuffers>) override {
    return std::nullopt;
  }

 private:
  // If there are several local ranks, each runs its work on a thread of its own, since the ranks of
  // a collective wait for each other.
  template <class Work>
  void for_each(Work&& work) {
    if (members_.size() == 1) {
      work(std::size_t{0});
      return;
    }
    run_together(members_.size(), work);
  }

  std::vector<Member> members_;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(Rendezvous& meeting, const RankRange& ranks)
      : ranks_(ranks), deadline_(meeting.deadline()), meshes_(connect_mesh(meeting, ranks)) {}

  BackendFacts facts() const override {
    return {.device = "none: a stand-in on CPUs",
            .driver = {},
            .library = {},
            .transport = "TCP sockets between processes of a CPU",
            .clocks = {},
            .settings = {}};
  }
  const RankRange& ranks() const override { return ranks_; }

  DevicePointer allocate(std::int64_t, std::int64_t bytes) override {
    return {new std::byte[to_index(std::max<std::int64_t>(bytes, 1))](),
            [](const std::byte* block) { delete[] block; }};
  }
  void upload(std::int64_t, std::byte* to, std::span<const std::byte> from) override {
    std::copy(from.begin(), from.end(), to);
  }
  void download(std::int64_t, std::span<std::byte> to, const std::byte* from) override {
    std::copy(from, from + to.size(), to.begin());
  }
  std::unique_ptr<Group> make_group(std::span<const std::int64_t> colours) override {
    return std::make_unique<CpuGroup>(meshes_, ranks_, colours, deadline_);
  }
  std::vector<double> time_kernel_us(const KernelShape& shape, int warmup, int iterations,
                                     std::string& why_not) override {
    return time_cpu_kernel_us(shape, warmup, iterations, why_not);
  }
  bool reduces(ReduceOp op, DType dtype) const override {
    return holds_data(dtype) && shardlab::reduces(op, dtype);
  }

 private:
  RankRange ranks_;
  Deadline deadline_;
  std::vector<Mesh> meshes_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(Rendezvous& meeting, const RankRange& ranks) {
  return std::make_unique<CpuBackend>(meeting, ranks);
}

}  // namespace shardlab
