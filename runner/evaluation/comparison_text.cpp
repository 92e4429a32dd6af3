#include "runner/evaluation/comparison_text.h"

#include <algorithm>
#include <set>
#include <utility>

#include "costmodel/base/units.h"
#include "reports/live_stacks.h"
#include "reports/report.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/evaluation/flatten_advice_text.h"
#include "runner/evaluation/memory_options.h"

namespace shardlab {
namespace {

using reports::ComparisonRecord;

// Less time is better.
Tone tone_of_change(std::string_view change) {
  return change.starts_with('-')   ? Tone::kGood
         : change.starts_with('+') ? Tone::kBad
                                   : Tone::kPlain;
}

std::string with_sign(double change, const std::string& figure) {
  return (change > 0.0 && figure != "0" ? "+" : "") + figure;
}

// The sentence that sums up, and the tables of suites, flips and steps.
std::string tables_text(const reports::ComparisonText& comparison, const TextStyle& style) {
  std::string text = printable(comparison.sentence) + "\n";
  if (comparison.suites.empty()) return text;
  const std::vector<std::string>& titles = comparison.suites.front();
  const auto change =
      static_cast<std::size_t>(std::find(titles.begin(), titles.end(), "change") - titles.begin());
  TextTable suites(style, titles);
  for (std::size_t i = 1; i < comparison.suites.size(); ++i) {
    const std::vector<std::string>& cells = comparison.suites[i];
    suites.add(cells);
    const bool is_time = std::find(cells.begin(), cells.end(), "time") != cells.end();
    if (is_time && change < cells.size()) suites.paint(change, tone_of_change(cells[change]));
  }
  text += suites.text();
  TextTable flips(style, 2);
  for (const std::vector<std::string>& cells : comparison.flips) {
    flips.add(cells);
    flips.paint(0, tone_of_change(cells[0]));
  }
  if (!comparison.flips_title.empty()) text += "  " + comparison.flips_title + "\n" + flips.text();
  if (!comparison.hidden_flips.empty()) text += "  " + comparison.hidden_flips + "\n";
  TextTable steps(style, 2);
  for (const std::vector<std::string>& cells : comparison.steps) {
    steps.add(cells);
    steps.paint(0, tone_of_change(cells[0]));
  }
  if (!comparison.steps_title.empty()) text += "  " + comparison.steps_title + "\n" + steps.text();
  return text;
}

// What a reader should know of the reference's prices: a note for each line.
std::string doubts_text(const ComparisonRecord& record) {
  std::string text;
  for (const std::string& line : record.reference.doubtful) {
    text += "  note: " + printable(record.reference.name) + ": " + printable(line) + "\n";
  }
  return text;
}

// Which live stacks did not answer a sample of questions as PyTorch does: a note for each.
std::string failed_checks_text(const ComparisonRecord& record) {
  std::string text;
  for (const std::string& note : reports::live_stack_notes(record)) {
    text += "  note: " + printable(note) + "\n";
  }
  return text;
}

// How many choices of each stack may leave replicas that differ, with the first
// of them.
std::string replicas_text(const ComparisonRecord& record, bool is_asked) {
  if (!is_asked) return "";
  std::string text;
  for (std::size_t s = 0; s < record.stacks.size(); ++s) {
    std::size_t count = 0;
    std::string first;
    for (const reports::RecordQuestion& question : record.questions) {
      const std::string& differ = question.answers[s].replicas_may_differ;
      if (differ.empty()) continue;
      if (count++ == 0) first = question.id + ", " + differ;
    }
    text += "  " + record.stacks[s] + ": replicas may differ after " + std::to_string(count) +
            " of " + std::to_string(record.questions.size()) + " choices" +
            (count > 0 ? ", first at " + printable(first) : "") + "\n";
  }
  return text;
}

// What may make a step fit that exceeds a device's memory; "" if all of them
// fit.
std::string memory_advice(const ComparisonRecord& record, const Recomputation& in_use) {
  const bool all_fit = std::ranges::all_of(record.steps, [](const reports::StepComparison& step) {
    const double most = step.device_bytes.value_or(kInfinity);
    return step.peak_bytes.baseline <= most && step.peak_bytes.candidate.value_or(0.0) <= most;
  });
  if (all_fit) return "";
  return "  a step exceeds a device's memory; try " + memory_options(in_use) + "\n";
}

// What each flip saves on its own, and with all that follows from it: a table
// for each step.
std::string downstream_text(const reports::StepComparison& step, const TextStyle& style) {
  constexpr std::size_t kShown = 20;
  TextTable table(style, {"node", "flips", "alone us", "with what follows us", "step us",
                          "nodes that follow", "baseline becomes candidate"});
  std::size_t cheaper = 0;
  std::size_t dearer_later = 0;
  for (std::size_t i = 0; i < step.flips.size(); ++i) {
    const reports::StepFlip& flip = step.flips[i];
    const double alone = flip.delta_local_us.value_or(0.0);
    const double whole = flip.delta_sum_us.value_or(0.0);
    if (alone < 0.0) ++cheaper;
    if (alone < 0.0 && whole > 0.0) ++dearer_later;
    if (i >= kShown) continue;
    const auto figure = [&](double us) { return with_sign(us, style.figure(us)); };
    table.add({flip.op + " at " + flip.node, std::to_string(flip.count), figure(alone),
               figure(whole), figure(flip.delta_step_us),
               std::to_string(flip.followers.value_or(0)),
               flip.baseline + " becomes " + flip.candidate});
  }
  return "  flips of " + printable(step.program) + " under " + step.candidate +
         ", each taken alone:\n" + table.text() +
         (step.flips.size() > kShown
              ? "  and " + std::to_string(step.flips.size() - kShown) + " more\n"
              : "") +
         "  " + std::to_string(cheaper) + " of " + std::to_string(step.flips.size()) +
         " flips are cheaper on their own; of these, " + std::to_string(dearer_later) +
         " cost more than they save once what follows is counted\n";
}

// The flips that change each step most: a line for each.
std::string step_flips_text(const ComparisonRecord& record, bool downstream,
                            const TextStyle& style) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (const reports::StepComparison& step : record.steps) {
    if (step.flips.empty()) continue;
    if (downstream) {
      text += downstream_text(step, style);
      continue;
    }
    text += "  each taken alone, in a step of " + printable(step.program) + " under " +
            step.candidate + ":\n";
    for (std::size_t i = 0; i < std::min(step.flips.size(), kShown); ++i) {
      const reports::StepFlip& flip = step.flips[i];
      const std::string change = with_sign(
          flip.delta_step_us, style.difference(flip.delta_step_us, step.step_us.baseline));
      const double megabytes = flip.delta_peak_bytes / 1e6;
      text += "    " + style.painted(tone_of_change(change), change + " us") + ", " +
              (megabytes == 0.0 ? "same memory"
                                : with_sign(megabytes, style.figure(megabytes)) + " MB") +
              ": " + flip.op + " at " + printable(flip.node) +
              (flip.count > 1 ? " and " + std::to_string(flip.count - 1) + " like it" : "") + ", " +
              flip.baseline + " becomes " + flip.candidate + "\n";
    }
    if (step.flips.size() > kShown) {
      text += "    and " + std::to_string(step.flips.size() - kShown) + " more\n";
    }
  }
  return text;
}

// The advice of --advise-flattened. That for the baseline is the same in each
// comparison of a program.
std::string flattened_meshes_text(const ComparisonRecord& record, const TextStyle& style) {
  std::string text;
  std::set<std::pair<std::string, std::string>> told;  // program and stack
  for (const reports::StepComparison& step : record.steps) {
    for (const reports::FlattenedMeshes& advice : step.flattened_meshes) {
      if (!told.emplace(step.program, advice.stack).second) continue;
      text += flatten_advice_text(advice, style);
    }
  }
  return text;
}

}  // namespace

std::string comparison_text(const ComparisonRecord& record, const ComparisonTextOptions& options,
                            const TextStyle& style) {
  return tables_text(reports::summary_text(record, options.shown), style) + doubts_text(record) +
         failed_checks_text(record) + replicas_text(record, options.has_replica_gate) +
         memory_advice(record, options.recomputation) +
         step_flips_text(record, options.downstream, style) + flattened_meshes_text(record, style);
}

}  // namespace shardlab
