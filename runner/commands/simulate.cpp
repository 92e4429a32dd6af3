// shardlab simulate: one redistribution, run on virtual ranks with real bytes and in virtual time.
#include <chrono>
#include <fstream>
#include <numeric>
#include <optional>

#include "costmodel/text.h"
#include "runner/commands/commands.h"
#include "runner/redistribution.h"
#include "runner/terminal.h"
#include "runner/trace.h"
#include "sim/executor.h"
#include "sim/simulator.h"
#include "sim/traffic.h"
#include "strategies/evaluator.h"

namespace shardlab {
namespace {

struct SimulateArguments {
  RedistributionArguments redistribution;
  std::string data = "on";
  std::string values = "whole";
  std::string reduction = "ring";
  bool domains_first = false;
  std::string memory = "8GiB";
  std::string straggler = "none";
  int repetitions = 100;
  std::string trace;
  std::int64_t trace_ranks = 64;
};

// Clock readings; the rates tell how fast this machine simulated, not how fast the devices are.
struct WallTimes {
  double distribute_ms = 0.0;
  double run_ms = 0.0;    // with verification
  double clock_ms = 0.0;  // virtual time
};

// A plan, and what came of it: in data where data was on, and in time.
struct Simulated {
  const Plan& plan;
  const DeviceMesh& mesh;
  std::string refused;                    // why it does not run; empty when it does
  std::optional<ExecutionResult> data;    // not where refused
  SimulationResult time;                  // likewise
  std::vector<std::int64_t> bytes_moved;  // by step
  WallTimes wall;

  [[nodiscard]] bool ran() const { return refused.empty(); }
  [[nodiscard]] std::int64_t all_bytes_moved() const {
    return std::accumulate(bytes_moved.begin(), bytes_moved.end(), std::int64_t{0});
  }
};

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
}

nlohmann::json quantiles_json(const Simulated& simulated, const Quantiles& quantiles) {
  if (!simulated.ran()) return {{"p50", nullptr}, {"p95", nullptr}, {"max", nullptr}};
  return {{"p50", quantiles.p50}, {"p95", quantiles.p95}, {"max", quantiles.max}};
}

nlohmann::json simulation_json(const Simulated& simulated, const SimulateArguments& arguments,
                               const Session& session) {
  const Plan& plan = simulated.plan;
  nlohmann::json steps = nlohmann::json::array();
  for (std::size_t i = 0; simulated.ran() && i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    const KernelTimes& times = simulated.time.kernels[i];
    steps.push_back({{"collective", to_string(step.collective)},
                     {"mesh_dims", std::vector<int>(step.mesh_dims.begin(), step.mesh_dims.end())},
                     {"from", step.from.text()},
                     {"to", step.to.text()},
                     {"after", step.after.text()},
                     {"price_us", finite_or_null(step.price.total.value())},
                     {"end_us", quantiles_json(simulated, times.end_us)},
                     {"wait_us", times.wait_us},
                     {"bytes_moved", simulated.bytes_moved[i]},
                     {"verified", nullptr},
                     {"max_abs_error", nullptr}});
    if (!simulated.data) continue;
    const Verification& verification = simulated.data->steps[i].verification;
    steps.back()["verified"] = verification.verified;
    steps.back()["max_abs_error"] = finite_or_null(verification.max_abs_error);
  }
  nlohmann::json json = {
      {"mesh", simulated.mesh.text()},
      {"tensor", plan.meta.text()},
      {"path", plan.path()},
      {"ranks", simulated.mesh.size()},
      {"data", arguments.data == "on"},
      {"verified", nullptr},
      {"mismatch", nullptr},
      {"max_abs_error", nullptr},
      {"replicas_bitwise_equal", nullptr},
      {"price_us", plan.impossible.empty() ? finite_or_null(plan.price.total.value())
                                           : nlohmann::json(nullptr)},
      {"impossible", text_or_null(plan.impossible)},
      {"unexecutable", text_or_null(plan.unexecutable)},
      {"straggler", arguments.straggler},
      {"repetitions", simulated.time.repetitions},
      {"simulated_ranks", simulated.time.simulated_ranks},
      {"events", simulated.time.events},
      {"time_us", quantiles_json(simulated, simulated.time.time_us)},
      {"bytes_moved", simulated.all_bytes_moved()},
      {"steps", steps},
      {"notes", nlohmann::json::array()}};
  if (!simulated.ran()) json["verified"] = false;
  if (simulated.data) {
    json["verified"] = simulated.data->verified;
    json["mismatch"] = text_or_null(simulated.data->mismatch);
    json["max_abs_error"] = finite_or_null(simulated.data->max_abs_error);
    json["replicas_bitwise_equal"] = simulated.data->replicas_bitwise_equal;
    json["notes"] = simulated.data->notes;
  }
  if (!session.no_timing) {
    const WallTimes& wall = simulated.wall;
    json["timing"] = {{"wall_ms", wall.distribute_ms + wall.run_ms + wall.clock_ms},
                      {"distribute_ms", wall.distribute_ms},
                      {"run_ms", wall.run_ms},
                      {"clock_ms", wall.clock_ms}};
  }
  return json;
}

std::string data_text(const Simulated& simulated) {
  const std::string ranks = "  " + std::to_string(simulated.mesh.size()) + " ranks";
  if (!simulated.data) return ranks + ": shapes only, no data\n";
  const ExecutionResult& data = *simulated.data;
  return ranks + ": " + (data.verified ? "every element is right" : "WRONG: " + data.mismatch) +
         ", largest error " + format_double(data.max_abs_error) + "; replicas are " +
         (data.replicas_bitwise_equal ? "bitwise equal" : "NOT bitwise equal") + "\n";
}

std::string time_text(const SimulationResult& time, const SimulateArguments& arguments) {
  std::string out = "  done after " + format_fixed(time.time_us.p50, 3) + " us";
  if (time.repetitions == 1) return out;
  return out + " (p50; p95 " + format_fixed(time.time_us.p95, 3) + ", max " +
         format_fixed(time.time_us.max, 3) + ", of " + std::to_string(time.repetitions) +
         " repetitions with " + arguments.straggler + ")";
}

std::string simulation_text(const Simulated& simulated, const SimulateArguments& arguments,
                            const Session& session) {
  const Plan& plan = simulated.plan;
  std::string out = plan.path() + "\n";
  if (!simulated.ran()) return out + "  refused: " + simulated.refused + "\n";
  out += data_text(simulated);
  const bool waits = simulated.time.simulated_ranks > 1;
  std::vector<std::string> header = {"step", "collective", "change", "moved", "us"};
  if (waits) header.emplace_back("waited");
  header.emplace_back("largest error");
  TextTable table(header);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    std::vector<std::string> row = {std::to_string(i + 1), std::string(to_string(step.collective)),
                                    step.from.text() + "->" + step.to.text(),
                                    format_bytes(static_cast<double>(simulated.bytes_moved[i])),
                                    format_fixed(step.price.total.value(), 3)};
    if (waits) row.push_back(format_fixed(simulated.time.kernels[i].wait_us, 3));
    row.push_back(
        simulated.data ? format_double(simulated.data->steps[i].verification.max_abs_error) : "-");
    table.add(row);
  }
  if (!plan.steps.empty()) out += table.text();
  const auto moved = static_cast<double>(simulated.all_bytes_moved());
  out += time_text(simulated.time, arguments) + ", " + format_bytes(moved) + " moved\n";
  if (simulated.data) {
    for (const std::string& note : simulated.data->notes) out += "  note: " + note + "\n";
  }
  if (session.no_timing) return out;
  if (!simulated.data) {
    return out + "  simulated in " + format_fixed(simulated.wall.clock_ms, 1) + " ms, " +
           std::to_string(simulated.time.simulated_ranks) + " of " +
           std::to_string(simulated.mesh.size()) + " ranks with a clock of their own\n";
  }
  return out + "  simulated in " + format_fixed(simulated.wall.run_ms, 1) + " ms, " +
         format_fixed(moved / 1e6 / simulated.wall.run_ms, 2) + " GB/s moved and verified\n";
}

// The plan in data. Sets everything but the time.
void run_data(Simulated& simulated, const SimulateArguments& arguments, const Topology& topology,
              std::int64_t memory, const Session& session) {
  const Plan& plan = simulated.plan;
  const Executor executor(simulated.mesh, topology,
                          {.reduction = {.order = *reduction_order_from_name(arguments.reduction),
                                         .domains_first = arguments.domains_first},
                           .memory_limit_bytes = memory,
                           .threads = session.threads()});
  const DataOptions data{
      .seed = session.seed,
      .values = arguments.values == "uniform" ? DataValues::kUniform : DataValues::kWholeNumbers};
  auto begin = std::chrono::steady_clock::now();
  DistributedTensor tensor = executor.distribute(plan.meta, plan.start, data);
  simulated.wall.distribute_ms = milliseconds_since(begin);
  begin = std::chrono::steady_clock::now();
  simulated.data = executor.run(plan, tensor);
  simulated.wall.run_ms = milliseconds_since(begin);
  for (const StepExecution& step : simulated.data->steps) {
    simulated.bytes_moved.push_back(step.bytes_moved);
  }
}

// The plan's bytes, from shapes alone.
void count_bytes(Simulated& simulated) {
  Layout before = simulated.plan.start;
  for (const PlanStep& step : simulated.plan.steps) {
    simulated.bytes_moved.push_back(bytes_moved(step, before, simulated.plan.meta, simulated.mesh));
    before = step.after;
  }
}

void run_clocks(Simulated& simulated, const SimulateArguments& arguments, const Topology& topology,
                std::int64_t memory, const Session& session) {
  const auto begin = std::chrono::steady_clock::now();
  Schedule schedule;
  (void)add_plan(schedule, simulated.plan, {});
  const Slowdown slowdown =
      parse_option("--straggler", [&] { return Slowdown::parse(arguments.straggler); });
  const Simulator simulator(
      simulated.mesh, topology,
      {.slowdown = slowdown,
       .seed = session.seed,
       .repetitions = arguments.repetitions,
       .threads = session.threads(),
       .memory_limit_bytes = memory,
       .traced_ranks =
           arguments.trace.empty() ? 0 : traced_ranks(schedule, arguments.trace_ranks)});
  simulated.time = simulator.run(schedule);
  simulated.wall.clock_ms = milliseconds_since(begin);
  if (arguments.trace.empty()) return;
  std::ofstream out(arguments.trace, std::ios::binary);
  write_trace(out, simulated.plan.meta.text() + " " + simulated.plan.path(), simulated.mesh,
              topology, schedule, simulated.time.timeline);
  out.close();
  if (!out) throw EnvironmentError("--trace: " + arguments.trace + " can't be written");
}

void run_simulate(const SimulateArguments& arguments, Session& session) {
  const ConfigStore store = session.store();
  const auto& [mesh, meta, from, to, options] = arguments.redistribution.read();
  const auto memory = static_cast<std::int64_t>(
      parse_option("--memory", [&] { return parse_bytes(arguments.memory); }));
  const Topology topology = store.topology(session.topology);
  StackEvaluator evaluator(store.stack(arguments.redistribution.stack), topology);
  const Plan plan = evaluator.on(mesh).plan(meta, from, to, options);
  Simulated simulated{.plan = plan,
                      .mesh = mesh,
                      .refused = plan.impossible.empty() ? plan.unexecutable : plan.impossible,
                      .data = {},
                      .time = {},
                      .bytes_moved = {},
                      .wall = {}};
  if (simulated.ran()) {
    if (arguments.data == "on") {
      run_data(simulated, arguments, topology, memory, session);
    } else {
      count_bytes(simulated);
    }
    run_clocks(simulated, arguments, topology, memory, session);
  }
  if (session.json()) {
    session.print(simulation_json(simulated, arguments, session));
  } else {
    session.print(simulation_text(simulated, arguments, session));
  }
  if (!simulated.ran() || (simulated.data && !simulated.data->verified)) {
    session.exit_code = kGateSaidNo;
  }
}

}  // namespace

void add_simulate_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<SimulateArguments>();
  CLI::App* command = app.add_subcommand(
      "simulate",
      "run one redistribution on virtual ranks, with real bytes and in virtual time\n"
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
  command->add_option("--memory", arguments->memory, "most bytes of tensor data, or of clocks")
      ->capture_default_str();
  command
      ->add_option("--data", arguments->data,
                   "off: shapes only; ranks that are alike are simulated once, up to 2^40 ranks")
      ->check(one_of({"on", "off"}))
      ->capture_default_str();
  command
      ->add_option("--straggler", arguments->straggler,
                   "who is slow: " + std::string(kSlowdownForms))
      ->capture_default_str();
  command->add_option("--repetitions", arguments->repetitions, "runs of a random straggler model")
      ->check(integer_from(1, 1000000))
      ->capture_default_str();
  command->add_option("--trace", arguments->trace,
                      "write a Chrome trace of the first repetition, for ui.perfetto.dev");
  command->add_option("--trace-ranks", arguments->trace_ranks, "most ranks that the trace shows")
      ->check(integer_from(1, 4096))
      ->capture_default_str();
  add_topology_option(*command, session);
  add_common_options(*command, session);
  command->callback([arguments, &session] { run_simulate(*arguments, session); });
}

}  // namespace shardlab
