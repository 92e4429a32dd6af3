// Why nodes that could have a given layout have another one.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "reports/facet_options.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace explained_section {

using namespace reports;

// How much more the whole plan costs if the node has the layout; empty if the constraints forbid
// it.
std::optional<double> dearer_us(const SolutionRecord& record, const ExplainedNode& node) {
  if (!node.global_us || !record.objective_us) return std::nullopt;
  return *node.global_us - *record.objective_us;
}

Browser browser_of(const SolutionRecord& record, const Explained& explained) {
  Browser browser;
  browser.id = "explained";
  browser.caption = "Where " + code(explained.layout) + " is available";
  browser.noun_one = "node";
  browser.noun_many = "nodes";
  browser.order_text = "in the order of the program";
  browser.cut_text = "those where it costs least";
  browser.total = explained.nodes.size();
  browser.columns = {{"node", ColumnKind::kCode},
                     {"chosen", ColumnKind::kCode},
                     {"cost there as chosen, us", ColumnKind::kNumber, 3},
                     {"cost there with it, us", ColumnKind::kNumber, 3},
                     {"best total with it, us", ColumnKind::kNumber, 3},
                     {"dearer in all, us", ColumnKind::kSigned, 3}};
  FacetOptions layouts =
      sorted_options(explained.nodes, [](const ExplainedNode& node) { return node.chosen; });
  browser.facets = {{"chosen", layouts.values()},
                    {"with it", {"costs nothing", "costs more", "not within the constraints"}}};
  std::vector<std::size_t> order(explained.nodes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    return dearer_us(record, explained.nodes[a]).value_or(kNever) <
           dearer_us(record, explained.nodes[b]).value_or(kNever);
  });
  for (const std::size_t i : order) {
    const ExplainedNode& node = explained.nodes[i];
    const std::optional<double> dearer = dearer_us(record, node);
    BrowserRow row;
    row.place = i;
    row.cells = {Cell(node.node),     Cell(node.chosen),    Cell(node.chosen_us),
                 Cell(node.local_us), Cell(node.global_us), Cell(dearer)};
    row.facets = {layouts.add(node.chosen), !dearer          ? std::size_t{2}
                                            : *dearer <= 0.0 ? std::size_t{0}
                                                             : std::size_t{1}};
    browser.rows.push_back(std::move(row));
  }
  return browser;
}

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  if (!record.answers.explained) return content;
  const Explained& explained = *record.answers.explained;
  if (explained.nodes.empty()) {
    content.answer = "No node can have " + code(explained.layout) + ".";
    return content;
  }
  content.blocks.emplace_back(Paragraph{
      "The cost there is the price of the node's kernel and of the moves to and from it, if all "
      "other nodes stay as chosen; for the best total, all of them may change. A dash means that "
      "the layout is impossible with these constraints, or with the neighbours as chosen."});
  content.blocks.emplace_back(browser_of(record, explained));
  const auto as_good =
      std::count_if(explained.nodes.begin(), explained.nodes.end(), [&](const ExplainedNode& node) {
        const std::optional<double> dearer = dearer_us(record, node);
        return dearer && *dearer <= 0.0;
      });
  content.answer = counted(static_cast<std::int64_t>(explained.nodes.size()), "node", "nodes") +
                   " can have " + code(explained.layout) + "; for " + grouped(as_good) +
                   " of them the whole plan then costs no more.";
  return content;
}

}  // namespace explained_section

REPORT_SECTION(explained){
    .id = "explained",
    .title = "Why not another layout?",
    .question = "What would this layout cost where the plan has another?",
    .order = 24,
    .render = explained_section::render,
};

}  // namespace shardlab
