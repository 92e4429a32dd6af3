// shardlab simulate: a redistribution or an op, run on virtual ranks with real bytes and in virtual
// time; or a program, every op in turn, in virtual time.
#include <algorithm>
#include <set>

#include "costmodel/text.h"
#include "runner/commands/commands.h"
#include "runner/op_arguments.h"
#include "runner/redistribution.h"
#include "runner/simulation.h"
#include "sim/tensor_kernels.h"
#include "strategies/expansion.h"
#include "strategies/op_sample.h"
#include "strategies/program.h"

namespace shardlab {
namespace {

struct SimulateArguments {
  RedistributionArguments redistribution;  // --mesh and --stack are of all three
  OpArguments op;
  std::string program;
  std::vector<std::string> pins;
  std::string pin_inputs;
  SimulationArguments simulation;
  // Options of one kind of run, and its word; "data" are those of redistributions and ops.
  std::vector<std::pair<const CLI::Option*, std::string>> options;
  const CLI::Option* data = nullptr;

  [[nodiscard]] bool asks_for_data() const { return data->count() > 0 && simulation.data == "on"; }
};

const std::string& reason_against(const Plan& plan) {
  return plan.impossible.empty() ? plan.unexecutable : plan.impossible;
}

// -- A redistribution ----------------------------------------------------------------------------

// Of replicas that differ although they ought to be equal: could one reduction replace several?
std::string about_merging(const Plan& plan) {
  std::string out =
      "replicas differ: groups that reduce one after the other round in orders of their "
      "own; ";
  if (plan.warnings.empty()) return out + "no merge applies to these steps";
  for (std::size_t i = 0; i < plan.warnings.size(); ++i) {
    const MergeWarning& warning = plan.warnings[i];
    std::string dims;
    for (const int m : warning.mesh_dims) dims += (dims.empty() ? "" : ",") + std::to_string(m);
    out += (i > 0 ? "; " : "") + std::to_string(warning.steps) + " steps over mesh dims " + dims +
           " are not merged (" + warning.reason + ")";
  }
  return out;
}

void simulate_redistribution(const SimulateArguments& arguments, StackEvaluator& evaluator,
                             Session& session) {
  const auto& [mesh, meta, from, to, options] = arguments.redistribution.read();
  const Plan plan = evaluator.on(mesh).plan(meta, from, to, options);
  Simulation simulation(arguments.simulation, mesh, evaluator.topology(), session);
  simulation.refuse(reason_against(plan));
  if (!simulation.is_refused() && simulation.has_data()) {
    const Executor executor = simulation.executor();
    const StopWatch distributing;
    DistributedTensor tensor = executor.distribute(meta, plan.start, simulation.data());
    const double distribute_ms = distributing.ms();
    const StopWatch running;
    const ExecutionResult result = executor.run(plan, tensor);
    simulation.note_wall(distribute_ms, running.ms());
    simulation.note_replicas(result.replicas_bitwise_equal);
    (void)simulation.add(plan, &result, {});
    if (!result.replicas_bitwise_equal) simulation.note(about_merging(plan));
  } else if (!simulation.is_refused()) {
    (void)simulation.add(plan, nullptr, {});
  }
  simulation.finish({{"tensor", meta.text()},
                     {"path", plan.path()},
                     {"price_us", plan.impossible.empty() ? finite_or_null(plan.price.total.value())
                                                          : nlohmann::json(nullptr)},
                     {"impossible", text_or_null(plan.impossible)},
                     {"unexecutable", text_or_null(plan.unexecutable)}},
                    plan.path() + "\n", session);
}

// -- An op ---------------------------------------------------------------------------------------

// One op as a stack runs it: its choice, and what brings each input into it.
struct ChosenOp {
  OpCall call;
  const OpRule& rule;
  Candidate choice;
  std::vector<Plan> plans;
  std::string refused;
};

ChosenOp choose(StackEvaluator& evaluator, const DeviceMesh& mesh, const OpCall& call) {
  if (find_op_rule(call.op, evaluator.stack().rules).is_foreach()) {
    throw InputError(call.op + " is many ops, selected one by one; valid: the op of one element");
  }
  ChosenOp op{.call = call,
              .rule = find_op_rule(call.op, evaluator.stack().rules),
              .choice = evaluator.select(call, mesh).choice,
              .plans = {},
              .refused = {}};
  const auto tensors = call.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    op.plans.push_back(
        evaluator.on(mesh).plan(tensors[i]->meta, tensors[i]->layout, Layout(op.choice.inputs[i])));
    const std::string& reason = reason_against(op.plans.back());
    if (!reason.empty() && op.refused.empty()) {
      op.refused = "input " + std::to_string(i) + ", " + tensors[i]->layout.text() + " to " +
                   Layout(op.choice.inputs[i]).text() + ": " + reason;
    }
  }
  return op;
}

std::string sides_text(const Candidate& choice) {
  const auto joined = [](const std::vector<Placements>& layouts) {
    std::string out;
    for (const Placements& p : layouts) out += (out.empty() ? "" : ", ") + Layout(p).text();
    return out;
  };
  return joined(choice.inputs) + " -> " + joined(choice.outputs);
}

nlohmann::json choice_json(const ChosenOp& op) {
  nlohmann::json inputs = nlohmann::json::array();
  const auto tensors = op.call.tensors();
  for (std::size_t i = 0; i < op.plans.size(); ++i) {
    inputs.push_back({{"tensor", tensors[i]->meta.text()},
                      {"from", tensors[i]->layout.text()},
                      {"to", Layout(op.choice.inputs[i]).text()},
                      {"path", op.plans[i].path()}});
  }
  nlohmann::json outputs = nlohmann::json::array();
  const std::vector<TensorMeta> metas = op.rule.outputs(op.call);
  for (std::size_t o = 0; o < metas.size(); ++o) {
    outputs.push_back(
        {{"tensor", metas[o].text()}, {"layout", Layout(op.choice.outputs[o]).text()}});
  }
  return {{"op", op.call.op}, {"inputs", inputs}, {"outputs", outputs}};
}

double kernel_us(const StackEvaluator& evaluator, const DeviceMesh& mesh, const ChosenOp& op) {
  if (evaluator.stack().compute_model.entry->name == "none") return 0.0;
  return evaluator.compute_us(op.rule, op.call, mesh, op.choice.inputs, op.choice.outputs);
}

// Whole tensors, their redistributions, the local kernels and what they make. Returns what the
// executor found, by input, and the op's result.
struct OpData {
  std::vector<ExecutionResult> moves;
  OpExecution execution;
};

// What an op's samples say of the values of each tensor: indices and numbers that must be positive.
std::vector<SampleCall::Values> values_of(const OpCall& call) {
  for (const SampleCall& sample : sample_calls_of(call.op, 1)) {
    if (sample.values.size() == call.tensors().size()) return sample.values;
  }
  return std::vector<SampleCall::Values>(call.tensors().size());
}

// Indices are below every extent of the other tensors, and different along the last dim if they can.
HostTensor indices_of(const Executor& executor, const OpCall& call, std::size_t which) {
  const auto specs = call.tensors();
  std::int64_t limit = std::int64_t{1} << 20U;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (const std::int64_t extent : specs[i]->meta.shape) {
      if (i != which && extent > 0) limit = std::min(limit, extent);
    }
  }
  HostTensor indices =
      HostTensor::make(executor.memory(), specs[which]->meta.dtype, specs[which]->meta.shape);
  for (std::int64_t i = 0; i < indices.elements(); ++i) {
    set_element(indices, i, static_cast<double>(i % limit));
  }
  return indices;
}

OpData run_op_data(Simulation& simulation, const ChosenOp& op) {
  const Executor executor = simulation.executor();
  OpData data;
  const StopWatch distributing;
  std::vector<DistributedTensor> tensors;
  const auto specs = op.call.tensors();
  const std::vector<SampleCall::Values> values = values_of(op.call);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    DataOptions options = simulation.data();
    options.seed += i;
    const TensorMeta& meta = specs[i]->meta;
    const bool indexes = values[i].limit > 0 && !is_floating_point(meta.dtype);
    tensors.push_back(indexes ? executor.distribute(meta, op.plans[i].start,
                                                    indices_of(executor, op.call, i), options)
                              : executor.distribute(meta, op.plans[i].start, options));
  }
  const double distribute_ms = distributing.ms();
  const StopWatch running;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    data.moves.push_back(executor.run(op.plans[i], tensors[i]));
  }
  std::vector<Layout> outputs;
  for (const Placements& placements : op.choice.outputs) outputs.emplace_back(placements);
  data.execution = execute_op(executor, op.call, tensors, outputs);
  bool equal = true;
  for (const DistributedTensor& output : data.execution.outputs) {
    equal = equal && executor.replicas_bitwise_equal(output);
  }
  simulation.note_replicas(equal);
  simulation.note_wall(distribute_ms, running.ms());
  return data;
}

void simulate_op(const SimulateArguments& arguments, StackEvaluator& evaluator, Session& session) {
  const DeviceMesh mesh =
      parse_option("--mesh", [&] { return DeviceMesh::parse(arguments.redistribution.mesh); });
  const OpCall call = arguments.op.read(mesh, evaluator.stack().rules);
  const ChosenOp op = choose(evaluator, mesh, call);
  Simulation simulation(arguments.simulation, mesh, evaluator.topology(), session);
  simulation.refuse(op.refused);
  std::optional<OpData> data;
  if (!simulation.is_refused() && simulation.has_data()) data = run_op_data(simulation, op);
  std::vector<int> ready;
  for (std::size_t i = 0; !simulation.is_refused() && i < op.plans.size(); ++i) {
    for (const int kernel :
         simulation.add(op.plans[i], data ? &data->moves[i] : nullptr, {}, {{"input", i}})) {
      ready.push_back(kernel);
    }
  }
  if (!simulation.is_refused()) {
    (void)simulation.add(call.op, kernel_us(evaluator, mesh, op), data ? &data->execution : nullptr,
                         ready);
  }
  simulation.finish(choice_json(op), call.text() + "\n  " + sides_text(op.choice) + "\n", session);
}

// -- A program -----------------------------------------------------------------------------------

// Layouts of the nodes that nothing before them decides: pinned, else replicated.
std::vector<Layout> pinned_layouts(const SimulateArguments& arguments, const Program& program,
                                   const DeviceMesh& mesh) {
  std::vector<Layout> layouts(program.nodes.size(), Layout::replicated(mesh.ndim()));
  const auto layout_of = [&](const std::string& option, std::string_view text, std::size_t node) {
    return parse_option(
        option, [&] { return parse_layout(text, mesh.ndim(), program.nodes[node].outputs.at(0)); });
  };
  for (std::size_t i = 0; !arguments.pin_inputs.empty() && i < program.nodes.size(); ++i) {
    if (program.nodes[i].kind == NodeKind::kInput) {
      layouts[i] = layout_of("--pin-inputs", arguments.pin_inputs, i);
    }
  }
  std::set<std::size_t> pinned;
  for (const std::string& pin : arguments.pins) {
    const std::size_t equals = pin.rfind('=');
    const auto node = program.find(pin.substr(0, equals));
    if (equals == std::string::npos || !node || !program.nodes[*node].is_source() ||
        program.nodes[*node].outputs.empty()) {
      throw InputError("--pin: found \"" + pin +
                       "\"; valid: NAME=LAYOUT with the name of a parameter, buffer, input or "
                       "tangent of the program");
    }
    if (!pinned.insert(*node).second) {
      throw InputError("--pin: node " + program.nodes[*node].name + " is pinned twice");
    }
    layouts[*node] = layout_of("--pin", std::string_view(pin).substr(equals + 1), *node);
  }
  return layouts;
}

// What the program says of an op's outputs, and what the op makes of its inputs.
void expect_outputs(const ProgramNode& node, const std::vector<TensorMeta>& made) {
  const auto text = [](const std::vector<TensorMeta>& metas) {
    std::string out;
    for (const TensorMeta& meta : metas) out += (out.empty() ? "" : ", ") + meta.text();
    return out.empty() ? "none" : out;
  };
  bool equal = node.outputs.size() == made.size();
  for (std::size_t o = 0; equal && o < made.size(); ++o) {
    equal = node.outputs[o].shape == made[o].shape && node.outputs[o].dtype == made[o].dtype;
  }
  if (!equal) {
    throw InputError("its outputs are said to be " + text(node.outputs) + "; valid: " + text(made));
  }
}

void simulate_program(const SimulateArguments& arguments, const ConfigStore& store,
                      StackEvaluator& evaluator, Session& session) {
  const DeviceMesh mesh =
      parse_option("--mesh", [&] { return DeviceMesh::parse(arguments.redistribution.mesh); });
  const Program program = store.program(arguments.program);
  const std::vector<Layout> pinned = pinned_layouts(arguments, program, mesh);
  if (arguments.asks_for_data()) {
    throw InputError("--data: found \"on\"; valid: off, a program runs without data");
  }
  SimulationArguments shapes = arguments.simulation;
  shapes.data = "off";
  Simulation simulation(shapes, mesh, evaluator.topology(), session);
  // By node: the layouts of its outputs, and the kernels that they wait for.
  std::vector<std::vector<Layout>> layouts(program.nodes.size());
  std::vector<std::vector<int>> ready(program.nodes.size());
  double priced_us = 0.0;
  const auto ops = static_cast<std::size_t>(
      std::count_if(program.nodes.begin(), program.nodes.end(),
                    [](const ProgramNode& node) { return node.computes(); }));
  for (std::size_t n = 0; n < program.nodes.size() && !simulation.is_refused(); ++n) {
    const ProgramNode& node = program.nodes[n];
    layouts[n].assign(node.outputs.size(), pinned[n]);
    if (!node.computes()) {
      for (const ProgramInput& input : node.inputs) {
        for (const ValueRef& value : input.values) {
          ready[n].insert(ready[n].end(), ready[value.node].begin(), ready[value.node].end());
        }
      }
      continue;
    }
    OpCall call;
    call.op = node.op;
    call.args = node.args;
    std::vector<ValueRef> values;
    for (const ProgramInput& input : node.inputs) {
      TensorArg& arg = call.inputs.emplace_back();
      arg.is_list = input.is_list;
      for (const ValueRef& value : input.values) {
        arg.tensors.push_back(
            {program.nodes[value.node].outputs[value.output], layouts[value.node][value.output]});
        values.push_back(value);
      }
    }
    const nlohmann::json place = {{"node", node.name}};
    try {
      call.op = std::string(find_op_rule(call.op, evaluator.stack().rules).op);
      const ChosenOp op = choose(evaluator, mesh, call);
      if (!op.refused.empty()) {
        simulation.refuse("node " + node.name + ": " + op.refused);
        break;
      }
      expect_outputs(node, op.rule.outputs(call));
      std::vector<int> after;
      for (std::size_t i = 0; i < values.size(); ++i) {
        nlohmann::json input_place = place;
        input_place["input"] = i;
        for (const int kernel :
             simulation.add(op.plans[i], nullptr, ready[values[i].node], input_place)) {
          after.push_back(kernel);
        }
        priced_us += op.plans[i].executed_price().total.value();
      }
      const double compute_us = kernel_us(evaluator, mesh, op);
      priced_us += compute_us;
      ready[n] = {simulation.add(call.op, compute_us, nullptr, after, place)};
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        layouts[n][o] = Layout(op.choice.outputs[o]);
      }
    } catch (const InputError& error) {
      throw ConfigError(arguments.program, "/nodes/" + std::to_string(n),
                        "node " + node.name + ": " + error.what());
    }
  }
  const nlohmann::json price =
      simulation.is_refused() ? nlohmann::json(nullptr) : nlohmann::json(priced_us);
  simulation.finish({{"program", program.name}, {"ops", ops}, {"price_us", price}},
                    program.name + ": " + std::to_string(ops) + " ops on " + mesh.text() + ", " +
                        evaluator.stack().name + "\n",
                    session);
}

void run_simulate(const SimulateArguments& arguments, Session& session) {
  const ConfigStore store = session.store();
  const RedistributionArguments& move = arguments.redistribution;
  const bool moves = !move.tensor.empty() || !move.from.empty() || !move.to.empty();
  const bool runs_op = !arguments.op.op.empty() || !arguments.op.inputs.empty();
  const int kinds = (moves ? 1 : 0) + (runs_op ? 1 : 0) + (arguments.program.empty() ? 0 : 1);
  const bool complete =
      moves ? !move.tensor.empty() && !move.from.empty() && !move.to.empty()
            : !runs_op || (!arguments.op.op.empty() && !arguments.op.inputs.empty());
  if (kinds != 1 || !complete) {
    throw InputError(
        "simulate: valid: a redistribution (--tensor, --from and --to), an op (--op and --inputs), "
        "or a program; one of them");
  }
  const std::string kind = moves ? "a redistribution" : runs_op ? "an op" : "a program";
  for (const auto& [option, belongs] : arguments.options) {
    if (option->count() == 0 || kind.ends_with(belongs) ||
        (belongs == "data" && arguments.program.empty())) {
      continue;
    }
    throw InputError(option->get_name() + ": not for " + kind);
  }
  StackEvaluator evaluator(store.stack(move.stack), store.topology(session.topology));
  if (!arguments.program.empty()) {
    simulate_program(arguments, store, evaluator, session);
  } else if (runs_op) {
    simulate_op(arguments, evaluator, session);
  } else {
    simulate_redistribution(arguments, evaluator, session);
  }
}

}  // namespace

void add_simulate_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<SimulateArguments>();
  CLI::App* command = app.add_subcommand(
      "simulate",
      "run a redistribution or an op on virtual ranks, with real bytes and in virtual time; or a\n"
      "program, in virtual time\n"
      "  shardlab simulate --mesh 2x4 --tensor \"f32[13,8]\" --from \"S(0)P\" "
      "--to \"RS(1)\" --stack dtensor-v3\n"
      "  shardlab simulate --mesh 4 --op aten.mm.default --inputs \"f32[8,8] S(1)\" \"f32[8,8] "
      "R\"");
  command->add_option("program", arguments->program,
                      "a program: shipped name or path (shardlab/program/1)");
  arguments->redistribution.add_options(*command, false);
  arguments->op.add_options(*command, false);
  command
      ->add_option("--pin", arguments->pins,
                   "of a program: NAME=LAYOUT of a parameter, buffer, input or tangent, else "
                   "replicated; once per node")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--pin-inputs", arguments->pin_inputs,
                      "of a program: the layout of its nodes of kind input");
  arguments->simulation.add_options(*command);
  add_topology_option(*command, session);
  add_common_options(*command, session);
  arguments->data = command->get_option("--data");
  for (const auto& [names, belongs] : {std::pair<std::vector<std::string>, std::string>(
                                           {"--planner", "--flatten", "--rank"}, "redistribution"),
                                       {{"--args"}, "op"},
                                       {{"--pin", "--pin-inputs"}, "program"},
                                       {{"--values", "--reduction", "--domains-first"}, "data"}}) {
    for (const std::string& name : names) {
      arguments->options.emplace_back(command->get_option(name), belongs);
    }
  }
  command->callback([arguments, &session] { run_simulate(*arguments, session); });
}

}  // namespace shardlab
