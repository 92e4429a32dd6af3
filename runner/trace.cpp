#include "runner/trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <utility>

namespace shardlab {
namespace {

// Writes one event a line.
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
  [[nodiscard]] std::int64_t id(Stream stream) const {
    return kStreams * rank + static_cast<std::int64_t>(stream);
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
    for (const Stream stream : {Stream::kCompute, Stream::kCommunication}) {
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

void write_slice(EventWriter& out, const ScheduledKernel& kernel, const TimelineSpan& span,
                 const Thread& thread) {
  Json slice = {{"ph", "X"},
                {"name", kernel.name},
                {"cat", kernel.mesh_dims.empty() ? "kernel" : "collective"},
                {"pid", thread.host},
                {"tid", thread.id(kernel.stream)},
                {"ts", to_micros(span.arrived)},
                {"dur", to_micros(span.ended - span.arrived)},
                {"args", {{"kernel", span.kernel}}}};
  if (!kernel.mesh_dims.empty()) {
    slice["args"]["mesh_dims"] = std::vector<int>(kernel.mesh_dims.begin(), kernel.mesh_dims.end());
    slice["args"]["full_bytes"] = kernel.full_bytes;
  }
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

// The members of a collective have the same other coordinates.
std::int64_t first_member(const DeviceMesh& mesh, const MeshDims& mesh_dims, std::int64_t index) {
  std::int64_t stride = 1;
  for (int m = mesh.ndim() - 1; m >= 0; --m) {
    if (std::find(mesh_dims.begin(), mesh_dims.end(), m) != mesh_dims.end()) {
      index -= index / stride % mesh.size(m) * stride;
    }
    stride *= mesh.size(m);
  }
  return index;
}

}  // namespace

std::int64_t traced_ranks(const Schedule& schedule, std::int64_t wanted) {
  const std::int64_t kernels = std::max<std::int64_t>(std::ssize(schedule.kernels), 1);
  return std::clamp<std::int64_t>(kMaxTraceSlices / kernels, 1, wanted);
}

void write_trace(std::ostream& stream, const std::string& title, const DeviceMesh& mesh,
                 const Topology& topology, const Schedule& schedule, const Timeline& timeline) {
  std::map<std::int64_t, Thread> threads;  // by index into the mesh
  for (const std::int64_t index : timeline.rank_indices) {
    const std::int64_t rank = mesh.rank(index);
    threads[index] = {rank / topology.devices_per_host(), rank};
  }
  const Json about = {{"title", title},
                      {"mesh", mesh.text()},
                      {"topology", topology.name()},
                      {"ranks", mesh.size()},
                      {"ranks_shown", threads.size()}};
  stream << R"({"displayTimeUnit": "ns", "otherData": )" << about.dump() << R"(, "traceEvents": [)";
  EventWriter out(stream);
  write_names(out, threads);
  std::map<std::pair<int, std::int64_t>, std::vector<const TimelineSpan*>> collectives;
  std::map<std::pair<std::int64_t, Picoseconds>, double> changes;  // bytes in flight
  for (const TimelineSpan& span : timeline.spans) {
    const ScheduledKernel& kernel = schedule.kernels[static_cast<std::size_t>(span.kernel)];
    const Thread& thread = threads.at(span.rank_index);
    write_slice(out, kernel, span, thread);
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
    const ScheduledKernel& kernel = schedule.kernels[static_cast<std::size_t>(key.first)];
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
