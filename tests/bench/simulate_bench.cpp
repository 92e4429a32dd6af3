// How fast virtual time passes.
//
//   BM_SimulateFolded/<log2 ranks>   the redistribution S(0)S(1)->S(1)S(0), shapes only: plan,
//                                    bytes and clocks, where one rank stands for all
//   BM_SimulateRanks/<ranks>         the same, every rank with clocks of its own (jitter)
//   BM_EventQueue/<live>             one push and one pop, with that many events waiting
//
// The counter sim_over_wall is the simulated time divided by the wall time.
#include <benchmark/benchmark.h>

#include "sim/counter_hash.h"
#include "sim/simulator.h"
#include "sim/traffic.h"
#include "strategies/select/evaluator.h"
#include "tests/support/reference_stacks.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace {

using namespace testing_support;

DeviceMesh square_mesh(std::int64_t ranks) {
  std::int64_t rows = 1;
  while (rows * rows < ranks) rows *= 2;
  return DeviceMesh::make({rows, ranks / rows});
}

void BM_SimulateFolded(benchmark::State& state) {
  const Topology topology = topology_with(8);
  const Stack stack = stack_with("dtensor-v3");
  const TensorMeta meta = TensorMeta::parse("f32[8192,8192]");
  double simulated_us = 0.0;
  for (auto _ : state) {
    const DeviceMesh mesh = square_mesh(std::int64_t{1} << state.range(0));
    StackEvaluator evaluator(stack, topology);
    const Plan plan =
        evaluator.on(mesh).plan(meta, Layout::parse("S(0)S(1)", 2), Layout::parse("S(1)S(0)", 2));
    Layout before = plan.start;
    std::int64_t bytes = 0;
    for (const PlanStep& step : plan.steps) {
      bytes += bytes_moved(step, before, meta, mesh);
      before = step.after;
    }
    benchmark::DoNotOptimize(bytes);
    Schedule schedule;
    (void)add_plan(schedule, plan, {});
    simulated_us += Simulator(mesh, topology, {}).run(schedule).time_us.max;
  }
  state.counters["sim_over_wall"] =
      benchmark::Counter(simulated_us / 1e6, benchmark::Counter::kIsRate);
}
BENCHMARK(BM_SimulateFolded)->Arg(6)->Arg(20)->UseRealTime();

void BM_SimulateRanks(benchmark::State& state) {
  const Topology topology = topology_with(8);
  const DeviceMesh mesh = square_mesh(state.range(0));
  StackEvaluator evaluator(stack_with("dtensor-v3"), topology);
  const Plan plan =
      evaluator.on(mesh).plan(TensorMeta::parse("f32[8192,8192]"), Layout::parse("S(0)S(1)", 2),
                              Layout::parse("S(1)S(0)", 2));
  Schedule schedule;
  for (int i = 0; i < 10; ++i) {
    const auto after = i == 0
                           ? std::vector<int>()
                           : std::vector<int>{static_cast<int>(std::ssize(schedule.kernels)) - 1};
    (void)add_plan(schedule, plan, after);
  }
  double simulated_us = 0.0;
  std::uint64_t events = 0;
  for (auto _ : state) {
    const Simulator simulator(mesh, topology, {.slowdown = Slowdown::parse("jitter:0.1")});
    const SimulationResult result = simulator.run(schedule);
    simulated_us += result.time_us.max;
    events += result.events;
  }
  state.counters["events"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.counters["sim_over_wall"] =
      benchmark::Counter(simulated_us / 1e6, benchmark::Counter::kIsRate);
}
BENCHMARK(BM_SimulateRanks)->Arg(64)->Arg(4096)->Arg(65536)->UseRealTime();

void BM_EventQueue(benchmark::State& state) {
  EventQueue<std::uint64_t> queue;
  const auto live = static_cast<std::uint64_t>(state.range(0));
  const auto delay = [](std::uint64_t i) {
    return static_cast<Picoseconds>(counter_hash(1, i, 0) % 1000000);
  };
  for (std::uint64_t i = 0; i < live; ++i) queue.push(delay(i), i);
  for (auto _ : state) {
    const auto event = queue.pop();
    queue.push(event.time + delay(event.number), event.payload);
  }
  state.counters["events"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_EventQueue)->Arg(1000)->Arg(100000)->Arg(1000000);

}  // namespace
}  // namespace shardlab
