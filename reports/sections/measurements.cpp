// The source of each measured figure.
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"

namespace shardlab {
namespace measurements_section {

using namespace reports;

Cell or_dash(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

SectionContent render(const ValidationRecord& record) {
  SectionContent content;
  std::vector<std::int64_t> rows(record.sets.size());
  for (const PredictedRow& row : record.rows) ++rows[row.set];
  Table table;
  table.caption = "Measurement sets";
  table.columns = {{"set", ColumnKind::kCode},           {"hardware", ColumnKind::kText},
                   {"hosts x ranks", ColumnKind::kText}, {"rows", ColumnKind::kCount},
                   {"NCCL", ColumnKind::kText},          {"date", ColumnKind::kText},
                   {"health", ColumnKind::kText},        {"source", ColumnKind::kText}};
  std::int64_t dated = 0;
  for (std::size_t i = 0; i < record.sets.size(); ++i) {
    const MeasuredSet& set = record.sets[i];
    dated += set.date.empty() ? 0 : 1;
    table.rows.push_back({Cell(set.name), Cell(set.gpu), Cell(set.scale), Cell(rows[i]),
                          or_dash(set.nccl_version), or_dash(set.date), or_dash(set.health),
                          Cell(set.source)});
  }
  content.blocks.emplace_back(std::move(table));
  for (const std::string& warning : record.warnings)
    content.blocks.emplace_back(Paragraph{warning});
  content.answer = counted(static_cast<std::int64_t>(record.sets.size()), "set", "sets") +
                   " with a source each, " + grouped(dated) + " with a date.";
  return content;
}

}  // namespace measurements_section

REPORT_SECTION(measurements){
    .id = "measurements",
    .title = "Measurements",
    .question = "Who measured, on what, and when?",
    .order = 31,
    .render = measurements_section::render,
};

}  // namespace shardlab
