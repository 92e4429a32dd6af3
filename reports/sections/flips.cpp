// Every flipped decision: both choices, their prices and the reference's verdict.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "reports/facet_options.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace flips_section {

using namespace reports;

// The browser holds at most this many rows and details. report.json has every flip.
constexpr std::size_t kMostRows = 24000;
constexpr std::size_t kMostDetails = 4000;
constexpr const char* kNotJudged = "not judged";

std::string price_text(const std::optional<double>& price_us) {
  return price_us ? fixed(*price_us, 2) + " us" : "no price";
}

Cell choice_cell(const StackAnswer& answer, const std::string& note) {
  return answer.choice.empty() ? Cell(std::optional<double>(), "impossible")
                               : Cell(answer.choice, note);
}

// "share -0.001 %, asked 3 times", or why there is no time.
std::string change_note(const Flip& flip, const RecordQuestion& question) {
  if (!flip.delta_us) {
    switch (flip.verdict) {
      case Verdict::kWrong:
        return "computes something wrong";
      case Verdict::kBetter:
        return question.answers[0].cannot_run.empty() ? "the baseline's computes something wrong"
                                                      : "the baseline's cannot run";
      case Verdict::kWorse:
        return "cannot run";
      case Verdict::kEqual:
      case Verdict::kUndecided:
        return flip.gain_us ? "neither can run" : "";
    }
  }
  std::string note;
  // A small change is told apart from none.
  if (*flip.delta_us != 0.0 && std::abs(*flip.delta_us) < 0.005) {
    note = signed_fixed(*flip.delta_us, 6) + " us, ";
  }
  note += flip.share_percent ? "share " + change_percent(*flip.share_percent)
                             : "its suite took no time";
  if (question.count > 1) note += ", asked " + grouped(question.count) + " times";
  return note;
}

// "was 10.00, -20.0 %": the price of the baseline's choice, and the change of one question.
std::string before_note(const Flip& flip, const StackAnswer& before) {
  if (!before.reference_us) return "was unknown";
  std::string note = "was " + fixed(*before.reference_us, 2);
  if (flip.gain_percent && *flip.gain_percent != 0.0) {
    note += ", " + change_percent(-*flip.gain_percent);
  }
  return note;
}

std::string lines(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "\n") + part;
  return text;
}

// "alpha-beta prices the choices at 12.300000 us and 9.100000 us: 3.200000 us (26.0 %) less."
std::string verdict_sentence(const ComparisonRecord& record, const Flip& flip) {
  if (flip.verdict == Verdict::kUndecided) return undecided_reason(record, flip) + ".";
  if (!flip.gain_us) return unusable_reason(record, flip) + ".";
  const RecordQuestion& question = record.questions[flip.question];
  std::string text = record.reference.name + " prices the choices at " +
                     fixed(*question.answers[0].reference_us, 6) + " us and " +
                     fixed(*question.answers[flip.stack].reference_us, 6) + " us";
  if (flip.verdict == Verdict::kEqual) return text + ": the same.";
  const std::string direction = flip.verdict == Verdict::kBetter ? " less" : " more";
  text += ": " + fixed(std::abs(*flip.gain_us), 6) + " us";
  if (flip.gain_percent) text += " (" + fixed(std::abs(*flip.gain_percent), 1) + " %)";
  return text + direction + ".";
}

Row answer_row(const std::string& stack, const StackAnswer& answer) {
  return {Cell(stack),
          answer.choice.empty() ? Cell() : Cell(answer.choice),
          Cell(answer.price_us, answer.impossible),
          Cell(answer.margin_us),
          Cell(answer.ties),
          Cell(answer.flips_with_order ? "yes" : "no"),
          Cell(answer.reference_us, answer.reference_impossible),
          answer.is_usable() ? Cell("yes")
          : answer.cannot_run.empty()
              ? Cell("yes, and computes something wrong: " + answer.computes_wrong)
              : Cell("no: " + answer.cannot_run)};
}

// "latency x 1.3200, then cheaper: R, R -> R".
std::string flips_first(const RecordQuestion& question, const AnswerDetail& detail) {
  const std::optional<DetailFlip> first = detail.flips_first.value_or(std::nullopt);
  if (first) {
    return first->parameter + " x " + fixed(first->factor, 4) + ", then cheaper: " + first->to;
  }
  if (question.kind == QuestionKind::kPlan) return "nothing: a redistribution has one plan";
  return detail.flips_first ? "no parameter alone, within the range that is looked at"
                            : "not looked for: other flips gain or lose more";
}

// The part of a price that is not latency, transfer or kernel: local work of redistributing,
// waiting for stragglers, and a stack's fixed charge for every transition.
std::optional<double> rest_of(const std::optional<double>& total_us,
                              const std::optional<PartsOfPrice>& parts, double kernel_us) {
  if (!total_us || !parts) return std::nullopt;
  const double rest = *total_us - parts->latency_us - parts->transfer_us - kernel_us;
  // The parts are rounded, so a remainder this small is only a rounding error.
  return std::abs(rest) < 1e-9 * std::abs(*total_us) ? 0.0 : rest;
}

std::optional<double> latency_of(const std::optional<PartsOfPrice>& parts) {
  return parts ? std::optional(parts->latency_us) : std::nullopt;
}

std::optional<double> transfer_of(const std::optional<PartsOfPrice>& parts) {
  return parts ? std::optional(parts->transfer_us) : std::nullopt;
}

void add_candidates(const std::string& stack, const AnswerDetail& detail, std::vector<Row>& rows) {
  for (const DetailCandidate& candidate : detail.candidates) {
    rows.push_back({Cell(stack), Cell(candidate.choice, candidate.is_chosen ? "chosen" : ""),
                    Cell(candidate.total_us, candidate.total_us ? "" : "impossible"),
                    Cell(latency_of(candidate.parts)), Cell(transfer_of(candidate.parts)),
                    Cell(candidate.kernel_us),
                    Cell(rest_of(candidate.total_us, candidate.parts, candidate.kernel_us)),
                    Cell(candidate.reference_us)});
  }
}

void add_steps(const std::string& stack, const AnswerDetail& detail, std::vector<Row>& rows) {
  for (const DetailStep& step : detail.steps) {
    rows.push_back({Cell(stack), Cell(step.what, step.of), Cell(step.full_bytes),
                    Cell(step.price_us), Cell(latency_of(step.parts)),
                    Cell(transfer_of(step.parts)), Cell(rest_of(step.price_us, step.parts, 0.0))});
  }
}

// "groups and sizes that ref has measured rows of", or the groups that it has no measured rows of.
std::string rests_on_text(const ComparisonRecord& record, const Flip& flip) {
  if (!flip.basis) return "";
  switch (*flip.basis) {
    case Basis::kMeasured:
      return "groups and sizes that " + record.reference.name + " has measured rows of";
    case Basis::kLocalWork:
      return "local work alone: no choice communicates";
    case Basis::kCarriedOver:
      break;
  }
  const auto bases = bases_of(record.questions[flip.question], flip.stack);
  return "carried over; " + record.reference.name + " has no measured rows of " +
         listed(not_measured_of(bases));
}

std::vector<DetailTable> detail_tables() {
  return {
      {"The choices; the reference prices the path that the stack ran",
       {{"stack", ColumnKind::kName},
        {"choice", ColumnKind::kCode},
        {"price, us", ColumnKind::kNumber, 6},
        {"margin, us", ColumnKind::kNumber, 6},
        {"candidates tied", ColumnKind::kCount},
        {"depends on order", ColumnKind::kText},
        {"reference price, us", ColumnKind::kNumber, 6},
        {"runs", ColumnKind::kText}}},
      {"Candidates of each stack, the cheapest first, and those that another stack chooses; the "
       "reference prices its own path to each",
       {{"stack", ColumnKind::kName},
        {"candidate", ColumnKind::kCode},
        {"total, us", ColumnKind::kNumber, 4},
        {"latency, us", ColumnKind::kNumber, 4},
        {"transfer, us", ColumnKind::kNumber, 4},
        {"kernel, us", ColumnKind::kNumber, 4},
        {"rest, us", ColumnKind::kNumber, 4},
        {"reference, us", ColumnKind::kNumber, 4}}},
      {"Steps that bring the inputs there",
       {{"stack", ColumnKind::kName},
        {"step", ColumnKind::kCode},
        {"bytes", ColumnKind::kBytes},
        {"price, us", ColumnKind::kNumber, 4},
        {"latency, us", ColumnKind::kNumber, 4},
        {"transfer, us", ColumnKind::kNumber, 4},
        {"rest, us", ColumnKind::kNumber, 4}}}};
}

RowDetail detail(const ComparisonRecord& record, const Flip& flip) {
  const RecordQuestion& question = record.questions[flip.question];
  RowDetail detail;
  detail.tables.resize(3);
  detail.facts.push_back({"verdict", verdict_sentence(record, flip)});
  detail.facts.push_back({"question", question.id, true});
  if (!question.inputs.empty()) detail.facts.push_back({"inputs", lines(question.inputs), true});
  for (const std::size_t stack : {std::size_t{0}, flip.stack}) {
    const StackAnswer& answer = question.answers[stack];
    const std::string& name = record.stacks[stack];
    if (!answer.path.empty()) {
      detail.facts.push_back({"path of " + name, lines(answer.path), true});
    }
    if (answer.detail) {
      detail.facts.push_back({"flips " + name + " first", flips_first(question, *answer.detail)});
      add_candidates(name, *answer.detail, detail.tables[1]);
      add_steps(name, *answer.detail, detail.tables[2]);
    }
    detail.tables[0].push_back(answer_row(name, answer));
  }
  if (const std::string rests_on = rests_on_text(record, flip); !rests_on.empty()) {
    detail.facts.push_back({"rests on", rests_on});
  }
  std::string asked =
      question.suite + ", " + counted(question.candidates, "candidate", "candidates");
  if (question.count != 1) asked += ", asked " + grouped(question.count) + " times";
  detail.facts.push_back({"suite", asked});
  detail.tables[0].push_back({Cell("best by " + record.reference.name),
                              question.best.choice.empty() ? Cell() : Cell(question.best.choice),
                              Cell(), Cell(), Cell(), Cell(),
                              Cell(question.best.us, question.best.reason),
                              question.best.us ? Cell("yes") : Cell()});
  return detail;
}

// The shares of a suite's time, in percent, below which a reader can hide flips.
constexpr std::array<double, 6> kShares = {0.0001, 0.001, 0.01, 0.1, 1.0, 10.0};

Facet share_facet() {
  Facet facet;
  facet.title = "share of its suite";
  facet.options = {"below " + exact(kShares.front()) + " %"};
  for (const double share : kShares) facet.options.push_back("at least " + exact(share) + " %");
  facet.keeps_later = true;
  return facet;
}

// How many of the shares the flip reaches. A flip without a share reaches all of them, since nobody
// knows that it is small.
std::size_t share_option(const Flip& flip) {
  if (!flip.share_percent) return kShares.size();
  return static_cast<std::size_t>(std::count_if(kShares.begin(), kShares.end(), [&](double share) {
    return std::abs(*flip.share_percent) >= share;
  }));
}

Browser browser(const ComparisonRecord& record, const Comparison& comparison) {
  const bool has_one_candidate = record.stacks.size() == 2;
  std::vector<std::size_t> kept;
  for (std::size_t place = 0; place < comparison.flips.size() && kept.size() < kMostRows; ++place) {
    if (!is_hidden(comparison, comparison.flips[place])) kept.push_back(place);
  }

  Browser browser;
  browser.id = "flips";
  browser.caption = "Decisions that flip";
  browser.noun_one = "flip";
  browser.noun_many = "flips";
  browser.order_text = "those that save or lose the most time first";
  browser.cut_text = "those that save or lose the most time";
  const std::size_t hidden = hidden_flips(comparison);
  browser.total = comparison.flips.size() - hidden;
  if (hidden > 0) {
    browser.note = counted(static_cast<std::int64_t>(hidden), "flip", "flips") + " below " +
                   size_percent(comparison.min_share_percent) + " of the suite's time " +
                   (hidden == 1 ? "is" : "are") + " hidden here; report.json holds every flip.";
  }
  browser.columns = {
      {"verdict", ColumnKind::kVerdict},
      {"change, us", ColumnKind::kSigned, 2},
      {"op", ColumnKind::kCode},
      {"mesh", ColumnKind::kCode},
      {"largest tensor", ColumnKind::kBytes},
      {record.stacks[0] + " chooses", ColumnKind::kCode},
      {(has_one_candidate ? record.stacks[1] : "candidate") + " chooses", ColumnKind::kCode},
      {"reference price, us", ColumnKind::kNumber, 2}};
  browser.details = detail_tables();

  FacetOptions ops = sorted_options(
      comparison.flips, [&](const Flip& flip) { return record.questions[flip.question].op; });
  FacetOptions meshes = sorted_options(
      comparison.flips, [&](const Flip& flip) { return record.questions[flip.question].mesh; });
  FacetOptions verdicts;
  for (const Verdict verdict : shown_verdicts(comparison))
    verdicts.add(std::string(verdict_text(verdict)));
  FacetOptions bands;
  for (const std::string_view band : kSizeBands) bands.add(std::string(band));
  browser.facets = {{"op", ops.values()},
                    {"mesh", meshes.values()},
                    {"size", bands.values()},
                    {"verdict", verdicts.values()},
                    share_facet()};
  if (!has_one_candidate) {
    browser.facets.push_back(
        {"candidate", std::vector<std::string>(record.stacks.begin() + 1, record.stacks.end())});
  }

  FacetOptions bases;
  if (comparison.tells_basis) {
    for (const Basis basis : kBases) bases.add(basis_text(basis));
    bases.add(kNotJudged);
    browser.facets.push_back({"rests on", bases.values()});
  }

  browser.rows.reserve(kept.size());
  for (const std::size_t place : kept) {
    const Flip& flip = comparison.flips[place];
    const RecordQuestion& question = record.questions[flip.question];
    const StackAnswer& before = question.answers[0];
    const StackAnswer& after = question.answers[flip.stack];
    const std::string stack_note = has_one_candidate ? "" : record.stacks[flip.stack] + ", ";
    BrowserRow row;
    row.place = place;
    row.cells = {
        Cell(std::string(verdict_text(flip.verdict)), flip.basis ? basis_text(*flip.basis) : ""),
        Cell(flip.delta_us, change_note(flip, question)),
        Cell(question.op, question.id),
        Cell(question.mesh),
        Cell(question.bytes),
        choice_cell(before, price_text(before.price_us)),
        choice_cell(after, stack_note + price_text(after.price_us)),
        Cell(after.reference_us, before_note(flip, before))};
    row.facets = {ops.add(question.op), meshes.add(question.mesh), size_band(question.bytes),
                  static_cast<std::size_t>(flip.verdict), share_option(flip)};
    if (!has_one_candidate) row.facets.push_back(flip.stack - 1);
    if (comparison.tells_basis) {
      row.facets.push_back(bases.add(flip.basis ? basis_text(*flip.basis) : kNotJudged));
    }
    if (browser.rows.size() < kMostDetails) row.detail = detail(record, flip);
    browser.rows.push_back(std::move(row));
  }
  return browser;
}

std::string answer(const ComparisonRecord& record, const Comparison& comparison) {
  if (comparison.flips.empty()) {
    return "None: every candidate decides as " + code(record.stacks[0]) + " does.";
  }
  FlipCounts all;
  for (const StackSummary& stack : comparison.stacks) {
    all.total += stack.flips.total;
    for (std::size_t i = 0; i < all.by_verdict.size(); ++i) {
      all.by_verdict[i] += stack.flips.by_verdict[i];
    }
  }
  return counted(all.total, "flip", "flips") + ": " + verdicts_text(all) + ".";
}

SectionContent render(const ComparisonRecord& record, const Comparison& comparison) {
  SectionContent content;
  const bool has_what_cannot_run =
      std::any_of(comparison.stacks.begin(), comparison.stacks.end(),
                  [](const StackSummary& stack) { return stack.regret.cannot_run > 0; });
  if (!comparison.flips.empty()) {
    content.blocks.emplace_back(Paragraph{
        "A decision flips if the candidate's choice differs from the baseline's. The reference, " +
        code(record.reference.name) +
        (record.reference.label.empty() ? "" : " (" + record.reference.label + ")") +
        ", prices both choices: better is cheaper. The change is the candidate's price minus the "
        "baseline's, times how often the suite asks the question; its share is in percent of what "
        "the baseline's choices of the whole suite take. " +
        (has_what_cannot_run ? "A choice that cannot run, because no collective does one of its "
                               "steps, is worse than any that can, whatever its price. "
                             : "") +
        (comparison.has_wrong
             ? "A flip is wrong, whatever its price, if a proof on virtual ranks shows that the "
               "candidate's choice computes something else than the op. "
             : "") +
        (comparison.tells_basis ? "What a verdict rests on is written under it, and defined below. "
                                : "") +
        "The price under each choice is that of its own stack. Open a row to see the candidates "
        "with the parts of their prices, the steps, and what would flip each choice first."});
    for (const std::string& line : record.reference.doubtful) {
      content.blocks.emplace_back(Paragraph{code(record.reference.name) + ": " + line + "."});
    }
    content.blocks.emplace_back(browser(record, comparison));
  }
  content.answer = answer(record, comparison);
  return content;
}

}  // namespace flips_section

REPORT_SECTION(flips){
    .id = "flips",
    .title = "Flipped decisions",
    .question = "Which decisions change, and what does the reference say of each?",
    .order = 20,
    .render = flips_section::render,
};

}  // namespace shardlab
