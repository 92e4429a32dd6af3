#include "runner/solve/solve_answers.h"

#include <nlohmann/json.hpp>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "runner/base/optional_values.h"
#include "runner/base/read_file.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/config/read_json.h"
#include "runner/config/saved_plan.h"
#include "runner/session/layout_names.h"
#include "strategies/solvers/greedy_walk.h"

namespace shardlab {
namespace {

// -- Why not another layout -----------------------------------------------------------------------

// A node whose output can have the layout that was asked for.
struct Available {
  std::size_t node = 0;
  double chosen_us = 0.0;         // the price of the node's kernel and of moves to and from it
  double local_us = kForbidden;   // the same with that layout, all other nodes as chosen
  double global_us = kForbidden;  // the best total with that layout
};

// The cost of each value of the node if all other nodes stay as chosen: the value's own cost and
// that of the node's edges.
std::vector<double> local_costs(const ProgramSolution& solved, int variable) {
  const CostNetwork& network = solved.network;
  std::vector<double> us(network.costs(variable).begin(), network.costs(variable).end());
  for (const CostEdge& edge : network.edges()) {
    const CostTable& table = network.tables()[to_index(edge.table)];
    const auto value_of = [&](int v) { return solved.solution.assignment[to_index(v)]; };
    for (int x = 0; x < network.values(variable); ++x) {
      if (edge.first == variable) us[to_index(x)] += table.at(x, value_of(edge.second));
      if (edge.second == variable) us[to_index(x)] += table.at(value_of(edge.first), x);
    }
  }
  return us;
}

std::vector<Available> explain(const ProgramSolution& solved, const std::string& layout,
                               ExactSolver& solver, const Session& session) {
  std::vector<Available> found;
  for (int v = 0; v < solved.network.variables(); ++v) {
    Restriction restriction{.variable = v, .allowed = {}};
    for (int x = 0; x < solved.network.values(v); ++x) {
      if (layouts_of(solved, to_index(v), to_index(x)).out == layout)
        restriction.allowed.push_back(x);
    }
    if (restriction.allowed.empty()) continue;
    Available available{.node = to_index(v)};
    const std::vector<double> local = local_costs(solved, v);
    available.chosen_us = local[to_index(solved.solution.assignment[to_index(v)])];
    for (const int x : restriction.allowed) {
      available.local_us = std::min(available.local_us, local[to_index(x)]);
    }
    const ExactSolution with = solver.solve({.restrictions = {restriction},
                                             .jobs = session.threads(),
                                             .margins = false,
                                             .best = 1,
                                             .explain = false});
    if (with.feasible) available.global_us = with.objective;
    found.push_back(available);
  }
  return found;
}

nlohmann::json explain_json(const ProgramSolution& solved, std::span<const Available> found) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const Available& available : found) {
    nodes.push_back({{"node", solved.program.nodes[available.node].name},
                     {"chosen", chosen_layouts(solved, available.node).out},
                     {"chosen_us", available.chosen_us},
                     {"local_us", finite_or_null(available.local_us)},
                     {"global_us", finite_or_null(available.global_us)}});
  }
  return nodes;
}

std::string explain_text(const ProgramSolution& solved, const std::string& layout,
                         const LayoutNames& names, const TextStyle& style,
                         std::span<const Available> found) {
  TextTable table(
      style, {names.of_texts(layout) + " at", "chosen", "us there", "us with it", "best total us"});
  const auto text = [&](double us) { return us < kForbidden ? style.figure(us) : "impossible"; };
  for (const Available& available : found) {
    table.add({solved.program.nodes[available.node].name,
               names.of_texts(chosen_layouts(solved, available.node).out),
               text(available.chosen_us), text(available.local_us), text(available.global_us)});
  }
  return found.empty() ? "  no node can have " + names.of_texts(layout) + "\n" : table.text();
}

// -- Another plan ---------------------------------------------------------------------------------

struct Diff {
  double objective_us = 0.0;
  std::vector<std::size_t> nodes;  // the nodes whose strategies differ
  Assignment assignment;
};

Diff diff_of(const ProgramSolution& solved, const DeviceMesh& mesh, const std::string& file) {
  const nlohmann::json json = parse_json(read_text_file(file), file);
  expect_mesh(read_saved_run(json, {file, ""}), file, mesh);
  const std::vector<SavedNode> saved = read_saved_plan(json, {file, ""});
  Diff diff{
      .objective_us = 0.0, .nodes = {}, .assignment = Assignment(solved.program.nodes.size(), -1)};
  for (const SavedNode& node : saved) {
    const auto index = solved.program.find(node.node);
    if (!index) node.place.fail("found the node \"" + node.node + "\", which the program lacks");
    if (diff.assignment[*index] >= 0) {
      node.place.fail("found the node \"" + node.node + "\" a second time");
    }
    const auto strategies = solved.strategies.of(*index).strategies;
    for (std::size_t strategy = 0; strategy < strategies; ++strategy) {
      const NodeLayouts layouts = layouts_of(solved, *index, strategy);
      if (layouts.out == node.out && layouts.in == node.in) {
        diff.assignment[*index] = static_cast<int>(strategy);
      }
    }
    if (diff.assignment[*index] < 0) {
      node.place.fail("found " + node.out + " <- " + join(node.in, ", ") +
                      ", which is not one of the " + std::to_string(strategies) +
                      " strategies of " + node.node);
    }
  }
  for (std::size_t n = 0; n < diff.assignment.size(); ++n) {
    if (diff.assignment[n] < 0) {
      JsonPlace{file, ""}.fail("has no node \"" + solved.program.nodes[n].name + "\"");
    }
    if (diff.assignment[n] != solved.solution.assignment[n]) diff.nodes.push_back(n);
  }
  diff.objective_us = solved.network.cost(diff.assignment);
  return diff;
}

nlohmann::json diff_json(const ProgramSolution& solved, const Diff& diff) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const std::size_t n : diff.nodes) {
    nodes.push_back({{"node", solved.program.nodes[n].name},
                     {"here", chosen_layouts(solved, n).out},
                     {"there", layouts_of(solved, n, to_index(diff.assignment[n])).out}});
  }
  const double gap = diff.objective_us - solved.solution.objective;
  return {{"objective_us", finite_or_null(diff.objective_us)},
          {"gap_us", finite_or_null(gap)},
          {"gap_percent", or_null(percent_above(diff.objective_us, solved.solution.objective))},
          {"nodes", nodes}};
}

std::string diff_text(const ProgramSolution& solved, const Diff& diff, const TextStyle& style) {
  const double gap = diff.objective_us - solved.solution.objective;
  std::string out = diff.objective_us < kForbidden
                        ? "  the other plan: " + style.figure(diff.objective_us) + " us, " +
                              style.difference(gap, solved.solution.objective) +
                              " us above the optimum; " + std::to_string(diff.nodes.size()) +
                              " nodes differ\n"
                        : "  the other plan breaks a constraint; " +
                              std::to_string(diff.nodes.size()) + " nodes differ\n";
  if (diff.nodes.empty()) return out;
  TextTable table(style, {"node", "here", "there"});
  for (const std::size_t n : diff.nodes) {
    table.add({solved.program.nodes[n].name,
               solved.network.value_name(static_cast<int>(n), solved.solution.assignment[n]),
               solved.network.value_name(static_cast<int>(n), diff.assignment[n])});
  }
  return out + table.text();
}

// -- A walk that never looks ahead ----------------------------------------------------------------

struct Greedy {
  GreedyWalk walk;
  std::optional<GreedyRegret> regret;  // empty if the walk is stuck
  double objective_us = 0.0;           // the total cost of the walk in the network
};

Greedy greedy_of(const ProgramSolution& solved, ExactSolver& solver) {
  const Assignment given = sources_of(solved.program, solved.solution.assignment);
  Greedy greedy{
      .walk = greedy_walk(solved.network, given), .regret = {}, .objective_us = kForbidden};
  if (greedy.walk.stuck) return greedy;
  greedy.objective_us = solved.network.cost(greedy.walk.assignment);
  greedy.regret = greedy_regret(solved.network, solver, given, greedy.walk.assignment);
  return greedy;
}

const std::string& name_of(const ProgramSolution& solved, int node) {
  return solved.program.nodes[to_index(node)].name;
}

nlohmann::json greedy_json(const ProgramSolution& solved, const Greedy& greedy) {
  const double gap = greedy.objective_us - solved.solution.objective;
  nlohmann::json json = {
      {"objective_us", finite_or_null(greedy.objective_us)},
      {"gap_us", finite_or_null(gap)},
      {"gap_percent", or_null(percent_above(greedy.objective_us, solved.solution.objective))},
      {"stuck_at", greedy.walk.stuck ? nlohmann::json(name_of(solved, *greedy.walk.stuck))
                                     : nlohmann::json(nullptr)},
      {"breakdown_us", nullptr},
      {"layouts", nlohmann::json::object()},
      {"regret", nlohmann::json::array()},
      {"other_regret_us", nullptr}};
  if (!greedy.regret) return json;
  const Assignment& walk = greedy.walk.assignment;
  json["breakdown_us"] =
      breakdown_json(solved.problem.breakdown(solved.strategies, solved.prices, walk));
  for (std::size_t n = 0; n < walk.size(); ++n) {
    json["layouts"][solved.program.nodes[n].name] = layouts_of(solved, n, to_index(walk[n])).out;
  }
  for (const ChoiceRegret& choice : greedy.regret->choices) {
    const bool is_one = choice.first == choice.last;
    nlohmann::json row = {{"node", name_of(solved, choice.first)},
                          {"to_node", name_of(solved, choice.last)},
                          {"regret_us", choice.regret_us}};
    if (is_one) {
      row["op"] = solved.program.nodes[to_index(choice.first)].op;
      row["chosen"] = solved.network.value_name(choice.first, walk[to_index(choice.first)]);
      row["instead"] = solved.network.value_name(choice.first, choice.instead);
      row["dearer_there_us"] = choice.local_us;
      row["cheaper_later_us"] = choice.later_us;
    }
    json["regret"].push_back(std::move(row));
  }
  json["other_regret_us"] = greedy.regret->rest_us;
  return json;
}

std::string greedy_text(const ProgramSolution& solved, const Greedy& greedy,
                        const TextStyle& style) {
  std::string out = "  greedy, node by node from where the optimum has parameters and inputs: ";
  if (!greedy.regret) {
    return out + "stuck at " + printable(name_of(solved, *greedy.walk.stuck)) +
           ", where the constraints leave nothing to take\n";
  }
  const double gap = greedy.objective_us - solved.solution.objective;
  const Assignment& walk = greedy.walk.assignment;
  out += style.figure(greedy.objective_us) + " us, " +
         style.difference(gap, solved.solution.objective) + " us (" +
         style.rounded(percent_above(greedy.objective_us, solved.solution.objective), 2, "-") +
         " %) above the optimum; " +
         breakdown_text(solved.problem.breakdown(solved.strategies, solved.prices, walk), style) +
         "\n";
  if (greedy.regret->choices.empty()) return out;
  TextTable table(style, {"most regretted", "op", "took", "better", "better: more there us",
                          "less later us", "regret us"});
  for (const ChoiceRegret& choice : greedy.regret->choices) {
    const std::string regret = style.difference(choice.regret_us, greedy.objective_us);
    if (choice.first != choice.last) {
      table.add({name_of(solved, choice.first) + " to " + name_of(solved, choice.last), "", "", "",
                 "", "", regret});
      continue;
    }
    table.add({name_of(solved, choice.first), solved.program.nodes[to_index(choice.first)].op,
               solved.network.value_name(choice.first, walk[to_index(choice.first)]),
               solved.network.value_name(choice.first, choice.instead),
               style.difference(choice.local_us, greedy.objective_us),
               style.difference(choice.later_us, greedy.objective_us), regret});
  }
  return out + table.text() +
         "  all other choices: " + style.difference(greedy.regret->rest_us, greedy.objective_us) +
         " us\n";
}

}  // namespace

SolveAnswer explain_answer(const ProgramSolution& solved, const std::string& layout,
                           ExactSolver& solver, const Session& session) {
  const std::vector<Available> found = explain(solved, layout, solver, session);
  SolveAnswer answer{"explain", explain_json(solved, found),
                     explain_text(solved, layout, LayoutNames(session), session.style(), found)};
  answer.record = {{"layout", layout}, {"nodes", answer.json}};
  return answer;
}

SolveAnswer diff_answer(const ProgramSolution& solved, const DeviceMesh& mesh,
                        const std::string& file, const TextStyle& style) {
  const Diff diff = diff_of(solved, mesh, file);
  SolveAnswer answer{"diff", diff_json(solved, diff), diff_text(solved, diff, style)};
  answer.record = answer.json;
  answer.record["file"] = file;
  return answer;
}

SolveAnswer greedy_answer(const ProgramSolution& solved, ExactSolver& solver,
                          const TextStyle& style) {
  const Greedy greedy = greedy_of(solved, solver);
  SolveAnswer answer{"greedy", greedy_json(solved, greedy), greedy_text(solved, greedy, style)};
  answer.record = answer.json;
  answer.record.erase("layouts");
  return answer;
}

}  // namespace shardlab
