#include "runner/simulate/pictured_run.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "costmodel/base/index.h"
#include "reports/records/simulation_record.h"
#include "runner/base/optional_values.h"

namespace shardlab {
namespace {

// A bar is at least this part of the picture, unless its neighbours are far away.
constexpr double kShortest = 1.0 / 200.0;
constexpr double kShortestGap = 1.0 / 300.0;

// What a stream does for a while, before short bars are joined.
struct Stretch {
  int kernel = 0;  // what runs, or what it waits to run
  Picoseconds start = 0;
  Picoseconds end = 0;
  std::string waits_for;  // empty: it runs
};

struct DrawnBar {
  std::string name;
  std::int64_t tasks = 1;
  Picoseconds start = 0;
  Picoseconds end = 0;
  Picoseconds busy = 0;
  std::string waits_for;
};

std::string rank_text(const DeviceMesh& mesh, std::int64_t index) {
  return "rank " + std::to_string(mesh.rank(index));
}

// The task of another stream that ends last among those that the kernel needs.
std::optional<int> last_needed(const ScheduledKernel& kernel, const Schedule& schedule,
                               const std::vector<Picoseconds>& ends) {
  std::optional<int> last;
  for (const int k : kernel.after) {
    if (schedule.kernels[to_index(k)].stream == kernel.stream) continue;
    if (!last || ends[to_index(k)] > ends[to_index(*last)]) last = k;
  }
  return last;
}

// What one stream of one rank does, in the order of time.
std::vector<Stretch> stretches_of(const std::vector<TimelineSpan>& spans, Stream stream,
                                  const Schedule& schedule, const std::vector<Picoseconds>& ends,
                                  const DeviceMesh& mesh) {
  std::vector<Stretch> stretches;
  Picoseconds now = 0;
  for (const TimelineSpan& span : spans) {
    const ScheduledKernel& kernel = schedule.kernels[to_index(span.kernel)];
    if (kernel.stream != stream) continue;
    const std::optional<int> needed = last_needed(kernel, schedule, ends);
    if (span.arrived > now && needed) {
      stretches.push_back(
          {span.kernel, now, span.arrived, schedule.kernels[to_index(*needed)].name});
    }
    if (span.started > span.arrived) {
      stretches.push_back(
          {span.kernel, span.arrived, span.started, rank_text(mesh, span.last_index)});
    }
    if (span.ended > span.started) {
      stretches.push_back({span.kernel, span.started, span.ended, ""});
    }
    now = span.ended;
  }
  return stretches;
}

// Joins what is too short to be seen. Waits that are too short become part of the bar before them.
std::vector<DrawnBar> drawn(const std::vector<Stretch>& stretches,
                            std::span<const std::string> labels, Picoseconds end) {
  const double shortest = kShortest * static_cast<double>(end);
  const double shortest_gap = kShortestGap * static_cast<double>(end);
  std::vector<DrawnBar> bars;
  for (const Stretch& stretch : stretches) {
    const auto length = static_cast<double>(stretch.end - stretch.start);
    const bool waits = !stretch.waits_for.empty();
    if (waits && length < shortest_gap) continue;
    DrawnBar bar{.name = waits ? std::string() : labels[to_index(stretch.kernel)],
                 .tasks = 1,
                 .start = stretch.start,
                 .end = stretch.end,
                 .busy = waits ? 0 : stretch.end - stretch.start,
                 .waits_for = stretch.waits_for};
    if (!waits && !bars.empty() && bars.back().waits_for.empty()) {
      DrawnBar& last = bars.back();
      const bool is_close = static_cast<double>(bar.start - last.end) < shortest_gap;
      const bool is_short = static_cast<double>(last.end - last.start) < shortest;
      if (is_close && is_short) {
        if (last.name != bar.name) last.name = "several tasks";
        last.end = bar.end;
        last.busy += bar.busy;
        ++last.tasks;
        continue;
      }
    }
    bars.push_back(std::move(bar));
  }
  return bars;
}

nlohmann::json bar_json(std::string_view stream, const DrawnBar& bar) {
  return {{"stream", stream},
          {"name", bar.name},
          {"tasks", bar.tasks},
          {"start_us", to_micros(bar.start)},
          {"end_us", to_micros(bar.end)},
          {"busy_us", to_micros(bar.busy)},
          {"waits_for", text_or_null(bar.waits_for)}};
}

// All waits of a rank by stream and by what it waits for, the longest first.
nlohmann::json waits_json(const std::map<std::pair<std::string, std::string>,
                                         std::pair<std::int64_t, Picoseconds>>& waits) {
  std::vector<std::pair<Picoseconds, nlohmann::json>> rows;
  for (const auto& [what, sum] : waits) {
    rows.emplace_back(sum.second, nlohmann::json{{"stream", what.first},
                                                 {"waits_for", what.second},
                                                 {"times", sum.first},
                                                 {"us", to_micros(sum.second)}});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& left, const auto& right) { return left.first > right.first; });
  nlohmann::json json = nlohmann::json::array();
  for (auto& row : rows) json.push_back(std::move(row.second));
  return json;
}

}  // namespace

std::vector<PicturedRank> ranks_to_draw(std::span<const RankWaits> waits) {
  if (waits.empty()) return {};
  const auto is_alike = [&](const RankWaits& rank) {
    return rank.waits_us == waits[0].waits_us && rank.delays_us == waits[0].delays_us &&
           rank.end_us == waits[0].end_us;
  };
  if (std::all_of(waits.begin(), waits.end(), is_alike)) {
    return {{0, reports::kRoleAlike, waits[0]}};
  }
  std::size_t slowest = 0;
  for (std::size_t i = 1; i < waits.size(); ++i) {
    const auto key = [&](std::size_t rank) {
      return std::pair(waits[rank].delays_us, waits[rank].end_us);
    };
    if (key(i) > key(slowest)) slowest = i;
  }
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (i != slowest) others.push_back(i);
  }
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>((others.size() - 1) / 2);
  std::nth_element(others.begin(), middle, others.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(waits[a].waits_us, a) < std::pair(waits[b].waits_us, b);
  });
  std::vector<PicturedRank> ranks = {
      {static_cast<std::int64_t>(*middle), reports::kRoleUsual, waits[*middle]},
      {static_cast<std::int64_t>(slowest), reports::kRoleSlowest, waits[slowest]}};
  std::sort(ranks.begin(), ranks.end(),
            [](const PicturedRank& a, const PicturedRank& b) { return a.index < b.index; });
  return ranks;
}

nlohmann::json timeline_json(std::span<const PicturedRank> ranks, const Schedule& schedule,
                             std::span<const std::string> labels, const Timeline& timeline,
                             const DeviceMesh& mesh, const Topology& topology) {
  Picoseconds end = 0;
  for (const TimelineSpan& span : timeline.spans) end = std::max(end, span.ended);
  nlohmann::json json = nlohmann::json::array();
  for (const PicturedRank& rank : ranks) {
    std::vector<TimelineSpan> spans;
    std::vector<Picoseconds> ends(schedule.kernels.size(), 0);
    for (const TimelineSpan& span : timeline.spans) {
      if (span.rank_index != rank.index) continue;
      spans.push_back(span);
      ends[to_index(span.kernel)] = span.ended;
    }
    nlohmann::json bars = nlohmann::json::array();
    std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, Picoseconds>> waits;
    for (int s = 0; s < schedule.streams(); ++s) {
      const auto stream = static_cast<Stream>(s);
      const std::string name(to_string(stream));
      const std::vector<Stretch> stretches = stretches_of(spans, stream, schedule, ends, mesh);
      for (const Stretch& stretch : stretches) {
        if (stretch.waits_for.empty()) continue;
        auto& [times, sum] = waits[{name, stretch.waits_for}];
        ++times;
        sum += stretch.end - stretch.start;
      }
      for (const DrawnBar& bar : drawn(stretches, labels, end)) bars.push_back(bar_json(name, bar));
    }
    const std::int64_t global = mesh.rank(rank.index);
    json.push_back({{"rank", global},
                    {"host", global / topology.devices_per_host()},
                    {"role", rank.role},
                    {"waits_us", rank.waits.waits_us},
                    {"delays_us", rank.waits.delays_us},
                    {"end_us", rank.waits.end_us},
                    {"bars", std::move(bars)},
                    {"waits", waits_json(waits)}});
  }
  return json;
}

nlohmann::json hosts_json(const DeviceMesh& mesh, const Topology& topology) {
  nlohmann::json dims = nlohmann::json::array();
  for (int m = 0; m < mesh.ndim(); ++m) {
    nlohmann::json dim = {{"name", mesh.names().empty() ? "" : mesh.names()[to_index(m)]},
                          {"size", mesh.size(m)},
                          {"stride", mesh.layout(m).modes().back().stride},
                          {"link", nullptr},
                          {"latency_us", nullptr},
                          {"bandwidth_gb_per_s", nullptr}};
    if (mesh.size(m) > 1) {
      const LinkLevel& link = topology.link(mesh.span(m, topology));
      dim["link"] = link.name;
      dim["latency_us"] = link.latency.value();
      dim["bandwidth_gb_per_s"] =
          topology.bandwidth(link, Collective::kAllReduce, mesh.size(m)).value();
    }
    dims.push_back(std::move(dim));
  }
  return {{"topology", topology.name()},
          {"devices_per_host", topology.devices_per_host()},
          {"dims", std::move(dims)}};
}

}  // namespace shardlab
