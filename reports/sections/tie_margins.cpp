// How far choices are from a tie: the margins of all choices as a distribution.
#include <string>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace tie_margins_section {

using namespace reports;

std::string band_text(const MarginBand& band) {
  if (!band.below_percent) return exact(band.from_percent) + " % or more";
  if (band.from_percent <= 0.0) return "below " + exact(*band.below_percent) + " %";
  return exact(band.from_percent) + " to " + exact(*band.below_percent) + " %";
}

SectionContent render(const TiesRecord& record) {
  SectionContent content;
  if (!record.margins) return content;
  const MarginsOfChoices& margins = *record.margins;
  Chart chart;
  chart.id = "margins";
  chart.title = "How much dearer the next candidate is, in percent of the choice's price.";
  chart.kind = ChartKind::kStackedBars;
  chart.x_title = "margin";
  chart.y_title = "choices";
  chart.is_tabulated = true;
  chart.series = {{"choices", {}}};
  Table table;
  table.caption = chart.title;
  table.columns = {{"margin", ColumnKind::kText},
                   {"choices", ColumnKind::kCount},
                   {"of all, %", ColumnKind::kNumber, 1}};
  const std::int64_t one_plan = margins.one_plan.value_or(0);
  const std::int64_t one_path = margins.one_path.value_or(0);
  std::int64_t all = margins.exact + margins.alone + margins.free + one_path;
  for (const MarginBand& band : margins.bands) all += band.choices;
  if (one_plan > 0) {
    content.blocks.emplace_back(
        Paragraph{counted(one_plan, "redistribution has", "redistributions have") +
                  " one plan each, because the planner weighs no other: they have no tie to break, "
                  "and are not counted below."});
  }
  if (all == 0) {
    if (one_plan > 0)
      content.answer = "Nothing is chosen: every question is a redistribution with one plan.";
    return content;
  }
  const auto add = [&](const std::string& label, std::int64_t choices) {
    chart.labels.push_back(label);
    chart.series[0].values.emplace_back(static_cast<double>(choices));
    table.rows.push_back({Cell(label), Cell(choices),
                          Cell(100.0 * static_cast<double>(choices) / static_cast<double>(all))});
  };
  add("exact tie", margins.exact);
  std::int64_t close = 0;  // below one percent
  for (const MarginBand& band : margins.bands) {
    add(band_text(band), band.choices);
    if (band.below_percent && *band.below_percent <= 1.0) close += band.choices;
  }
  if (margins.free > 0) add("the choice is free", margins.free);
  if (one_path > 0) add("redistribution with one cheapest path", one_path);
  if (margins.alone > 0) add("no other candidate is possible", margins.alone);
  content.blocks.emplace_back(Paragraph{
      "The margin of a choice is what the next candidate costs more. Each band is ten times as "
      "wide as the one before; all choices that have a price are counted, also those without a "
      "tie." +
      std::string(one_path > 0 ? " Of a redistribution the planner counts the paths of the lowest "
                                 "price; it does not say what the next path costs."
                               : "")});
  if (margins.alone > 0) {
    content.blocks.emplace_back(
        Paragraph{counted(margins.alone, "choice has", "choices have") +
                  " no other possible candidate: the rules list one, or no other can be priced."});
  }
  content.blocks.emplace_back(Charts{{std::move(chart)}});
  content.blocks.emplace_back(std::move(table));
  const auto share = [&](std::int64_t choices) {
    return percent(static_cast<double>(choices) / static_cast<double>(all));
  };
  content.answer = "Of " + counted(all, "choice", "choices") + ", " + share(margins.exact) +
                   " are exact ties, and " + share(close) +
                   " are cheaper than the next candidate by less than 1 %.";
  return content;
}

}  // namespace tie_margins_section

REPORT_SECTION(tie_margins){
    .id = "tie_margins",
    .title = "Margins",
    .question = "How far are choices from a tie?",
    .order = 42,
    .render = tie_margins_section::render,
};

}  // namespace shardlab
