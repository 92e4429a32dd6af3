// What a predicted step rests on: the stack, its fitted terms, and the settings of the run.
#include <string>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace step_assumed_section {

using namespace reports;

SectionContent render(const StepRecord& record) {
  SectionContent content;
  const AssumedOfStep& assumed = record.assumed;
  content.blocks.emplace_back(Paragraph{"The stack " + code(assumed.stack) +
                                        " prices kernels and collectives: " + assumed.title +
                                        ". Source: " + assumed.source + "."});
  Table settings;
  settings.caption = "Settings of the run";
  settings.columns = {{"setting", ColumnKind::kText}, {"value", ColumnKind::kText}};
  for (const StepSetting& setting : assumed.settings) {
    settings.rows.push_back({Cell(setting.name), Cell(setting.value)});
  }
  if (!settings.rows.empty()) content.blocks.emplace_back(std::move(settings));
  Table terms;
  terms.caption = "Fitted terms that apply";
  terms.columns = {{"factor", ColumnKind::kName},         {"of", ColumnKind::kText},
                   {"for runs with", ColumnKind::kText},  {"value", ColumnKind::kNumber, 3},
                   {"95 % from", ColumnKind::kNumber, 3}, {"to", ColumnKind::kNumber, 3}};
  for (const AppliedTerm& term : assumed.terms) {
    terms.rows.push_back({Cell(term.factor), Cell(term.help),
                          Cell(term.when.empty() ? "any traits" : term.when), Cell(term.value),
                          Cell(term.low), Cell(term.high)});
  }
  const auto count = static_cast<std::int64_t>(terms.rows.size());
  if (count > 0) content.blocks.emplace_back(std::move(terms));
  content.answer =
      count > 0 ? counted(count, "fitted term changes", "fitted terms change") +
                      " the stack's prices, from its source."
                : "The stack's prices hold as they are: none of its fitted terms is for this run.";
  return content;
}

}  // namespace step_assumed_section

REPORT_SECTION(step_assumed){
    .id = "step_assumed",
    .title = "What was assumed",
    .question = "What does the prediction rest on?",
    .order = 36,
    .render = step_assumed_section::render,
};

}  // namespace shardlab
