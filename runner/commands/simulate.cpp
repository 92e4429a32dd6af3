// shardlab simulate: runs a redistribution, an op or a program (simulate_program.h) on virtual
// ranks, with real bytes and in virtual time.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "costmodel/base/text.h"
#include "runner/base/stop_watch.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/session/layout_names.h"
#include "runner/session/op_arguments.h"
#include "runner/session/run_reports.h"
#include "runner/simulate/chosen_op.h"
#include "runner/simulate/redistribution.h"
#include "runner/simulate/simulate_program.h"
#include "runner/simulate/simulation.h"
#include "sim/tensor_kernels.h"
#include "strategies/proof/op_sample.h"
#include "strategies/proof/proof_data.h"
#include "strategies/rules/dispatch_handlers.h"

namespace shardlab {
namespace {

struct SimulateArguments {
  RedistributionArguments redistribution;  // its mesh and stack serve all three kinds of run
  OpArguments op;
  SimulateProgramArguments program;  // its mesh and simulation are copied from the other members
  SimulationArguments simulation;
  // Options that belong to one kind of run, with the word for that kind.
  std::vector<std::pair<CommandOption, std::string>> options;
  std::optional<CommandOption> data;
  std::optional<CommandOption> stack;
};

// -- A redistribution ----------------------------------------------------------------------------

// A note for replicas that differ although they ought to be equal: whether one reduction could
// replace several.
std::string about_merging(const Plan& plan) {
  std::string out =
      "replicas differ, because groups that reduce one after the other round in different orders; ";
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

// Notes that the stack's cost function gives steps of strided shards no price.
void note_unpriced(Simulation& simulation, std::span<const Plan> plans,
                   const StackEvaluator& evaluator) {
  const auto is_unpriced = [](const PlanStep& step) {
    return step.collective != Collective::kLocal && step.price.is_possible() &&
           step.price.total == Micros() && (step.from.is_strided() || step.to.is_strided());
  };
  const bool any = std::any_of(plans.begin(), plans.end(), [&](const Plan& plan) {
    return std::any_of(plan.steps.begin(), plan.steps.end(), is_unpriced);
  });
  if (!any) return;
  simulation.note("the cost function of " + evaluator.stack().name +
                  " has no price for a step from or to a strided shard, which takes no time here; "
                  "that of --stack alpha-beta has one");
}

void simulate_redistribution(const SimulateArguments& arguments, StackEvaluator& evaluator,
                             Session& session) {
  const auto& [mesh, meta, from, to, options] = arguments.redistribution.read();
  const Plan plan = evaluator.asked_plan(mesh, meta, from, to, options);
  Simulation simulation(arguments.simulation, mesh, evaluator, session);
  simulation.note_subject(meta.text() + " " + plan.path());
  simulation.refuse(plan.refusal());
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
  if (!simulation.is_refused()) note_unpriced(simulation, {&plan, 1}, evaluator);
  simulation.finish({{"tensor", meta.text()},
                     {"path", plan.path()},
                     {"price_us", plan.impossible.empty() ? finite_or_null(plan.price.total.value())
                                                          : nlohmann::json(nullptr)},
                     {"impossible", text_or_null(plan.impossible)},
                     {"unexecutable", text_or_null(plan.unexecutable)}},
                    LayoutNames(session).path(plan) + "\n", session);
}

// -- An op ---------------------------------------------------------------------------------------

std::string sides_text(const Candidate& choice, const LayoutNames& names) {
  const auto joined = [&names](const std::vector<Placements>& layouts) {
    std::string out;
    for (const Placements& p : layouts) out += (out.empty() ? "" : ", ") + names.of(Layout(p));
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

// The results of a run with data: the redistribution of each input, then the op itself.
struct OpData {
  std::vector<ExecutionResult> moves;
  OpExecution execution;
};

// The kinds of values that an op's samples give its tensors: some must be indices, others positive.
// Where no sample has as many tensors, a tensor gets those of its argument in any sample.
std::vector<SampleCall::Values> values_of(const OpCall& call) {
  std::vector<SampleCall::Values> values(call.tensors().size());
  for (const SampleCall& sample : sample_calls_of(call.op, 1)) {
    if (sample.values.size() == values.size()) return sample.values;
    const std::size_t arguments = std::min(call.inputs.size(), sample.call.inputs.size());
    for (std::size_t i = 0; i < arguments; ++i) {
      if (sample.call.inputs[i].tensors.empty()) continue;
      for (std::size_t t = 0; t < call.inputs[i].tensors.size(); ++t) {
        values[call.position(i) + t] = sample.values[sample.call.position(i)];
      }
    }
  }
  return values;
}

// Indices that are below every extent of the other tensors, and differ along the last dim if
// possible. Some targets of a loss are those that it ignores.
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
  Doubles values;
  for (std::int64_t i = 0; i < indices.elements(); ++i) {
    values.push_back(static_cast<double>(i % limit));
  }
  ignore_some_targets(call, which, values);
  set_elements(indices, values);
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
  const ChosenOp op = choose(evaluator, mesh, call, find_op_rule(call.op, evaluator.stack().rules));
  Simulation simulation(arguments.simulation, mesh, evaluator, session);
  simulation.note_kernels();
  simulation.note_subject(call.op);
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
    note_unpriced(simulation, op.plans, evaluator);
    const bool moves = std::any_of(op.plans.begin(), op.plans.end(),
                                   [](const Plan& plan) { return !plan.steps.empty(); });
    const std::string handler = dispatch_note(call.op, moves);
    const RuleSet rules = evaluator.stack().rules.set();
    if (!handler.empty() && (kDTensor.contains(rules) || rules == kDTensorLegacy)) {
      simulation.note(handler);
    }
  }
  simulation.finish(
      choice_json(op),
      LayoutNames(session).of(call) + "\n  " + sides_text(op.choice, LayoutNames(session)) + "\n",
      session);
}

void run_simulate(const SimulateArguments& arguments, Session& session) {
  const ConfigStore store = session.store();
  const RedistributionArguments& move = arguments.redistribution;
  const bool moves = !move.tensor.empty() || !move.from.empty() || !move.to.empty();
  const bool runs_op = !arguments.op.op.empty() || !arguments.op.inputs.empty();
  const int kinds =
      (moves ? 1 : 0) + (runs_op ? 1 : 0) + (arguments.program.program.empty() ? 0 : 1);
  const bool complete =
      moves ? !move.tensor.empty() && !move.from.empty() && !move.to.empty()
            : !runs_op || (!arguments.op.op.empty() && !arguments.op.inputs.empty());
  if (kinds != 1 || !complete) {
    throw InputError(
        "simulate: found nothing to run, or more than one thing; valid: a redistribution "
        "(--tensor, --from and --to), an op (--op and --inputs), or a program");
  }
  const std::string kind = moves ? "a redistribution" : runs_op ? "an op" : "a program";
  for (const auto& [option, belongs] : arguments.options) {
    if (!option.is_given() || kind.ends_with(belongs)) continue;
    throw InputError(option.name() + ": does not apply to " + kind);
  }
  prepare_out(session);
  std::string stack = move.stack;
  if (!arguments.stack->is_given() && !arguments.program.plan.empty()) {
    stack = stack_of_plan(arguments.program.plan, store).value_or(stack);
  }
  StackEvaluator evaluator(store.stack(stack), store.topology(session.topology));
  if (!arguments.program.program.empty()) {
    SimulateProgramArguments program = arguments.program;
    program.mesh = move.mesh;
    program.simulation = arguments.simulation;
    // A whole model is too large to run with data, so a program's data is off by default.
    if (!arguments.data->is_given()) program.simulation.data = "off";
    simulate_program(program, store, evaluator, session);
  } else if (runs_op) {
    simulate_op(arguments, evaluator, session);
  } else {
    simulate_redistribution(arguments, evaluator, session);
  }
}

}  // namespace

void add_simulate_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<SimulateArguments>();
  const Command command = root.subcommand(
      "simulate",
      "run a redistribution, an op or a program on virtual ranks, in virtual time\n"
      "Tensors hold real bytes; those of a program only with --data on, which is for short "
      "extents.\n"
      "  shardlab simulate --mesh 2x4 --tensor \"f32[13,8]\" --from \"S(0)P\" "
      "--to \"RS(1)\" --stack dtensor-v3\n"
      "  shardlab simulate --mesh 4 --op aten.mm.default --inputs \"f32[64,64] S(0)\" "
      "\"f32[64,64] S(0)\" --stack alpha-beta\n"
      "  shardlab simulate mlp --mesh 2x4 --pin-inputs \"S(0)R\" --stack alpha-beta");
  command.option("program", arguments->program.program,
                 "a program: shipped name or path (shardlab/program/1)");
  command.option("--plan", arguments->program.plan,
                 "for a program: a file with the layouts of all nodes, as solve --format json or "
                 "AutoParallel saves them; without it the stack chooses op by op");
  arguments->redistribution.add_options(command, false);
  arguments->op.add_options(command, false);
  command
      .option("--pin", arguments->program.pins,
              "for a program: NAME=LAYOUT, the layout of a parameter, buffer, input or tangent, "
              "which is replicated otherwise; once per node")
      .repeatable();
  command.option("--pin-inputs", arguments->program.pin_inputs,
                 "for a program: the layout of its nodes of kind input");
  arguments->simulation.add_options(command);
  add_topology_option(command, session);
  add_torch_names_option(command, session);
  add_report_options(command, session);
  add_common_options(command, session, {.seed = true, .jobs = true, .sets = true, .digits = true});
  arguments->data = command.declared("--data");
  arguments->stack = command.declared("--stack");
  for (const auto& [names, belongs] : {std::pair<std::vector<std::string>, std::string>(
                                           {"--planner", "--flatten", "--rank"}, "redistribution"),
                                       {{"--args"}, "op"},
                                       {{"--plan", "--pin", "--pin-inputs"}, "program"}}) {
    for (const std::string& name : names) {
      arguments->options.emplace_back(command.declared(name), belongs);
    }
  }
  command.runs([arguments, &session] { run_simulate(*arguments, session); });
}

}  // namespace shardlab
