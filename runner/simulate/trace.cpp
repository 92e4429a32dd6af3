#include "runner/simulate/trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <utility>

#include "costmodel/base/index.h"
#include "costmodel/measurements/kineto_trace.h"
#include "runner/simulate/trace_groups.h"

namespace shardlab {
namespace {

// Writes one event per line.
class EventWriter {
 public:
  explicit EventWriter(std::ostream& out) : out_(out) {}
  void write(const nlohmann::ordered_json& event) {
    out_ << (is_first_ ? "\n" : ",\n") << event.dump();
    is_first_ = false;
  }

 private:
  std::ostream& out_;
  bool is_first_ = true;
};

struct Thread {
  std::int64_t host;
  std::int64_t rank;
  int streams;  // how many streams the schedule has
  [[nodiscard]] std::int64_t id(Stream stream) const {
    return streams * rank + static_cast<std::int64_t>(stream);
  }
};

using Json = nlohmann::ordered_json;

void write_names(EventWriter& out, const std::map<std::int64_t, Thread>& threads) {
  std::set<std::int64_t> hosts;
  for (const auto& [index, thread] : threads) {
    if (hosts.insert(thread.host).second) {
      out.write({{"ph", "M"},
                 {"name", "process_name"},
                 {"pid", thread.host},
                 {"args", {{"name", "host " + std::to_string(thread.host)}}}});
    }
    for (int s = 0; s < thread.streams; ++s) {
      const auto stream = static_cast<Stream>(s);
      const std::string name =
          "rank " + std::to_string(thread.rank) + " " + std::string(to_string(stream));
      out.write({{"ph", "M"},
                 {"name", "thread_name"},
                 {"pid", thread.host},
                 {"tid", thread.id(stream)},
                 {"args", {{"name", name}}}});
      out.write({{"ph", "M"},
                 {"name", "thread_sort_index"},
                 {"pid", thread.host},
                 {"tid", thread.id(stream)},
                 {"args", {{"sort_index", thread.id(stream)}}}});
    }
  }
}

// Writes one slice. `args` describes the collective, if the kernel is one.
void write_slice(EventWriter& out, const ScheduledKernel& kernel, const TimelineSpan& span,
                 const Thread& thread, const Json& args) {
  Json slice = {{"ph", "X"},
                {"name", kernel.name},
                {"cat", "kernel"},
                {"pid", thread.host},
                {"tid", thread.id(kernel.stream)},
                {"ts", to_micros(span.arrived)},
                {"dur", to_micros(span.ended - span.arrived)},
                {"args", {{"kernel", span.kernel}}}};
  slice["args"].update(args);
  out.write(slice);
  if (span.started == span.arrived) return;
  out.write({{"ph", "X"},
             {"name", "wait"},
             {"cat", "wait"},
             {"pid", thread.host},
             {"tid", thread.id(kernel.stream)},
             {"ts", to_micros(span.arrived)},
             {"dur", to_micros(span.started - span.arrived)}});
}

// The number of whole elements that a rank sends or receives: its part of a collective's full
// bytes, rounded up as in a padded split.
std::int64_t elements(double full_bytes, DType dtype, std::int64_t parts) {
  constexpr double kMost = 9e18;
  return static_cast<std::int64_t>(
      std::min(kMost, std::ceil(full_bytes / itemsize(dtype) / static_cast<double>(parts))));
}

// The keys that PyTorch's profiler writes for NCCL's kernels, and the exact bytes.
Json collective_args(const ScheduledKernel& kernel, const TracedGroup& group, std::int64_t number,
                     std::int64_t rank) {
  const Collective collective = collective_from_name(kernel.name).value_or(Collective::kLocal);
  const bool gathers = collective == Collective::kAllGather;
  const bool scatters =
      collective == Collective::kReduceScatter || collective == Collective::kScatter;
  return {{"mesh_dims", std::vector<int>(kernel.mesh_dims.begin(), kernel.mesh_dims.end())},
          {"full_bytes", kernel.full_bytes},
          {"Collective name", kineto_name_of(collective)},
          {"In msg nelems", elements(kernel.full_bytes, kernel.dtype, gathers ? group.size : 1)},
          {"Out msg nelems", elements(kernel.full_bytes, kernel.dtype, scatters ? group.size : 1)},
          {"dtype", torch_name_of(to_string(kernel.dtype))},
          {"Group size", group.size},
          {"Process Group Name", group.name},
          {"Process Group Ranks", ranks_text(group)},
          {"Seq", number},
          {"Global rank", rank}};
}

// What PyTorch's profiler writes about process groups. The ranks are left out if there are too many
// of them in all.
Json groups_json(const TraceGroups& groups) {
  constexpr std::int64_t kMost = 200000;
  std::int64_t listed = 0;
  Json list = Json::array();
  for (const TracedGroup* group : groups.all()) {
    Json item = {{"pg_name", group->name}, {"pg_size", group->size}};
    listed += std::ssize(group->ranks);
    if (!group->ranks.empty() && listed <= kMost) item["ranks"] = group->ranks;
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace

std::int64_t traced_ranks(const Schedule& schedule, std::int64_t wanted) {
  const std::int64_t kernels = std::max<std::int64_t>(std::ssize(schedule.kernels), 1);
  return std::clamp<std::int64_t>(kMaxTraceSlices / kernels, 1, wanted);
}

void write_trace(std::ostream& stream, const std::string& title, const DeviceMesh& mesh,
                 const Topology& topology, const Schedule& schedule, const Timeline& timeline) {
  std::map<std::int64_t, Thread> threads;  // by index of the rank in the mesh
  for (const std::int64_t index : timeline.rank_indices) {
    const std::int64_t rank = mesh.rank(index);
    threads[index] = {rank / topology.devices_per_host(), rank, schedule.streams()};
  }
  const Json about = {{"title", title},
                      {"mesh", mesh.text()},
                      {"topology", topology.name()},
                      {"devices_per_host", topology.devices_per_host()},
                      {"ranks", mesh.size()},
                      {"ranks_shown", threads.size()}};
  TraceGroups groups(mesh, schedule);
  for (const TimelineSpan& span : timeline.spans) {
    if (!schedule.kernels[to_index(span.kernel)].mesh_dims.empty()) {
      static_cast<void>(groups.of(span.kernel, span.rank_index));
    }
  }
  const Json distributed = {{"backend", "simulated"},
                            {"world_size", mesh.world_size()},
                            {"pg_config", groups_json(groups)}};
  stream << R"({"displayTimeUnit": "ns", "otherData": )" << about.dump()
         << R"(, "distributedInfo": )" << distributed.dump() << R"(, "traceEvents": [)";
  EventWriter out(stream);
  write_names(out, threads);
  std::map<std::pair<int, std::int64_t>, std::vector<const TimelineSpan*>> collectives;
  std::map<std::pair<std::int64_t, Picoseconds>, double> changes;  // bytes in flight
  for (const TimelineSpan& span : timeline.spans) {
    const ScheduledKernel& kernel = schedule.kernels[to_index(span.kernel)];
    const Thread& thread = threads.at(span.rank_index);
    write_slice(out, kernel, span, thread,
                kernel.mesh_dims.empty()
                    ? Json::object()
                    : collective_args(kernel, groups.of(span.kernel, span.rank_index),
                                      groups.number(span.kernel), thread.rank));
    if (kernel.mesh_dims.empty()) continue;
    collectives[{span.kernel, first_member(mesh, kernel.mesh_dims, span.rank_index)}].push_back(
        &span);
    const double bytes = std::round(kernel.full_bytes);
    changes[{thread.host, span.started}] += bytes;
    changes[{thread.host, span.ended}] -= bytes;
  }
  std::int64_t flow = 0;
  for (auto& [key, members] : collectives) {
    if (members.size() < 2) continue;
    const ScheduledKernel& kernel = schedule.kernels[to_index(key.first)];
    std::sort(members.begin(), members.end(), [](const TimelineSpan* a, const TimelineSpan* b) {
      return a->rank_index < b->rank_index;
    });
    ++flow;
    for (const TimelineSpan* member : members) {
      const Thread& thread = threads.at(member->rank_index);
      Json arrow = {{"ph", member == members.front()  ? "s"
                           : member == members.back() ? "f"
                                                      : "t"},
                    {"name", kernel.name},
                    {"cat", "collective"},
                    {"id", flow},
                    {"pid", thread.host},
                    {"tid", thread.id(kernel.stream)},
                    {"ts", to_micros(member->started)}};
      if (member == members.back()) arrow["bp"] = "e";
      out.write(arrow);
    }
  }
  std::map<std::int64_t, double> in_flight;
  for (const auto& [place, change] : changes) {
    double& bytes = in_flight[place.first];
    bytes += change;
    out.write({{"ph", "C"},
               {"name", "bytes in flight"},
               {"pid", place.first},
               {"ts", to_micros(place.second)},
               {"args", {{"bytes", bytes}}}});
  }
  stream << "\n]}\n";
}

}  // namespace shardlab
