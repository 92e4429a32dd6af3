// Where the time of a predicted step goes.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"

namespace shardlab {
namespace step_time_section {

using namespace reports;

using Part = std::pair<std::string, double>;  // milliseconds

std::vector<Part> parts_of(const StepTimes& times) {
  std::vector<Part> parts = {
      {"GEMMs", times.gemm}, {"attention", times.attention}, {"other kernels", times.other}};
  for (const auto& [kind, ms] : times.exposed) parts.emplace_back("exposed " + kind, ms);
  parts.emplace_back("pipeline bubble", times.bubble);
  parts.emplace_back("host", times.host);
  std::erase_if(parts, [](const Part& part) { return part.second <= 0.0; });
  return parts;
}

SectionContent render(const StepRecord& record) {
  SectionContent content;
  const std::vector<Part> parts = parts_of(record.times);
  content.blocks.emplace_back(Paragraph{
      "Kernels run one after the other. Communication counts where no kernel runs beside it; "
      "contention is what kernels lose to the communication that does."});
  Chart chart;
  chart.id = "step-time";
  chart.title = "Where the time goes";
  chart.kind = ChartKind::kStackedBars;
  chart.x_title = "step";
  chart.y_title = "ms";
  chart.labels = {"a step"};
  chart.is_tabulated = true;
  Table table;
  table.caption = "Where the time goes";
  table.columns = {{"part", ColumnKind::kText},
                   {"ms", ColumnKind::kNumber, 2},
                   {"of the step, %", ColumnKind::kNumber, 1}};
  for (const auto& [name, ms] : parts) {
    chart.series.push_back({name, {ms}});
    table.rows.push_back(
        {Cell(name), Cell(ms), record.step_ms > 0.0 ? Cell(100.0 * ms / record.step_ms) : Cell()});
  }
  content.blocks.emplace_back(Charts{{std::move(chart)}});
  content.blocks.emplace_back(std::move(table));
  double communication = record.times.bubble;
  for (const auto& [kind, ms] : record.times.exposed) communication += ms;
  const double kernels = record.times.gemm + record.times.attention + record.times.other;
  const auto share = [&](double ms) {
    return record.step_ms > 0.0 ? percent(ms / record.step_ms) : std::string("nothing");
  };
  content.answer = "Kernels take " + share(kernels) + " of the step, of which GEMMs are " +
                   (kernels > 0.0 ? percent(record.times.gemm / kernels) : "nothing") +
                   "; communication and the pipeline's bubble add " + share(communication) + ".";
  return content;
}

}  // namespace step_time_section

REPORT_SECTION(step_time){
    .id = "step_time",
    .title = "Where the time goes",
    .question = "What does the step spend its time on?",
    .order = 19,
    .render = step_time_section::render,
};

}  // namespace shardlab
