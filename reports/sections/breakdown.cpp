// Where the flips are: by op, by tensor size, and by number of mesh dims.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "costmodel/base/index.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace breakdown_section {

using namespace reports;

// Ops beyond these limits share one bar and one row. With several candidates, each op has a bar and
// a row for each of them.
constexpr std::size_t kMostOps = 12;
constexpr std::size_t kMostOpsOfSeveral = 6;

using Groups = std::vector<FlipGroup>;

void add_counts(FlipCounts& sum, const FlipCounts& part) {
  sum.questions += part.questions;
  sum.total += part.total;
  for (std::size_t i = 0; i < sum.by_verdict.size(); ++i) sum.by_verdict[i] += part.by_verdict[i];
}

// The ops with the most flips over all candidates, most first.
std::vector<std::string> leading_ops(const Comparison& comparison) {
  std::map<std::string, std::int64_t> flips;
  for (const StackSummary& stack : comparison.stacks) {
    for (const FlipGroup& group : stack.by_op) flips[group.label] += group.counts.total;
  }
  std::vector<std::pair<std::string, std::int64_t>> sorted(flips.begin(), flips.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& left, const auto& right) { return left.second > right.second; });
  const std::size_t most = comparison.stacks.size() == 2 ? kMostOps : kMostOpsOfSeveral;
  std::vector<std::string> ops;
  for (const auto& [op, total] : sorted) {
    if (ops.size() < most && total > 0) ops.push_back(op);
  }
  return ops;
}

// One group for each of `ops`, in that order, and one for all the others.
Groups by_leading_op(const Groups& by_op, const std::vector<std::string>& ops) {
  Groups groups;
  for (const std::string& op : ops) groups.push_back({op, {}});
  FlipGroup others{"", {}};
  std::size_t number_of_others = 0;
  for (const FlipGroup& group : by_op) {
    const auto found = std::find(ops.begin(), ops.end(), group.label);
    if (found == ops.end()) {
      ++number_of_others;
      add_counts(others.counts, group.counts);
    } else {
      groups[to_index(found - ops.begin())].counts = group.counts;
    }
  }
  if (number_of_others > 0) {
    others.label = counted(static_cast<std::int64_t>(number_of_others), "other op", "other ops");
    groups.push_back(others);
  }
  return groups;
}

// With one candidate, its bars are stacked by verdict. With several, each has a bar of its own,
// side by side.
Chart chart(const Comparison& comparison, const std::string& id, const std::string& title,
            const std::string& axis, const std::vector<Groups>& by_candidate) {
  Chart chart;
  chart.id = id;
  chart.title = title;
  chart.x_title = axis;
  chart.y_title = "flips";
  chart.is_tabulated = true;
  for (const FlipGroup& group : by_candidate[0]) chart.labels.push_back(group.label);
  if (by_candidate.size() == 1) {
    chart.kind = ChartKind::kStackedBars;
    for (const Verdict verdict : shown_verdicts(comparison)) {
      Series series{std::string(verdict_text(verdict)), {}};
      for (const FlipGroup& group : by_candidate[0]) {
        series.values.emplace_back(static_cast<double>(group.counts[verdict]));
      }
      chart.series.push_back(std::move(series));
    }
    return chart;
  }
  chart.kind = ChartKind::kGroupedBars;
  for (std::size_t i = 0; i < by_candidate.size(); ++i) {
    Series series{comparison.stacks[i + 1].name, {}};
    for (const FlipGroup& group : by_candidate[i]) {
      series.values.emplace_back(static_cast<double>(group.counts.total));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// The labels of the first `names` groups are names, which are set as code; the other labels are
// words.
Table table(const Comparison& comparison, const std::string& caption, const std::string& axis,
            const std::vector<Groups>& by_candidate, std::size_t names) {
  const bool has_one_candidate = by_candidate.size() == 1;
  Table table;
  table.caption = caption;
  table.columns = {{axis, ColumnKind::kText}};
  if (!has_one_candidate) table.columns.push_back({"candidate", ColumnKind::kName});
  table.columns.push_back({"decisions", ColumnKind::kCount});
  table.columns.push_back({"flips", ColumnKind::kCount});
  if (has_one_candidate) table.columns.push_back({"flips, %", ColumnKind::kNumber, 1});
  for (const Verdict verdict : shown_verdicts(comparison)) {
    table.columns.push_back({std::string(verdict_text(verdict)), ColumnKind::kCount});
  }
  for (std::size_t group = 0; group < by_candidate[0].size(); ++group) {
    for (std::size_t i = 0; i < by_candidate.size(); ++i) {
      const FlipCounts& counts = by_candidate[i][group].counts;
      const std::string& label = by_candidate[i][group].label;
      Row row = {Cell(group < names ? code(label) : label)};
      if (!has_one_candidate) row.emplace_back(comparison.stacks[i + 1].name);
      row.emplace_back(counts.questions);
      row.emplace_back(counts.total);
      if (has_one_candidate) {
        row.emplace_back(counts.questions == 0 ? std::optional<double>()
                                               : 100.0 * static_cast<double>(counts.total) /
                                                     static_cast<double>(counts.questions));
      }
      for (const Verdict verdict : shown_verdicts(comparison)) row.emplace_back(counts[verdict]);
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

// Which of the first `groups` groups has the most flips over all candidates, and how many.
std::pair<std::string, std::int64_t> leader(const std::vector<Groups>& by_candidate,
                                            std::size_t groups) {
  std::pair<std::string, std::int64_t> best{"", -1};
  for (std::size_t group = 0; group < groups; ++group) {
    std::int64_t total = 0;
    for (const Groups& of_candidate : by_candidate) total += of_candidate[group].counts.total;
    if (total > best.second) best = {by_candidate[0][group].label, total};
  }
  return best;
}

SectionContent render(const ComparisonRecord& record, const Comparison& comparison) {
  SectionContent content;
  if (comparison.flips.empty()) {
    content.answer = "There are no flips.";
    return content;
  }
  const std::vector<std::string> ops = leading_ops(comparison);
  std::vector<Groups> by_op;
  std::vector<Groups> by_size;
  std::vector<Groups> by_mesh_dims;
  for (std::size_t i = 1; i < record.stacks.size(); ++i) {
    by_op.push_back(by_leading_op(comparison.stacks[i].by_op, ops));
    by_size.push_back(comparison.stacks[i].by_size_band);
    by_mesh_dims.push_back(comparison.stacks[i].by_mesh_dims);
  }
  Charts charts;
  charts.charts.push_back(chart(comparison, "flips-by-op", "Flips by op", "op", by_op));
  charts.charts.push_back(
      chart(comparison, "flips-by-size", "Flips by size of the largest tensor", "size", by_size));
  content.blocks.emplace_back(std::move(charts));
  content.blocks.emplace_back(table(comparison, "Flips by op", "op", by_op, ops.size()));
  content.blocks.emplace_back(table(
      comparison, "Flips by size of the largest tensor (1 MB = 1e6 bytes)", "size", by_size, 0));
  content.blocks.emplace_back(table(comparison, "Flips by mesh dims", "mesh", by_mesh_dims, 0));

  const auto of_all = [&](std::int64_t part) {
    return grouped(part) + " of " + grouped(static_cast<std::int64_t>(comparison.flips.size()));
  };
  const auto [op, op_flips] = leader(by_op, ops.size());
  const auto [band, band_flips] = leader(by_size, kSizeBands.size());
  content.answer = "Most flips are on " + code(op) + " (" + of_all(op_flips) +
                   ") and on tensors of " + code(band) + " (" + of_all(band_flips) + ").";
  return content;
}

}  // namespace breakdown_section

REPORT_SECTION(breakdown){
    .id = "breakdown",
    .title = "Where they fall",
    .question = "Which ops, sizes and meshes do the flips fall on?",
    .order = 30,
    .render = breakdown_section::render,
};

}  // namespace shardlab
