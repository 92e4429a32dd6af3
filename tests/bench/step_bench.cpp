// How fast a training step is predicted.
//
//   BM_PredictStep/<ranks>   LLaMA3-405B with TP 8, PP 16, CP 2 and 64 micro-batches: all of the
//                            work, from the model's shape on; it should stay below 1 s on 16,384
//                            ranks and below 2 s on 1,048,576
//   BM_PriceStep             the same on 16,384 ranks, where the work is known and prices change,
//                            as in a calibration
#include <benchmark/benchmark.h>

#include "strategies/training/step_prediction.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace {

using testing_support::collective_model;
using testing_support::compute_model;
using testing_support::topology_with;

TrainingRun large_run(std::int64_t ranks) {
  TrainingRun run;
  run.shape = *find_model_shape("llama3-405b");
  run.spread = {.dp = ranks / (8 * 16 * 2), .tp = 8, .pp = 16, .cp = 2};
  run.sharding = Sharding::kOptimizer;
  run.execution = Execution::kLibrary;
  run.seq = 8192;
  run.grad_accum = 64;
  return run;
}

void BM_PredictStep(benchmark::State& state) {
  const Topology topology = topology_with(8);
  const auto collectives = collective_model({{"name", "nccl"}}, topology);
  const auto kernels = compute_model({{"name", "roofline"}}, topology);
  const TrainingRun run = large_run(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(predict_step(run, {*collectives, *kernels, topology, {}}));
  }
}
BENCHMARK(BM_PredictStep)->Arg(16384)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

void BM_PriceStep(benchmark::State& state) {
  const Topology topology = topology_with(8);
  const auto collectives = collective_model({{"name", "nccl"}}, topology);
  const auto kernels = compute_model({{"name", "roofline"}}, topology);
  const StepWork work(large_run(16384), 80e9);
  for (auto _ : state) {
    benchmark::DoNotOptimize(predict_step(work, {*collectives, *kernels, topology, {}}));
  }
}
BENCHMARK(BM_PriceStep)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardlab
