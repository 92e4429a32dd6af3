// The parameters of a solved program with their layouts. Those of alike layers share a row.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
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

// The name with a star in place of each number between two separators, which counts layers:
// "layers.*.wq.weight". A number at the end stays, because it may be all that tells parameters
// apart.
std::string name_of_kind(const std::string& name) {
  std::string kind;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find_first_of("._/", begin), name.size());
    const std::string word = name.substr(begin, end - begin);
    const bool is_number = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return c >= '0' && c <= '9';
    });
    kind += is_number && begin > 0 && end < name.size() ? "*" : word;
    if (end < name.size()) kind += name[end];
    begin = end + 1;
  }
  return kind;
}

// Parameters that differ in the numbers of their layers alone.
struct Kind {
  std::string name;
  std::vector<const SolvedNode*> parameters;
  double bytes = 0.0, bytes_per_rank = 0.0;  // the sum of all parameters
};

// The kinds of parameters; those that take most bytes together come first.
std::vector<Kind> kinds_of(const std::vector<const SolvedNode*>& parameters) {
  std::map<std::tuple<std::string, std::string, std::string, double>, std::size_t> places;
  std::vector<Kind> kinds;
  for (const SolvedNode* parameter : parameters) {
    const SolvedTensor& tensor = *parameter->given;
    const std::string name = name_of_kind(name_of_parameter(*parameter));
    const auto [place, is_new] = places.try_emplace(
        {name, tensor.tensor, parameter->layout_out, tensor.bytes_per_rank}, kinds.size());
    if (is_new) kinds.push_back({name, {}});
    Kind& kind = kinds[place->second];
    kind.parameters.push_back(parameter);
    kind.bytes += tensor.bytes;
    kind.bytes_per_rank += tensor.bytes_per_rank;
  }
  for (Kind& kind : kinds) {
    if (kind.parameters.size() == 1) kind.name = name_of_parameter(*kind.parameters[0]);
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const Kind& a, const Kind& b) { return a.bytes > b.bytes; });
  return kinds;
}

// One name a line, of at most kMostNames.
std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNames = 64;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : "\n") + names[i];
  }
  if (names.size() > kMostNames) {
    text += "\nand " + grouped(static_cast<std::int64_t>(names.size() - kMostNames)) + " more";
  }
  return text;
}

Browser browser_of(const std::vector<const SolvedNode*>& parameters, double all_per_rank) {
  Browser browser;
  browser.id = "parameters";
  browser.caption = "Parameters and their layouts";
  browser.noun_one = "row";
  browser.noun_many = "rows";
  browser.order_text = "those that take most bytes together first; alike layers share a row";
  browser.cut_text = "the largest";
  const std::vector<Kind> kinds = kinds_of(parameters);
  browser.total = kinds.size();
  browser.columns = {{"parameter", ColumnKind::kCode},
                     {"count", ColumnKind::kCount},
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
  for (const Kind& kind : kinds) {
    const SolvedNode& first = *kind.parameters.front();
    BrowserRow row;
    row.place = browser.rows.size();
    row.cells = {Cell(kind.name),
                 Cell(static_cast<std::int64_t>(kind.parameters.size())),
                 Cell(first.given->tensor),
                 Cell(first.layout_out),
                 Cell(kind.bytes),
                 Cell(kind.bytes_per_rank),
                 all_per_rank > 0.0 ? Cell(100.0 * kind.bytes_per_rank / all_per_rank) : Cell()};
    row.facets = {layouts.add(first.layout_out)};
    std::vector<std::string> names;
    std::vector<std::string> labels;
    for (const SolvedNode* parameter : kind.parameters) {
      names.push_back(parameter->node);
      if (!parameter->given->label.empty()) labels.push_back(parameter->given->label);
    }
    RowDetail detail;
    detail.facts = {{names.size() > 1 ? "nodes" : "node", names_text(names), true}};
    if (!labels.empty()) {
      detail.facts.push_back(
          {labels.size() > 1 ? "the model's names" : "the model's name", names_text(labels), true});
    }
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
