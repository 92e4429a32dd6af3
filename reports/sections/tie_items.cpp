// Every decision with a tie: what it chose, what it could have chosen, and what would flip it.
#include <algorithm>
#include <string>
#include <vector>

#include "reports/comparison.h"
#include "reports/facet_options.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace tie_items_section {

using namespace reports;

constexpr std::size_t kMostRows = 24000;
constexpr std::size_t kMostDetails = 6000;

enum Tie : std::size_t { kExact, kNear, kNone };

Tie tie_of(const TiesItem& item) {
  if (item.exact_ties > 1) return kExact;
  return item.near_ties > 0 ? kNear : kNone;
}

std::string lines(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "\n") + part;
  return text;
}

RowDetail detail(const TiesItem& item) {
  RowDetail detail;
  detail.facts.push_back({"question", item.question, true});
  if (!item.inputs.empty()) detail.facts.push_back({"inputs", lines(item.inputs), true});
  detail.facts.push_back({"choice", item.choice, true});
  if (item.tied.size() > 1) detail.facts.push_back({"tied with it", lines(item.tied), true});
  detail.facts.push_back({"candidates", grouped(item.candidates)});
  detail.facts.push_back(
      {"margin", item.margin_us ? fixed(*item.margin_us, 6) + " us" : "no other price"});
  detail.facts.push_back({"flips first", item.flip ? item.flip->parameter + " x " +
                                                         fixed(item.flip->factor, 4) +
                                                         ", then cheaper: " + item.flip->to
                                                   : "nothing that was looked at"});
  return detail;
}

// Decisions that depend on the order of the candidates come first, then those with more exact ties,
// then those that come first in the suite.
std::vector<std::size_t> in_order(const std::vector<TiesItem>& items) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (items[a].order_dependent != items[b].order_dependent) return items[a].order_dependent;
    return items[a].exact_ties > items[b].exact_ties;
  });
  return order;
}

Browser browser(const TiesRecord& record) {
  Browser browser;
  browser.id = "ties";
  browser.caption = "Decisions with ties";
  browser.noun_one = "decision";
  browser.noun_many = "decisions";
  browser.order_text = "those that depend on the order first, then the largest ties";
  browser.cut_text = "the first in that order";
  browser.total = record.items.size();
  browser.columns = {{"tie", ColumnKind::kText},
                     {"op", ColumnKind::kCode},
                     {"mesh", ColumnKind::kCode},
                     {"largest tensor", ColumnKind::kBytes},
                     {"price, us", ColumnKind::kNumber, 3},
                     {"candidates tied", ColumnKind::kCount},
                     {"order decides", ColumnKind::kText},
                     {"flips first", ColumnKind::kText}};
  FacetOptions ops = sorted_options(record.items, [](const TiesItem& item) { return item.op; });
  FacetOptions meshes =
      sorted_options(record.items, [](const TiesItem& item) { return item.mesh; });
  browser.facets = {{"op", ops.values()},
                    {"mesh", meshes.values()},
                    {"size", std::vector<std::string>(kSizeBands.begin(), kSizeBands.end())},
                    {"tie", {"exact", "near", "none"}},
                    {"order decides", {"yes", "no"}}};
  constexpr const char* kTieTexts[] = {"exact", "near", "none"};
  for (const std::size_t i : in_order(record.items)) {
    if (browser.rows.size() == kMostRows) break;
    const TiesItem& item = record.items[i];
    BrowserRow row;
    row.place = browser.rows.size();
    row.cells = {
        Cell(kTieTexts[tie_of(item)]),
        Cell(item.op, item.question),
        Cell(item.mesh),
        Cell(item.bytes),
        Cell(item.total_us, item.total_us ? "" : "impossible"),
        Cell(item.exact_ties),
        Cell(item.order_dependent ? "yes" : "no"),
        item.flip ? Cell(item.flip->parameter, "x " + fixed(item.flip->factor, 4)) : Cell()};
    row.facets = {ops.add(item.op), meshes.add(item.mesh), size_band(item.bytes), tie_of(item),
                  item.order_dependent ? std::size_t{0} : std::size_t{1}};
    if (row.place < kMostDetails) row.detail = detail(item);
    browser.rows.push_back(std::move(row));
  }
  return browser;
}

SectionContent render(const TiesRecord& record) {
  SectionContent content;
  if (record.items.empty()) {
    content.answer = "No decision has a tie.";
    return content;
  }
  content.blocks.emplace_back(Paragraph{
      "A tie is exact if another candidate has the same price as the choice, and near if none has "
      "but at least one is within the percentage that was asked for. A choice is flipped first by "
      "the parameter that needs the smallest change until another candidate is cheaper."});
  content.blocks.emplace_back(browser(record));
  content.answer = counted(static_cast<std::int64_t>(record.items.size()), "decision is listed",
                           "decisions are listed") +
                   "; the order of the candidates decides " + grouped(record.order_dependent) + ".";
  return content;
}

}  // namespace tie_items_section

REPORT_SECTION(tie_items){
    .id = "tie_items",
    .title = "Decisions with ties",
    .question = "Which choices could as well have been others?",
    .order = 21,
    .render = tie_items_section::render,
};

}  // namespace shardlab
