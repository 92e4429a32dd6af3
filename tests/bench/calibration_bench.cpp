// How long a calibration takes: 100 rows of one group, every model that can be fitted.
#include <benchmark/benchmark.h>

#include <cmath>

#include "costmodel/calibrate/calibration.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace {

std::vector<Observation> rows_of(int count) {
  const GroupSpan group{
      .ranks = 8, .hosts = 1, .domains = 1, .ranks_per_host = 8, .extent = 8, .walk = 8};
  std::vector<Observation> rows;
  for (int i = 0; i < count; ++i) {
    const double bytes = std::exp2(10.0 + 20.0 * i / count);
    const double noise = 1 + 0.03 * std::sin(7.0 * i);
    rows.push_back({{Collective::kAllReduce, bytes, group}, (12 + bytes / 2e5) * noise, 0});
  }
  return rows;
}

void BM_Calibrate(benchmark::State& state, const char* model) {
  const Topology topology = testing_support::topology_with(8);
  const std::vector<Observation> rows = rows_of(100);
  for (auto _ : state) {
    benchmark::DoNotOptimize(calibrate(*find_cost_model(model), rows, topology));
  }
}
BENCHMARK_CAPTURE(BM_Calibrate, alpha_beta, "alpha_beta");
BENCHMARK_CAPTURE(BM_Calibrate, piecewise, "piecewise");
BENCHMARK_CAPTURE(BM_Calibrate, nccl, "nccl");

void BM_PricePiecewise(benchmark::State& state) {
  const Topology topology = testing_support::topology_with(8);
  const std::vector<Observation> rows = rows_of(24);
  const Calibration fit = calibrate(*find_cost_model("piecewise"), rows, topology);
  const auto model = make_collective_model(fit.choice(), topology);
  CollectiveQuery query = rows.front().query;
  for (auto _ : state) {
    query.full_bytes = query.full_bytes < 1e9 ? query.full_bytes * 1.37 : 1024.0;
    benchmark::DoNotOptimize(model->price(query));
  }
}
BENCHMARK(BM_PricePiecewise);

}  // namespace
}  // namespace shardlab
