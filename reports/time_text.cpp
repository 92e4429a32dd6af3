#include "reports/time_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "reports/number_text.h"
#include "reports/summary.h"
#include "reports/writers/inline_text.h"

namespace shardlab::reports {
namespace {

// Up to this many candidates get a clause each. If there are more, only the largest change is
// named.
constexpr std::size_t kCandidatesTold = 3;
// Up to this many suites (times candidates) a terminal shows each kind of collective on its own.
constexpr std::size_t kShownByKind = 3;
constexpr std::size_t kFlipsInText = 3;

// "the reference (`alpha-beta`: datasheet, not measured)".
std::string reference_text(const ComparisonRecord& record) {
  const std::string& label = record.reference.label;
  return "the reference (" + code(record.reference.name) + (label.empty() ? "" : ": " + label) +
         ")";
}

std::string shortens(const SuiteChange& change) {
  return change.delta_us < 0.0 ? "shortens " : "lengthens ";
}

std::string less_or_more(const SuiteChange& change) {
  return change.delta_us < 0.0 ? " less" : " more";
}

// "2.09 %", or "12.35 us" for a suite that took no time.
std::string size_text(const SuiteChange& change) {
  const std::optional<double> percent = change.percent();
  return percent ? size_percent(*percent) : duration_text(std::abs(change.delta_us));
}

// "-2.09 %".
std::string change_text(const SuiteChange& change) {
  const std::optional<double> percent = change.percent();
  return percent ? change_percent(*percent) : change_duration(change.delta_us);
}

std::vector<const SuiteChange*> timed_changes(const Comparison& comparison, std::size_t stack) {
  std::vector<const SuiteChange*> timed;
  for (const SuiteChange& change : comparison.suites) {
    if (change.stack == stack && change.timed > 0) timed.push_back(&change);
  }
  return timed;
}

// Why the first question that is not timed has no time.
std::string why_not_timed(const ComparisonRecord& record, std::size_t stack) {
  for (const RecordQuestion& question : record.questions) {
    if (is_timed(question, stack)) continue;
    for (const std::size_t one : {std::size_t{0}, stack}) {
      const StackAnswer& answer = question.answers[one];
      if (!answer.reference_us) return answer.reference_impossible;
      if (!answer.cannot_run.empty()) return answer.cannot_run;
      if (!answer.computes_wrong.empty()) {
        return "it computes something wrong: " + answer.computes_wrong;
      }
    }
  }
  return {};
}

// "78 of 23,475 questions are left out of the times, because ..."; "" if none is.
std::string left_out_sentence(const Comparison& comparison, std::size_t stack) {
  std::int64_t questions = 0;
  std::int64_t left_out = 0;
  for (const SuiteChange& change : comparison.suites) {
    if (change.stack != stack) continue;
    questions += change.questions;
    left_out += change.questions - change.timed;
  }
  if (left_out == 0) return "";
  return " " + grouped(left_out) + " of " + grouped(questions) + " questions " +
         (left_out == 1 ? "is" : "are") + " left out of the times, because a choice has no price" +
         (comparison.has_wrong ? ", cannot run or computes something wrong." : " or cannot run.");
}

// ": its choices take 206.5 us less than the 9.876 ms that they took before".
std::string amounts_text(const SuiteChange& change) {
  const std::string amount = duration_text(std::abs(change.delta_us));
  if (!change.percent()) return ": its choices take " + amount + ", where they took no time before";
  return ": its choices take " + amount + less_or_more(change) + " than the " +
         duration_text(change.baseline_us) + " that they took before";
}

// "; the other suite, `moe-ep`, does not change", "; the others change by -0.04 % to +0.10 %".
std::string others_text(const std::vector<const SuiteChange*>& timed, const SuiteChange& told) {
  std::vector<const SuiteChange*> others;
  for (const SuiteChange* change : timed) {
    if (change != &told) others.push_back(change);
  }
  if (others.empty()) return "";
  const auto by_percent = [](const SuiteChange* left, const SuiteChange* right) {
    return left->percent().value_or(0.0) < right->percent().value_or(0.0);
  };
  const auto [least, most] = std::minmax_element(others.begin(), others.end(), by_percent);
  const std::string low = change_text(**least);
  const std::string high = change_text(**most);
  const bool is_one = others.size() == 1;
  const std::string who = is_one ? "; the other suite, " + code(others[0]->name) + ","
                                 : "; the other " + std::to_string(others.size()) + " suites";
  if ((*least)->delta_us == 0.0 && (*most)->delta_us == 0.0) {
    return who + (is_one ? " does not change" : " do not change");
  }
  return who + (is_one ? " changes by " : " change by ") + low + (low == high ? "" : " to " + high);
}

// Whether nobody knows what some flip does to the time.
bool has_untimed_flips(const Comparison& comparison, std::size_t stack) {
  return std::ranges::any_of(
      comparison.flips, [&](const Flip& flip) { return flip.stack == stack && !flip.delta_us; });
}

std::string of_one_candidate(const ComparisonRecord& record, const Comparison& comparison) {
  const std::string start = "Changing " + code(record.stacks[0]) + " to " + code(record.stacks[1]);
  const std::vector<const SuiteChange*> timed = timed_changes(comparison, 1);
  if (timed.empty()) {
    return start + " has no known effect on time, because every decision has a choice that " +
           reference_text(record) +
           " does not price or that cannot run: " + why_not_timed(record, 1) + ".";
  }
  const SuiteChange& largest = *largest_change(comparison.suites, 1);
  std::string others;
  // The training step of a program can change although its operators take as long as before: what
  // follows them differs. Its own sentence comes before this one.
  const std::string known = has_untimed_flips(comparison, 1) ? " that is known" : "";
  const std::string what = !record.steps.empty() ? "in the time of single operators" + known
                           : known.empty()       ? "in time"
                                                 : "in the time" + known;
  const std::string nothing = " changes nothing " + what;
  const std::string hardly = " changes almost nothing " + what;
  const std::string before = duration_text(largest.baseline_us);
  std::string text = start;
  if (timed.size() == 1) {
    if (largest.delta_us == 0.0) {
      text += nothing + ": the choices of " + code(largest.name) + " take " + before + " as before";
    } else if (largest.is_nothing()) {
      text += hardly + ": the choices of " + code(largest.name) + " take " + before +
              " as before (" + change_text(largest) + ", " + change_duration(largest.delta_us) +
              ")";
    } else {
      text += " " + shortens(largest) + code(largest.name) + " by " + size_text(largest) +
              amounts_text(largest);
    }
  } else if (largest.delta_us == 0.0) {
    text += nothing + ": the choices of " +
            (timed.size() == 2 ? "both" : "all " + std::to_string(timed.size())) +
            " suites take as long as before";
  } else if (largest.is_nothing()) {
    text += hardly + ": of " + std::to_string(timed.size()) + " suites, " + code(largest.name) +
            " changes most, by " + change_text(largest) + " (" + change_duration(largest.delta_us) +
            " of " + before + ")";
  } else {
    text += " " + shortens(largest) + code(largest.name) + " by " + size_text(largest) +
            ", which is the largest change of " + std::to_string(timed.size()) + " suites" +
            amounts_text(largest);
    others = others_text(timed, largest);
  }
  // A program's later operators would be asked about other layouts under the candidate.
  const std::string asked =
      record.steps.empty() ? "" : ", each asked as under " + code(record.stacks[0]);
  return text + asked + ", by " + reference_text(record) + others + "." +
         left_out_sentence(comparison, 1);
}

// "`new` shortens `small` by 2.1 %", "`newer` changes almost nothing in time (`small`: -0.001 %)".
std::string clause_of(const ComparisonRecord& record, const Comparison& comparison,
                      std::size_t stack) {
  const std::string name = code(record.stacks[stack]);
  const SuiteChange* largest = largest_change(comparison.suites, stack);
  if (largest == nullptr) return name + " has no choice that can be timed";
  if (largest->delta_us == 0.0) {
    return name + " changes nothing in " +
           (has_untimed_flips(comparison, stack) ? "the time that is known" : "time");
  }
  if (largest->is_nothing()) {
    return name + " changes almost nothing in time (" + code(largest->name) + ": " +
           change_text(*largest) + ")";
  }
  if (timed_changes(comparison, stack).size() == 1) {
    return name + " " + shortens(*largest) + code(largest->name) + " by " + size_text(*largest);
  }
  return name + " changes " + code(largest->name) + " most (" + change_text(*largest) + ")";
}

// "Up to 90 of 995 questions are left out of a candidate's times, because ..."; "" if none is.
std::string most_left_out_sentence(const ComparisonRecord& record, const Comparison& comparison) {
  std::int64_t most = 0;
  for (std::size_t stack = 1; stack < record.stacks.size(); ++stack) {
    std::int64_t left_out = 0;
    for (const SuiteChange& change : comparison.suites) {
      if (change.stack == stack) left_out += change.questions - change.timed;
    }
    most = std::max(most, left_out);
  }
  if (most == 0) return "";
  return " Up to " + grouped(most) + " of " +
         grouped(static_cast<std::int64_t>(record.questions.size())) +
         " questions are left out of a candidate's times, because a choice has no price or cannot "
         "run.";
}

std::string sentence_of_several(const ComparisonRecord& record, const Comparison& comparison) {
  const std::size_t candidates = record.stacks.size() - 1;
  std::string text =
      "Against " + code(record.stacks[0]) + " and by " + reference_text(record) + ", ";
  if (candidates <= kCandidatesTold) {
    std::vector<std::string> clauses;
    for (std::size_t stack = 1; stack < record.stacks.size(); ++stack) {
      clauses.push_back(clause_of(record, comparison, stack));
    }
    return text + listed(clauses) + ".";
  }
  const SuiteChange* largest = largest_change(comparison.suites);
  const std::string of_all = "of the " + std::to_string(candidates) + " candidates ";
  if (largest == nullptr) return text + "no choice " + of_all + "can be timed.";
  if (largest->delta_us == 0.0) return text + "none " + of_all + "changes anything in time.";
  const std::string most = code(record.stacks[largest->stack]) + " changes " + code(largest->name) +
                           " by " + change_text(*largest);
  if (largest->is_nothing()) {
    return text + "none " + of_all + "changes anything in time (at most, " + most + ").";
  }
  return text + most + ", which is the largest change of the " + std::to_string(candidates) +
         " candidates.";
}

bool has_several_candidates(const ComparisonRecord& record) { return record.stacks.size() > 2; }

// "2 without a time".
std::string left_out_note(const SuiteChange& change) {
  const std::int64_t left_out = change.questions - change.timed;
  return left_out == 0 ? "" : grouped(left_out) + " without a time";
}

Table time_table(const ComparisonRecord& record, const std::vector<SuiteChange>& changes,
                 const std::string& caption, const std::string& what) {
  Table table;
  table.caption = caption;
  table.columns = {{what, ColumnKind::kName}};
  if (has_several_candidates(record)) table.columns.push_back({"candidate", ColumnKind::kName});
  for (Column& column : std::vector<Column>{{"questions", ColumnKind::kCount},
                                            {"time before, us", ColumnKind::kNumber, 1},
                                            {"time after, us", ColumnKind::kNumber, 1},
                                            {"change, us", ColumnKind::kSigned, 3},
                                            {"change, %", ColumnKind::kSigned, 3}}) {
    table.columns.push_back(std::move(column));
  }
  for (const SuiteChange& change : changes) {
    const std::string note = change.suites.empty()
                                 ? (change.program == change.name ? "" : change.program)
                                 : listed(change.suites);
    Row row = {Cell(change.name, note)};
    if (has_several_candidates(record)) row.emplace_back(record.stacks[change.stack]);
    row.emplace_back(static_cast<double>(change.questions), left_out_note(change));
    if (change.timed > 0) {
      row.emplace_back(change.baseline_us);
      row.emplace_back(change.candidate_us);
      row.emplace_back(change.delta_us);
      row.emplace_back(change.percent());
    } else {
      row.resize(table.columns.size());
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table collectives_table(const ComparisonRecord& record, const std::vector<SuiteChange>& changes) {
  Table table;
  table.caption = "Collectives of each suite, as often as its questions are asked";
  table.columns = {{"suite", ColumnKind::kName}};
  if (has_several_candidates(record)) table.columns.push_back({"candidate", ColumnKind::kName});
  for (Column& column : std::vector<Column>{{"collective", ColumnKind::kName},
                                            {"number before", ColumnKind::kCount},
                                            {"number after", ColumnKind::kCount},
                                            {"bytes before", ColumnKind::kBytes},
                                            {"bytes after", ColumnKind::kBytes},
                                            {"bytes, %", ColumnKind::kSigned, 3}}) {
    table.columns.push_back(std::move(column));
  }
  for (const SuiteChange& change : changes) {
    for (const CollectiveChange& one : change.collectives) {
      Row row = {Cell(change.name)};
      if (has_several_candidates(record)) row.emplace_back(record.stacks[change.stack]);
      row.emplace_back(one.kind);
      row.emplace_back(one.baseline.count);
      row.emplace_back(one.candidate.count);
      row.emplace_back(one.baseline.bytes);
      row.emplace_back(one.candidate.bytes);
      const double more = one.candidate.bytes - one.baseline.bytes;
      row.push_back(one.baseline.bytes > 0.0 ? Cell(100.0 * more / one.baseline.bytes) : Cell());
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

Table other_steps_table(const ComparisonRecord& record) {
  Table table;
  table.caption = "Decisions that keep their choice and reach it by other steps";
  table.columns = {{"question", ColumnKind::kName}};
  if (has_several_candidates(record)) table.columns.push_back({"candidate", ColumnKind::kName});
  for (Column& column : std::vector<Column>{{"op", ColumnKind::kName},
                                            {"mesh", ColumnKind::kName},
                                            {"asked", ColumnKind::kCount},
                                            {"us before", ColumnKind::kNumber, 3},
                                            {"us after", ColumnKind::kNumber, 3},
                                            {"change in all, us", ColumnKind::kSigned, 3}}) {
    table.columns.push_back(std::move(column));
  }
  for (const OtherSteps& one : decisions_by_other_steps(record)) {
    const RecordQuestion& question = record.questions[one.question];
    Row row = {Cell(question.id)};
    if (has_several_candidates(record)) row.emplace_back(record.stacks[one.stack]);
    row.emplace_back(question.op);
    row.emplace_back(question.mesh);
    row.emplace_back(question.count);
    row.emplace_back(*question.answers[0].reference_us);
    row.emplace_back(*question.answers[one.stack].reference_us);
    row.emplace_back(one.delta_us);
    table.rows.push_back(std::move(row));
  }
  return table;
}

// ---- for a terminal

using Line = ComparisonText::Line;

Line collectives_line(Line start, const std::string& kind, const CollectiveChange& change) {
  start.push_back(kind);
  start.push_back(grouped(change.baseline.count));
  start.push_back(grouped(change.candidate.count));
  const std::int64_t more = change.candidate.count - change.baseline.count;
  start.push_back((more > 0 ? "+" : "") + grouped(more));
  start.push_back(bytes_text(change.baseline.bytes));
  start.push_back(bytes_text(change.candidate.bytes));
  return start;
}

std::vector<Line> suite_lines(const ComparisonRecord& record, const Comparison& comparison) {
  const bool has_several = has_several_candidates(record);
  Line head = {"suite"};
  if (has_several) head.emplace_back("candidate");
  for (const char* title : {"", "before", "after", "change", "bytes before", "bytes after"}) {
    head.emplace_back(title);
  }
  std::vector<Line> lines = {head};
  for (const SuiteChange& change : comparison.suites) {
    Line line = {change.name};
    if (has_several) line.push_back(record.stacks[change.stack]);
    const Line blank(line.size());
    line.emplace_back("time");
    if (change.timed == 0) {
      line.emplace_back("unknown");
      line.emplace_back("unknown");
    } else {
      line.push_back(duration_text(change.baseline_us));
      line.push_back(duration_text(change.candidate_us));
      line.push_back(change_text(change));
    }
    lines.push_back(std::move(line));
    if (!change.tells_collectives) continue;
    if (comparison.suites.size() > kShownByKind) {
      lines.push_back(collectives_line(blank, "collectives", change.all_collectives()));
      continue;
    }
    for (const CollectiveChange& one : change.collectives) {
      lines.push_back(collectives_line(blank, one.kind, one));
    }
  }
  return lines;
}

// "aten.add.Tensor on 8x8, 134 MB, asked 12 times (ops-small/00012)".
std::string asked_text(const ComparisonRecord& record, const RecordQuestion& question,
                       std::size_t stack) {
  std::string what = question.op + " on " + question.mesh + ", " + bytes_text(question.bytes);
  if (question.count > 1) what += ", asked " + grouped(question.count) + " times";
  if (has_several_candidates(record)) what += ", under " + record.stacks[stack];
  // Ids of generated questions name the op, too, behind their number.
  return what + " (" + question.id.substr(0, question.id.find(' ')) + ")";
}

std::vector<Line> steps_lines(const ComparisonRecord& record, const Comparison& comparison) {
  std::vector<Line> lines;
  for (const OtherSteps& one : decisions_by_other_steps(record)) {
    if (lines.size() == kFlipsInText || one.delta_us == 0.0) break;
    const RecordQuestion& question = record.questions[one.question];
    const auto suite = std::ranges::find_if(comparison.suites, [&](const SuiteChange& change) {
      return change.name == question.suite && change.stack == one.stack;
    });
    const bool has_share = suite != comparison.suites.end() && suite->baseline_us > 0.0;
    lines.push_back({change_duration(one.delta_us),
                     has_share ? change_percent(100.0 * one.delta_us / suite->baseline_us) : "",
                     asked_text(record, question, one.stack)});
  }
  return lines;
}

std::vector<Line> flip_lines(const ComparisonRecord& record, const Comparison& comparison) {
  std::vector<Line> lines;
  for (const Flip& flip : comparison.flips) {
    if (lines.size() == kFlipsInText) break;
    if (!flip.delta_us || *flip.delta_us == 0.0 || is_hidden(comparison, flip)) continue;
    const RecordQuestion& question = record.questions[flip.question];
    lines.push_back({change_duration(*flip.delta_us),
                     flip.share_percent ? change_percent(*flip.share_percent) : "",
                     asked_text(record, question, flip.stack)});
  }
  return lines;
}

std::string hidden_flips_text(const Comparison& comparison) {
  const std::size_t hidden = hidden_flips(comparison);
  if (hidden == 0) return "";
  return counted(static_cast<std::int64_t>(hidden), "flip", "flips") + " below " +
         size_percent(comparison.min_share_percent) + " of the suite's time " +
         (hidden == 1 ? "is" : "are") + " not shown";
}

}  // namespace

std::string change_duration(double us) {
  if (us == 0.0) return "0 us";
  return (us < 0.0 ? "-" : "+") + duration_text(std::abs(us));
}

std::string not_asked_sentence(const ComparisonRecord& record) {
  constexpr std::size_t kNamed = 3;
  if (record.not_asked.empty()) return "";
  std::vector<std::string> named;
  for (const UnaskedQuestion& question : record.not_asked) {
    if (named.size() == kNamed) break;
    named.push_back(code(question.id));
  }
  const auto count = static_cast<std::int64_t>(record.not_asked.size());
  const std::int64_t others = count - static_cast<std::int64_t>(named.size());
  const auto all = static_cast<std::int64_t>(record.questions.size()) + count;
  const bool is_one_reason = std::all_of(
      record.not_asked.begin(), record.not_asked.end(), [&](const UnaskedQuestion& question) {
        return question.reason == record.not_asked.front().reason;
      });
  if (others > 0) named.push_back(grouped(others) + " more");
  return " " + grouped(count) + " of " + counted(all, "question", "questions") +
         (count == 1 ? " was" : " were") + " not asked: " + listed(named) +
         (is_one_reason ? ", because " : ", the first because ") + record.not_asked.front().reason +
         ".";
}

std::string time_sentence(const ComparisonRecord& record, const Comparison& comparison) {
  return (record.stacks.size() == 2 ? of_one_candidate(record, comparison)
                                    : sentence_of_several(record, comparison) +
                                          most_left_out_sentence(record, comparison)) +
         not_asked_sentence(record);
}

std::vector<Table> time_tables(const ComparisonRecord& record, const Comparison& comparison) {
  if (comparison.suites.empty()) return {};
  std::vector<Table> tables = {time_table(
      record, comparison.suites, "Time of each suite by the reference, before and after", "suite")};
  Table collectives = collectives_table(record, comparison.suites);
  if (!collectives.rows.empty()) tables.push_back(std::move(collectives));
  const bool has_shared =
      std::any_of(comparison.programs.begin(), comparison.programs.end(),
                  [](const SuiteChange& program) { return program.suites.size() > 1; });
  if (has_shared) {
    tables.push_back(time_table(record, comparison.programs,
                                "The same for each program that suites were recorded from",
                                "program"));
  }
  for (Table& table : tables) table.leads = true;
  Table steps = other_steps_table(record);
  if (!steps.rows.empty()) tables.push_back(std::move(steps));
  return tables;
}

ComparisonText comparison_text(const ComparisonRecord& record, const Comparison& comparison) {
  ComparisonText text;
  text.sentence = plain_text(summary_sentence(record, comparison));
  if (record.questions.empty()) return text;
  text.suites = suite_lines(record, comparison);
  text.flips = flip_lines(record, comparison);
  if (!text.flips.empty()) {
    text.flips_title = "flips that save or lose most, with their share of the suite's time:";
  }
  text.hidden_flips = hidden_flips_text(comparison);
  text.steps = steps_lines(record, comparison);
  if (!text.steps.empty()) {
    text.steps_title = "choices that stay, by other steps that save or lose most:";
  }
  return text;
}

}  // namespace shardlab::reports
