// What ranks of a simulated run do when, and what they wait for.
#include <algorithm>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace simulated_timeline_section {

using namespace reports;

constexpr std::size_t kMostWaits = 8;    // how many waits of each rank the table shows
constexpr std::size_t kWaitsSeries = 7;  // page.css draws this series in a quiet colour

// The unit in which the whole run has few digits.
struct Unit {
  std::string name;
  double us = 1.0;  // how many microseconds one unit has
};
Unit unit_of(double end_us) {
  if (end_us >= 1e6) return {"s", 1e6};
  if (end_us >= 1e3) return {"ms", 1e3};
  return {"us", 1.0};
}

std::string title_of(const SimulationRecord& run, const SimulatedRank& rank) {
  const std::string name =
      "rank " + std::to_string(rank.rank) + " on host " + std::to_string(rank.host);
  if (rank.role == kRoleAlike) {
    return run.ranks > 1 ? name + ", which stands for all " + grouped(run.ranks) + " ranks" : name;
  }
  if (rank.role == kRoleUsual) {
    return name + ", a usual one: " +
           (rank.waits_us > 0.0 ? "it waits " + duration_text(rank.waits_us) +
                                      " for other ranks, and half of the ranks wait no longer"
                                : "it waits for no other rank");
  }
  return name + ", the slowest: " +
         (rank.delays_us > 0.0 ? "others wait for it, " + duration_text(rank.delays_us) + " in sum"
                               : "it ends last");
}

std::string kind_of(const SimulatedBar& bar) {
  if (bar.stream != "compute" && bar.name == "several tasks") return "several collectives";
  return bar.stream == "compute" ? "kernels and local copies"
                                 : bar.name.substr(0, bar.name.find(' '));
}

reports::Timeline picture_of(const SimulationRecord& run) {
  reports::Timeline picture;
  picture.id = "run";
  double end_us = 0.0;
  for (const SimulatedRank& rank : run.timeline) end_us = std::max(end_us, rank.end_us);
  const Unit unit = unit_of(end_us);
  picture.unit = unit.name;
  picture.end = end_us / unit.us;
  picture.title = run.timeline.size() == 1 ? "What the streams of a rank do over the run."
                                           : "What the streams of a usual rank and of the slowest "
                                             "one do over the run.";
  const auto series_of = [&](const SimulatedBar& bar) {
    const std::string kind = kind_of(bar);
    const auto found = std::find(picture.series.begin(), picture.series.end(), kind);
    if (found != picture.series.end()) {
      return static_cast<std::size_t>(found - picture.series.begin());
    }
    picture.series.push_back(kind);
    return picture.series.size() - 1;
  };
  for (const SimulatedRank& rank : run.timeline) {
    Track track{title_of(run, rank), {}};
    for (const SimulatedBar& bar : rank.bars) {
      if (track.lanes.empty() || track.lanes.back().name != bar.stream) {
        track.lanes.push_back({bar.stream, {}});
      }
      const bool waits = !bar.waits_for.empty();
      const std::string name =
          bar.tasks > 1 ? bar.name + " (" + grouped(bar.tasks) + ")" : bar.name;
      track.lanes.back().bars.push_back({waits ? bar.waits_for : name, bar.start_us / unit.us,
                                         bar.end_us / unit.us,
                                         waits ? kWaitsSeries : series_of(bar), waits,
                                         waits ? std::optional<double>() : bar.busy_us / unit.us});
    }
    picture.tracks.push_back(std::move(track));
  }
  return picture;
}

Table waits_of(const SimulationRecord& run) {
  Table table;
  table.caption = "What streams wait for, the longest first.";
  table.columns = {{"rank", ColumnKind::kCount},     {"stream", ColumnKind::kText},
                   {"waits for", ColumnKind::kName}, {"times", ColumnKind::kCount},
                   {"us", ColumnKind::kNumber, 3},   {"of the run, %", ColumnKind::kNumber, 1}};
  for (const SimulatedRank& rank : run.timeline) {
    for (std::size_t i = 0; i < std::min(rank.waits.size(), kMostWaits); ++i) {
      const SimulatedWait& wait = rank.waits[i];
      table.rows.push_back({Cell(rank.rank), Cell(wait.stream), Cell(wait.waits_for),
                            Cell(wait.times), Cell(wait.us),
                            rank.end_us > 0.0 ? Cell(100.0 * wait.us / rank.end_us) : Cell()});
    }
  }
  return table;
}

std::string answer_of(const SimulationRecord& run) {
  const SimulatedRank* of = nullptr;
  const SimulatedWait* longest = nullptr;
  for (const SimulatedRank& rank : run.timeline) {
    if (rank.waits.empty() || (longest != nullptr && longest->us >= rank.waits[0].us)) continue;
    of = &rank;
    longest = &rank.waits[0];
  }
  if (longest == nullptr || longest->us <= 0.0) {
    return run.timeline.size() == 1 ? "No stream waits for another rank or another stream."
                                    : "None of these ranks waits.";
  }
  return "The " + longest->stream + " stream of rank " + std::to_string(of->rank) +
         " waits longest: " + duration_text(longest->us) + " (" +
         percent(longest->us / of->end_us) + " of the run) for " + code(longest->waits_for) +
         ", in " + counted(longest->times, "wait", "waits") + ".";
}

SectionContent render(const SimulationRecord& run) {
  SectionContent content;
  if (run.timeline.empty()) return content;
  content.blocks.emplace_back(Paragraph{
      "Each stream runs its tasks one after the other. A lighter bar is a wait, either for the "
      "last rank of a collective to arrive or for a task of another stream to end, and is named "
      "after it. Tasks too short for the picture share a bar" +
      std::string(run.has_one_time() ? "" : "; the picture shows the first repetition") + "."});
  content.blocks.emplace_back(picture_of(run));
  Table waits = waits_of(run);
  if (!waits.rows.empty()) content.blocks.emplace_back(std::move(waits));
  content.answer = answer_of(run);
  return content;
}

}  // namespace simulated_timeline_section

REPORT_SECTION(simulated_timeline){
    .id = "simulated_timeline",
    .title = "Timeline",
    .question = "What runs when, and what waits for whom?",
    .order = 37,
    .render = simulated_timeline_section::render,
};

}  // namespace shardlab
