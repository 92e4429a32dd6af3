// The parameters of a solved program, the largest first, with their layouts.
#include <algorithm>
#include <string>
#include <vector>

#include "reports/facet_options.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace solved_parameters_section {

using namespace reports;

std::string name_of_parameter(const SolvedNode& node) {
  return node.given->label.empty() ? node.node : node.given->label;
}

std::vector<const SolvedNode*> parameters_of(const SolutionRecord& record) {
  std::vector<const SolvedNode*> parameters;
  for (const SolvedNode& node : record.assignment) {
    if (node.kind == "parameter" && node.given) parameters.push_back(&node);
  }
  std::stable_sort(
      parameters.begin(), parameters.end(),
      [](const SolvedNode* a, const SolvedNode* b) { return a->given->bytes > b->given->bytes; });
  return parameters;
}

Browser browser_of(const std::vector<const SolvedNode*>& parameters, double all_per_rank) {
  Browser browser;
  browser.id = "parameters";
  browser.caption = "Parameters and their layouts";
  browser.noun_one = "parameter";
  browser.noun_many = "parameters";
  browser.order_text = "the largest first";
  browser.cut_text = "the largest";
  browser.total = parameters.size();
  browser.columns = {{"parameter", ColumnKind::kCode},
                     {"tensor", ColumnKind::kCode},
                     {"layout", ColumnKind::kName},
                     {"bytes", ColumnKind::kBytes},
                     {"bytes of a rank", ColumnKind::kBytes},
                     {"of a rank's parameters, %", ColumnKind::kNumber, 2}};
  std::vector<SolvedNode> nodes;
  for (const SolvedNode* parameter : parameters) nodes.push_back(*parameter);
  FacetOptions layouts =
      sorted_options(nodes, [](const SolvedNode& node) { return node.layout_out; });
  browser.facets = {{"layout", layouts.values()}};
  for (const SolvedNode* parameter : parameters) {
    const SolvedTensor& tensor = *parameter->given;
    BrowserRow row;
    row.place = browser.rows.size();
    row.cells = {Cell(name_of_parameter(*parameter)),
                 Cell(tensor.tensor),
                 Cell(parameter->layout_out),
                 Cell(tensor.bytes),
                 Cell(tensor.bytes_per_rank),
                 all_per_rank > 0.0 ? Cell(100.0 * tensor.bytes_per_rank / all_per_rank) : Cell()};
    row.facets = {layouts.add(parameter->layout_out)};
    RowDetail detail;
    detail.facts = {{"node", parameter->node, true}};
    if (!tensor.label.empty()) detail.facts.push_back({"the model's name", tensor.label, true});
    row.detail = std::move(detail);
    browser.rows.push_back(std::move(row));
  }
  return browser;
}

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  const std::vector<const SolvedNode*> parameters = parameters_of(record);
  if (parameters.empty()) return content;
  double all = 0.0;
  double per_rank = 0.0;
  std::int64_t whole = 0;
  for (const SolvedNode* parameter : parameters) {
    all += parameter->given->bytes;
    per_rank += parameter->given->bytes_per_rank;
    whole += parameter->given->bytes_per_rank >= parameter->given->bytes ? 1 : 0;
  }
  content.blocks.emplace_back(browser_of(parameters, per_rank));
  content.answer =
      counted(static_cast<std::int64_t>(parameters.size()), "parameter takes ",
              "parameters take ") +
      bytes_text(all) + ", of which a rank holds " + bytes_text(per_rank) + " (" +
      percent(all > 0.0 ? per_rank / all : 0.0) + "); " +
      (whole == 0 ? std::string("every one is sharded")
                  : counted(whole, "is held whole by every rank", "are held whole by every rank")) +
      "; the largest is " + code(name_of_parameter(*parameters.front())) + " as " +
      code(parameters.front()->layout_out) + ".";
  return content;
}

}  // namespace solved_parameters_section

REPORT_SECTION(solved_parameters){
    .id = "solved_parameters",
    .title = "Parameters",
    .question = "How does each parameter lie, and how much of it does a rank hold?",
    .order = 41,
    .render = solved_parameters_section::render,
};

}  // namespace shardlab
