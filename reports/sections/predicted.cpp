// All predicted and measured times: against each other in a chart, as residuals by size, and row by
// row.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "reports/comparison.h"
#include "reports/errors.h"
#include "reports/facet_options.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace predicted_section {

using namespace reports;

constexpr std::size_t kMostHardware = 7;  // the others share an eighth mark
constexpr std::size_t kMostRows = 24000;
constexpr const char* kOthers = "others";

constexpr double kErrorBands[] = {10.0, 50.0, 100.0};  // percent
constexpr const char* kErrorTexts[] = {"below 10 %", "10 to 50 %", "50 to 100 %", "above 100 %",
                                       "not priced"};

std::size_t error_band(const PredictedRow& row) {
  if (!row.error_percent) return std::size(kErrorBands) + 1;
  const double error = std::abs(*row.error_percent);
  std::size_t band = 0;
  while (band < std::size(kErrorBands) && error >= kErrorBands[band]) ++band;
  return band;
}

// The names of the hardware with the most rows. All other hardware shares one more name.
std::vector<std::string> leading_hardware(const ValidationRecord& record) {
  std::map<std::string, std::size_t> count;
  for (const PredictedRow& row : record.rows) ++count[record.sets[row.set].gpu];
  std::vector<std::pair<std::string, std::size_t>> sorted(count.begin(), count.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& left, const auto& right) { return left.second > right.second; });
  std::vector<std::string> names;
  for (const auto& [name, rows] : sorted) {
    if (names.size() < kMostHardware) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  if (sorted.size() > names.size()) names.emplace_back(kOthers);
  return names;
}

std::size_t hardware_of(const ValidationRecord& record, const PredictedRow& row,
                        const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), record.sets[row.set].gpu);
  return found == names.end() ? names.size() - 1 : static_cast<std::size_t>(found - names.begin());
}

Chart diagonal(const ValidationRecord& record, const std::vector<std::string>& names) {
  Chart chart;
  chart.id = "predicted";
  chart.title = "Predicted against measured time; on the dashed line they agree";
  chart.kind = ChartKind::kPoints;
  chart.x_title = "measured, us";
  chart.y_title = "predicted, us";
  chart.is_tabulated = true;
  for (const std::string& name : names) chart.series.push_back({name, {}});
  for (const PredictedRow& row : record.rows) {
    if (!row.predicted_us || *row.predicted_us <= 0.0 || row.measured_us <= 0.0) continue;
    Series& series = chart.series[hardware_of(record, row, names)];
    // A mark on a chart cannot show more than three digits, and three digits take half the bytes.
    const auto short_of = [](double value) {
      const double unit = std::pow(10.0, std::floor(std::log10(value)) - 2.0);
      return std::round(value / unit) * unit;
    };
    series.x.push_back(short_of(row.measured_us));
    series.values.emplace_back(short_of(*row.predicted_us));
  }
  std::erase_if(chart.series, [](const Series& series) { return series.values.empty(); });
  return chart;
}

Chart residuals(const ValidationRecord& record, const std::vector<std::string>& names) {
  Chart chart;
  chart.id = "residuals";
  chart.title = "Median error by size, per hardware";
  chart.kind = ChartKind::kGroupedBars;
  chart.x_title = "size";
  chart.y_title = "median error, % of the measured time";
  for (const std::string_view band : kSizeBands) chart.labels.emplace_back(band);
  for (std::size_t hardware = 0; hardware < names.size(); ++hardware) {
    Series series{names[hardware], {}};
    for (std::size_t band = 0; band < kSizeBands.size(); ++band) {
      series.values.push_back(error_figures(record, [&](const PredictedRow& row) {
                                return size_band(row.bytes) == band &&
                                       hardware_of(record, row, names) == hardware;
                              }).median_percent);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Browser browser(const ValidationRecord& record) {
  Browser browser;
  browser.id = "rows";
  browser.caption = "Measured and predicted times";
  browser.noun_one = "row";
  browser.noun_many = "rows";
  browser.order_text = "the largest error first";
  browser.cut_text = "those with the largest errors";
  browser.total = record.rows.size();
  browser.columns = {{"collective", ColumnKind::kName},
                     {"bytes", ColumnKind::kBytes},
                     {"measured, us", ColumnKind::kNumber, 2},
                     {"predicted, us", ColumnKind::kNumber, 2},
                     {"error, %", ColumnKind::kSigned, 1},
                     {"hardware", ColumnKind::kText},
                     {"set", ColumnKind::kCode}};
  const auto gpu_of = [&](const PredictedRow& row) { return record.sets[row.set].gpu; };
  FacetOptions collectives =
      sorted_options(record.rows, [](const PredictedRow& row) { return row.collective; });
  FacetOptions hardware = sorted_options(record.rows, gpu_of);
  browser.facets = {
      {"collective", collectives.values()},
      {"hardware", hardware.values()},
      {"size", std::vector<std::string>(kSizeBands.begin(), kSizeBands.end())},
      {"error", std::vector<std::string>(std::begin(kErrorTexts), std::end(kErrorTexts))}};
  std::vector<std::size_t> order(record.rows.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto size_of_error = [&](std::size_t i) {
    const auto& error = record.rows[i].error_percent;
    return error ? std::abs(*error) : HUGE_VAL;  // rows without a prediction come first
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of_error(a) > size_of_error(b);
  });
  for (const std::size_t i : order) {
    if (browser.rows.size() == kMostRows) break;
    const PredictedRow& row = record.rows[i];
    const MeasuredSet& set = record.sets[row.set];
    BrowserRow shown;
    shown.place = browser.rows.size();
    shown.cells = {Cell(row.collective),    Cell(row.bytes),
                   Cell(row.measured_us),   Cell(row.predicted_us, row.impossible),
                   Cell(row.error_percent), Cell(set.gpu, set.scale + " ranks"),
                   Cell(set.name)};
    shown.facets = {collectives.add(row.collective), hardware.add(set.gpu), size_band(row.bytes),
                    error_band(row)};
    RowDetail detail;
    detail.facts.push_back({"source", set.source});
    if (!set.date.empty()) detail.facts.push_back({"date", set.date});
    if (!set.nccl_version.empty()) detail.facts.push_back({"NCCL", set.nccl_version});
    if (!set.health.empty()) detail.facts.push_back({"health", set.health});
    shown.detail = std::move(detail);
    browser.rows.push_back(std::move(shown));
  }
  return browser;
}

SectionContent render(const ValidationRecord& record) {
  SectionContent content;
  if (record.rows.empty()) {
    content.answer = "Nothing was measured.";
    return content;
  }
  const std::vector<std::string> names = leading_hardware(record);
  Charts charts;
  charts.charts = {diagonal(record, names), residuals(record, names)};
  if (charts.charts[0].series.empty()) charts.charts.erase(charts.charts.begin());
  content.blocks.emplace_back(std::move(charts));
  content.blocks.emplace_back(browser(record));
  std::size_t close = 0;
  for (const PredictedRow& row : record.rows) close += error_band(row) == 0 ? 1U : 0U;
  content.answer = counted(static_cast<std::int64_t>(close), "row", "rows") + " of " +
                   grouped(static_cast<std::int64_t>(record.rows.size())) +
                   " are predicted within 10 %.";
  return content;
}

}  // namespace predicted_section

REPORT_SECTION(predicted){
    .id = "predicted",
    .title = "Predicted against measured",
    .question = "Which times are predicted well, and which are not?",
    .order = 22,
    .render = predicted_section::render,
};

}  // namespace shardlab
