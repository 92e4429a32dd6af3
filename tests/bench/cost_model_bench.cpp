// How long one price of a collective takes, by model. Groups and sizes as in a suite are asked in
// turn.
//
//   BM_Price/<model>   alpha_beta, dtensor, nccl, ap_default, ap_nccl on h100; an item is one price
//   BM_NcclAlternatives   the same through alternatives(), which allocates
#include <benchmark/benchmark.h>

#include <vector>

#include "costmodel/registry.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace {

std::vector<CollectiveQuery> queries() {
  std::vector<CollectiveQuery> all;
  for (const Collective kind :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
        Collective::kAllToAll, Collective::kBroadcast}) {
    for (const std::int64_t hosts : {1, 2, 8, 32}) {
      for (const std::int64_t local : {1, 2, 8}) {
        if (hosts * local == 1) continue;
        for (const double bytes : {1e3, 1e6, 1e9}) {
          all.push_back({kind,
                         bytes,
                         {.ranks = hosts * local,
                          .hosts = hosts,
                          .domains = hosts,
                          .ranks_per_host = local,
                          .extent = (hosts - 1) * 8 + local,
                          .walk = hosts * local}});
        }
      }
    }
  }
  return all;
}

void price(benchmark::State& state, const char* name) {
  const auto model = testing_support::collective_model(name, testing_support::topology_with(8));
  const std::vector<CollectiveQuery> asked = queries();
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(model->price(asked[i]));
    if (++i == asked.size()) i = 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(price, alpha_beta, "alpha_beta")->Name("BM_Price/alpha_beta");
BENCHMARK_CAPTURE(price, dtensor, "dtensor")->Name("BM_Price/dtensor");
BENCHMARK_CAPTURE(price, nccl, "nccl")->Name("BM_Price/nccl");
BENCHMARK_CAPTURE(price, ap_default, "ap_default")->Name("BM_Price/ap_default");
BENCHMARK_CAPTURE(price, ap_nccl, "ap_nccl")->Name("BM_Price/ap_nccl");

void BM_NcclAlternatives(benchmark::State& state) {
  const auto model = testing_support::collective_model("nccl", testing_support::topology_with(8));
  const std::vector<CollectiveQuery> asked = queries();
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(model->alternatives(asked[i]));
    if (++i == asked.size()) i = 0;
  }
}
BENCHMARK(BM_NcclAlternatives);

}  // namespace
}  // namespace shardlab
