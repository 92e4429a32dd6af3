// The whole comparison on one screen: four figures, what the change does to the time and the
// collectives of each suite, and one row per stack.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"
#include "reports/time_text.h"

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

// "none", "-2.09 %"; unknown where nothing is timed.
Figure time_figure(const Comparison& comparison, const SuiteChange* largest) {
  if (largest == nullptr) return {"Time", "unknown", "no choice is timed"};
  if (largest->delta_us == 0.0 && comparison.suites.size() > 1) {
    return {
        "Time", "0 %",
        "of " + counted(static_cast<std::int64_t>(comparison.suites.size()), "suite", "suites")};
  }
  const std::string label = comparison.suites.size() == 1 ? "Time" : "Largest change in time";
  const std::optional<double> percent = largest->percent();
  return {label, percent ? change_percent(*percent) : change_duration(largest->delta_us),
          code(largest->name) + " took " + duration_text(largest->baseline_us)};
}

// "-0.70 %": how the training step of a program changes; the largest change if there are several,
// and "cannot run" if one cannot. Nothing if no step was compared.
std::optional<Figure> step_figure(const ComparisonRecord& record) {
  const auto stopped =
      std::find_if(record.steps.begin(), record.steps.end(),
                   [](const StepComparison& step) { return !step.cannot_run.empty(); });
  if (stopped != record.steps.end()) {
    return Figure{"Training step", "cannot run",
                  code(stopped->program) + " under " + code(stopped->candidate)};
  }
  const StepComparison* largest = nullptr;
  const auto change = [](const StepComparison& step) {
    return *step.step_us.candidate / step.step_us.baseline - 1.0;
  };
  for (const StepComparison& step : record.steps) {
    if (!step.step_us.candidate || !(step.step_us.baseline > 0.0)) continue;
    if (largest == nullptr || std::abs(change(step)) > std::abs(change(*largest))) largest = &step;
  }
  if (largest == nullptr) return std::nullopt;
  return Figure{"Training step", change_percent(100.0 * change(*largest)),
                code(largest->program) + " took " + duration_text(largest->step_us.baseline)};
}

// The number of collectives that the suite runs more or less, and how many it ran. Where some kinds
// run more and others less, the two that change most are named.
Figure collectives_figure(const SuiteChange* suite) {
  if (suite == nullptr || !suite->tells_collectives)
    return {"Collectives", "unknown", "not in the record"};
  const CollectiveChange all = suite->all_collectives();
  const std::int64_t more = all.candidate.count - all.baseline.count;
  const auto change = [](const CollectiveChange& kind) {
    return kind.candidate.count - kind.baseline.count;
  };
  const auto by_change = [&](const CollectiveChange& left, const CollectiveChange& right) {
    return change(left) < change(right);
  };
  std::string kinds;
  if (!suite->collectives.empty()) {
    const auto [least, most] =
        std::minmax_element(suite->collectives.begin(), suite->collectives.end(), by_change);
    if (change(*least) < 0 && change(*most) > 0) {
      kinds = most->kind + " +" + grouped(change(*most)) + ", " + least->kind + " " +
              grouped(change(*least)) + "; ";
    }
  }
  return {"Collectives", (more > 0 ? "+" : "") + grouped(more),
          kinds + code(suite->name) + " ran " + grouped(all.baseline.count)};
}

Figures figures_of_one(const ComparisonRecord& record, const Comparison& comparison) {
  const FlipCounts& flips = comparison.stacks[1].flips;
  const RegretOfBoth both = regret_of_both(record, 1);
  const SuiteChange* largest = largest_change(comparison.suites, 1);
  return {{step_figure(record).value_or(time_figure(comparison, largest)),
           collectives_figure(largest),
           {"Decisions that flip", grouped(flips.total), share(flips)},
           {"Mean regret", percent_or_dash(both.after), "was " + percent_or_dash(both.before)}}};
}

Figures figures_of_several(const ComparisonRecord& record, const Comparison& comparison) {
  std::int64_t fewest = comparison.stacks[1].flips.total;
  std::int64_t most = fewest;
  for (std::size_t stack = 1; stack < comparison.stacks.size(); ++stack) {
    fewest = std::min(fewest, comparison.stacks[stack].flips.total);
    most = std::max(most, comparison.stacks[stack].flips.total);
  }
  const SuiteChange* largest = largest_change(comparison.suites);
  Figure time = time_figure(comparison, largest);
  if (largest != nullptr) {
    time.label = "Largest change in time";
    time.note = code(largest->name) + " under " + code(record.stacks[largest->stack]);
  }
  const StackSummary* lowest = lowest_regret(record, comparison);
  return {{std::move(time),
           {"Candidates", std::to_string(comparison.stacks.size() - 1),
            "against " + code(comparison.stacks[0].name)},
           {"Decisions that flip",
            fewest == most ? grouped(most) : grouped(fewest) + " to " + grouped(most),
            "of " + grouped(comparison.stacks[0].flips.questions)},
           {"Lowest mean regret", lowest == nullptr ? "-" : percent(*lowest->regret.mean),
            lowest == nullptr ? "unknown" : code(lowest->name)}}};
}

Table stack_table(const Comparison& comparison) {
  Table table;
  table.caption = "Each stack against the baseline, judged by the reference";
  table.leads = true;
  table.columns = {{"stack", ColumnKind::kName},
                   {"flips", ColumnKind::kCount},
                   {"better", ColumnKind::kCount},
                   {"worse", ColumnKind::kCount},
                   {"equal", ColumnKind::kCount},
                   {"undecided", ColumnKind::kCount},
                   {"mean regret, %", ColumnKind::kNumber, 2},
                   {"Kendall tau", ColumnKind::kNumber, 3}};
  if (comparison.has_wrong) {
    table.columns.push_back({"computes something wrong", ColumnKind::kCount});
  }
  for (const StackSummary& stack : comparison.stacks) {
    const std::optional<double> mean_regret = in_percent(stack.regret.mean);
    if (&stack == &comparison.stacks[0]) {
      table.rows.push_back({Cell(stack.name, "baseline"), Cell(), Cell(), Cell(), Cell(), Cell(),
                            Cell(mean_regret), Cell(stack.kendall_tau)});
      if (comparison.has_wrong) table.rows.back().emplace_back();
      continue;
    }
    table.rows.push_back(
        {Cell(stack.name), Cell(stack.flips.total), Cell(stack.flips[Verdict::kBetter]),
         Cell(stack.flips[Verdict::kWorse]), Cell(stack.flips[Verdict::kEqual]),
         Cell(stack.flips[Verdict::kUndecided]), Cell(mean_regret), Cell(stack.kendall_tau)});
    if (comparison.has_wrong) table.rows.back().emplace_back(stack.flips[Verdict::kWrong]);
  }
  return table;
}

// "12 flips take a choice that computes something wrong, the first of them `q7`: mesh dim 0, ... "
std::string wrong_sentence(const ComparisonRecord& record, const Comparison& comparison) {
  if (!comparison.has_wrong) return "";
  std::int64_t count = 0;
  for (const StackSummary& stack : comparison.stacks) count += stack.flips[Verdict::kWrong];
  const auto first = std::ranges::find(comparison.flips, Verdict::kWrong, &Flip::verdict);
  const RecordQuestion& question = record.questions[first->question];
  return counted(count, "flip takes", "flips take") + " a choice that computes something wrong" +
         (count == 1 ? ", " : ", the first of them ") + code(question.id) + ": " +
         code(question.answers[first->stack].computes_wrong) + ". ";
}

// "The flip that saves most is `q12`: 45.00 us, 1.2 % of `ops-small`; the one that loses most is
// `q88`: 3.100 us, 0.08 %."
std::string most_of_all(const ComparisonRecord& record, const Comparison& comparison) {
  // Flips come in the order of the time that they save or lose.
  const Flip* loss = nullptr;
  const Flip* gain = nullptr;
  for (const Flip& flip : comparison.flips) {
    if (flip.verdict == Verdict::kWorse && loss == nullptr) loss = &flip;
    if (flip.verdict == Verdict::kBetter && gain == nullptr) gain = &flip;
  }
  if (comparison.flips.empty()) return "No decision flips.";
  if (loss == nullptr && gain == nullptr) {
    return "No flip gains or loses anything " +
           std::string(record.steps.empty() ? "" : "by itself ") + "that " +
           code(record.reference.name) + " can see." +
           (record.steps.empty()
                ? ""
                : " What it changes in the operators that follow, the training step shows.");
  }
  const auto told = [&](const Flip& flip) {
    const RecordQuestion& question = record.questions[flip.question];
    std::string text = code(question.id);
    if (!flip.delta_us) {
      return text + (flip.verdict == Verdict::kWorse ? ", whose new choice cannot run"
                     : question.answers[0].cannot_run.empty()
                         ? ", whose old choice computed something wrong"
                         : ", whose old choice could not run");
    }
    text += ", with " + duration_text(std::abs(*flip.delta_us));
    if (flip.share_percent) {
      text += " or " + size_percent(*flip.share_percent) + " of " + code(question.suite);
    }
    return text;
  };
  const std::string most = "The flip that saves most is ";
  if (gain == nullptr)
    return "The flip that loses most is " + told(*loss) + "; no flip saves time.";
  if (loss == nullptr) return most + told(*gain) + "; no flip loses time.";
  return most + told(*gain) + "; the one that loses most is " + told(*loss) + ".";
}

std::string answer(const ComparisonRecord& record, const Comparison& comparison) {
  return wrong_sentence(record, comparison) + most_of_all(record, comparison);
}

SectionContent render(const ComparisonRecord& record, const Comparison& comparison) {
  SectionContent content;
  content.blocks.emplace_back(comparison.stacks.size() == 2
                                  ? figures_of_one(record, comparison)
                                  : figures_of_several(record, comparison));
  for (Table& table : time_tables(record, comparison)) {
    content.blocks.emplace_back(std::move(table));
  }
  content.blocks.emplace_back(stack_table(comparison));
  content.answer = answer(record, comparison);
  return content;
}

}  // namespace glance_section

REPORT_SECTION(glance){
    .id = "glance",
    .title = "At a glance",
    .question = "What does the change do to the time of each suite, and what does it flip?",
    .order = 10,
    .render = glance_section::render,
};

}  // namespace shardlab
