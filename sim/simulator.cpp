#include "sim/simulator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/parallel.h"
#include "costmodel/base/text.h"
#include "sim/counter_hash.h"
#include "sim/flows/fair_share.h"
#include "sim/flows/mesh_flows.h"

namespace shardlab {
namespace {

// What contention needs for each rank: its ports, and what transfers use of them.
constexpr std::int64_t kBytesOfLinks = 2048;
// What each rank needs where the waits of ranks are told.
constexpr std::int64_t kBytesOfWaits =
    static_cast<std::int64_t>(sizeof(RankWaits) + sizeof(std::array<Picoseconds, kStreams>));

// The ranks that are simulated: all ranks of a mesh, or one that stands for all.
struct Ranks {
  std::vector<std::int64_t> global;  // global ranks, by index into the mesh
  std::vector<std::int64_t> host;
  std::vector<std::int64_t> domain;  // the NVLink domain
  [[nodiscard]] std::int64_t count() const { return std::ssize(global); }
};

// The groups of a collective: ranks whose coordinates differ on the collective's mesh dims only.
struct Groups {
  struct Dim {
    std::int64_t stride;
    std::int64_t size;
  };
  std::vector<Dim> dims;
  std::vector<std::int64_t> offsets = {0};  // index of each member, minus that of the first one

  [[nodiscard]] std::int64_t first_member(std::int64_t index) const {
    for (const auto& [stride, size] : dims) index -= index / stride % size * stride;
    return index;
  }
};

Groups groups_of(const DeviceMesh& mesh, const MeshDims& mesh_dims) {
  Groups groups;
  for (const int m : mesh_dims) {
    std::int64_t stride = 1;
    for (int inner = m + 1; inner < mesh.ndim(); ++inner) stride *= mesh.size(inner);
    groups.dims.push_back({stride, mesh.size(m)});
    std::vector<std::int64_t> offsets;
    for (const std::int64_t offset : groups.offsets) {
      for (std::int64_t i = 0; i < mesh.size(m); ++i) offsets.push_back(offset + i * stride);
    }
    groups.offsets = std::move(offsets);
  }
  return groups;
}

// How long a kernel takes on idle links, and how much of it at the end is its transfer.
struct Duration {
  Picoseconds time = 0;
  Picoseconds transfer = 0;
};

// What the groups of collectives use of the links; there are no ports without contention.
struct Links {
  int ports = 0;
  std::vector<std::vector<std::vector<ResourceUse>>> uses;  // by first member
  std::vector<std::size_t> uses_of;                         // by kernel: index into `uses`
};

// What all repetitions of a run share.
struct Script {
  const Schedule& schedule;
  const Slowdown& slowdown;
  Ranks ranks;
  std::vector<Groups> groups;
  std::vector<std::size_t> groups_of;  // by kernel: index into `groups`
  int streams = 0;
  std::array<std::vector<int>, kStreams> by_stream;
  std::vector<int> turn;             // by kernel: position in its stream
  std::vector<Duration> alike;       // by kernel; empty unless all ranks take the same time
  std::vector<std::int64_t> traced;  // the simulated ranks on the timeline, ascending
  Links links;
  [[nodiscard]] const Groups& groups_of_kernel(int kernel) const {
    return groups[groups_of[to_index(kernel)]];
  }
  [[nodiscard]] int kernels() const { return static_cast<int>(schedule.kernels.size()); }
};

// The duration of a kernel that takes `time` on the rank of the draw.
Duration duration_at(const Slowdown& slowdown, const ScheduledKernel& kernel, Micros time,
                     const Slowdown::Draw& draw) {
  Duration duration{.time = to_picoseconds(time), .transfer = 0};
  if (kernel.transfer > Micros()) {
    const Micros rest = slowdown.time(kernel.price - kernel.transfer, Micros(), draw);
    duration.transfer =
        duration.time - std::min(duration.time, to_picoseconds(std::max(rest, Micros())));
  }
  return duration;
}

// One repetition of the run.
class Repetition {
 public:
  Repetition(const Script& script, std::uint64_t seed, bool records, bool tells_waits)
      : script_(script),
        seed_(seed),
        positions_(to_index(script.ranks.count())),
        busy_(to_index(script.ranks.count())),
        meetings_(to_index(script.kernels())),
        ends_(to_index(script.kernels()), 0),
        waits_(to_index(script.kernels()), 0.0) {
    if (script.links.ports > 0) {
      share_.emplace(std::vector<double>(to_index(script.links.ports), 1.0));
    }
    if (tells_waits) {
      rank_waits_.resize(to_index(script.ranks.count()));
      arrived_at_.resize(to_index(script.ranks.count()));
    }
    if (!records) return;
    slot_.assign(to_index(script.ranks.count()), -1);
    for (std::size_t i = 0; i < script.traced.size(); ++i) {
      slot_[to_index(script.traced[i])] = static_cast<int>(i);
    }
    arrivals_.assign(script.traced.size(), std::vector<Picoseconds>(to_index(script.kernels()), 0));
    starts_ = arrivals_;
    lasts_.assign(script.traced.size(), std::vector<std::int64_t>(to_index(script.kernels()), 0));
  }

  void run() {
    queue_.reserve(to_index(script_.ranks.count()));
    for (std::int64_t r = 0; r < script_.ranks.count(); ++r) launch(r, 0);
    while (!queue_.empty()) {
      const auto event = queue_.pop();
      if (event.payload.kernel >= 0) {
        finish(event.payload.kernel, event.payload.first_member, event.time);
      } else {
        go_on(to_index(-1 - event.payload.kernel), event.payload.first_member, event.time);
      }
      // All that starts or ends now does so before the links are shared anew.
      if (share_ && (queue_.empty() || queue_.next_time() > event.time)) settle(event.time);
    }
    for (std::int64_t r = 0; r < script_.ranks.count(); ++r) {
      for (int s = 0; s < script_.streams; ++s) {
        SHARDLAB_CHECK(positions_[to_index(r)][to_index(s)] ==
                           static_cast<int>(script_.by_stream[to_index(s)].size()),
                       "rank ", r, " is stuck");
      }
    }
  }

  [[nodiscard]] const std::vector<Picoseconds>& ends() const { return ends_; }
  [[nodiscard]] const std::vector<double>& waits() const { return waits_; }
  [[nodiscard]] std::uint64_t events() const { return queue_.pushed(); }
  [[nodiscard]] std::vector<TimelineSpan>& spans() { return spans_; }
  [[nodiscard]] std::vector<RankWaits>& rank_waits() { return rank_waits_; }

 private:
  // The end of a kernel, or the start or the end of a transfer that shares links. Of a transfer,
  // `kernel` is -1 minus its index, and `first_member` the number of the plan that it belongs to.
  struct Payload {
    int kernel;
    std::int64_t first_member;
  };
  // A collective of one group that shares links. Whenever its speed changes, it plans its next
  // event anew; events of former plans are void.
  struct Transfer {
    int kernel = 0;
    std::int64_t first_member = 0;
    std::int64_t plan = 0;
    int flow = -1;          // -1 before the transfer starts
    Picoseconds alone = 0;  // how long it takes on idle links
    Picoseconds since = 0;  // when the speed last changed
    double left = 0.0;      // picoseconds at speed 1 that were left then
    double speed = 1.0;
  };
  // Where the members of one kernel's groups wait for each other.
  struct Meeting {
    std::vector<std::int32_t> arrived;  // by first member: how many members have arrived
    std::vector<double> arrival_sum;    // by first member: sum of their arrivals, picoseconds
    std::int64_t done = 0;              // how many ranks are done with the kernel
  };

  // Starts the next kernel of each idle stream of the rank, unless it must wait for others.
  void launch(std::int64_t rank, Picoseconds now) {
    for (int s = 0; s < script_.streams; ++s) {
      if (busy_[to_index(rank)][to_index(s)]) continue;
      const int position = positions_[to_index(rank)][to_index(s)];
      const std::vector<int>& kernels = script_.by_stream[to_index(s)];
      if (position == static_cast<int>(kernels.size())) continue;
      const int kernel = kernels[to_index(position)];
      const auto& after = script_.schedule.kernels[to_index(kernel)].after;
      if (std::all_of(after.begin(), after.end(), [&](int k) { return is_done(k, rank); })) {
        arrive(kernel, rank, s, now);
      }
    }
  }

  [[nodiscard]] bool is_done(int kernel, std::int64_t rank) const {
    const auto stream =
        to_index(static_cast<std::int64_t>(script_.schedule.kernels[to_index(kernel)].stream));
    return positions_[to_index(rank)][stream] > script_.turn[to_index(kernel)];
  }

  void arrive(int kernel, std::int64_t rank, int stream, Picoseconds now) {
    busy_[to_index(rank)][to_index(stream)] = true;
    if (!slot_.empty() && slot_[to_index(rank)] >= 0)
      arrivals_[to_index(slot_[to_index(rank)])][to_index(kernel)] = now;
    const Groups& groups = script_.groups_of_kernel(kernel);
    const auto members = std::ssize(groups.offsets);
    const std::int64_t first = groups.first_member(rank);
    if (!rank_waits_.empty()) arrived_at_[to_index(rank)][to_index(stream)] = now;
    if (members > 1) {
      Meeting& meeting = meetings_[to_index(kernel)];
      if (meeting.arrived.empty()) {
        meeting.arrived.assign(to_index(script_.ranks.count()), 0);
        meeting.arrival_sum.assign(to_index(script_.ranks.count()), 0.0);
      }
      meeting.arrival_sum[to_index(first)] += static_cast<double>(now);
      if (++meeting.arrived[to_index(first)] < members) return;
      waits_[to_index(kernel)] += static_cast<double>(now) * static_cast<double>(members) -
                                  meeting.arrival_sum[to_index(first)];
      if (!rank_waits_.empty()) note_waits(groups, first, rank, stream, now);
    }
    const Duration duration = duration_of(kernel, first);
    if (share_ && duration.transfer > 0 && !uses_of(kernel, first).empty()) {
      plan_transfer(kernel, first, later(now, duration.time - duration.transfer),
                    duration.transfer);
    } else {
      queue_.push(later(now, duration.time), {kernel, first});
    }
    if (slot_.empty()) return;
    for (const std::int64_t offset : groups.offsets) {
      const int slot = slot_[to_index(first + offset)];
      if (slot < 0) continue;
      starts_[to_index(slot)][to_index(kernel)] = now;
      lasts_[to_index(slot)][to_index(kernel)] = rank;
    }
  }

  // Adds what the members of a group have waited for `last`, which arrives now.
  void note_waits(const Groups& groups, std::int64_t first, std::int64_t last, int stream,
                  Picoseconds now) {
    for (const std::int64_t offset : groups.offsets) {
      const double us = to_micros(now - arrived_at_[to_index(first + offset)][to_index(stream)]);
      rank_waits_[to_index(first + offset)].waits_us += us;
      rank_waits_[to_index(last)].delays_us += us;
    }
  }

  // Throws LimitError for a time that the clocks can't represent.
  [[nodiscard]] static Picoseconds later(Picoseconds now, Picoseconds time) {
    if (time > std::numeric_limits<Picoseconds>::max() - now) {
      throw LimitError(
          "the simulated time exceeds 106 days, the longest that its clocks can represent");
    }
    return now + time;
  }

  [[nodiscard]] const std::vector<ResourceUse>& uses_of(int kernel, std::int64_t first) const {
    const Links& links = script_.links;
    return links.uses[links.uses_of[to_index(kernel)]][to_index(first)];
  }

  // Plans the start of a group's transfer, which takes `alone` on idle links.
  void plan_transfer(int kernel, std::int64_t first, Picoseconds start, Picoseconds alone) {
    std::size_t index = transfers_.size();
    if (idle_transfers_.empty()) {
      transfers_.emplace_back();
    } else {
      index = idle_transfers_.back();
      idle_transfers_.pop_back();
    }
    Transfer& transfer = transfers_[index];
    transfer.kernel = kernel;
    transfer.first_member = first;
    transfer.flow = -1;
    transfer.alone = alone;
    transfer.left = static_cast<double>(alone);
    transfer.speed = 1.0;
    plan_event(index, start);
  }

  void plan_event(std::size_t index, Picoseconds time) {
    queue_.push(time, {-1 - static_cast<int>(index), ++transfers_[index].plan});
  }

  // The next event of a transfer: it starts or ends.
  void go_on(std::size_t index, std::int64_t plan, Picoseconds now) {
    Transfer& transfer = transfers_[index];
    if (plan != transfer.plan) return;
    if (transfer.flow < 0) {
      transfer.flow = share_->add(uses_of(transfer.kernel, transfer.first_member));
      transfer.since = now;
      transfer_of_.resize(std::max(transfer_of_.size(), to_index(transfer.flow) + 1));
      transfer_of_[to_index(transfer.flow)] = index;
      plan_event(index, later(now, transfer.alone));
      return;
    }
    share_->remove(transfer.flow);
    ++transfer.plan;
    idle_transfers_.push_back(index);
    finish(transfer.kernel, transfer.first_member, now);
  }

  // Gives the transfers the speeds that they have from now on.
  void settle(Picoseconds now) {
    for (const int flow : share_->update()) {
      const std::size_t index = transfer_of_[to_index(flow)];
      Transfer& transfer = transfers_[index];
      const double speed = share_->speed(flow);
      if (speed == transfer.speed) continue;  // a new transfer starts out with speed 1
      transfer.left =
          std::max(0.0, transfer.left - static_cast<double>(now - transfer.since) * transfer.speed);
      transfer.since = now;
      transfer.speed = speed;
      plan_event(index,
                 later(now, to_picoseconds(Micros(transfer.left / speed / kPicosecondsPerMicro))));
    }
  }

  // What the slowest member of the group takes.
  [[nodiscard]] Duration duration_of(int kernel, std::int64_t first) const {
    if (!script_.alike.empty()) return script_.alike[to_index(kernel)];
    const ScheduledKernel& scheduled = script_.schedule.kernels[to_index(kernel)];
    const std::vector<std::int64_t>& offsets = script_.groups_of_kernel(kernel).offsets;
    const auto host = [&](std::int64_t offset) {
      return script_.ranks.host[to_index(first + offset)];
    };
    const auto domain = [&](std::int64_t offset) {
      return script_.ranks.domain[to_index(first + offset)];
    };
    const bool leaves_domain = std::any_of(
        offsets.begin(), offsets.end(), [&](auto offset) { return domain(offset) != domain(0); });
    Micros longest;
    Slowdown::Draw slowest{};
    for (const std::int64_t offset : offsets) {
      const Slowdown::Draw draw{.seed = seed_,
                                .kernel = kernel,
                                .rank = script_.ranks.global[to_index(first + offset)],
                                .host = host(offset),
                                .leaves_domain = leaves_domain};
      const Micros time = script_.slowdown.time(scheduled.price, scheduled.transfer, draw);
      if (time <= longest) continue;
      longest = time;
      slowest = draw;
    }
    if (!share_) return {.time = to_picoseconds(longest), .transfer = 0};
    return duration_at(script_.slowdown, scheduled, longest, slowest);
  }

  void finish(int kernel, std::int64_t first, Picoseconds now) {
    const auto stream =
        to_index(static_cast<std::int64_t>(script_.schedule.kernels[to_index(kernel)].stream));
    const std::vector<std::int64_t>& offsets = script_.groups_of_kernel(kernel).offsets;
    ends_[to_index(kernel)] = now;  // events come in order of time, so the last group's end stays
    for (const std::int64_t offset : offsets) {
      const std::int64_t rank = first + offset;
      busy_[to_index(rank)][stream] = false;
      ++positions_[to_index(rank)][stream];
      if (!rank_waits_.empty()) rank_waits_[to_index(rank)].end_us = to_micros(now);
      if (slot_.empty() || slot_[to_index(rank)] < 0) continue;
      const auto slot = to_index(slot_[to_index(rank)]);
      spans_.push_back({.kernel = kernel,
                        .rank_index = rank,
                        .arrived = arrivals_[slot][to_index(kernel)],
                        .started = starts_[slot][to_index(kernel)],
                        .ended = now,
                        .last_index = lasts_[slot][to_index(kernel)]});
    }
    Meeting& meeting = meetings_[to_index(kernel)];
    meeting.done += std::ssize(offsets);
    if (meeting.done == script_.ranks.count()) meeting = {};
    for (const std::int64_t offset : offsets) launch(first + offset, now);
  }

  const Script& script_;
  std::uint64_t seed_;
  std::optional<FairShare> share_;  // how transfers share the links; only with contention
  std::vector<Transfer> transfers_;
  std::vector<std::size_t> idle_transfers_;
  std::vector<std::size_t> transfer_of_;  // by flow
  EventQueue<Payload> queue_;
  std::vector<std::array<int, kStreams>> positions_;  // by rank: how many kernels are done
  std::vector<std::array<bool, kStreams>> busy_;
  std::vector<Meeting> meetings_;  // by kernel
  std::vector<Picoseconds> ends_;
  std::vector<double> waits_;  // by kernel: picoseconds, all ranks together
  std::vector<int> slot_;      // by rank: index into `traced` or -1; empty if nothing is recorded
  std::vector<std::vector<Picoseconds>> arrivals_;  // by slot and kernel
  std::vector<std::vector<Picoseconds>> starts_;
  std::vector<std::vector<std::int64_t>> lasts_;  // the member that arrived last
  std::vector<TimelineSpan> spans_;
  std::vector<RankWaits> rank_waits_;                          // empty unless asked for
  std::vector<std::array<Picoseconds, kStreams>> arrived_at_;  // by rank: its latest arrivals
};

// Up to `wanted` ranks, evenly spread over all of them.
std::vector<std::int64_t> spread(std::int64_t ranks, std::int64_t wanted) {
  std::vector<std::int64_t> chosen;
  const std::int64_t count = std::min(ranks, wanted);
  const double step =
      static_cast<double>(ranks) / static_cast<double>(std::max<std::int64_t>(count, 1));
  for (std::int64_t i = 0; i < count; ++i) {
    chosen.push_back(static_cast<std::int64_t>(static_cast<double>(i) * step));
  }
  return chosen;
}

// The script of a run. Kernels on the same mesh dims share their groups; a rank that stands for all
// is alone in its group.
Script script_of(const Schedule& schedule, const Slowdown& slowdown, const DeviceMesh& mesh,
                 Ranks ranks, std::vector<std::int64_t> traced, bool folds, Links links) {
  Script script{.schedule = schedule,
                .slowdown = slowdown,
                .ranks = std::move(ranks),
                .groups = {},
                .groups_of = {},
                .streams = schedule.streams(),
                .by_stream = {},
                .turn = {},
                .alike = {},
                .traced = std::move(traced),
                .links = std::move(links)};
  std::map<MeshDims, std::size_t> groups;
  for (int k = 0; k < script.kernels(); ++k) {
    const ScheduledKernel& kernel = schedule.kernels[to_index(k)];
    std::vector<int>& stream = script.by_stream[to_index(static_cast<std::int64_t>(kernel.stream))];
    script.turn.push_back(static_cast<int>(stream.size()));
    stream.push_back(k);
    const auto [known, is_new] =
        groups.emplace(folds ? MeshDims() : kernel.mesh_dims, script.groups.size());
    if (is_new) script.groups.push_back(groups_of(mesh, known->first));
    script.groups_of.push_back(known->second);
    if (slowdown.treats_ranks_alike()) {
      script.alike.push_back(
          duration_at(slowdown, kernel, slowdown.time(kernel.price, kernel.transfer, {}), {}));
    }
  }
  return script;
}

// The links that the collectives of a schedule share. Those on the same mesh dims that send their
// bytes alike use the same links.
Links links_of(const Schedule& schedule, const MeshFlows& flows) {
  Links links{.ports = flows.ports(), .uses = {}, .uses_of = {}};
  std::map<std::pair<MeshDims, Collective>, std::size_t> known;
  for (const ScheduledKernel& kernel : schedule.kernels) {
    const Collective kind = collective_from_name(kernel.name).value_or(Collective::kAllGather);
    const auto [it, is_new] = known.emplace(std::pair(kernel.mesh_dims, kind), links.uses.size());
    if (is_new) links.uses.push_back(flows.uses(kernel.mesh_dims, kind));
    links.uses_of.push_back(it->second);
  }
  return links;
}

// The results of one repetition.
struct Outcome {
  std::vector<Picoseconds> ends;  // by kernel
  std::vector<double> waits;      // by kernel: picoseconds, all ranks together
  std::uint64_t events = 0;
};

SimulationResult summary_of(std::span<const Outcome> outcomes, std::int64_t ranks, int kernels) {
  SimulationResult result;
  result.simulated_ranks = ranks;
  result.repetitions = static_cast<int>(outcomes.size());
  std::vector<double> totals;
  std::vector<std::vector<double>> ends(to_index(kernels));
  result.kernels.resize(ends.size());
  for (const Outcome& outcome : outcomes) {
    Picoseconds last = 0;
    for (std::size_t k = 0; k < ends.size(); ++k) {
      last = std::max(last, outcome.ends[k]);
      ends[k].push_back(to_micros(outcome.ends[k]));
      result.kernels[k].wait_us += outcome.waits[k] / kPicosecondsPerMicro /
                                   static_cast<double>(ranks) /
                                   static_cast<double>(result.repetitions);
    }
    totals.push_back(to_micros(last));
    result.events += outcome.events;
  }
  result.time_us = quantiles_of(std::move(totals));
  for (std::size_t k = 0; k < ends.size(); ++k) {
    result.kernels[k].end_us = quantiles_of(std::move(ends[k]));
  }
  return result;
}

}  // namespace

int Schedule::streams() const {
  int streams = 2;
  for (const ScheduledKernel& kernel : kernels) {
    streams = std::max(streams, 1 + static_cast<int>(kernel.stream));
  }
  return streams;
}

int Schedule::add(ScheduledKernel kernel) {
  const int index = static_cast<int>(kernels.size());
  for (const int k : kernel.after) SHARDLAB_CHECK(k >= 0 && k < index, k, " before ", index);
  kernels.push_back(std::move(kernel));
  return index;
}

std::vector<int> add_plan(Schedule& schedule, const Plan& plan, std::vector<int> after) {
  for (const PlanStep& step : plan.steps) {
    ScheduledKernel kernel;
    kernel.name = std::string(to_string(step.collective));
    kernel.price = step.price.total;
    kernel.after = std::move(after);
    if (step.collective != Collective::kLocal) {
      kernel.stream = Stream::kCommunication;
      kernel.mesh_dims = step.mesh_dims;
      kernel.transfer = step.price.transfer;
      kernel.full_bytes = step.full_bytes;
      kernel.dtype = plan.meta.dtype;
    }
    after = {schedule.add(std::move(kernel))};
  }
  return after;
}

Quantiles quantiles_of(std::vector<double> values) {
  SHARDLAB_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const auto nearest = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<std::size_t>(rank) - 1];
  };
  return {.p50 = nearest(0.5), .p95 = nearest(0.95), .max = values.back()};
}

Simulator::Simulator(DeviceMesh mesh, const Topology& topology, const SimulationOptions& options)
    : mesh_(std::move(mesh)), topology_(topology), options_(options) {
  SHARDLAB_CHECK(options_.repetitions >= 1, options_.repetitions);
  for (const std::int64_t rank : options_.shown_ranks) {
    SHARDLAB_CHECK(rank >= 0 && rank < mesh_.size(), rank);
  }
}

void Simulator::expect_host(const std::vector<std::int64_t>& hosts) const {
  const Slowdown::Kind kind = options_.slowdown.kind();
  if (kind != Slowdown::Kind::kHost && kind != Slowdown::Kind::kLink) return;
  const std::set<std::int64_t> reached(hosts.begin(), hosts.end());
  if (reached.contains(options_.slowdown.host())) return;
  throw InputError("straggler model " + options_.slowdown.text() + ": mesh " + mesh_.text() +
                   " has no host " + std::to_string(options_.slowdown.host()) + "; valid: " +
                   std::to_string(*reached.begin()) + " to " + std::to_string(*reached.rbegin()));
}

// How many repetitions a run has, and how many of them fit into the memory at a time. Throws
// LimitError when not even one does.
Simulator::Needs Simulator::needs(const Schedule& schedule, bool folds) const {
  Needs needs;
  needs.repetitions = options_.slowdown.is_random() ? options_.repetitions : 1;
  const std::int64_t kernels = std::ssize(schedule.kernels);
  // The clocks of a rank, one event, and its part in every meeting that may be open.
  const std::int64_t per_rank = 96 + 12 * kernels + (options_.contention ? kBytesOfLinks : 0) +
                                (options_.tells_waits ? kBytesOfWaits : 0);
  const std::int64_t per_run = saturating_product(folds ? 1 : mesh_.size(), per_rank);
  // Each repetition leaves a kernel's end and wait, which are held twice while they are sorted.
  const std::int64_t results =
      saturating_product(32 * std::max<std::int64_t>(kernels, 1), needs.repetitions);
  if (per_run > options_.memory_limit_bytes || results > options_.memory_limit_bytes - per_run) {
    const auto text = [](std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
    const auto counted = [](std::int64_t count, const char* noun) {
      return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
    };
    std::string what = "the run needs ";
    if (!folds) {
      what += text(per_run) + " for the clocks of " + counted(mesh_.size(), "rank") +
              ", since each has its own under " + options_.slowdown.text() + ", and ";
    }
    what += text(results) + " for " + counted(needs.repetitions, "repetition") + " of " +
            counted(kernels, "kernel");
    throw LimitError(
        what + "; the limit is " + text(options_.memory_limit_bytes) +
        "; valid: a higher limit, fewer " +
        (folds ? "repetitions" : "ranks or repetitions, or the straggler model none or percent:P"));
  }
  needs.threads = static_cast<int>(std::clamp<std::int64_t>(
      (options_.memory_limit_bytes - results) / per_run, 1, options_.threads));
  return needs;
}

SimulationResult Simulator::run(const Schedule& schedule) const {
  bool folds = options_.fold && options_.slowdown.treats_ranks_alike();
  std::optional<MeshFlows> flows;
  if (options_.contention) {
    flows.emplace(mesh_, topology_, folds);
    folds = flows->folds();
    if (!folds && mesh_.size() > MeshFlows::kMostUnfolded) {
      throw LimitError(
          "contention needs the links of each of " + std::to_string(mesh_.size()) +
          " ranks, since they are not alike; valid: at most " +
          std::to_string(MeshFlows::kMostUnfolded) +
          " ranks, or mesh dims that fill the hosts evenly and the straggler model none or "
          "percent:P");
    }
  }
  const Needs needs = this->needs(schedule, folds);
  Ranks ranks{
      .global = folds ? std::vector<std::int64_t>{0} : mesh_.ranks(), .host = {}, .domain = {}};
  for (const std::int64_t rank : ranks.global) {
    ranks.host.push_back(rank / topology_.devices_per_host());
    ranks.domain.push_back(rank / topology_.domain_devices());
  }
  expect_host(ranks.host);
  const std::vector<std::int64_t> shown = options_.shown_ranks.empty()
                                              ? spread(mesh_.size(), options_.traced_ranks)
                                              : options_.shown_ranks;
  const Script script = script_of(schedule, options_.slowdown, mesh_, std::move(ranks),
                                  folds ? std::vector<std::int64_t>{0} : shown, folds,
                                  flows ? links_of(schedule, *flows) : Links());

  std::vector<Outcome> outcomes(to_index(needs.repetitions));
  std::vector<TimelineSpan> spans;
  std::vector<RankWaits> waits;
  parallel_for(
      outcomes.size(), needs.threads, [] { return std::make_unique<int>(0); },
      [&](int&, std::size_t i) {
        const bool records = i == 0 && !shown.empty();
        Repetition repetition(script, counter_hash(options_.seed, i, 0), records,
                              i == 0 && options_.tells_waits);
        repetition.run();
        outcomes[i] = {repetition.ends(), repetition.waits(), repetition.events()};
        if (records) spans = std::move(repetition.spans());
        if (i == 0) waits = std::move(repetition.rank_waits());
      });
  SimulationResult result = summary_of(outcomes, script.ranks.count(), script.kernels());
  result.waits = std::move(waits);
  if (shown.empty()) return result;
  result.timeline.rank_indices = shown;
  if (!folds) {
    result.timeline.spans = std::move(spans);
    return result;
  }
  for (const TimelineSpan& span : spans) {
    for (const std::int64_t rank : shown) {
      result.timeline.spans.push_back(span);
      result.timeline.spans.back().rank_index = rank;
      result.timeline.spans.back().last_index = rank;
    }
  }
  return result;
}

}  // namespace shardlab
