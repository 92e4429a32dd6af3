#include "reports/document.h"

#include <algorithm>

#include "reports/number_text.h"

namespace shardlab::reports {

bool is_numeric(ColumnKind kind) {
  return kind == ColumnKind::kNumber || kind == ColumnKind::kSigned || kind == ColumnKind::kCount ||
         kind == ColumnKind::kBytes;
}

std::string number_text(const Column& column, double number) {
  switch (column.kind) {
    case ColumnKind::kSigned:
      return signed_fixed(number, column.digits);
    case ColumnKind::kCount:
      return fixed(number, 0);
    case ColumnKind::kBytes:
      return bytes_text(number);
    default:
      return fixed(number, column.digits);
  }
}

std::vector<Table> chart_tables(const Chart& chart, std::size_t points) {
  if (chart.kind == ChartKind::kPoints) return {};  // too many for a table: a browser lists them
  const bool has_lines = chart.kind == ChartKind::kLines || chart.kind == ChartKind::kSteps;
  const std::size_t all = has_lines ? chart.x.size() : chart.labels.size();
  const std::size_t shown = has_lines ? std::min(all, points) : all;
  const std::size_t series_per_table = kMaxColumns - 1;
  std::vector<Table> tables;
  for (std::size_t first = 0; first < chart.series.size(); first += series_per_table) {
    const std::size_t last = std::min(first + series_per_table, chart.series.size());
    Table table;
    table.caption = chart.title + ", " + chart.y_title;
    table.columns = {{chart.x_title, has_lines ? ColumnKind::kBytes : ColumnKind::kText}};
    for (std::size_t i = first; i < last; ++i) {
      table.columns.push_back({chart.series[i].name, ColumnKind::kNumber, 2});
    }
    for (std::size_t i = 0; i < shown; ++i) {
      const std::size_t point = shown > 1 ? i * (all - 1) / (shown - 1) : 0;
      Row row = {has_lines ? Cell(chart.x[point]) : Cell(chart.labels[point])};
      for (std::size_t j = first; j < last; ++j) row.emplace_back(chart.series[j].values[point]);
      table.rows.push_back(std::move(row));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace shardlab::reports
