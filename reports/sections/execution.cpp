// A simulated run: whether its data is right, how long it takes, and its steps.
#include <algorithm>
#include <string>
#include <vector>

#include "reports/facet_options.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace execution_section {

using namespace reports;

constexpr std::size_t kMostBars = 24;

std::string time_or_none(const std::optional<double>& us) {
  return us ? duration_text(*us) : "none";
}

std::string slowness(const SimulationRecord& run) {
  return run.straggler == "none" ? "no rank is slower than the stack's prices assume"
                                 : "stragglers: " + run.straggler;
}

Figures figures_of(const SimulationRecord& run) {
  std::string verified = "not asked";
  if (run.verified) verified = *run.verified ? "yes" : "no";
  std::string replicas = run.has_data ? "nothing was judged" : "shapes and clocks only";
  if (run.replicas_bitwise_equal) {
    replicas = *run.replicas_bitwise_equal ? "replicas are equal, bit by bit" : "replicas differ";
  }
  Figures figures = {{{"Data verified", verified, replicas}}};
  const std::string interval = interval_text(run.low_us, run.high_us);
  if (run.has_one_time()) {
    figures.figures.push_back({"Time", time_or_none(run.time.max_us),
                               interval.empty() ? "every repetition takes the same" : interval});
    figures.figures.push_back(
        {"Steps", grouped(static_cast<std::int64_t>(run.steps.size())), slowness(run)});
  } else {
    figures.figures.push_back(
        {"Time, median", time_or_none(run.time.p50_us),
         "stragglers: " + run.straggler + (interval.empty() ? "" : "; " + interval)});
    figures.figures.push_back(
        {"Time, longest", time_or_none(run.time.max_us), "p95 " + time_or_none(run.time.p95_us)});
  }
  figures.figures.push_back({"Moved between ranks",
                             bytes_text(static_cast<double>(run.bytes_moved)),
                             "on " + counted(run.ranks, "rank", "ranks")});
  return figures;
}

std::string label_of(const SimulatedStep& step) {
  return step.change.empty() ? step.name : step.name + " " + step.change;
}

// A chart of the steps with the highest prices.
Chart chart_of(const SimulationRecord& run) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    if (run.steps[i].price_us) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return *run.steps[a].price_us > *run.steps[b].price_us;
  });
  if (order.size() > kMostBars) order.resize(kMostBars);
  std::sort(order.begin(), order.end());
  Chart chart;
  chart.id = "steps";
  chart.title = run.steps.size() > kMostBars ? "The dearest steps" : "Steps";
  chart.kind = ChartKind::kStackedBars;
  chart.x_title = "step";
  chart.y_title = "us";
  chart.is_tabulated = true;
  chart.series = {{"price", {}}};
  for (const std::size_t i : order) {
    chart.labels.push_back(std::to_string(i + 1) + " " + label_of(run.steps[i]));
    chart.series[0].values.push_back(run.steps[i].price_us);
  }
  return chart;
}

Browser browser(const SimulationRecord& run) {
  Browser browser;
  browser.id = "steps";
  browser.caption = "Steps";
  browser.noun_one = "step";
  browser.noun_many = "steps";
  browser.order_text = "as they were given";
  browser.cut_text = "the first";
  browser.total = run.steps.size();
  browser.columns = {{"step", ColumnKind::kName},
                     {"change", ColumnKind::kCode},
                     {"price, us", ColumnKind::kNumber, 3}};
  const bool has_one_time = run.has_one_time();
  if (has_one_time) {
    browser.columns.push_back({"ends, us", ColumnKind::kNumber, 3});
  } else {
    browser.columns.push_back({"ends, median us", ColumnKind::kNumber, 3});
    browser.columns.push_back({"ends, longest us", ColumnKind::kNumber, 3});
  }
  browser.columns.push_back({"waited, us", ColumnKind::kNumber, 3});
  browser.columns.push_back({"bytes moved", ColumnKind::kBytes});
  browser.columns.push_back({"error", ColumnKind::kNumber, 6});
  FacetOptions names =
      sorted_options(run.steps, [](const SimulatedStep& step) { return step.name; });
  browser.facets = {{"step", names.values()}};
  for (const SimulatedStep& step : run.steps) {
    BrowserRow row;
    row.place = browser.rows.size();
    row.cells = {Cell(step.name, step.node), step.change.empty() ? Cell() : Cell(step.change),
                 Cell(step.price_us)};
    if (!has_one_time) row.cells.emplace_back(step.end.p50_us);
    row.cells.emplace_back(step.end.max_us);
    row.cells.emplace_back(step.wait_us);
    row.cells.emplace_back(static_cast<double>(step.bytes_moved));
    row.cells.emplace_back(step.max_abs_error);
    row.facets = {names.add(step.name)};
    RowDetail detail;
    detail.facts.push_back({"step", label_of(step), true});
    if (!step.node.empty()) detail.facts.push_back({"node", step.node, true});
    row.detail = std::move(detail);
    browser.rows.push_back(std::move(row));
  }
  return browser;
}

SectionContent render(const SimulationRecord& run) {
  SectionContent content;
  content.blocks.emplace_back(figures_of(run));
  if (!run.unpriced.empty()) {
    content.blocks.emplace_back(Paragraph{
        (run.time.p50_us ? "The time is that of communication alone: " : "") + run.unpriced + "."});
  }
  for (const std::string& note : run.notes) content.blocks.emplace_back(Paragraph{note});
  if (!run.mismatch.empty()) content.blocks.emplace_back(Paragraph{run.mismatch});
  if (!run.steps.empty()) {
    Chart chart = chart_of(run);
    if (!chart.labels.empty()) content.blocks.emplace_back(Charts{{std::move(chart)}});
    content.blocks.emplace_back(browser(run));
  }
  content.answer = run.refused.empty()
                       ? counted(static_cast<std::int64_t>(run.steps.size()), "step", "steps") +
                             ", " + time_or_none(run.time.p50_us) +
                             (run.has_one_time() ? "." : " in the median.")
                       : "Nothing ran: " + run.refused + ".";
  if (run.refused.empty() && !run.time.p50_us && !run.unpriced.empty()) {
    content.answer = counted(static_cast<std::int64_t>(run.steps.size()), "step", "steps") +
                     " without a time: " + run.unpriced + ".";
  }
  return content;
}

}  // namespace execution_section

REPORT_SECTION(execution){
    .id = "execution",
    .title = "At a glance",
    .question = "Is the result right, and how long does it take?",
    .order = 14,
    .render = execution_section::render,
};

}  // namespace shardlab
