// How well a stack predicts measured times: four figures, and tables of the errors by collective,
// size and hardware.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "reports/comparison.h"
#include "reports/errors.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace accuracy_section {

using namespace reports;

using Label = std::function<std::string(const PredictedRow&)>;

std::string percent_text(const std::optional<double>& percent) {
  return percent ? fixed(*percent, 1) + " %" : "unknown";
}

Figures figures_of(const ValidationRecord& record, const ErrorFigures& all) {
  return {
      {{"Median error", percent_text(all.median_percent), "of the measured time, either way"},
       {"Nine in ten within", percent_text(all.p90_percent), "90th percentile"},
       {"Median bias",
        all.median_signed_percent ? signed_fixed(*all.median_signed_percent, 1) + " %" : "unknown",
        "positive: predicted too slow"},
       {"Measured times", grouped(all.points),
        "of " + counted(static_cast<std::int64_t>(record.sets.size()), "set", "sets")}}};
}

Table errors_table(const ValidationRecord& record, const std::string& what, const Label& label_of,
                   const std::vector<std::string>& labels) {
  Table table;
  table.caption = "Errors in percent of the measured time, by " + what;
  table.columns = {{what, ColumnKind::kName},
                   {"points", ColumnKind::kCount},
                   {"not priced", ColumnKind::kCount},
                   {"median, %", ColumnKind::kNumber, 1},
                   {"90th percentile, %", ColumnKind::kNumber, 1},
                   {"median bias, %", ColumnKind::kSigned, 1},
                   {"worst, %", ColumnKind::kSigned, 1}};
  for (const std::string& label : labels) {
    const ErrorFigures figures =
        error_figures(record, [&](const PredictedRow& row) { return label_of(row) == label; });
    if (figures.points + figures.unpriced == 0) continue;
    table.rows.push_back({Cell(label), Cell(figures.points), Cell(figures.unpriced),
                          Cell(figures.median_percent), Cell(figures.p90_percent),
                          Cell(figures.median_signed_percent), Cell(figures.worst_percent)});
  }
  return table;
}

std::vector<std::string> labels_of(const ValidationRecord& record, const Label& label_of) {
  std::set<std::string> labels;
  for (const PredictedRow& row : record.rows) labels.insert(label_of(row));
  return {labels.begin(), labels.end()};
}

// The group with the largest median error.
std::string worst_of(const std::vector<Table>& tables) {
  const Table* owner = nullptr;
  const Row* worst = nullptr;
  double most = -1.0;
  for (const Table& table : tables) {
    for (const Row& row : table.rows) {
      const auto* median = std::get_if<double>(&row[3].value);
      if (median == nullptr || *median <= most) continue;
      most = *median;
      worst = &row;
      owner = &table;
    }
  }
  if (worst == nullptr) return "Nothing was priced.";
  return "Worst by " + owner->columns[0].title + ": " +
         code(std::get<std::string>((*worst)[0].value)) + ", " + fixed(most, 1) +
         " % in the median of " +
         counted(static_cast<std::int64_t>(std::get<double>((*worst)[1].value)), "point",
                 "points") +
         ".";
}

SectionContent render(const ValidationRecord& record) {
  const ErrorFigures all = error_figures(record, [](const PredictedRow&) { return true; });
  SectionContent content;
  content.blocks.emplace_back(figures_of(record, all));
  const Label collective = [](const PredictedRow& row) { return row.collective; };
  const Label band = [](const PredictedRow& row) {
    return std::string(kSizeBands[size_band(row.bytes)]);
  };
  const Label gpu = [&](const PredictedRow& row) { return record.sets[row.set].gpu; };
  const Label scale = [&](const PredictedRow& row) { return record.sets[row.set].scale; };
  const std::vector<Table> tables = {
      errors_table(record, "size", band, {kSizeBands.begin(), kSizeBands.end()}),
      errors_table(record, "collective", collective, labels_of(record, collective)),
      errors_table(record, "hardware", gpu, labels_of(record, gpu)),
      errors_table(record, "hosts x ranks of a host", scale, labels_of(record, scale))};
  content.answer = all.median_percent ? worst_of(tables) : "Nothing was priced.";
  for (const Table& table : tables) {
    if (!table.rows.empty()) content.blocks.emplace_back(table);
  }
  return content;
}

}  // namespace accuracy_section

REPORT_SECTION(accuracy){
    .id = "accuracy",
    .title = "At a glance",
    .question = "How far are predictions from measurements, and where are they furthest?",
    .order = 12,
    .render = accuracy_section::render,
};

}  // namespace shardlab
