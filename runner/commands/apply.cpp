// shardlab apply: writes a solved plan as Python that runs it in PyTorch.
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "runner/apply/plan_python.h"
#include "runner/base/read_file.h"
#include "runner/base/terminal.h"
#include "runner/base/write_file.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/config/program_stack.h"
#include "runner/config/read_json.h"
#include "runner/config/saved_plan.h"
#include "strategies/programs/program_execution.h"
#include "strategies/select/evaluator.h"

namespace shardlab {
namespace {

struct ApplyArguments {
  std::string program;
  std::string plan;
  std::string out;
  std::string stack;     // "" for the plan's
  std::string topology;  // "" for the plan's
};

nlohmann::json steps_json(const Program& program, const apply::PlanPython& written) {
  nlohmann::json steps = nlohmann::json::array();
  for (const apply::WrittenStep& step : written.steps) {
    steps.push_back({{"node", program.nodes[step.node].name},
                     {"input", step.input},
                     {"phase", step.in_backward ? "backward" : "forward"},
                     {"collective", to_string(step.collective)},
                     {"mesh_dim", step.mesh_dim},
                     {"from", step.from},
                     {"to", step.to}});
  }
  return steps;
}

// "3 all_gather, 1 all_reduce".
std::string counts_text(const apply::PlanPython& written, bool in_backward) {
  std::map<Collective, int> counts;
  for (const apply::WrittenStep& step : written.steps) {
    if (step.in_backward == in_backward) ++counts[step.collective];
  }
  std::string text;
  for (const auto& [collective, count] : counts) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " +
            std::string(to_string(collective));
  }
  return text.empty() ? "no collectives" : text;
}

void run_apply(const ApplyArguments& arguments, Session& session) {
  const ConfigStore store = session.store();
  const Program program = store.program(arguments.program);
  const JsonPlace place{arguments.plan, ""};
  const nlohmann::json json = parse_json(read_text_file(arguments.plan), arguments.plan);
  const SavedRun run = read_saved_run(json, place);
  if (run.infeasible) {
    place.at("infeasible").fail("found no plan (" + *run.infeasible + "); valid: a feasible plan");
  }
  if (!run.mesh) place.fail("missing key \"mesh\"");
  const DeviceMesh mesh = [&] {
    try {
      return DeviceMesh::parse(*run.mesh);
    } catch (const TextError& error) {
      place.at("mesh").fail(error.what());
    }
  }();
  const Topology topology = store.topology(
      arguments.topology.empty() ? run.topology.value_or(session.topology) : arguments.topology);
  const Stack stack = program_stack(
      store, arguments.stack.empty() ? run.stack.value_or("") : arguments.stack, topology);
  StackEvaluator evaluator(stack, topology);
  const std::vector<NodePlacements> placements =
      read_placements(json, arguments.plan, program, mesh);
  apply::PlanPython written;
  try {
    const std::vector<NodePlan> plans = plan_program(program, placements, evaluator.on(mesh));
    written = apply::plan_python({.program = program,
                                  .plans = plans,
                                  .mesh = mesh,
                                  .program_name = arguments.program,
                                  .plan_name = arguments.plan,
                                  .stack = stack.name});
  } catch (const InputError& error) {
    place.fail(error.what());
  }
  write_output("--out", arguments.out, written.text);
  if (session.json()) {
    session.print({{"out", arguments.out},
                   {"program", program.name},
                   {"mesh", mesh.text()},
                   {"stack", stack.name},
                   {"topology", topology.name()},
                   {"steps", steps_json(program, written)},
                   {"notes", written.notes}});
    return;
  }
  std::string text = printable(program.name) + " on " + mesh.text() + ": " +
                     printable(arguments.out) + "\n  forward: " + counts_text(written, false) +
                     "\n  backward: " + counts_text(written, true) + "\n";
  for (const std::string& note : written.notes) text += "  not as planned: " + note + "\n";
  session.print(text);
}

}  // namespace

void add_apply_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<ApplyArguments>();
  const Command command =
      root.subcommand("apply",
                      "write a solved plan as a Python file that runs it in PyTorch\n"
                      "  shardlab apply llama.json --plan plan.json --out sharded.py\n"
                      "where `shardlab solve llama.json --mesh 8 --format json > plan.json` made "
                      "the plan");
  command.option("program", arguments->program, "shipped name, or path of shardlab/program/1")
      .required();
  command.option("--plan", arguments->plan, "what solve --format json prints for this program")
      .required();
  command
      .option("--out", arguments->out,
              "Python file to write; it defines apply(model, mesh) and needs PyTorch alone")
      .required()
      .check(not_empty());
  command.option(
      "--stack", arguments->stack,
      "stack whose planner chooses the steps: shipped name or path; default: the plan's");
  command.option(
      "--topology", arguments->topology,
      "topology on whose links the steps are chosen: shipped name or path; default: the plan's");
  add_common_options(command, session, {.sets = true});
  command.runs([arguments, &session] { run_apply(*arguments, session); });
}

}  // namespace shardlab
