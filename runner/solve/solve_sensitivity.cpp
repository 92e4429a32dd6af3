#include "runner/solve/solve_sensitivity.h"

#include <array>
#include <nlohmann/json.hpp>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "runner/base/text_table.h"
#include "strategies/programs/plan_flips.h"

namespace shardlab {
namespace {

struct PlacementChange {
  std::string node;
  std::string here;
  std::string there;
};
std::vector<PlacementChange> changes_of(const ProgramSolution& solved, const PlanFlip& flip) {
  std::vector<PlacementChange> changes;
  for (const int v : flip.nodes) {
    changes.push_back({solved.network.name(v),
                       solved.network.value_name(v, solved.solution.assignment[to_index(v)]),
                       solved.network.value_name(v, flip.instead[to_index(v)])});
  }
  return changes;
}

nlohmann::json flip_json(const ProgramSolution& solved, const std::optional<PlanFlip>& flip) {
  if (!flip) return nullptr;
  nlohmann::json nodes = nlohmann::json::array();
  for (const PlacementChange& change : changes_of(solved, *flip)) {
    nodes.push_back({{"node", change.node}, {"here", change.here}, {"there", change.there}});
  }
  return {{"factor", flip->factor}, {"objective_us", flip->objective_us}, {"nodes", nodes}};
}

void add_row(TextTable& table, const ProgramSolution& solved, std::string_view parameter,
             std::string_view side, const std::optional<PlanFlip>& flip, const TextStyle& style) {
  std::vector<std::string> cells = {std::string(parameter), std::string(side)};
  if (!flip) {
    const double last = side == "below" ? 1.0 / kMostPlanFactor : kMostPlanFactor;
    cells.insert(
        cells.end(),
        {(side == "below" ? "not down to x " : "not up to x ") + format_double(last), "", "", ""});
    table.add(std::move(cells));
    return;
  }
  const std::vector<PlacementChange> changes = changes_of(solved, *flip);
  constexpr std::size_t kFew = 2;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < changes.size() && i < kFew; ++i) {
    texts.push_back(changes[i].node + " " + changes[i].here + " to " + changes[i].there);
  }
  if (changes.size() > kFew) texts.emplace_back("...");
  // A factor that is close to 1 still does not look like 1, which would change nothing.
  const std::array factors = {flip->factor, 1.0};
  cells.insert(cells.end(), {"x " + style.figures(factors)[0], style.figure(flip->objective_us),
                             std::to_string(changes.size()), join(texts)});
  table.add(std::move(cells));
}

}  // namespace

SolveAnswer sensitivity_answer(const ProgramSolution& solved, const PricedProgram& priced,
                               const ProblemOptions& options, const TextStyle& style) {
  PlanFlips flips(priced.program, priced.mesh, priced.strategies, options, priced.stack,
                  priced.topology);
  nlohmann::json json = nlohmann::json::array();
  TextTable table(style, {"parameter", "side", "plan changes", "objective us", "nodes", "which"});
  for (const PlanRange& range : flips.of(solved.solution.assignment)) {
    json.push_back({{"parameter", range.parameter},
                    {"below", flip_json(solved, range.below)},
                    {"above", flip_json(solved, range.above)}});
    add_row(table, solved, range.parameter, "below", range.below, style);
    add_row(table, solved, range.parameter, "above", range.above, style);
  }
  return {"sensitivity", std::move(json), table.text()};
}

}  // namespace shardlab
