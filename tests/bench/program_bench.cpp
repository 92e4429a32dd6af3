// How long it takes from a program's file to its sharding problem (reading, enumerating, pricing,
// constraining), for LLaMA3-8B of 2, 32 and 126 layers on 8x8. The argument is the number of
// layers. Each part is timed alone. One layer on meshes of three and four dims, with bounds that
// leave out strategies.
#include <benchmark/benchmark.h>

#include <chrono>
#include <string>
#include <utility>

#include "runner/config/read_json.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/pruned_strategies.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/programs/sharding_problem.h"
#include "strategies/solvers/exact.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace {

using testing_support::shipped;

Program llama(const benchmark::State& state) {
  return find_built_in_program("llama3-8b")
      ->make({.layers = state.range(0), .batch = 16, .seqlen = 8192});
}

ProblemOptions golden_options() {
  ProblemOptions options;
  options.pin_inputs = Layout::parse("S(0)R", 2).placements;
  options.pin_outputs = Layout::parse("S(0)S(2)", 2).placements;
  options.parameter_budget = 1.0 / 64.0;
  return options;
}

void BM_Generate(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(llama(state).text());
}

void BM_Read(benchmark::State& state) {
  const std::string text = llama(state).text();
  for (auto _ : state) {
    benchmark::DoNotOptimize(Program::from_json(parse_json(text, "p.json"), {"p.json", ""}));
  }
  state.counters["bytes"] = static_cast<double>(text.size());
}

void BM_Enumerate(benchmark::State& state) {
  const Program program = llama(state);
  const DeviceMesh mesh = DeviceMesh::parse("8x8");
  std::size_t classes = 0;
  for (auto _ : state) classes = enumerate_strategies(program, mesh).classes.size();
  state.counters["classes"] = static_cast<double>(classes);
}

void BM_Price(benchmark::State& state) {
  const Program program = llama(state);
  const DeviceMesh mesh = DeviceMesh::parse("8x8");
  const ProgramStrategies strategies = enumerate_strategies(program, mesh);
  const Stack stack = shipped().stack("ap-nccl");
  const Topology topology = shipped().topology("h100");
  std::size_t tables = 0;
  for (auto _ : state) {
    StackEvaluator evaluator(stack, topology);
    tables = ProgramPrices(program, strategies, evaluator, mesh).tables().size();
  }
  state.counters["tables"] = static_cast<double>(tables);
}

void BM_Problem(benchmark::State& state) {
  const Program program = llama(state);
  const DeviceMesh mesh = DeviceMesh::parse("8x8");
  const ProgramStrategies strategies = enumerate_strategies(program, mesh);
  StackEvaluator evaluator(shipped().stack("ap-nccl"), shipped().topology("h100"));
  const ProgramPrices prices(program, strategies, evaluator, mesh);
  for (auto _ : state) {
    benchmark::DoNotOptimize(make_problem(program, mesh, strategies, prices, golden_options()));
  }
}

void BM_FileToProblem(benchmark::State& state) {
  const std::string text = llama(state).text();
  const DeviceMesh mesh = DeviceMesh::parse("8x8");
  const Stack stack = shipped().stack("ap-nccl");
  const Topology topology = shipped().topology("h100");
  for (auto _ : state) {
    const Program program = Program::from_json(parse_json(text, "p.json"), {"p.json", ""});
    const ProgramStrategies strategies = enumerate_strategies(program, mesh);
    StackEvaluator evaluator(stack, topology);
    const ProgramPrices prices(program, strategies, evaluator, mesh);
    benchmark::DoNotOptimize(make_problem(program, mesh, strategies, prices, golden_options()));
  }
}

// One layer of LLaMA3-8B on a mesh of three or four dims under the default stack, from the program
// to the proof.
double solved_in_s(const char* mesh_text, bool prunes, double& objective_us, double& left) {
  const auto begin = std::chrono::steady_clock::now();
  const Program program =
      find_built_in_program("llama3-8b")->make({.layers = 1, .batch = 16, .seqlen = 8192});
  const DeviceMesh mesh = DeviceMesh::parse(mesh_text);
  StackEvaluator evaluator(shipped().stack("calibrated-h100"), shipped().topology("h100"));
  ProgramStrategies strategies = enumerate_strategies(
      program, mesh,
      {.rules = evaluator.stack().rules.set(), .links = links_of(evaluator.on(mesh))});
  if (prunes) {
    PruneResult pruned = prune_strategies(program, mesh, strategies, evaluator, {}, {.jobs = 2});
    left = static_cast<double>(pruned.after);
    if (pruned.strategies) strategies = std::move(*pruned.strategies);
  }
  const ProgramPrices prices(program, strategies, evaluator, mesh, 2);
  const CostNetwork network = network_of(make_problem(program, mesh, strategies, prices));
  objective_us = ExactSolver(network).solve({.jobs = 2}).objective;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void BM_PruneThreeDims(benchmark::State& state) {
  double objective_us = 0.0;
  double same_us = 0.0;
  double left = 0.0;
  for (auto _ : state) {
    const double whole_s = solved_in_s("2x2x2", false, same_us, left);
    const double pruned_s = solved_in_s("2x2x2", true, objective_us, left);
    state.counters["ratio"] = whole_s / pruned_s;
  }
  state.counters["left"] = left;
  state.counters["difference_us"] = objective_us - same_us;
}

void BM_PruneFourDims(benchmark::State& state) {
  double objective_us = 0.0;
  double left = 0.0;
  for (auto _ : state) solved_in_s("2x2x2x2", true, objective_us, left);
  state.counters["left"] = left;
  state.counters["objective_us"] = objective_us;
}

BENCHMARK(BM_PruneThreeDims)->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK(BM_PruneFourDims)->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK(BM_Generate)->Arg(2)->Arg(32)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Read)->Arg(2)->Arg(32)->Arg(126)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Enumerate)->Arg(2)->Arg(32)->Arg(126)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Price)->Arg(2)->Arg(32)->Arg(126)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Problem)->Arg(2)->Arg(32)->Arg(126)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_FileToProblem)->Arg(2)->Arg(32)->Arg(126)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardlab
