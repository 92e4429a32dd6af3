#include "runner/solve/solution_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"

namespace shardlab {
namespace {

// Counts equal rows, in the order in which they first appear.
template <class Key>
class Tally {
 public:
  struct Group {
    Key key;
    std::int64_t count = 0;
    double us = 0.0;
  };
  void add(const Key& key, double us = 0.0) {
    const auto [it, is_new] = places_.try_emplace(key, groups_.size());
    if (is_new) groups_.push_back({key});
    ++groups_[it->second].count;
    groups_[it->second].us += us;
  }
  std::vector<Group>& groups() { return groups_; }

 private:
  std::map<Key, std::size_t> places_;
  std::vector<Group> groups_;
};

std::string sources_text(const ProgramSolution& solved, const LayoutNames& names,
                         const TextStyle& style) {
  using Key = std::tuple<std::string, std::string, std::string>;  // name, tensor, layout
  Tally<Key> tally;
  std::map<Key, std::string> whole_names;
  for (std::size_t n = 0; n < solved.program.nodes.size(); ++n) {
    const ProgramNode& node = solved.program.nodes[n];
    if (!node.is_source()) continue;
    const std::string& name = node.label.empty() ? node.name : node.label;
    const Key key = {without_numbers(name),
                     solved.strategies.metas[solved.strategies.meta(n, 0)].text(),
                     chosen_layouts(solved, n).out};
    tally.add(key);
    whole_names.try_emplace(key, name);
  }
  TextTable table(style, {"source", "tensor", "layout", "nodes"});
  for (const auto& [key, count, us] : tally.groups()) {
    const auto& [name, tensor, layout] = key;
    table.add({count == 1 ? whole_names.at(key) : name, tensor, names.of_texts(layout),
               std::to_string(count)});
  }
  return tally.groups().empty() ? "" : table.text();
}

std::string moves_text(const ProgramSolution& solved, const LayoutNames& names,
                       const TextStyle& style) {
  using Key = std::tuple<std::string, std::string, std::string, Phase>;  // tensor, from, to, pass
  Tally<Key> tally;
  const std::vector<std::vector<NodeMove>> moves = moves_of(solved);
  for (std::size_t n = 0; n < moves.size(); ++n) {
    for (const NodeMove& move : moves[n]) {
      if (move.us <= 0.0) continue;
      tally.add({move.tensor, move.from, move.to, solved.program.nodes[n].phase}, move.us);
    }
  }
  auto& groups = tally.groups();
  if (groups.empty()) return "  nothing moves\n";
  std::ranges::stable_sort(groups, [](const auto& a, const auto& b) { return a.us > b.us; });
  constexpr std::size_t kMost = 20;
  TextTable table(style, {"moved", "from", "to", "pass", "moves", "us"});
  std::int64_t other_count = 0;
  double other_us = 0.0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i >= kMost) {
      other_count += groups[i].count;
      other_us += groups[i].us;
      continue;
    }
    const auto& [tensor, from, to, phase] = groups[i].key;
    table.add({tensor, names.of_texts(from), names.of_texts(to), std::string(to_string(phase)),
               std::to_string(groups[i].count), style.figure(groups[i].us)});
  }
  if (other_count > 0) {
    table.add({"all others", "", "", "", std::to_string(other_count), style.figure(other_us)});
  }
  return table.text();
}

std::string nodes_text(const ProgramSolution& solved, const LayoutNames& names,
                       const TextStyle& style) {
  TextTable table(style, {"node", "op", "inputs", "outputs", "kernel us", "moves us"});
  const std::vector<std::vector<NodeMove>> moves = moves_of(solved);
  for (std::size_t n = 0; n < solved.program.nodes.size(); ++n) {
    const ProgramNode& node = solved.program.nodes[n];
    const NodeLayouts layouts = chosen_layouts(solved, n);
    const auto compute = solved.prices.compute_us(solved.strategies.class_of[n]);
    table.add(
        {node.name, node.is_source() ? node.label : node.op, join(names.of_texts(layouts.in), ", "),
         names.of_texts(layouts.out),
         style.figure(solved.problem.runs[n] * compute[to_index(solved.solution.assignment[n])]),
         style.figure(sum_us(moves[n], &NodeMove::us))});
  }
  return table.text();
}

// The nodes for which another value would cost the most, or all nodes.
std::string margins_text(const ProgramSolution& solved, const LayoutNames& names,
                         const TextStyle& style, bool all_nodes) {
  const std::vector<double>& margins = solved.solution.margins;
  if (margins.empty()) return "";
  std::vector<std::size_t> order;
  int tied = 0;
  std::vector<std::size_t> unknown;
  for (std::size_t n = 0; n < margins.size(); ++n) {
    if (margins[n] < kForbidden) order.push_back(n);
    if (std::isnan(margins[n])) unknown.push_back(n);
    tied += margins[n] <= 0.0 ? 1 : 0;
  }
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return margins[a] > margins[b]; });
  constexpr std::size_t kMost = 10;
  const std::size_t most = all_nodes ? order.size() : kMost;
  TextTable table(style, {"largest margins", "layout", "margin us"});
  for (std::size_t i = 0; i < std::min(order.size(), most); ++i) {
    table.add({solved.program.nodes[order[i]].name,
               names.of_texts(chosen_layouts(solved, order[i]).out),
               style.figure(margins[order[i]])});
  }
  for (std::size_t i = 0; all_nodes && i < unknown.size(); ++i) {
    table.add({solved.program.nodes[unknown[i]].name,
               names.of_texts(chosen_layouts(solved, unknown[i]).out), "-"});
  }
  const std::string known = unknown.empty()
                                ? std::to_string(margins.size()) + " nodes"
                                : "the " + std::to_string(margins.size() - unknown.size()) +
                                      " nodes whose margins are known";
  return table.text() + "  " + std::to_string(tied) + " of " + known +
         " could have another value at no cost\n";
}

// "at most 0.12 % above the optimum".
std::string gap_text(const ExactSolution& solution) {
  const std::optional<double> gap = percent_above(solution.objective, solution.lower_bound);
  return "at most " + (gap ? format_double(std::ceil(*gap * 1e4) / 1e4) + " %" : "any amount") +
         " above the optimum";
}

bool prints_all_nodes(const ProgramSolution& solved, bool all_nodes) {
  return all_nodes || solved.program.nodes.size() <= kMostNodesInText;
}

}  // namespace

std::string without_numbers(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool begins = i == 0 || name[i - 1] == '.' || name[i - 1] == '_';
    std::size_t end = i;
    while (begins && end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
    const bool is_number = end > i && (end == name.size() || name[end] == '.' || name[end] == '_');
    text += is_number ? '*' : name[i];
    if (is_number) i = end - 1;
  }
  return text;
}

std::string solution_text(const ProgramSolution& solved, const SolutionHeadline& headline,
                          const LayoutNames& names, const TextStyle& style, bool all_nodes) {
  const ExactSolution& solution = solved.solution;
  std::string out = printable(solved.program.name) + ": " +
                    std::to_string(solved.program.nodes.size()) + " nodes, " +
                    std::to_string(solved.problem.priced.size()) + " edges\n";
  for (const std::string& note : solved.strategies.notes)
    out += "  note: " + printable(note) + "\n";
  if (!solution.feasible) {
    const bool is_proved = solved.misfit.empty() || solved.is_misfit_proved;
    return out + "  " + (is_proved ? style.painted(Tone::kBad, "infeasible:") + " " : "") +
           printable(why_infeasible(solved)) + "\n";
  }
  const Breakdown parts =
      solved.problem.breakdown(solved.strategies, solved.prices, solution.assignment);
  out += "  " + headline.objective + " " + bounds_text(solution, style, headline.interval) + ", " +
         (solution.optimal ? style.painted(Tone::kGood, "optimal")
                           : "not proved optimal: " + gap_text(solution)) +
         "\n";
  out += headline.executed + "  " + breakdown_text(parts, style) + "\n";
  if (prints_all_nodes(solved, all_nodes)) return out + nodes_text(solved, names, style);
  return out + sources_text(solved, names, style) + moves_text(solved, names, style) +
         "  node by node: --nodes, --format json or --out DIR\n";
}

std::string margins_and_plans_text(const ProgramSolution& solved, const LayoutNames& names,
                                   const TextStyle& style, bool all_nodes) {
  const ExactSolution& solution = solved.solution;
  std::string out;
  if (solution.optima) out += "  optima " + format_double(*solution.optima) + "\n";
  out += margins_text(solved, names, style, prints_all_nodes(solved, all_nodes));
  std::vector<double> objectives;
  for (const RankedAssignment& ranked : solution.best) objectives.push_back(ranked.objective);
  const std::vector<std::string> figures = style.figures(objectives, kRoundingNoise);
  for (std::size_t i = 1; i < solution.best.size(); ++i) {
    out += "  number " + std::to_string(i + 1) + ": " + figures[i] + " us, " +
           printable(changes_of(solved, solution.best[i].assignment)) + "\n";
  }
  return out;
}

}  // namespace shardlab
