#include "runner/simulate/simulate_program.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "costmodel/base/text.h"
#include "runner/base/read_file.h"
#include "runner/base/stop_watch.h"
#include "runner/base/terminal.h"
#include "runner/config/configs.h"
#include "runner/config/in_program.h"
#include "runner/config/read_json.h"
#include "runner/config/saved_plan.h"
#include "runner/simulate/chosen_op.h"
#include "runner/simulate/device_memory.h"
#include "strategies/programs/program_check.h"
#include "strategies/programs/program_execution.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/program_prices.h"

namespace shardlab {
namespace {

// A program with what runs for each node: its layouts, the plans that lead to them, and the price
// of its kernel.
struct ProgramRunPlan {
  std::vector<NodePlan> nodes;
  std::vector<double> compute_us;
  std::string refused;  // why it does not run; `nodes` may be incomplete then
};

// Whether the node only gives a name to a value that exists already, so that it runs no kernel.
bool only_names(const ProgramNode& node) { return !node.computes() || node.op == kGetItem; }

// -- As the stack chooses, op by op ---------------------------------------------------------------

// The layouts of nodes that do not depend on other nodes: the pinned layout, or replicated.
std::vector<Layout> pinned_layouts(const SimulateProgramArguments& arguments,
                                   const Program& program, const DeviceMesh& mesh) {
  std::vector<Layout> layouts(program.nodes.size(), Layout::replicated(mesh.ndim()));
  const auto layout_of = [&](const std::string& option, std::string_view text, std::size_t node) {
    return parse_option(option, [&] {
      Layout layout = parse_layout(text, mesh.ndim(), program.nodes[node].outputs.at(0));
      if (layout.has_registered()) {
        throw TextError("layout", text, 0,
                        "a layout of R, S(d), _S(d,f) and P(op), because programs have no "
                        "registered placements");
      }
      return layout;
    });
  };
  for (std::size_t i = 0; !arguments.pin_inputs.empty() && i < program.nodes.size(); ++i) {
    if (program.nodes[i].kind == NodeKind::kInput) {
      layouts[i] = layout_of("--pin-inputs", arguments.pin_inputs, i);
    }
  }
  std::set<std::size_t> pinned;
  for (const std::string& pin : arguments.pins) {
    const std::size_t equals = pin.find('=');  // a layout may have others: Shard(dim=0)
    const auto node = find_by_name_or_label(program, pin.substr(0, equals));
    if (equals == std::string::npos || !node || !program.nodes[*node].is_source() ||
        program.nodes[*node].outputs.empty()) {
      const std::string name = pin.substr(0, equals);
      throw InputError("--pin: found \"" + pin + "\"" +
                       (node ? "" : did_you_mean(name, names_and_labels(program))) +
                       "; valid: NAME=LAYOUT with the name or label of a parameter, buffer, "
                       "input or tangent of the program");
    }
    if (!pinned.insert(*node).second) {
      throw InputError("--pin: node " + program.nodes[*node].name + " is pinned twice");
    }
    layouts[*node] = layout_of("--pin", std::string_view(pin).substr(equals + 1), *node);
  }
  return layouts;
}

// The layouts of an op's outputs, in the order of the program's outputs.
std::vector<Layout> output_layouts(const ProgramNode& node, const ChosenOp& op, int mesh_ndim) {
  std::vector<Layout> layouts;
  for (const std::optional<std::size_t> made :
       match_outputs(node, op.rule, op.rule.outputs(op.call))) {
    layouts.push_back(made ? made_layout(op.call, op.choice.outputs[*made])
                           : Layout::replicated(mesh_ndim));
  }
  return layouts;
}

// The op's rule in the stack's rule set or, if that set has none, in AutoParallel's, as in `solve`.
// Throws InputError if neither has a rule.
const OpRule& rule_of(const std::string& op, RuleSet rules) {
  const OpRule* rule = find_program_rule(op, rules);
  return rule != nullptr ? *rule : find_op_rule(op, rules);
}

ProgramRunPlan choose_all(const SimulateProgramArguments& arguments, const Program& program,
                          const DeviceMesh& mesh, StackEvaluator& evaluator) {
  const std::vector<Layout> pinned = pinned_layouts(arguments, program, mesh);
  ProgramRunPlan plan;
  plan.nodes.resize(program.nodes.size());
  plan.compute_us.resize(program.nodes.size(), 0.0);
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    NodePlan& own = plan.nodes[n];
    const std::vector<ValueRef> values = values_read(node);
    const auto layout_of = [&](const ValueRef& value) -> const Layout& {
      return plan.nodes[value.node].outputs[value.output];
    };
    if (only_names(node)) {
      own.outputs.assign(node.outputs.size(), values.empty() ? pinned[n] : layout_of(values[0]));
      for (const ValueRef& value : values) {
        own.moves.push_back(evaluator.on(mesh).plan(program.nodes[value.node].outputs[value.output],
                                                    layout_of(value), layout_of(value)));
      }
      continue;
    }
    OpCall call;
    call.op = node.op;
    call.args = node.args;
    for (const ProgramInput& input : node.inputs) {
      TensorArg& arg = call.inputs.emplace_back();
      arg.is_list = input.is_list;
      arg.given = input.given;
      for (const ValueRef& value : input.values) {
        arg.tensors.push_back({program.nodes[value.node].outputs[value.output], layout_of(value)});
      }
    }
    try {
      const OpRule& rule =
          rule_of(call.op, evaluator.stack().rules.set_for("simulate of a program"));
      call.op = std::string(rule.op);
      const ChosenOp op = choose(evaluator, mesh, call, rule);
      if (!op.refused.empty()) {
        plan.refused = "node " + node.name + ": " + op.refused;
        return plan;
      }
      own.outputs = output_layouts(node, op, mesh.ndim());
      plan.compute_us[n] = kernel_us(evaluator, mesh, op);
      own.moves = op.plans;
    } catch (const InputError& error) {
      throw node_error(program, n, error);
    }
  }
  return plan;
}

// -- As a file has it -----------------------------------------------------------------------------

ProgramRunPlan read_plan(const SimulateProgramArguments& arguments, const Program& program,
                         const DeviceMesh& mesh, StackEvaluator& evaluator) {
  const std::vector<NodePlacements> placements = read_placements(
      parse_json(read_text_file(arguments.plan), arguments.plan), arguments.plan, program, mesh);
  ProgramRunPlan plan;
  try {
    plan.nodes = plan_program(program, placements, evaluator.on(mesh));
  } catch (const InputError& error) {
    JsonPlace{arguments.plan, ""}.fail(error.what());
  }
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    const OpRule* rule =
        only_names(node)
            ? nullptr
            : find_program_rule(node.op, evaluator.stack().rules.set_for("simulate of a program"));
    plan.compute_us.push_back(
        only_names(node)
            ? 0.0
            : kernel_us_of(program, n, rule, evaluator.compute_model(), mesh, placements[n]));
    for (std::size_t i = 0; i < plan.nodes[n].moves.size(); ++i) {
      const Plan& move = plan.nodes[n].moves[i];
      if (!plan.refused.empty() || move.refusal().empty()) continue;
      plan.refused = "node " + node.name + ": input " + std::to_string(i) + ", " +
                     move.from.text() + " to " + move.to.text() + ": " + move.refusal();
    }
  }
  return plan;
}

// The memory that the program takes as it runs here: each move right before its reader.
DeviceMemory memory_of_run(const Program& program, const ProgramRunPlan& plan,
                           const DeviceMesh& mesh, StackEvaluator& evaluator) {
  const RuleSet rules = evaluator.stack().rules.set_for("simulate of a program");
  PlannedProgram planned{.program = &program,
                         .placements = std::vector<NodePlacements>(program.nodes.size()),
                         .compute_us = plan.compute_us,
                         .is_view = {},
                         .plans = {},
                         .moves = std::vector<std::vector<std::uint32_t>>(program.nodes.size())};
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    const OpRule* rule = only_names(node) ? nullptr : find_program_rule(node.op, rules);
    planned.is_view.push_back(rule != nullptr && rule->kernel == Kernel::kView);
    for (const Layout& layout : plan.nodes[n].outputs) {
      planned.placements[n].outputs.push_back(layout.placements);
    }
    for (const Plan& move : plan.nodes[n].moves) {
      planned.moves[n].push_back(static_cast<std::uint32_t>(planned.plans.size()));
      planned.plans.push_back(move);
    }
  }
  const TrainingStep step =
      make_step(planned, blocks_of(program), evaluator.on(mesh), {.units = false});
  return device_memory(step, program, memory_of_device(evaluator.topology()));
}

// -- Both -----------------------------------------------------------------------------------------

nlohmann::json data_json(const Program& program, const ProgramExecution& done) {
  nlohmann::json wrong = nlohmann::json::array();
  for (const std::size_t n : done.wrong) wrong.push_back(program.nodes[n].name);
  nlohmann::json again = nlohmann::json::array();
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    if (done.nodes[n].judged_again) again.push_back(program.nodes[n].name);
  }
  return {{"exact_nodes", std::count_if(done.nodes.begin(), done.nodes.end(),
                                        [](const NodeExecution& node) { return node.is_exact(); })},
          {"judged_again_nodes", again},
          {"wrong_nodes", wrong}};
}

}  // namespace

std::optional<std::string> stack_of_plan(const std::string& file, const ConfigStore& store) {
  const SavedRun run = read_saved_run(parse_json(read_text_file(file), file), {file, ""});
  const std::vector<std::string> names = store.names(ConfigKind::kStack);
  if (run.stack && std::ranges::find(names, *run.stack) == names.end()) {
    JsonPlace{file, "/stack"}.fail(
        "found " + *run.stack +
        ", which is not a shipped stack; valid: " + "--stack with its path");
  }
  return run.stack;
}

void simulate_program(const SimulateProgramArguments& arguments, const ConfigStore& store,
                      StackEvaluator& evaluator, Session& session) {
  for (const auto& [option, is_given] :
       {std::pair("--pin", !arguments.pins.empty()),
        std::pair("--pin-inputs", !arguments.pin_inputs.empty())}) {
    if (arguments.plan.empty() || !is_given) continue;
    throw InputError(
        std::string(option) +
        ": found together with --plan, which has every node's layout; valid: one of them");
  }
  const DeviceMesh mesh = parse_option("--mesh", [&] { return DeviceMesh::parse(arguments.mesh); });
  const Program program = store.program(arguments.program);
  const ProgramRunPlan plan = in_program(arguments.program, [&] {
    check_program(program, evaluator.stack().rules.set_for("simulate of a program"));
    return arguments.plan.empty() ? choose_all(arguments, program, mesh, evaluator)
                                  : read_plan(arguments, program, mesh, evaluator);
  });
  Simulation simulation(arguments.simulation, mesh, evaluator, session);
  simulation.note_kernels();
  simulation.note_subject(program.name);
  simulation.refuse(plan.refused);
  std::optional<ProgramExecution> done;
  if (!simulation.is_refused() && simulation.has_data()) {
    const StopWatch running;
    try {
      done =
          execute_program(simulation.executor(), program, plan.nodes, {.data = simulation.data()});
    } catch (const LimitError&) {
      throw;
    } catch (const InputError& error) {
      throw ConfigError(arguments.program, "", error.what());
    }
    simulation.note_wall(0.0, running.ms());
    simulation.note_replicas(done->replicas_bitwise_equal);
  }
  double priced_us = 0.0;
  std::vector<std::vector<int>> ready(
      program.nodes.size());  // for each node, the kernels that its readers wait for
  for (std::size_t n = 0; n < program.nodes.size() && !simulation.is_refused(); ++n) {
    const ProgramNode& node = program.nodes[n];
    const NodeExecution* data = done ? &done->nodes[n] : nullptr;
    const std::vector<ValueRef> values = values_read(node);
    const nlohmann::json place = {{"node", node.name}};
    std::vector<int> after;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Plan& move = plan.nodes[n].moves[i];
      nlohmann::json input_place = place;
      input_place["input"] = i;
      for (const int kernel : simulation.add(move, data != nullptr ? &data->moves[i] : nullptr,
                                             ready[values[i].node], input_place)) {
        after.push_back(kernel);
      }
      priced_us += move.executed_price().total.value();
    }
    priced_us += plan.compute_us[n];
    ready[n] = after;
    if (only_names(node)) {
      if (data != nullptr) simulation.judge(node.name, data->op);
      continue;
    }
    ready[n] = {simulation.add(node.op, plan.compute_us[n], data != nullptr ? &data->op : nullptr,
                               after, place)};
  }
  const auto ops = std::count_if(program.nodes.begin(), program.nodes.end(),
                                 [](const ProgramNode& node) { return node.computes(); });
  nlohmann::json document = {{"program", program.name},
                             {"ops", ops},
                             {"plan", text_or_null(arguments.plan)},
                             {"price_us", simulation.is_refused() || simulation.has_no_price()
                                              ? nlohmann::json(nullptr)
                                              : nlohmann::json(priced_us)}};
  std::optional<DeviceMemory> memory;
  if (!simulation.is_refused()) memory = memory_of_run(program, plan, mesh, evaluator);
  document["memory"] = memory ? memory->json() : nlohmann::json(nullptr);
  if (done) document.update(data_json(program, *done));
  std::string title = printable(program.name) + ": " + std::to_string(ops) + " ops on " +
                      mesh.text() + ", " + evaluator.stack().name +
                      (arguments.plan.empty() ? "" : ", " + arguments.plan) + "\n";
  if (done) {
    title += "  " + std::to_string(document["exact_nodes"].get<std::int64_t>()) + " of " +
             std::to_string(program.nodes.size()) + " nodes equal to the last bit, " +
             std::to_string(done->wrong.size()) + " wrong\n";
    const std::size_t again = document["judged_again_nodes"].size();
    if (again > 0) {
      title += "  note: rounding had grown before " + std::to_string(again) +
               (again == 1 ? " node, which was compared with what its kernel makes"
                           : " nodes, which were compared with what their kernels make") +
               " of the ranks' own inputs\n";
    }
  }
  if (memory) title += memory->text(session.style());
  simulation.finish(std::move(document), title, session);
}

}  // namespace shardlab
