// shardlab simulate: one redistribution, run on virtual ranks with real bytes.
#include <chrono>

#include "costmodel/text.h"
#include "runner/commands/commands.h"
#include "runner/redistribution.h"
#include "runner/terminal.h"
#include "sim/executor.h"
#include "strategies/evaluator.h"

namespace shardlab {
namespace {

struct SimulateArguments {
  RedistributionArguments redistribution;
  std::string values = "whole";
  std::string reduction = "ring";
  bool domains_first = false;
  std::string memory = "8GiB";
};

// Clock readings; the rates tell how fast this machine simulated, not how fast the devices are.
struct WallTimes {
  double distribute_ms = 0.0;
  double run_ms = 0.0;  // with verification
};

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
}

// Every rank runs the same steps at the same price, so all are done at one time.
nlohmann::json time_json(const Plan& plan, const ExecutionResult& result) {
  if (!result.executed) return {{"p50", nullptr}, {"p95", nullptr}, {"max", nullptr}};
  const nlohmann::json end = finite_or_null(plan.executed_price().total.value());
  return {{"p50", end}, {"p95", end}, {"max", end}};
}

nlohmann::json simulation_json(const Plan& plan, const ExecutionResult& result,
                               const Executor& executor, const Session& session,
                               const WallTimes& wall) {
  nlohmann::json steps = nlohmann::json::array();
  for (std::size_t i = 0; i < result.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    const StepExecution& done = result.steps[i];
    steps.push_back({{"collective", to_string(step.collective)},
                     {"mesh_dims", std::vector<int>(step.mesh_dims.begin(), step.mesh_dims.end())},
                     {"from", step.from.text()},
                     {"to", step.to.text()},
                     {"after", step.after.text()},
                     {"price_us", finite_or_null(step.price.total.value())},
                     {"bytes_moved", done.bytes_moved},
                     {"verified", done.verification.verified},
                     {"max_abs_error", finite_or_null(done.verification.max_abs_error)}});
  }
  nlohmann::json json = {
      {"mesh", executor.mesh().text()},
      {"tensor", plan.meta.text()},
      {"path", plan.path()},
      {"ranks", executor.mesh().size()},
      {"verified", result.verified},
      {"mismatch", text_or_null(result.mismatch)},
      {"max_abs_error",
       result.executed ? finite_or_null(result.max_abs_error) : nlohmann::json(nullptr)},
      {"replicas_bitwise_equal",
       result.executed ? nlohmann::json(result.replicas_bitwise_equal) : nlohmann::json(nullptr)},
      {"price_us", plan.impossible.empty() ? finite_or_null(plan.price.total.value())
                                           : nlohmann::json(nullptr)},
      {"impossible", text_or_null(plan.impossible)},
      {"unexecutable", text_or_null(plan.unexecutable)},
      {"time_us", time_json(plan, result)},
      {"bytes_moved", result.bytes_moved},
      {"steps", steps},
      {"notes", result.notes}};
  if (!session.no_timing) {
    json["timing"] = {{"wall_ms", wall.distribute_ms + wall.run_ms},
                      {"distribute_ms", wall.distribute_ms},
                      {"run_ms", wall.run_ms}};
  }
  return json;
}

std::string simulation_text(const Plan& plan, const ExecutionResult& result,
                            const Executor& executor, const Session& session,
                            const WallTimes& wall) {
  std::string out = plan.path() + "\n";
  if (!result.executed) return out + "  refused: " + result.refused + "\n";
  out += "  " + std::to_string(executor.mesh().size()) +
         " ranks: " + (result.verified ? "every element is right" : "WRONG: " + result.mismatch) +
         ", largest error " + format_double(result.max_abs_error) + "; replicas are " +
         (result.replicas_bitwise_equal ? "bitwise equal" : "NOT bitwise equal") + "\n";
  TextTable table({"step", "collective", "change", "moved", "us", "largest error"});
  for (std::size_t i = 0; i < result.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    table.add({std::to_string(i + 1), std::string(to_string(step.collective)),
               step.from.text() + "->" + step.to.text(),
               format_bytes(static_cast<double>(result.steps[i].bytes_moved)),
               format_fixed(step.price.total.value(), 3),
               format_double(result.steps[i].verification.max_abs_error)});
  }
  if (!result.steps.empty()) out += table.text();
  out += "  done after " + format_fixed(plan.executed_price().total.value(), 3) + " us, " +
         format_bytes(static_cast<double>(result.bytes_moved)) + " moved\n";
  for (const std::string& note : result.notes) out += "  note: " + note + "\n";
  if (!session.no_timing) {
    out += "  simulated in " + format_fixed(wall.run_ms, 1) + " ms, " +
           format_fixed(static_cast<double>(result.bytes_moved) / 1e6 / wall.run_ms, 2) +
           " GB/s moved and verified\n";
  }
  return out;
}

void run_simulate(const SimulateArguments& arguments, Session& session) {
  const ConfigStore store = session.store();
  const auto& [mesh, meta, from, to, options] = arguments.redistribution.read();
  const double memory = parse_option("--memory", [&] { return parse_bytes(arguments.memory); });
  const Topology topology = store.topology(session.topology);
  StackEvaluator evaluator(store.stack(arguments.redistribution.stack), topology);
  const Plan plan = evaluator.on(mesh).plan(meta, from, to, options);
  const Executor executor(mesh, topology,
                          {.reduction = {.order = *reduction_order_from_name(arguments.reduction),
                                         .domains_first = arguments.domains_first},
                           .memory_limit_bytes = static_cast<std::int64_t>(memory),
                           .threads = session.threads()});
  WallTimes wall;
  ExecutionResult result;
  result.refused = plan.impossible.empty() ? plan.unexecutable : plan.impossible;
  if (result.refused.empty()) {
    auto begin = std::chrono::steady_clock::now();
    const DataOptions data{
        .seed = session.seed,
        .values = arguments.values == "uniform" ? DataValues::kUniform : DataValues::kWholeNumbers};
    DistributedTensor tensor = executor.distribute(meta, plan.start, data);
    wall.distribute_ms = milliseconds_since(begin);
    begin = std::chrono::steady_clock::now();
    result = executor.run(plan, tensor);
    wall.run_ms = milliseconds_since(begin);
  }
  if (session.json()) {
    session.print(simulation_json(plan, result, executor, session, wall));
  } else {
    session.print(simulation_text(plan, result, executor, session, wall));
  }
  if (!result.verified) session.exit_code = kGateSaidNo;
}

}  // namespace

void add_simulate_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<SimulateArguments>();
  CLI::App* command =
      app.add_subcommand("simulate",
                         "run one redistribution on virtual ranks, with real bytes\n"
                         "  shardlab simulate --mesh 2x4 --tensor \"f32[13,8]\" --from \"S(0)P\" "
                         "--to \"RS(1)\" --stack dtensor-v3");
  arguments->redistribution.add_options(*command);
  command
      ->add_option("--values", arguments->values,
                   "whole numbers, exact in every dtype; or uniform in (-1,1), whose sums round")
      ->check(one_of({"whole", "uniform"}))
      ->capture_default_str();
  command
      ->add_option("--reduction", arguments->reduction,
                   "the order in which a group's contributions are combined")
      ->check(one_of({"ring", "tree", "flat"}))
      ->capture_default_str();
  command->add_flag("--domains-first", arguments->domains_first,
                    "combine the ranks of one NVLink domain first");
  command->add_option("--memory", arguments->memory, "most bytes of tensor data at a time")
      ->capture_default_str();
  add_topology_option(*command, session);
  add_common_options(*command, session);
  command->callback([arguments, &session] { run_simulate(*arguments, session); });
}

}  // namespace shardlab
