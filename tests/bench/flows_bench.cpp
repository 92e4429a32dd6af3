// How fast shares of links, and of what streams share, are computed.
//
//   BM_FlowChanges/<links>      a flow ends and another starts, with one live flow for every two
//                               links, each over 2 to 4 neighbouring links; items are changes
//   BM_FlowChangesDense/<links> the same with twice as many flows as links: long components
//   BM_FluidStreams/<tasks>     tasks on 4 streams that share 3 resources
#include <benchmark/benchmark.h>

#include <random>

#include "sim/flows/fair_share.h"
#include "sim/flows/fluid_streams.h"

namespace shardlab {
namespace {

std::vector<std::vector<ResourceUse>> random_paths(std::int64_t links, std::int64_t count) {
  std::mt19937_64 random(1);
  std::vector<std::vector<ResourceUse>> paths;
  for (std::int64_t p = 0; p < count; ++p) {
    const int length = 2 + static_cast<int>(random() % 3);
    const auto first = static_cast<int>(random() % static_cast<std::uint64_t>(links));
    std::vector<ResourceUse> path;
    for (int i = 0; i < length; ++i) {
      path.push_back({static_cast<int>((first + i) % links), 1.0});
    }
    paths.push_back(std::move(path));
  }
  return paths;
}

void change_flows(benchmark::State& state, std::int64_t live) {
  const std::int64_t links = state.range(0);
  const auto paths = random_paths(links, 1 << 14);
  FairShare share(std::vector<double>(static_cast<std::size_t>(links), 1.0));
  std::vector<int> flows;
  std::size_t next = 0;
  for (std::int64_t f = 0; f < live; ++f) flows.push_back(share.add(paths[next++]));
  share.update();
  std::size_t oldest = 0;
  std::int64_t solved = 0;
  std::int64_t changes = 0;
  for (auto _ : state) {
    share.remove(flows[oldest]);
    benchmark::DoNotOptimize(share.update());
    solved += share.solved();
    flows[oldest] = share.add(paths[next++ % paths.size()]);
    benchmark::DoNotOptimize(share.update());
    solved += share.solved();
    oldest = (oldest + 1) % flows.size();
    changes += 2;
  }
  state.SetItemsProcessed(changes);
  state.counters["solved_flows"] = static_cast<double>(solved) / static_cast<double>(changes);
}

void BM_FlowChanges(benchmark::State& state) { change_flows(state, state.range(0) / 2); }
BENCHMARK(BM_FlowChanges)->Arg(128)->Arg(512);

void BM_FlowChangesDense(benchmark::State& state) { change_flows(state, 2 * state.range(0)); }
BENCHMARK(BM_FlowChangesDense)->Arg(128)->Arg(512);

void BM_FluidStreams(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::vector<FluidTask> tasks;
  for (std::int64_t t = 0; t < state.range(0); ++t) {
    FluidTask task;
    task.work_us = 1.0 + static_cast<double>(random() % 100);
    task.stream = static_cast<int>(random() % 4);
    for (int r = 0; r < 3; ++r) {
      task.uses.push_back({r, 0.1 * static_cast<double>(1 + random() % 9)});
    }
    if (t > 8) task.after.push_back(static_cast<int>(t - 8));
    tasks.push_back(std::move(task));
  }
  for (auto _ : state) benchmark::DoNotOptimize(simulate_fluid(tasks, 4, 3));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_FluidStreams)->Arg(10000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardlab
