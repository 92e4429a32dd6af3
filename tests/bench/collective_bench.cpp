// How fast virtual ranks move bytes, compared with a memcpy of as many bytes in the same run.
//
//   BM_AllGather/<ranks>, BM_ReduceScatter/<ranks>, BM_AllToAll/<ranks>
//       the larger buffers of all ranks hold 256 MiB together, and every member's result is
//       written; the rate counts bytes written (for a reduce_scatter, bytes read)
//   BM_GatherShared/<ranks>   S(0)->R of 4 MiB where replicas share one buffer
//   BM_ReduceScatterShared, BM_AllToAllShared/<ranks>   P->S(0) of 4 MiB per rank, S(0)->S(1) of 4
//                                                       MiB
//   BM_Swap/<ranks>           S(0)S(1)->S(1)S(0) of 4 MiB on a square mesh: planned and run
//   BM_Copy                   memcpy of 256 MiB
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "sim/executor.h"
#include "strategies/select/evaluator.h"
#include "tests/support/reference_stacks.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace {

constexpr std::int64_t kBytes = std::int64_t{256} << 20U;

void move(benchmark::State& state, const char* from, const char* to, std::int64_t buffer_bytes,
          bool copy_replicas, std::int64_t counted_bytes) {
  const std::int64_t ranks = state.range(0);
  const Executor executor(DeviceMesh::make({ranks}), testing_support::topology_with(8),
                          {.memory_limit_bytes = kBytes * 8, .copy_replicas = copy_replicas});
  TensorMeta meta;
  meta.shape = {1024, buffer_bytes / 4 / 1024};
  DistributedTensor tensor = executor.distribute(meta, Layout::parse("R", 1), {});
  PlanStep step;
  step.mesh_dims = {0};
  step.from = Placement::parse(from);
  step.to = Placement::parse(to);
  step.after = Layout(Placements{step.to});
  if (!step.from.is_replicate()) {  // a replicated tensor changes without an exchange
    PlanStep first = step;
    first.from = Placement::replicate();
    first.to = step.from;
    first.after = Layout(Placements{step.from});
    (void)executor.run_step(first, tensor);
  }
  for (auto _ : state) {
    DistributedTensor result = tensor;
    (void)executor.run_step(step, result);
    benchmark::DoNotOptimize(result.locals.front().data());
  }
  state.SetBytesProcessed(state.iterations() * counted_bytes);
}

void BM_AllGather(benchmark::State& state) {
  move(state, "S(0)", "R", kBytes / state.range(0), true, kBytes);
}
BENCHMARK(BM_AllGather)->Arg(8)->Arg(64)->UseRealTime();

void BM_ReduceScatter(benchmark::State& state) {
  move(state, "P(sum)", "S(0)", kBytes / state.range(0), true, kBytes);
}
BENCHMARK(BM_ReduceScatter)->Arg(8)->Arg(64)->UseRealTime();

// Each rank's shard is a part of the tensor, so all buffers together hold the tensor once.
void BM_AllToAll(benchmark::State& state) { move(state, "S(0)", "S(1)", kBytes, true, kBytes); }
BENCHMARK(BM_AllToAll)->Arg(8)->Arg(64)->UseRealTime();

void BM_GatherShared(benchmark::State& state) {
  const std::int64_t bytes = std::int64_t{4} << 20U;
  move(state, "S(0)", "R", bytes, false, bytes);
}
BENCHMARK(BM_GatherShared)->Arg(64)->UseRealTime();

void BM_ReduceScatterShared(benchmark::State& state) {
  const std::int64_t bytes = std::int64_t{4} << 20U;
  move(state, "P(sum)", "S(0)", bytes, false, bytes * state.range(0));
}
BENCHMARK(BM_ReduceScatterShared)->Arg(64)->UseRealTime();

void BM_AllToAllShared(benchmark::State& state) {
  const std::int64_t bytes = std::int64_t{4} << 20U;
  move(state, "S(0)", "S(1)", bytes, false, bytes);
}
BENCHMARK(BM_AllToAllShared)->Arg(64)->UseRealTime();

void BM_Swap(benchmark::State& state) {
  const Topology topology = testing_support::topology_with(8);
  StackEvaluator evaluator(testing_support::stack_with("dtensor-2.13"), topology);
  const DeviceMesh mesh = DeviceMesh::make({state.range(0), state.range(0)});
  const Executor executor(mesh, topology, {.verify_each_step = false});
  const TensorMeta meta = TensorMeta::parse("f32[1024,1024]");
  const DistributedTensor tensor = executor.distribute(meta, Layout::parse("S(0)S(1)", 2), {});
  for (auto _ : state) {
    const Plan plan = evaluator.on(mesh).plan(meta, tensor.layout, Layout::parse("S(1)S(0)", 2));
    DistributedTensor result = tensor;
    for (const PlanStep& step : plan.steps) (void)executor.run_step(step, result);
    benchmark::DoNotOptimize(result.locals.front().data());
  }
}
BENCHMARK(BM_Swap)->Arg(8)->UseRealTime();

void BM_Copy(benchmark::State& state) {
  const std::vector<std::byte> from(kBytes, std::byte{1});
  std::vector<std::byte> to(kBytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kBytes);
}
BENCHMARK(BM_Copy)->UseRealTime();

}  // namespace
}  // namespace shardlab
