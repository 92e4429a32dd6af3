// One micro-batch of a predicted step, stream by stream.
#include <algorithm>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"

namespace shardlab {
namespace step_timeline_section {

using namespace reports;

SectionContent render(const StepRecord& record) {
  SectionContent content;
  if (record.timeline.empty()) return content;
  Timeline picture;
  picture.id = "micro-batch";
  const bool has_stages = record.mesh.find("pp=") != std::string::npos;
  picture.title =
      has_stages ? "One micro-batch on a rank of the first stage" : "One micro-batch of one rank";
  picture.unit = "ms";
  const auto is_collective = [](const std::string& name) {
    return name.starts_with("all_") || name.starts_with("reduce_") || name == "send_recv" ||
           name == "broadcast" || name == "scatter";
  };
  // Kernels are one series, the host another, and each kind of collective its own.
  const auto series_of = [&](const PicturedTask& task) {
    const std::string kind = task.stream == "host"      ? "host"
                             : is_collective(task.name) ? task.name
                                                        : "kernels";
    const auto found = std::find(picture.series.begin(), picture.series.end(), kind);
    if (found != picture.series.end()) {
      return static_cast<std::size_t>(found - picture.series.begin());
    }
    picture.series.push_back(kind);
    return picture.series.size() - 1;
  };
  picture.tracks.emplace_back();
  std::vector<Lane>& lanes = picture.tracks.front().lanes;
  for (const PicturedTask& task : record.timeline) {
    auto lane = std::find_if(lanes.begin(), lanes.end(),
                             [&](const Lane& one) { return one.name == task.stream; });
    if (lane == lanes.end()) {
      lanes.push_back({task.stream, {}});
      lane = lanes.end() - 1;
    }
    const std::string name =
        task.tasks > 1 ? task.name + " (" + grouped(task.tasks) + " tasks)" : task.name;
    lane->bars.push_back({name, task.start_ms, task.end_ms, series_of(task)});
    picture.end = std::max(picture.end, task.end_ms);
  }
  content.blocks.emplace_back(Paragraph{
      "Each stream runs its tasks one after the other. Tasks that are too short for the picture, "
      "and kernels of one block, share a bar; `--trace` writes all of them."});
  const auto busiest = std::max_element(
      lanes.begin(), lanes.end(),
      [](const Lane& left, const Lane& right) { return left.busy() < right.busy(); });
  content.answer = std::string(has_stages ? "Both passes of a micro-batch through the first stage "
                                            "of the pipeline take "
                                          : "A micro-batch takes ") +
                   duration_text(picture.end * 1e3) + "; the busiest of " +
                   counted(static_cast<std::int64_t>(lanes.size()), "stream", "streams") + " is " +
                   busiest->name + ", at " +
                   percent(busiest->busy() / std::max(1e-12, picture.end)) + " of that time.";
  content.blocks.emplace_back(std::move(picture));
  return content;
}

}  // namespace step_timeline_section

REPORT_SECTION(step_timeline){
    .id = "step_timeline",
    .title = "Timeline",
    .question = "What runs when?",
    .order = 33,
    .render = step_timeline_section::render,
};

}  // namespace shardlab
