// The whole comparison on one screen: four figures and one row per stack.
#include <algorithm>
#include <optional>
#include <string>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace glance_section {

using namespace reports;

std::string percent_or_dash(const std::optional<double>& fraction) {
  return fraction ? percent(*fraction) : "unknown";
}

std::optional<double> in_percent(const std::optional<double>& fraction) {
  if (!fraction) return std::nullopt;
  return 100.0 * *fraction;
}

// "11.0 % of 1,204 decisions".
std::string share(const FlipCounts& flips) {
  if (flips.questions == 0) return "of no decisions";
  return percent(static_cast<double>(flips.total) / static_cast<double>(flips.questions)) + " of " +
         counted(flips.questions, "decision", "decisions");
}

struct BrokenInvariants {
  std::int64_t checked = 0;
  std::int64_t broken = 0;
};

BrokenInvariants count_invariants(const ComparisonRecord& record, const std::string& stack) {
  BrokenInvariants count;
  for (const InvariantResult& invariant : record.invariants) {
    if (invariant.stack != stack) continue;
    ++count.checked;
    if (invariant.violated > 0) ++count.broken;
  }
  return count;
}

Figure invariants_figure(const ComparisonRecord& record, const std::string& stack) {
  const BrokenInvariants count = count_invariants(record, stack);
  if (count.checked == 0) return {"Invariants", "-", "none checked"};
  return {"Invariants broken", grouped(count.broken) + " of " + grouped(count.checked),
          "by " + code(stack)};
}

Figures figures_of_one(const ComparisonRecord& record, const Comparison& comparison) {
  const StackSummary& before = comparison.stacks[0];
  const StackSummary& after = comparison.stacks[1];
  const FlipCounts& flips = after.flips;
  return {{{"Decisions that flip", grouped(flips.total), share(flips)},
           {"Better : worse",
            grouped(flips[Verdict::kBetter]) + " : " + grouped(flips[Verdict::kWorse]),
            grouped(flips[Verdict::kEqual]) + " equal, " + grouped(flips[Verdict::kUndecided]) +
                " undecided"},
           {"Mean regret", percent_or_dash(after.regret.mean),
            "was " + percent_or_dash(before.regret.mean)},
           invariants_figure(record, after.name)}};
}

Figures figures_of_several(const ComparisonRecord& record, const Comparison& comparison) {
  std::int64_t fewest = comparison.stacks[1].flips.total;
  std::int64_t most = fewest;
  const StackSummary* lowest = lowest_regret(record, comparison);
  BrokenInvariants broken;
  for (const StackSummary& stack : comparison.stacks) {
    const BrokenInvariants count = count_invariants(record, stack.name);
    broken.checked += count.checked;
    broken.broken += count.broken;
    if (&stack == &comparison.stacks[0]) continue;
    fewest = std::min(fewest, stack.flips.total);
    most = std::max(most, stack.flips.total);
  }
  Figures figures;
  figures.figures.push_back({"Candidates", std::to_string(comparison.stacks.size() - 1),
                             "against " + code(comparison.stacks[0].name)});
  figures.figures.push_back(
      {"Decisions that flip",
       fewest == most ? grouped(most) : grouped(fewest) + " to " + grouped(most),
       "of " + grouped(comparison.stacks[0].flips.questions)});
  figures.figures.push_back({"Lowest mean regret",
                             lowest == nullptr ? "-" : percent(*lowest->regret.mean),
                             lowest == nullptr ? "unknown" : code(lowest->name)});
  figures.figures.push_back(
      {"Invariants broken",
       broken.checked == 0 ? "-" : grouped(broken.broken) + " of " + grouped(broken.checked),
       broken.checked == 0 ? "none checked" : "over all stacks"});
  return figures;
}

Table stack_table(const Comparison& comparison) {
  Table table;
  table.caption = "Each stack against the baseline, judged by the reference";
  table.columns = {{"stack", ColumnKind::kName},
                   {"flips", ColumnKind::kCount},
                   {"better", ColumnKind::kCount},
                   {"worse", ColumnKind::kCount},
                   {"equal", ColumnKind::kCount},
                   {"undecided", ColumnKind::kCount},
                   {"mean regret, %", ColumnKind::kNumber, 2},
                   {"Kendall tau", ColumnKind::kNumber, 3}};
  for (const StackSummary& stack : comparison.stacks) {
    const std::optional<double> mean_regret = in_percent(stack.regret.mean);
    if (&stack == &comparison.stacks[0]) {
      table.rows.push_back({Cell(stack.name, "baseline"), Cell(), Cell(), Cell(), Cell(), Cell(),
                            Cell(mean_regret), Cell(stack.kendall_tau)});
      continue;
    }
    table.rows.push_back(
        {Cell(stack.name), Cell(stack.flips.total), Cell(stack.flips[Verdict::kBetter]),
         Cell(stack.flips[Verdict::kWorse]), Cell(stack.flips[Verdict::kEqual]),
         Cell(stack.flips[Verdict::kUndecided]), Cell(mean_regret), Cell(stack.kendall_tau)});
  }
  return table;
}

// "The largest gain is 45.0 % (`q12`) and the largest loss 3.1 % (`q88`)."
std::string answer(const ComparisonRecord& record, const Comparison& comparison) {
  // Flips come in reading order, so the first flip with a verdict is the largest one.
  const Flip* loss = nullptr;
  const Flip* gain = nullptr;
  for (const Flip& flip : comparison.flips) {
    if (flip.verdict == Verdict::kWorse && loss == nullptr) loss = &flip;
    if (flip.verdict == Verdict::kBetter && gain == nullptr) gain = &flip;
  }
  if (comparison.flips.empty()) return "No decision flips.";
  if (loss == nullptr && gain == nullptr) {
    return "No flip gains or loses anything that " + code(record.reference.name) + " can see.";
  }
  const auto told = [&](const Flip& flip) {
    const std::string amount = flip.gain_percent ? fixed(std::abs(*flip.gain_percent), 1) + " %"
                               : flip.gain_us    ? fixed(std::abs(*flip.gain_us), 2) + " us"
                                                 : "a choice that runs for one that cannot";
    return amount + " (" + code(record.questions[flip.question].id) + ")";
  };
  if (loss == nullptr) return "The largest gain is " + told(*gain) + "; no flip loses.";
  if (gain == nullptr) return "The largest loss is " + told(*loss) + "; no flip gains.";
  return "The largest gain is " + told(*gain) + ", the largest loss " + told(*loss) + ".";
}

SectionContent render(const ComparisonRecord& record, const Comparison& comparison) {
  SectionContent content;
  content.blocks.emplace_back(comparison.stacks.size() == 2
                                  ? figures_of_one(record, comparison)
                                  : figures_of_several(record, comparison));
  content.blocks.emplace_back(stack_table(comparison));
  content.answer = answer(record, comparison);
  return content;
}

}  // namespace glance_section

REPORT_SECTION(glance){
    .id = "glance",
    .title = "At a glance",
    .question = "What does the change flip, and is it for the better?",
    .order = 10,
    .render = glance_section::render,
};

}  // namespace shardlab
