#include "runner/solve/solve_recipes.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "costmodel/base/index.h"
#include "reports/records/question.h"
#include "runner/base/optional_values.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/config/configs.h"
#include "runner/evaluation/memory_options.h"
#include "strategies/programs/batched_nodes.h"
#include "strategies/programs/parameter_weights.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/solvers/greedy_walk.h"
#include "strategies/steps/eager_step.h"

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
  std::optional<StepFigures> step = {};  // nothing if a move can't run
  std::optional<EagerRun> eager = {};    // what DTensor makes of the same sources, if it can run

  [[nodiscard]] double runs_us() const { return step ? step->executed_us : kForbidden; }
};

// The release whose choices, operator by operator, stand beside the plans.
constexpr const char* kEagerStack = "dtensor-2.15";

class ComparisonMaker {
 public:
  // `eager` also runs the program as DTensor does, from each row's sources.
  ComparisonMaker(const PricedProgram& priced, const ProblemOptions& options,
                  const StepOptions& step_options, StepPlanner& planner, const ConfigStore& store,
                  bool eager)
      : priced_(priced),
        options_(options),
        step_options_(step_options),
        planner_(planner),
        classes_(classify(priced.program)),
        memory_(memory_weights(priced.program, priced.mesh, priced.strategies)),
        store_(store),
        asks_eager_(eager),
        eager_(store.stack(kEagerStack), priced.topology) {}

  Compared row(std::string name, std::string title, const ProblemOptions& options) {
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
    row.optimal = best.optimal;
    if (row.misfit = budget_broken(best.assignment); !row.misfit.empty()) return row;
    const GreedyWalk walk = greedy_walk(network, sources_of(priced_.program, best.assignment));
    if (!walk.stuck) row.greedy_us = network.cost(walk.assignment);
    if (row.name == "optimum" && !walk.stuck && row.greedy_us < kForbidden) {
      greedy_ = Compared{.name = "greedy",
                         .title =
                             "each op decided alone by this stack's prices, as DTensor decides, "
                             "from the optimum's sources"};
      greedy_->greedy_us = row.greedy_us;
      fill(*greedy_, problem, network, walk.assignment);
    }
    fill(row, problem, network, best.assignment);
    return row;
  }

  // Calls `so_far` after each row.
  std::vector<Compared> rows(const std::function<void(const std::vector<Compared>&)>& so_far) {
    std::vector<Compared> rows;
    ProblemOptions options = options_;
    options.runs = runs_under(priced_.program, planner_.blocks(), step_options_.recomputation);
    rows.push_back(row("optimum", "the best of all plans", options));
    so_far(rows);
    ProblemOptions whole = options;
    whole.parameter_budget = 1.0 / static_cast<double>(priced_.mesh.size());
    rows.push_back(
        row("optimum, cut", "the best of those that cut each parameter as far as it goes", whole));
    so_far(rows);
    for (const std::string& name : store_.names(ConfigKind::kRecipe)) {
      const Recipe recipe = store_.recipe(name);
      try {
        ProblemOptions pinned = options;
        pinned.masks = recipe.masks(priced_.program, priced_.mesh);
        rows.push_back(row(recipe.name, recipe.title, pinned));
      } catch (const InputError& error) {
        rows.push_back({.name = recipe.name, .title = recipe.title, .misfit = error.what()});
      }
      so_far(rows);
    }
    if (greedy_) rows.push_back(*greedy_);
    std::stable_sort(rows.begin() + 1, rows.end(), [](const Compared& a, const Compared& b) {
      return a.runs_us() < b.runs_us();
    });
    return rows;
  }

 private:
  // A recipe fixes the layouts of parameters, and what is fixed does not count in a parameter
  // budget. Why the plan keeps more than the budget all the same; "" if it does not.
  std::string budget_broken(const Assignment& assignment) const {
    if (!options_.parameter_budget) return "";
    const ProblemBudget fractions =
        fraction_weights(priced_.program, priced_.mesh, priced_.strategies);
    const double most =
        fractions.unit * to_real(fraction_limit(fractions, *options_.parameter_budget).limit);
    const double kept = fractions.amount(assignment);
    if (kept <= most * (1.0 + 1e-9)) return "";
    const auto parameters = static_cast<double>(fractions.weights.size());
    return "a device keeps " + format_fixed(100.0 * kept / parameters, 1) +
           " % of the parameters, each counted alike; valid: at most " +
           format_fixed(100.0 * most / parameters, 1) + " % (--parameter-budget)";
  }

  void fill(Compared& row, const ShardingProblem& problem, const CostNetwork& network,
            const Assignment& assignment) {
    row.objective_us = network.cost(assignment);
    row.kernels_us = problem.breakdown(priced_.strategies, priced_.prices, assignment).compute_us;
    for (std::size_t e = 0; e < problem.priced.size(); ++e) {
      const ProblemEdge& edge = problem.edges[e];
      const ProblemTable& table = problem.tables[to_index(edge.table)];
      const std::size_t place =
          to_index(assignment[to_index(edge.first)]) * to_index(table.columns) +
          to_index(assignment[to_index(edge.second)]);
      row.moves_us[to_index(classes_[problem.priced[e].producer])] += table.costs[place];
    }
    row.kept_bytes = memory_.amount(assignment);
    try {
      row.step = planner_.figures(assignment, step_options_);
    } catch (const LimitError&) {
      throw;
    } catch (const InputError&) {  // a move can't run
    }
    if (!asks_eager_ || row.name == "greedy") return;
    try {
      EagerStep eager(priced_.program, priced_.mesh,
                      first_outputs(placements_of(priced_.strategies, assignment)), priced_.stack,
                      priced_.topology, step_options_);
      row.eager = eager.run(eager_);
    } catch (const LimitError&) {
      throw;
    } catch (
        const InputError&) {  // DTensor has no rule for an operator, or no way to move a tensor
    }
  }

  const PricedProgram& priced_;
  const ProblemOptions& options_;
  const StepOptions& step_options_;
  StepPlanner& planner_;
  std::vector<Moved> classes_;
  ProblemBudget memory_;
  const ConfigStore& store_;
  bool asks_eager_ = false;
  EagerStack eager_;
  std::optional<Compared> greedy_;
};

double tokens_per_s_per_gpu(const PricedProgram& priced, const StepFigures& step) {
  return tokens_of(priced.program) / (step.step_us * 1e-6) /
         static_cast<double>(priced.mesh.size());
}

// What all collectives of a step move together.
reports::CollectiveTraffic collective_traffic(const StepFigures& step) {
  reports::CollectiveTraffic sum;
  for (const auto& [kind, collective] : step.collectives) {
    sum.count += collective.count;
    sum.bytes += collective.bytes;
  }
  return sum;
}

// Every row has the same keys: what a recipe that does not fit lacks is null.
constexpr std::array<std::string_view, 5> kPlanKeys = {"above_optimum_percent", "kernels_us",
                                                       "moves_us", "kept_bytes", "greedy_us"};
constexpr std::array<std::string_view, 5> kStepKeys = {
    "executed_us", "step_us", "tokens_per_s_per_gpu", "peak_bytes", "fits"};

nlohmann::json rows_json(std::span<const Compared> rows, const PricedProgram& priced,
                         bool has_eager) {
  nlohmann::json list = nlohmann::json::array();
  for (const Compared& row : rows) {
    nlohmann::json json = {{"name", row.name},
                           {"title", row.title},
                           {"objective_us", finite_or_null(row.objective_us)},
                           {"misfit", text_or_null(row.misfit)}};
    for (const std::string_view key : kPlanKeys) json[std::string(key)] = nullptr;
    for (const std::string_view key : kStepKeys) json[std::string(key)] = nullptr;
    json["collectives"] = nullptr;
    if (has_eager) json["eager"] = nullptr;
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
      if (has_eager && row.eager) {
        json["eager"] = {{"stack", kEagerStack},
                         {"step_us", row.eager->step_us},
                         {"peak_bytes", row.eager->peak_bytes}};
      }
      if (row.step) {
        const reports::CollectiveTraffic moved = collective_traffic(*row.step);
        json["executed_us"] = row.step->executed_us;
        json["step_us"] = row.step->step_us;
        json["tokens_per_s_per_gpu"] = tokens_per_s_per_gpu(priced, *row.step);
        json["peak_bytes"] = row.step->memory.peak_bytes;
        json["fits"] = row.step->fits();
        json["collectives"] = {{"count", moved.count}, {"bytes", moved.bytes}};
      }
    }
    list.push_back(std::move(json));
  }
  return list;
}

// The rows as a report's record has them.
nlohmann::json rows_record(const nlohmann::json& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const nlohmann::json& row : rows) {
    nlohmann::json& own = list.emplace_back(row);
    own["recipe"] = own.at("name");
    for (const char* key : {"name", "collectives"}) own.erase(key);
    if (!own.at("misfit").is_null()) {  // the record of such a recipe has no figures
      for (const std::string_view key : kPlanKeys) own.erase(std::string(key));
      for (const std::string_view key : kStepKeys) own.erase(std::string(key));
      own.erase("eager");
      continue;
    }
    own["step"] = nullptr;
    for (const std::string_view name : kStepKeys) {
      const std::string key(name);
      if (!own.at(key).is_null()) own["step"][key] = own.at(key);
      own.erase(key);
    }
  }
  return list;
}

std::string rows_text(std::span<const Compared> rows, const PricedProgram& priced, bool has_eager,
                      const TextStyle& style) {
  std::vector<std::string> titles = {
      "recipe",         "executed us", "objective us", "above %",       "step us",
      "tokens/s/GPU",   "peak GB",     "kernels us",   "parameters us", "gradients us",
      "activations us", "collectives", "moved GB",     "greedy us"};
  if (has_eager) titles.emplace_back("DTensor step us");
  TextTable table(style, titles);
  std::string misfits;
  bool all_fit = true;
  for (const Compared& row : rows) {
    if (!row.misfit.empty()) {
      misfits += "  " + printable(row.name + ": " + row.misfit) + "\n";
      continue;
    }
    const StepFigures* step = row.step ? &*row.step : nullptr;
    std::vector<std::string> cells = {
        row.name, step != nullptr ? style.rounded(step->executed_us, 0) : "can't run",
        style.rounded(row.objective_us, 0) + (row.optimal ? "" : "*"),
        style.rounded(percent_above(row.objective_us, rows.front().objective_us), 1, "-")};
    if (step != nullptr) {
      all_fit = all_fit && step->fits();
      cells.push_back(style.rounded(step->step_us, 0));
      cells.push_back(style.rounded(tokens_per_s_per_gpu(priced, *step), 0));
      cells.push_back(style.rounded(step->memory.peak_bytes / 1e9, 1) + (step->fits() ? "" : "!"));
    } else {
      cells.insert(cells.end(), {"-", "-", "-"});
    }
    cells.push_back(style.rounded(row.kernels_us, 0));
    for (const double us : row.moves_us) cells.push_back(style.rounded(us, 0));
    if (step != nullptr) {
      const reports::CollectiveTraffic moved = collective_traffic(*step);
      cells.push_back(std::to_string(moved.count));
      cells.push_back(style.rounded(moved.bytes / 1e9, 2));
    } else {
      cells.insert(cells.end(), {"-", "-"});
    }
    cells.push_back(row.greedy_us < kForbidden ? style.rounded(row.greedy_us, 0) : "stuck");
    if (has_eager) cells.push_back(row.eager ? style.rounded(row.eager->step_us, 0) : "-");
    table.add(std::move(cells));
  }
  const bool all_proved = std::ranges::all_of(rows, &Compared::optimal);
  std::string text = table.text();
  if (!all_proved) {
    text += "  *: the best plan that was found, which is not proved to be the best\n";
  }
  if (!all_fit) {
    for (const Compared& row : rows) {
      if (!row.step) continue;
      text += "  !: more than the " + style.rounded(row.step->memory.device_bytes / 1e9, 1) +
              " GB of a device\n";
      break;
    }
  }
  text +=
      "  greedy us: the sum if each operator is decided alone by this stack's prices, from the "
      "row's layouts of parameters and inputs; the row greedy starts from the optimum's\n";
  if (has_eager) {
    text += std::string("  DTensor step us: the step if each operator is decided alone as ") +
            kEagerStack +
            " does, and nothing gathers weights before they are read; `compare --program` names "
            "the choices\n";
  }
  return text + misfits;
}

// Steps whose lengths differ by less are not told apart: the predicted ratio of two published runs
// of one setting on different numbers of GPUs is off by 1.6 % in the median of 18 pairs (`validate
// --steps published`), rounded up here.
constexpr double kUndecidedPercent = 2.0;

// Which plan to run: the shortest step that fits, those that may be as short, and a shorter one
// that does not fit.
std::string answer_text(std::span<const Compared> rows, const PricedProgram& priced,
                        const StepOptions& options, const TextStyle& style) {
  const Compared* best = nullptr;
  const Compared* larger = nullptr;  // the shortest of those that do not fit
  for (const Compared& row : rows) {
    if (!row.step || row.name == "greedy") continue;
    const Compared*& least = row.step->fits() ? best : larger;
    if (least == nullptr || row.step->step_us < least->step->step_us) least = &row;
  }
  if (best == nullptr && larger == nullptr) return "";
  const auto memory = [&](const Compared& row) {
    return style.rounded(row.step->memory.device_bytes / 1e9, 1) + " GB of a device";
  };
  if (best == nullptr) {
    return "  no plan fits into the " + memory(*larger) + "; try " +
           memory_options(options.recomputation) + "\n";
  }
  std::vector<std::string> near;
  for (const Compared& row : rows) {
    if (!row.step || !row.step->fits() || &row == best || row.name == "greedy") continue;
    if (percent_above(row.step->step_us, best->step->step_us).value_or(kUndecidedPercent) <
        kUndecidedPercent) {
      near.push_back(row.name);
    }
  }
  std::string text = "  the shortest step that fits is that of \"" + best->name +
                     "\": " + style.rounded(best->step->step_us / 1e3, 2) + " ms, " +
                     style.rounded(tokens_per_s_per_gpu(priced, *best->step), 0) +
                     (has_samples(priced.program) ? " samples/s/GPU\n" : " tokens/s/GPU\n");
  if (!near.empty()) {
    text += "  less than " + style.rounded(kUndecidedPercent, 0) +
            " % longer, which is too close to call: \"" +
            join(std::span<const std::string>(near), "\"; \"") + "\"\n";
  }
  if (larger != nullptr && larger->step->step_us < best->step->step_us) {
    text += "  shorter, but too large for the " + memory(*larger) + ": " + larger->name + ", " +
            style.rounded(larger->step->step_us / 1e3, 2) + " ms with " +
            style.rounded(larger->step->memory.peak_bytes / 1e9, 1) + " GB; try " +
            memory_options(options.recomputation) + "\n";
  }
  return text;
}

// Explains how a recipe's cost differs from the optimum's, the largest part first.
std::string reading_of(const Compared& row, const Compared& optimum, const TextStyle& style) {
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
                     style.rounded(row.objective_us - optimum.objective_us, 0) +
                     " us above the optimum:";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += std::string(i == 0 ? " " : ", ") + std::string(parts[i].name) +
            (parts[i].us < 0.0 ? " " : " +") + style.rounded(parts[i].us, 0);
  }
  return text + "\n";
}

RecipeComparison comparison_of(const std::vector<Compared>& rows, const PricedProgram& priced,
                               const StepOptions& step_options, bool eager,
                               const TextStyle& style) {
  RecipeComparison comparison;
  comparison.feasible = rows.front().misfit.empty();
  comparison.rows = rows_json(rows, priced, eager);
  comparison.record = rows_record(comparison.rows);
  comparison.json = {{"program", priced.program.name},
                     {"stack", priced.stack.name},
                     {"topology", priced.topology.name()},
                     {"mesh", priced.mesh.text()},
                     {"recompute", step_options.recomputation.text()},
                     {"recipes", comparison.rows}};
  comparison.text = printable(priced.program.name) + " on " + priced.mesh.text() + ", " +
                    priced.stack.name + ", " + priced.topology.name() + "\n" +
                    answer_text(rows, priced, step_options, style) +
                    rows_text(rows, priced, eager, style);
  for (const Compared& row : rows) {
    if (row.misfit.empty() && &row != &rows.front()) {
      comparison.text += reading_of(row, rows.front(), style);
    }
  }
  return comparison;
}

}  // namespace

std::vector<std::vector<LayoutMask>> recipe_masks(const PricedProgram& priced,
                                                  const ConfigStore& store) {
  std::vector<std::vector<LayoutMask>> masks;
  for (const std::string& name : store.names(ConfigKind::kRecipe)) {
    try {
      masks.push_back(store.recipe(name).masks(priced.program, priced.mesh));
    } catch (const InputError&) {  // the recipe is for another model or another mesh
    }
  }
  return masks;
}

RecipeComparison compare_recipes(const PricedProgram& priced, const ProblemOptions& options,
                                 const StepOptions& step_options, StepPlanner& planner,
                                 const ConfigStore& store, bool eager, const TextStyle& style,
                                 const RecipesSoFar& so_far) {
  const auto comparison = [&](const std::vector<Compared>& rows) {
    return comparison_of(rows, priced, step_options, eager, style);
  };
  return comparison(ComparisonMaker(priced, options, step_options, planner, store, eager)
                        .rows([&](const std::vector<Compared>& rows) {
                          if (so_far) so_far(comparison(rows));
                        }));
}

}  // namespace shardlab
