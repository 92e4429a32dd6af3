#include "runner/solve/solve_then.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "costmodel/base/text.h"
#include "runner/base/stop_watch.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace {

struct Step {
  std::string pin;
  ExactSolution solution;
  std::vector<std::size_t> changed;  // nodes whose strategy changed with this pin
  double above_us = 0.0;             // what this pin costs in addition to the earlier ones
  double ms = 0.0;
};

std::string text_of(const ThenPin& pin) { return pin.node + "=" + pin.layout; }

Restriction restriction_of(const ProgramSolution& solved, const ThenPin& pin) {
  const std::optional<std::size_t> node = find_by_name_or_label(solved.program, pin.node);
  if (!node) {
    throw InputError("--then: the program has no node \"" + pin.node + "\"" +
                     did_you_mean(pin.node, names_and_labels(solved.program)));
  }
  Restriction restriction{.variable = static_cast<int>(*node), .allowed = {}};
  std::vector<std::string> valid;
  for (std::size_t strategy = 0; strategy < solved.strategies.of(*node).strategies; ++strategy) {
    const std::string out = layouts_of(solved, *node, strategy).out;
    if (out == pin.layout) restriction.allowed.push_back(static_cast<int>(strategy));
    if (std::ranges::find(valid, out) == valid.end()) valid.push_back(out);
  }
  if (restriction.allowed.empty()) {
    throw InputError("--then " + pin.node + ": found " + pin.layout + "; valid: " + join(valid));
  }
  return restriction;
}

std::vector<Step> steps_of(const ProgramSolution& solved, const std::vector<ThenPin>& pins,
                           ExactSolver& solver, const Session& session,
                           std::vector<Restriction>& restrictions) {
  // All pins are read first, so that a malformed one is reported before any work is done.
  std::vector<Restriction> wanted;
  for (const ThenPin& pin : pins) wanted.push_back(restriction_of(solved, pin));
  std::vector<Step> steps;
  Assignment before = solved.solution.assignment;
  double objective = solved.solution.objective;
  for (std::size_t i = 0; i < pins.size(); ++i) {
    restrictions.push_back(wanted[i]);
    const StopWatch watch;
    Step& step = steps.emplace_back();
    step.pin = text_of(pins[i]);
    step.solution = solver.solve({.restrictions = restrictions, .jobs = session.threads()});
    step.ms = watch.ms();
    if (!step.solution.feasible) break;
    for (std::size_t n = 0; n < before.size(); ++n) {
      if (step.solution.assignment[n] != before[n]) step.changed.push_back(n);
    }
    step.above_us = step.solution.objective - objective;
    objective = step.solution.objective;
    before = step.solution.assignment;
  }
  return steps;
}

// "7: x, y, z, ...".
std::string changed_text(const ProgramSolution& solved, const Step& step) {
  constexpr std::size_t kFew = 3;
  std::vector<std::string> names;
  for (const std::size_t n : step.changed) {
    if (names.size() == kFew) {
      names.emplace_back("...");
      break;
    }
    names.push_back(solved.program.nodes[n].name);
  }
  return std::to_string(step.changed.size()) + (names.empty() ? "" : ": ") + join(names);
}

}  // namespace

SolveAnswer then_answer(const ProgramSolution& solved, const std::vector<ThenPin>& pins,
                        ExactSolver& solver, const Session& session) {
  std::vector<Restriction> restrictions;
  const std::vector<Step> steps = steps_of(solved, pins, solver, session, restrictions);
  nlohmann::json json = nlohmann::json::array();
  const TextStyle style = session.style();
  TextTable table(style, {"then", "objective us", "dearer by us", "other strategies", "proved"});
  std::string text;
  for (const Step& step : steps) {
    nlohmann::json nodes = nlohmann::json::array();
    for (const std::size_t n : step.changed) nodes.push_back(solved.program.nodes[n].name);
    const std::vector<std::string> conflict =
        conflict_of(solved, step.solution.conflict, restrictions);
    const bool feasible = step.solution.feasible;
    json.push_back(
        {{"pin", step.pin},
         {"tried", true},
         {"objective_us", feasible ? nlohmann::json(step.solution.objective) : nullptr},
         {"lower_bound_us", feasible ? nlohmann::json(step.solution.lower_bound) : nullptr},
         {"optimal", step.solution.optimal},
         {"dearer_us", feasible ? nlohmann::json(step.above_us) : nullptr},
         {"changed", nodes},
         {"conflict", conflict}});
    if (!session.no_timing) json.back()["timing"] = {{"solve_ms", step.ms}};
    table.add({step.pin, feasible ? style.figure(step.solution.objective) : "impossible",
               feasible ? style.difference(step.above_us, step.solution.objective) : "-",
               changed_text(solved, step), step.solution.optimal ? "optimal" : "-"});
    if (!feasible) text = "  " + printable(step.pin + " contradicts: " + join(conflict)) + "\n";
  }
  std::vector<std::string> not_tried;
  for (std::size_t i = steps.size(); i < pins.size(); ++i) {
    not_tried.push_back(text_of(pins[i]));
    json.push_back({{"pin", not_tried.back()},
                    {"tried", false},
                    {"objective_us", nullptr},
                    {"lower_bound_us", nullptr},
                    {"optimal", false},
                    {"dearer_us", nullptr},
                    {"changed", nlohmann::json::array()},
                    {"conflict", nlohmann::json::array()}});
  }
  if (!not_tried.empty()) text += "  not tried: " + printable(join(not_tried)) + "\n";
  nlohmann::json record = json;
  for (nlohmann::json& step : record) step.erase("timing");
  return {.key = "then",
          .json = std::move(json),
          .text = table.text() + text,
          .record = std::move(record),
          .says_no = !steps.empty() && !steps.back().solution.feasible};
}

}  // namespace shardlab
