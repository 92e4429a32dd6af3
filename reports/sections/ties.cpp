// Choices that the prices do not decide.
#include <algorithm>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace ties_section {

using namespace reports;

constexpr std::size_t kListed = 12;

Table counts_table(const ComparisonRecord& record, const Comparison& comparison) {
  Table table;
  table.caption = "Ties and order dependence";
  table.columns = {{"stack", ColumnKind::kName},
                   {"decisions", ColumnKind::kCount},
                   {"exact ties", ColumnKind::kCount},
                   {"candidates in the largest", ColumnKind::kCount},
                   {"near ties: no exact one, margin below 1 %", ColumnKind::kCount},
                   {"depends on order", ColumnKind::kCount},
                   {"depends on order, %", ColumnKind::kNumber, 1}};
  const auto questions = static_cast<std::int64_t>(record.questions.size());
  for (const StackSummary& stack : comparison.stacks) {
    const TieSummary& ties = stack.ties;
    if (ties.unknown > 0) {
      table.rows.push_back(
          {Cell(stack.name), Cell(questions), Cell(), Cell(), Cell(), Cell(), Cell()});
      continue;
    }
    std::optional<double> share;
    if (questions > 0) {
      share = 100.0 * static_cast<double>(ties.order_dependent) / static_cast<double>(questions);
    }
    table.rows.push_back({Cell(stack.name), Cell(questions), Cell(ties.exact),
                          ties.exact > 0 ? Cell(ties.most_candidates) : Cell(), Cell(ties.near),
                          Cell(ties.order_dependent), Cell(share)});
  }
  return table;
}

// The choices that change with the order of the candidates: a few of each stack, those with the
// most ties first.
std::optional<Table> order_dependent_table(const ComparisonRecord& record) {
  Table table;
  table.columns = {{"stack", ColumnKind::kName},
                   {"question", ColumnKind::kCode},
                   {"op", ColumnKind::kName},
                   {"mesh", ColumnKind::kName},
                   {"choice", ColumnKind::kCode},
                   {"candidates tied", ColumnKind::kCount},
                   {"price, us", ColumnKind::kNumber, 2}};
  std::size_t total = 0;
  const std::size_t listed_per_stack = std::max<std::size_t>(1, kListed / record.stacks.size());
  for (std::size_t stack = 0; stack < record.stacks.size(); ++stack) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < record.questions.size(); ++i) {
      if (record.questions[i].answers[stack].flips_with_order) places.push_back(i);
    }
    total += places.size();
    std::stable_sort(places.begin(), places.end(), [&](std::size_t left, std::size_t right) {
      return record.questions[left].answers[stack].ties >
             record.questions[right].answers[stack].ties;
    });
    if (places.size() > listed_per_stack) places.resize(listed_per_stack);
    for (const std::size_t i : places) {
      const RecordQuestion& question = record.questions[i];
      const StackAnswer& answer = question.answers[stack];
      table.rows.push_back({Cell(record.stacks[stack]), Cell(question.id), Cell(question.op),
                            Cell(question.mesh), Cell(answer.choice), Cell(answer.ties),
                            Cell(answer.price_us)});
    }
  }
  if (total == 0) return std::nullopt;
  table.caption = "Choices that change with the order of the candidates";
  if (total > table.rows.size()) {
    table.caption += ": " + grouped(static_cast<std::int64_t>(table.rows.size())) + " of " +
                     grouped(static_cast<std::int64_t>(total)) + ", the rest in report.json";
  }
  return table;
}

std::string answer(const Comparison& comparison) {
  std::vector<std::string> parts;
  std::int64_t all = 0;
  std::vector<std::string> unknown;
  for (const StackSummary& stack : comparison.stacks) {
    if (stack.ties.unknown > 0) {
      unknown.push_back(code(stack.name));
      continue;
    }
    all += stack.ties.order_dependent;
    parts.push_back(code(stack.name) + " leaves " + grouped(stack.ties.order_dependent));
  }
  const std::string rest =
      unknown.empty() ? ""
                      : " " + listed(unknown) + (unknown.size() == 1 ? " holds" : " hold") +
                            " recorded choices, whose other candidates are not known.";
  if (parts.empty()) return "Nobody knows:" + rest;
  if (all == 0) return "None: no choice changes with the order of the candidates." + rest;
  return listed(parts) + " of its choices to the order of the candidates." + rest;
}

SectionContent render(const ComparisonRecord& record, const Comparison& comparison) {
  SectionContent content;
  content.blocks.emplace_back(
      Paragraph{"An exact tie is a choice whose price another candidate shares. A choice "
                "depends on the order when another order of the candidates would change it: then "
                "the rule's author decides, not the cost model. Choices without a price, which "
                "are the first in the list, are not counted."});
  content.blocks.emplace_back(counts_table(record, comparison));
  if (auto table = order_dependent_table(record)) content.blocks.emplace_back(std::move(*table));
  content.answer = answer(comparison);
  return content;
}

}  // namespace ties_section

REPORT_SECTION(ties){
    .id = "ties",
    .title = "Ties and order dependence",
    .question = "Which choices do the prices not decide?",
    .order = 50,
    .render = ties_section::render,
};

}  // namespace shardlab
