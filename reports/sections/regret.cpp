// What each stack loses by its choices, and how well it ranks the candidates.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace regret_section {

using namespace reports;

constexpr std::size_t kWorstPerStack = 3;

std::optional<double> in_percent(const std::optional<double>& fraction) {
  if (!fraction) return std::nullopt;
  return 100.0 * *fraction;
}

// Over how many questions the rank correlation is a mean, and its weighted mean.
std::string tau_note(const Comparison& comparison, const StackSummary& stack) {
  if (!stack.kendall_tau) return "";
  std::string over = "over " + counted(stack.ranked, "question", "questions");
  if (!comparison.is_weighted || !stack.weighted_kendall_tau) return over;
  return over + "; weighted " + fixed(*stack.weighted_kendall_tau, 3);
}

Table regret_table(const Comparison& comparison) {
  Table table;
  table.caption = "Regret and rank correlation";
  table.columns = {{"stack", ColumnKind::kName},
                   {"decisions judged", ColumnKind::kCount},
                   {"mean regret, %", ColumnKind::kNumber, 2}};
  if (comparison.is_weighted) {
    table.columns.push_back({"weighted mean, %", ColumnKind::kNumber, 2});
  }
  table.columns.push_back({"median, %", ColumnKind::kNumber, 2});
  table.columns.push_back({"p99, %", ColumnKind::kNumber, 2});
  table.columns.push_back({"max, %", ColumnKind::kNumber, 2});
  table.columns.push_back({"Kendall tau", ColumnKind::kNumber, 3});
  for (const StackSummary& stack : comparison.stacks) {
    Row row = {Cell(stack.name), Cell(stack.regret.judged), Cell(in_percent(stack.regret.mean))};
    if (comparison.is_weighted) row.emplace_back(in_percent(stack.regret.weighted_mean));
    row.emplace_back(in_percent(stack.regret.p50));
    row.emplace_back(in_percent(stack.regret.p99));
    row.emplace_back(in_percent(stack.regret.max));
    row.emplace_back(stack.kendall_tau, tau_note(comparison, stack));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Counts the answers without a regret. There is no table if every answer has one.
std::optional<Table> unjudged_table(const Comparison& comparison) {
  Table table;
  table.caption = "Decisions without a regret";
  table.columns = {{"stack", ColumnKind::kName},
                   {"best is free, choice is not", ColumnKind::kCount},
                   {"its largest price, us", ColumnKind::kNumber, 2},
                   {"impossible for the stack", ColumnKind::kCount},
                   {"cannot run", ColumnKind::kCount},
                   {"without a reference price", ColumnKind::kCount}};
  const bool has_wrong = std::ranges::any_of(
      comparison.stacks, [](const StackSummary& stack) { return stack.regret.computes_wrong > 0; });
  if (has_wrong) table.columns.push_back({"computes something wrong", ColumnKind::kCount});
  bool has_any = false;
  for (const StackSummary& stack : comparison.stacks) {
    const RegretSummary& regret = stack.regret;
    has_any = has_any || regret.unbounded + regret.impossible + regret.cannot_run +
                                 regret.unpriced + regret.computes_wrong >
                             0;
    table.rows.push_back({Cell(stack.name), Cell(regret.unbounded), Cell(regret.unbounded_max_us),
                          Cell(regret.impossible), Cell(regret.cannot_run), Cell(regret.unpriced)});
    if (has_wrong) table.rows.back().emplace_back(regret.computes_wrong);
  }
  if (!has_any) return std::nullopt;
  return table;
}

// What the best known answer chooses; it may be the stack's own choice, reached by cheaper steps.
Cell best_choice_cell(const RecordQuestion& question, std::size_t stack) {
  if (question.best.choice.empty()) return Cell();
  if (question.best.choice != question.answers[stack].choice) return Cell(question.best.choice);
  return Cell("the same, by other steps");
}

// The choices of each stack with the largest regret.
std::optional<Table> worst_table(const ComparisonRecord& record) {
  Table table;
  table.caption = "The costliest choices";
  table.columns = {{"stack", ColumnKind::kName},
                   {"regret, %", ColumnKind::kNumber, 1},
                   {"question", ColumnKind::kCode},
                   {"choice", ColumnKind::kCode},
                   {"its reference price, us", ColumnKind::kNumber, 2},
                   {"best known, us", ColumnKind::kNumber, 2},
                   {"best choice", ColumnKind::kCode}};
  for (std::size_t stack = 0; stack < record.stacks.size(); ++stack) {
    std::vector<std::pair<double, std::size_t>>
        losses;  // negative regret and question, so that the largest comes first
    for (std::size_t i = 0; i < record.questions.size(); ++i) {
      const std::optional<double> value = regret(record.questions[i], stack);
      const bool counts = value && *value > 0.0 && record.questions[i].answers[stack].price_us;
      if (counts) losses.emplace_back(-*value, i);
    }
    const auto shown = static_cast<std::ptrdiff_t>(std::min(losses.size(), kWorstPerStack));
    std::partial_sort(losses.begin(), losses.begin() + shown, losses.end());
    losses.resize(static_cast<std::size_t>(shown));
    for (const auto& [negative_regret, i] : losses) {
      const RecordQuestion& question = record.questions[i];
      table.rows.push_back({Cell(record.stacks[stack]), Cell(-100.0 * negative_regret),
                            Cell(question.id), Cell(question.answers[stack].choice),
                            Cell(question.answers[stack].reference_us),
                            Cell(best_known_us(question)), best_choice_cell(question, stack)});
    }
  }
  if (table.rows.empty()) return std::nullopt;
  return table;
}

// The total time of each stack's choices by the reference's prices, and the share of it that is
// communication. Each choice counts as often as its suite asks its question. Only questions count
// for which the reference prices the choices of all stacks.
std::optional<Table> time_table(const ComparisonRecord& record) {
  std::vector<double> total_us(record.stacks.size());
  std::vector<double> kernel_us(record.stacks.size());
  std::int64_t counted = 0;
  for (const RecordQuestion& question : record.questions) {
    const bool is_known = std::all_of(
        question.answers.begin(), question.answers.end(),
        [](const StackAnswer& each) { return each.reference_us && each.reference_kernel_us; });
    if (!is_known) continue;
    ++counted;
    const auto times = static_cast<double>(question.count);
    for (std::size_t stack = 0; stack < record.stacks.size(); ++stack) {
      total_us[stack] += times * *question.answers[stack].reference_us;
      kernel_us[stack] += times * *question.answers[stack].reference_kernel_us;
    }
  }
  if (counted == 0) return std::nullopt;
  Table table;
  table.caption = "What the choices take by the reference";
  table.columns = {{"stack", ColumnKind::kName},
                   {"decisions", ColumnKind::kCount},
                   {"all, us", ColumnKind::kNumber, 1},
                   {"kernels, us", ColumnKind::kNumber, 1},
                   {"communication, us", ColumnKind::kNumber, 1},
                   {"communication, %", ColumnKind::kNumber, 1}};
  for (std::size_t stack = 0; stack < record.stacks.size(); ++stack) {
    const double moved_us = total_us[stack] - kernel_us[stack];
    table.rows.push_back(
        {Cell(record.stacks[stack]), Cell(counted), Cell(total_us[stack]), Cell(kernel_us[stack]),
         Cell(moved_us),
         total_us[stack] > 0.0 ? Cell(100.0 * moved_us / total_us[stack]) : Cell()});
  }
  return table;
}

std::string answer(const ComparisonRecord& record, const Comparison& comparison) {
  const StackSummary* lowest = lowest_regret(record, comparison);
  if (lowest == nullptr) return "The reference judges no decision.";
  std::size_t as_low = 0;
  std::size_t compared = 0;
  bool has_reference = false;
  for (const StackSummary& stack : comparison.stacks) {
    const bool is_aside = judges_itself(record, stack);
    has_reference = has_reference || is_aside;
    if (is_aside || !stack.regret.mean) continue;
    ++compared;
    if (*stack.regret.mean == *lowest->regret.mean) ++as_low;
  }
  const std::string aside = has_reference ? "The reference aside, " : "";
  const std::string mean_text = percent(*lowest->regret.mean) + " on average";
  if (as_low == compared && compared > 1) {
    return (aside.empty() ? "All" : aside + "all") + std::string(" stacks lose the same, ") +
           mean_text + ".";
  }
  std::string text = aside + code(lowest->name);
  if (as_low > 1) {
    text += " (and " + counted(static_cast<std::int64_t>(as_low) - 1, "other", "others") + ")";
  }
  text += (compared == 1 ? " loses " : " loses least, ") + mean_text;
  const StackSummary& baseline = comparison.stacks[0];
  if (lowest != &baseline && baseline.regret.mean && !judges_itself(record, baseline)) {
    text += ", against " + percent(*baseline.regret.mean) + " for " + code(baseline.name);
  }
  return text + ".";
}

SectionContent render(const ComparisonRecord& record, const Comparison& comparison) {
  SectionContent content;
  std::string text =
      "Regret is how much more a choice costs than the best known one, as a share of the best "
      "one's price, both priced by the reference. "
      "Percentiles interpolate linearly. Kendall's tau-b compares the order in which a stack and "
      "the reference put "
      "the candidates of a question: 1 is the same order, -1 the reverse; the figure is the mean "
      "over the questions whose candidates both of them rank, and two stacks may have others.";
  if (comparison.is_weighted)
    text += " Weighted figures count a question as often as its suite asks it.";
  content.blocks.emplace_back(Paragraph{std::move(text)});
  for (const StackSummary& stack : comparison.stacks) {
    if (stack.name != record.reference.name) continue;
    content.blocks.emplace_back(Paragraph{
        code(stack.name) + " is the reference itself" +
        (judges_itself(record, stack)
             ? ": by its own prices it loses nothing among the candidates it lists, whatever it is "
               "worth."
             : ", and loses by its own prices where it does not take what they make cheapest, such "
               "as a plan that a greedy planner misses.")});
  }
  content.blocks.emplace_back(regret_table(comparison));
  if (auto table = time_table(record)) content.blocks.emplace_back(std::move(*table));
  if (auto table = unjudged_table(comparison)) content.blocks.emplace_back(std::move(*table));
  if (auto table = worst_table(record)) content.blocks.emplace_back(std::move(*table));
  content.answer = answer(record, comparison);
  return content;
}

}  // namespace regret_section

REPORT_SECTION(regret){
    .id = "regret",
    .title = "Regret and rank correlation",
    .question = "How much does each stack lose by its choices?",
    .order = 40,
    .render = regret_section::render,
};

}  // namespace shardlab
