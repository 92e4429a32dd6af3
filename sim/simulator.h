// Virtual time: every rank of a mesh has a clock and two streams, and runs one schedule of kernels.
//
//   Schedule schedule;
//   add_plan(schedule, plan, {});
//   SimulationResult result = Simulator(mesh, topology, {.repetitions = 100}).run(schedule);
//   result.time_us.p95                       // microseconds until the last rank is done
//
// All ranks launch the same kernels in the same order (SPMD). A stream runs its kernels in that
// order, one at a time; a kernel also waits for those that it names in `after`, on its own rank. A
// collective starts when its last member has arrived, and lasts as long as its slowest member
// takes; the stream of a member that waits is busy. How long a rank takes is the kernel's price,
// changed by the slowdown (sim/slowdown.h): a stack prices the worst group of a mesh dim, so all
// groups take that.
//
// Ranks that the slowdown treats alike stay in lockstep, so one stands for all (folding): a million
// ranks take as long as one. Otherwise each has its clocks, within a bound on memory. Repetitions
// draw anew; they may run on several threads. The result depends on neither threads nor folding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/base/dtype.h"
#include "costmodel/base/enum_names.h"
#include "costmodel/topology.h"
#include "sim/event_queue.h"
#include "sim/mesh.h"
#include "sim/plan.h"
#include "sim/slowdown.h"

namespace shardlab {

enum class Stream : std::uint8_t { kCompute, kCommunication };
inline constexpr int kStreams = 2;
template <>
struct EnumNames<Stream> {
  static constexpr std::string_view kKind = "stream";
  static constexpr std::array kNames = {Named{Stream::kCompute, "compute"},
                                        Named{Stream::kCommunication, "communication"}};
};
[[nodiscard]] constexpr std::string_view to_string(Stream stream) { return name_of(stream); }

struct ScheduledKernel {
  std::string name;  // "all_gather", "aten.mm.default"
  Stream stream = Stream::kCompute;
  MeshDims mesh_dims;        // a collective's; empty for a kernel of one rank
  Bytes full_bytes = 0.0;    // of a collective: the larger of one member's buffers
  DType dtype = DType::kU8;  // as well
  Micros price;
  Micros transfer;         // the part of the price that is bytes on the wire
  std::vector<int> after;  // earlier kernels of the schedule, by index
};

struct Schedule {
  std::vector<ScheduledKernel> kernels;

  // Assumes that `after` names earlier kernels. Returns the kernel's index.
  int add(ScheduledKernel kernel);
};

// Adds a plan's steps, one after the other: collectives on the communication stream, local steps on
// the compute stream. Returns what a kernel that needs the result waits for.
std::vector<int> add_plan(Schedule& schedule, const Plan& plan, std::vector<int> after);

struct SimulationOptions {
  Slowdown slowdown = {};
  std::uint64_t seed = 0;
  int repetitions = 1;
  int threads = 1;
  std::int64_t memory_limit_bytes = std::int64_t{8} << 30U;
  bool fold = true;
  // How many ranks, evenly spread, the timeline of the first repetition shows.
  std::int64_t traced_ranks = 0;
};

// Microseconds: over repetitions, by nearest rank.
struct Quantiles {
  double p50 = 0.0;
  double p95 = 0.0;
  double max = 0.0;
};
// Of at least one value. Sorts them.
[[nodiscard]] Quantiles quantiles_of(std::vector<double> values);

struct KernelTimes {
  Quantiles end_us;      // when the last rank is done with it
  double wait_us = 0.0;  // of a collective's members for the last one: mean over ranks, repetitions
};

// One kernel on one rank.
struct TimelineSpan {
  int kernel = 0;
  std::int64_t rank_index = 0;  // into the mesh
  Picoseconds arrived = 0;
  Picoseconds started = 0;  // later than that where a collective's member waits for others
  Picoseconds ended = 0;
};

struct Timeline {
  std::vector<std::int64_t> rank_indices;  // the ranks that it shows, ascending
  std::vector<TimelineSpan> spans;         // by end, then in the order in which they ended
};

struct SimulationResult {
  Quantiles time_us;                 // until the last rank is done
  std::vector<KernelTimes> kernels;  // by index in the schedule
  std::int64_t simulated_ranks = 0;  // 1 when one stands for all
  int repetitions = 0;               // 1 where they would not differ
  std::uint64_t events = 0;          // of all repetitions
  Timeline timeline;
};

class Simulator {
 public:
  Simulator(DeviceMesh mesh, const Topology& topology, const SimulationOptions& options);

  // Throws InputError: a slow host that the mesh does not reach; LimitError: memory past the limit, a kernel or a run longer than clocks can show.
  [[nodiscard]] SimulationResult run(const Schedule& schedule) const;

 private:
  void expect_host(const std::vector<std::int64_t>& hosts) const;

  DeviceMesh mesh_;
  std::int64_t devices_per_host_;
  SimulationOptions options_;
};

}  // namespace shardlab
