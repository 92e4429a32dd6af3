// The layout of every node of a solved program.
#include <algorithm>
#include <string>
#include <vector>

#include "reports/facet_options.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace assignment_section {

using namespace reports;

std::string joined(const std::vector<std::string>& layouts) {
  std::string text;
  for (const std::string& layout : layouts) text += (text.empty() ? "" : ", ") + layout;
  return text;
}

std::string what(const SolvedNode& node) { return node.op.empty() ? node.kind : node.op; }

Browser browser(const SolutionRecord& record) {
  Browser browser;
  browser.id = "nodes";
  browser.caption = "Nodes and their layouts";
  browser.noun_one = "node";
  browser.noun_many = "nodes";
  browser.order_text = "in the order of the program";
  browser.cut_text = "those that cost most";
  browser.total = record.assignment.size();
  browser.columns = {{"node", ColumnKind::kCode},
                     {"op or kind", ColumnKind::kCode},
                     {"inputs", ColumnKind::kCode},
                     {"outputs", ColumnKind::kCode},
                     {"kernel, us", ColumnKind::kNumber, 3},
                     {"communication, us", ColumnKind::kNumber, 3},
                     {"margin, us", ColumnKind::kNumber, 3}};
  browser.details = {{"What is brought to it",
                      {{"input", ColumnKind::kCount},
                       {"of", ColumnKind::kCode},
                       {"tensor", ColumnKind::kCode},
                       {"from", ColumnKind::kCode},
                       {"to", ColumnKind::kCode},
                       {"us", ColumnKind::kNumber, 3}}}};
  FacetOptions ops = sorted_options(record.assignment, what);
  FacetOptions layouts =
      sorted_options(record.assignment, [](const SolvedNode& node) { return node.layout_out; });
  browser.facets = {{"op or kind", ops.values()},
                    {"phase", {"forward", "backward"}},
                    {"output", layouts.values()},
                    {"moves data", {"yes", "no"}}};
  std::vector<std::size_t> order(record.assignment.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto cost = [&](std::size_t i) {
      return record.assignment[i].compute_us + record.assignment[i].moves_us();
    };
    return cost(a) > cost(b);
  });
  for (const std::size_t i : order) {
    const SolvedNode& node = record.assignment[i];
    BrowserRow row;
    row.place = i;
    row.cells = {Cell(node.node, node.phase),
                 Cell(what(node)),
                 node.layout_in.empty() ? Cell() : Cell(joined(node.layout_in)),
                 node.layout_out.empty() ? Cell() : Cell(node.layout_out),
                 Cell(node.compute_us),
                 Cell(node.communication_us),
                 Cell(node.margin_us)};
    row.facets = {ops.add(what(node)), node.phase == "backward" ? std::size_t{1} : std::size_t{0},
                  layouts.add(node.layout_out),
                  node.moves_us() > 0.0 ? std::size_t{0} : std::size_t{1}};
    RowDetail detail;
    for (std::size_t input = 0; input < node.layout_in.size(); ++input) {
      detail.facts.push_back({"input " + std::to_string(input), node.layout_in[input], true});
    }
    detail.facts.push_back({"output", node.layout_out, true});
    std::vector<Row> moves;
    for (const SolvedMove& move : node.moves) {
      moves.push_back({Cell(move.input), Cell(move.of), Cell(move.tensor), Cell(move.from),
                       Cell(move.to), Cell(move.us)});
    }
    detail.tables.push_back(std::move(moves));
    row.detail = std::move(detail);
    browser.rows.push_back(std::move(row));
  }
  return browser;
}

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  if (record.assignment.empty()) {
    content.answer = "There is no plan.";
    return content;
  }
  content.blocks.emplace_back(browser(record));
  const SolvedNode* most = &record.assignment.front();
  std::int64_t moving = 0;
  for (const SolvedNode& node : record.assignment) {
    moving += node.moves_us() > 0.0 ? 1 : 0;
    if (node.moves_us() > most->moves_us()) most = &node;
  }
  content.answer = moving == 0 ? std::string("No node moves data.")
                               : counted(moving, "node brings its inputs", "nodes bring inputs") +
                                     " into other layouts; the dearest is " + code(most->node) +
                                     ", " + fixed(most->moves_us(), 2) + " us.";
  return content;
}

}  // namespace assignment_section

REPORT_SECTION(assignment){
    .id = "assignment",
    .title = "The plan, node by node",
    .question = "Which layout does each node have, and what does it cost?",
    .order = 23,
    .render = assignment_section::render,
};

}  // namespace shardlab
