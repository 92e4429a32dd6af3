// An audit of ties on one screen: four figures, the ops with the most ties, and the parameters that
// flip choices first.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace tie_audit_section {

using namespace reports;

constexpr std::size_t kMostOps = 16;

struct OpTies {
  std::string op;
  std::int64_t exact = 0;
  std::int64_t near = 0;
  std::int64_t order_dependent = 0;
};

std::vector<OpTies> by_op(const TiesRecord& record) {
  std::map<std::string, OpTies> ops;
  for (const TiesItem& item : record.items) {
    OpTies& ties = ops[item.op];
    ties.op = item.op;
    ties.exact += item.exact_ties > 1 ? 1 : 0;
    ties.near += item.exact_ties <= 1 && item.near_ties > 0 ? 1 : 0;
    ties.order_dependent += item.order_dependent ? 1 : 0;
  }
  std::vector<OpTies> sorted;
  for (auto& [op, ties] : ops) {
    if (ties.exact + ties.near > 0) sorted.push_back(std::move(ties));
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const OpTies& left, const OpTies& right) {
    return left.exact + left.near > right.exact + right.near;
  });
  return sorted;
}

Chart chart_of(const std::vector<OpTies>& ops) {
  Chart chart;
  chart.id = "ties-by-op";
  chart.title = "Decisions with ties, by op";
  chart.kind = ChartKind::kStackedBars;
  chart.x_title = "op";
  chart.y_title = "decisions";
  chart.is_tabulated = true;
  chart.series = {{"exact", {}}, {"near only", {}}};
  for (std::size_t i = 0; i < std::min(ops.size(), kMostOps); ++i) {
    chart.labels.push_back(ops[i].op);
    chart.series[0].values.emplace_back(static_cast<double>(ops[i].exact));
    chart.series[1].values.emplace_back(static_cast<double>(ops[i].near));
  }
  return chart;
}

Figures figures_of(const TiesRecord& record) {
  const std::int64_t answered = record.questions - record.not_asked;
  const auto share = [&](std::int64_t count) {
    return answered == 0 ? std::string("of no decisions")
                         : percent(static_cast<double>(count) / static_cast<double>(answered)) +
                               " of " + counted(answered, "decision", "decisions");
  };
  const auto first = std::max_element(
      record.flipped_first_by.begin(), record.flipped_first_by.end(),
      [](const auto& left, const auto& right) { return left.second < right.second; });
  const bool has_first = first != record.flipped_first_by.end();
  return {
      {{"Exact ties", grouped(record.exact_ties), share(record.exact_ties)},
       {"Near ties", grouped(record.near_ties),
        "within " + exact(record.within_percent) + " % of the choice"},
       {"Depend on order", grouped(record.order_dependent), share(record.order_dependent)},
       {"Flips first", has_first ? first->first : "-",
        has_first ? counted(first->second, "choice", "choices") : "not looked for, or nothing"}}};
}

Table ops_table(const std::vector<OpTies>& ops) {
  Table table;
  table.caption = "Decisions with ties, by op";
  table.columns = {{"op", ColumnKind::kName},
                   {"exact ties", ColumnKind::kCount},
                   {"near ties only", ColumnKind::kCount},
                   {"depend on order", ColumnKind::kCount}};
  for (const OpTies& one : ops) {
    table.rows.push_back(
        {Cell(one.op), Cell(one.exact), Cell(one.near), Cell(one.order_dependent)});
  }
  return table;
}

Table parameters_table(const TiesRecord& record) {
  Table table;
  table.caption = "What flips choices first";
  table.columns = {{"parameter", ColumnKind::kName}, {"choices", ColumnKind::kCount}};
  for (const auto& [parameter, choices] : record.flipped_first_by) {
    table.rows.push_back({Cell(parameter), Cell(choices)});
  }
  return table;
}

SectionContent render(const TiesRecord& record) {
  SectionContent content;
  content.blocks.emplace_back(figures_of(record));
  const std::vector<OpTies> ops = by_op(record);
  if (!ops.empty()) {
    content.blocks.emplace_back(Charts{{chart_of(ops)}});
    content.blocks.emplace_back(ops_table(ops));
  }
  if (!record.flipped_first_by.empty()) content.blocks.emplace_back(parameters_table(record));
  if (ops.empty()) {
    content.answer =
        "None: every choice is cheaper than all other candidates by more than this percentage.";
  } else {
    const OpTies& most = ops.front();
    content.answer = "Most ties are of " + code(most.op) + ": " + grouped(most.exact) + " exact, " +
                     grouped(most.near) + " near.";
  }
  if (record.margins && record.margins->one_plan.value_or(0) > 0) {
    content.blocks.emplace_back(
        Paragraph{counted(*record.margins->one_plan, "question is a redistribution",
                          "questions are redistributions") +
                  " with one plan, because the planner weighs no other, and cannot be a tie."});
  }
  if (record.impossible + record.not_asked > 0) {
    content.blocks.emplace_back(Paragraph{grouped(record.impossible) +
                                          " decisions are impossible under the stack, and " +
                                          grouped(record.not_asked) + " could not be asked."});
  }
  return content;
}

}  // namespace tie_audit_section

REPORT_SECTION(tie_audit){
    .id = "tie_audit",
    .title = "At a glance",
    .question = "How often do prices leave a choice open, and to whom?",
    .order = 11,
    .render = tie_audit_section::render,
};

}  // namespace shardlab
