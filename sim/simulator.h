// Simulates a run in virtual time: every rank of a mesh has a clock and a few streams, and runs the
// same schedule of kernels.
//
//   Schedule schedule;
//   add_plan(schedule, plan, {});
//   SimulationResult result = Simulator(mesh, topology, {.repetitions = 100}).run(schedule);
//   result.time_us.p95                       // microseconds until the last rank is done
//
// All ranks launch the same kernels in the same order. A stream runs its kernels in that order, one
// at a time. A kernel also waits for those that it names in `after`, on its own rank. A collective
// starts when its last member has arrived and lasts as long as its slowest member takes; the stream
// of a member that waits is busy. On each rank a kernel takes its price, changed by the slowdown
// (sim/slowdown.h). That price is the same for all groups of a mesh dim: the price of the worst
// one.
//
// With `contention`, collectives that run at once share the bandwidth of their links
// (sim/flows/mesh_flows.h): those of different streams on one rank, and those of different ranks
// that have a network interface in common. A collective first spends what is not its transfer,
// which nothing slows down, and then transfers at its fair share. A collective that meets no other
// takes its price to the digit. Kernels of one rank, and what a slow link leaves to others, are no
// part of it.
//
// Ranks that the slowdown treats alike stay in lockstep. One rank then stands for all of them
// (folding), so that simulating a million ranks takes as long as simulating one; with contention
// the mesh dims must fill the hosts evenly for that. Otherwise every rank has clocks of its own,
// within a bound on memory. Every repetition draws its own random numbers, and repetitions may run
// on several threads. The result does not depend on threads. Nor does it depend on folding, but for
// a few picoseconds of rounding under contention.
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

// A plan uses the first two. Under fully_shard, gathers of weights and reductions of gradients have
// a stream each (strategies/steps).
enum class Stream : std::uint8_t { kCompute, kCommunication, kGather, kReduction };
inline constexpr int kStreams = 4;
template <>
struct EnumNames<Stream> {
  static constexpr std::string_view kKind = "stream";
  static constexpr std::array kNames = {Named{Stream::kCompute, "compute"},
                                        Named{Stream::kCommunication, "communication"},
                                        Named{Stream::kGather, "gathers of weights"},
                                        Named{Stream::kReduction, "reductions of gradients"}};
};
[[nodiscard]] constexpr std::string_view to_string(Stream stream) { return name_of(stream); }

struct ScheduledKernel {
  std::string name;  // "all_gather", "aten.mm.default"
  Stream stream = Stream::kCompute;
  MeshDims mesh_dims;        // the mesh dims of a collective; empty for a kernel of one rank
  Bytes full_bytes = 0.0;    // the larger of one member's two buffers; collectives only
  DType dtype = DType::kU8;  // dtype of the buffers; collectives only
  Micros price;
  Micros transfer;         // the part of the price that is bytes on the wire
  std::vector<int> after;  // earlier kernels of the schedule, by index
};

struct Schedule {
  std::vector<ScheduledKernel> kernels;

  // How many streams there are: the first two, and all up to the last one that a kernel uses.
  [[nodiscard]] int streams() const;
  // Returns the kernel's index. Throws ContractError if `after` names a kernel that is not earlier.
  int add(ScheduledKernel kernel);
};

// Adds the steps of a plan, one after the other: collectives on the communication stream, local
// steps on the compute stream. The first step waits for `after`. Returns the kernels for which a
// kernel that needs the plan's result must wait.
std::vector<int> add_plan(Schedule& schedule, const Plan& plan, std::vector<int> after);

struct SimulationOptions {
  Slowdown slowdown = {};
  std::uint64_t seed = 0;
  int repetitions = 1;
  int threads = 1;
  std::int64_t memory_limit_bytes = std::int64_t{8} << 30U;
  bool fold = true;
  // How many ranks the timeline of the first repetition shows. They are spread evenly over the
  // mesh.
  std::int64_t traced_ranks = 0;
  // Whether collectives that run at once share the bandwidth of their links.
  bool contention = false;
  // The ranks that the timeline shows, ascending, as indices into the mesh; with any of them,
  // `traced_ranks` is not read.
  std::vector<std::int64_t> shown_ranks = {};
  // Whether the result says for each rank how long it waits and is waited for.
  bool tells_waits = false;
};

// Quantiles over the repetitions, in microseconds, by the nearest-rank method.
struct Quantiles {
  double p50 = 0.0;
  double p95 = 0.0;
  double max = 0.0;
};
// Throws ContractError when there is no value.
[[nodiscard]] Quantiles quantiles_of(std::vector<double> values);

struct KernelTimes {
  Quantiles end_us;      // when the last rank is done with the kernel
  double wait_us = 0.0;  // a member's wait for the last one: mean over ranks and repetitions
};

// What one rank spends on waiting in its collectives, in the first repetition.
struct RankWaits {
  double waits_us = 0.0;   // how long it waits for members that arrive after it
  double delays_us = 0.0;  // how long all others wait for it, where it arrives last
  double end_us = 0.0;     // when it is done with its last kernel
};

// One kernel as one rank runs it.
struct TimelineSpan {
  int kernel = 0;
  std::int64_t rank_index = 0;  // index into the mesh
  Picoseconds arrived = 0;
  Picoseconds started = 0;  // later than `arrived` if the member of a collective waits for others
  Picoseconds ended = 0;
  std::int64_t last_index = 0;  // the member that arrived last, for which this one waited
};

struct Timeline {
  std::vector<std::int64_t> rank_indices;  // the ranks that are shown, ascending
  std::vector<TimelineSpan> spans;         // in the order in which they ended
};

struct SimulationResult {
  Quantiles time_us;                 // until the last rank is done
  std::vector<KernelTimes> kernels;  // by index in the schedule
  std::int64_t simulated_ranks = 0;  // 1 when one rank stands for all
  int repetitions = 0;               // 1 if repetitions would not differ
  std::uint64_t events = 0;          // all repetitions together
  Timeline timeline;
  std::vector<RankWaits> waits;  // by simulated rank; empty unless `tells_waits`
};

class Simulator {
 public:
  Simulator(DeviceMesh mesh, const Topology& topology, const SimulationOptions& options);

  // Throws InputError for a slow host that the mesh does not reach, and LimitError when memory does
  // not suffice, when a kernel or the run takes longer than the clocks can represent, or when the
  // links of more than MeshFlows::kMostUnfolded ranks would have to be followed one by one.
  [[nodiscard]] SimulationResult run(const Schedule& schedule) const;

 private:
  struct Needs {
    int repetitions = 1;
    int threads = 1;
  };
  [[nodiscard]] Needs needs(const Schedule& schedule, bool folds) const;
  void expect_host(const std::vector<std::int64_t>& hosts) const;

  DeviceMesh mesh_;
  Topology topology_;
  SimulationOptions options_;
};

}  // namespace shardlab
