#include "runner/solve/solve_recipes.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "runner/base/optional_values.h"
#include "runner/base/terminal.h"
#include "runner/config/configs.h"
#include "strategies/programs/batched_nodes.h"
#include "strategies/programs/parameter_weights.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/solvers/greedy_walk.h"

namespace shardlab {
namespace {

// The kinds of values that collectives move.
enum class Moved : std::uint8_t { kParameters, kGradients, kActivations };
constexpr std::array<std::string_view, 3> kMoved = {"parameters", "gradients", "activations"};
using MovesUs = std::array<double, kMoved.size()>;

// Classifies values. A value that depends only on parameters and buffers counts as a parameter; a
// value with the batch's rows counts as an activation (or its gradient); all others are gradients
// of parameters.
std::vector<Moved> classify(const Program& program) {
  const std::vector<bool> batched = batched_nodes(program);
  std::vector<Moved> classes(program.nodes.size(), Moved::kGradients);
  for (std::size_t n = 0; n < classes.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    if (batched[n]) {
      classes[n] = Moved::kActivations;
    } else if (node.kind == NodeKind::kParameter || node.kind == NodeKind::kBuffer) {
      classes[n] = Moved::kParameters;
    } else if (!node.is_source()) {
      const std::vector<ValueRef> values = values_read(node);
      const bool of_parameters = std::ranges::all_of(
          values, [&](const ValueRef& value) { return classes[value.node] == Moved::kParameters; });
      if (of_parameters) classes[n] = Moved::kParameters;
    }
  }
  return classes;
}

// One row of the comparison between recipes.
struct Compared {
  std::string name;
  std::string title;
  std::string misfit = {};  // why the recipe doesn't fit the program; empty if it does
  bool optimal = true;  // false: the best plan that was found, which is not proved to be the best
  double objective_us = kForbidden;
  double kernels_us = 0.0;
  MovesUs moves_us = {};  // transitions included
  double kept_bytes = 0.0;
  double greedy_us = kForbidden;
};

class ComparisonMaker {
 public:
  ComparisonMaker(const PricedProgram& priced, const ProblemOptions& options)
      : priced_(priced),
        options_(options),
        classes_(classify(priced.program)),
        memory_(memory_weights(priced.program, priced.mesh, priced.strategies)) {}

  Compared row(std::string name, std::string title, const ProblemOptions& options) const {
    Compared row{.name = std::move(name), .title = std::move(title)};
    const ShardingProblem problem =
        make_problem(priced_.program, priced_.mesh, priced_.strategies, priced_.prices, options);
    const CostNetwork network = network_of(problem);
    const ExactSolution best =
        ExactSolver(network).solve({.explain = false, .patience = {.takes_gap = true}});
    if (!best.feasible) {
      row.misfit = "no assignment satisfies all constraints";
      return row;
    }
    row.objective_us = best.objective;
    row.optimal = best.optimal;
    row.kernels_us =
        problem.breakdown(priced_.strategies, priced_.prices, best.assignment).compute_us;
    for (std::size_t e = 0; e < problem.priced.size(); ++e) {
      const ProblemEdge& edge = problem.edges[e];
      const ProblemTable& table = problem.tables[to_index(edge.table)];
      const std::size_t place =
          to_index(best.assignment[to_index(edge.first)]) * to_index(table.columns) +
          to_index(best.assignment[to_index(edge.second)]);
      row.moves_us[to_index(classes_[problem.priced[e].producer])] += table.costs[place];
    }
    row.kept_bytes = memory_.amount(best.assignment);
    const GreedyWalk walk = greedy_walk(network, sources_of(priced_.program, best.assignment));
    if (!walk.stuck) row.greedy_us = network.cost(walk.assignment);
    return row;
  }

  std::vector<Compared> rows(const ConfigStore& store) const {
    std::vector<Compared> rows;
    rows.push_back(row("optimum", "the best of all plans", options_));
    ProblemOptions whole = options_;
    whole.parameter_budget = 1.0 / static_cast<double>(priced_.mesh.size());
    rows.push_back(
        row("optimum, cut", "the best of those that cut each parameter as far as it goes", whole));
    for (const std::string& name : store.names(ConfigKind::kRecipe)) {
      const Recipe recipe = store.recipe(name);
      try {
        ProblemOptions pinned = options_;
        pinned.masks = recipe.masks(priced_.program, priced_.mesh);
        rows.push_back(row(recipe.name, recipe.title, pinned));
      } catch (const InputError& error) {
        rows.push_back({.name = recipe.name, .title = recipe.title, .misfit = error.what()});
      }
    }
    return rows;
  }

 private:
  const PricedProgram& priced_;
  const ProblemOptions& options_;
  std::vector<Moved> classes_;
  ProblemBudget memory_;
};

nlohmann::json rows_json(std::span<const Compared> rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Compared& row : rows) {
    nlohmann::json json = {{"recipe", row.name},
                           {"title", row.title},
                           {"objective_us", finite_or_null(row.objective_us)},
                           {"misfit", text_or_null(row.misfit)}};
    if (row.misfit.empty()) {
      if (!row.optimal) json["optimal"] = false;
      json["above_optimum_percent"] =
          or_null(percent_above(row.objective_us, rows.front().objective_us));
      json["kernels_us"] = row.kernels_us;
      for (std::size_t m = 0; m < kMoved.size(); ++m) {
        json["moves_us"][std::string(kMoved[m])] = row.moves_us[m];
      }
      json["kept_bytes"] = row.kept_bytes;
      json["greedy_us"] = finite_or_null(row.greedy_us);
    }
    list.push_back(std::move(json));
  }
  return list;
}

std::string rows_text(std::span<const Compared> rows) {
  TextTable table({"recipe", "objective us", "above %", "kernels us", "parameters us",
                   "gradients us", "activations us", "kept GB", "greedy us"});
  std::string misfits;
  for (const Compared& row : rows) {
    if (!row.misfit.empty()) {
      misfits += "  " + printable(row.name + ": " + row.misfit) + "\n";
      continue;
    }
    std::vector<std::string> cells = {
        row.name, format_fixed(row.objective_us, 0) + (row.optimal ? "" : "*"),
        fixed_or(percent_above(row.objective_us, rows.front().objective_us), 1, "-"),
        format_fixed(row.kernels_us, 0)};
    for (const double us : row.moves_us) cells.push_back(format_fixed(us, 0));
    cells.push_back(format_fixed(row.kept_bytes / 1e9, 2));
    cells.push_back(row.greedy_us < kForbidden ? format_fixed(row.greedy_us, 0) : "stuck");
    table.add(std::move(cells));
  }
  const bool all_proved = std::ranges::all_of(rows, &Compared::optimal);
  return table.text() +
         (all_proved ? ""
                     : "  *: the best plan that was found, which is not proved to be the best\n") +
         misfits;
}

// Explains how a recipe's cost differs from the optimum's, the largest part first.
std::string reading_of(const Compared& row, const Compared& optimum) {
  struct Part {
    std::string_view name;
    double us;
  };
  std::vector<Part> parts = {{"kernels", row.kernels_us - optimum.kernels_us}};
  for (std::size_t m = 0; m < kMoved.size(); ++m) {
    parts.push_back({kMoved[m], row.moves_us[m] - optimum.moves_us[m]});
  }
  std::ranges::stable_sort(
      parts, [](const Part& a, const Part& b) { return std::abs(a.us) > std::abs(b.us); });
  std::string text = "  " + row.name + ": " +
                     format_fixed(row.objective_us - optimum.objective_us, 0) +
                     " us above the optimum:";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += std::string(i == 0 ? " " : ", ") + std::string(parts[i].name) +
            (parts[i].us < 0.0 ? " " : " +") + format_fixed(parts[i].us, 0);
  }
  return text + "\n";
}

}  // namespace

RecipeComparison compare_recipes(const PricedProgram& priced, const ProblemOptions& options,
                                 const ConfigStore& store) {
  const std::vector<Compared> rows = ComparisonMaker(priced, options).rows(store);
  RecipeComparison comparison;
  comparison.feasible = rows.front().misfit.empty();
  comparison.rows = rows_json(rows);
  comparison.json = {{"program", priced.program.name},
                     {"stack", priced.stack.name},
                     {"topology", priced.topology.name()},
                     {"mesh", priced.mesh.text()},
                     {"recipes", comparison.rows}};
  comparison.text = printable(priced.program.name) + " on " + priced.mesh.text() + ", " +
                    priced.stack.name + ", " + priced.topology.name() + "\n" + rows_text(rows);
  for (const Compared& row : rows) {
    if (row.misfit.empty() && &row != &rows.front()) {
      comparison.text += reading_of(row, rows.front());
    }
  }
  return comparison;
}

}  // namespace shardlab
