// How long the optimum of a whole program takes, from its tables to the checked proof.
//
//   BM_SolveProgram/<native>/<layers>   LLaMA3-8B on 8x8 from AutoParallel's golden tables: 1
//                                       layer, or 2 and 32 where the whole files are
//   BM_ResolveAfterPin/<native>/<layers>  solved again from the kept messages, where the embedding
//                                         may not
//                                       have its layout any more
//   BM_Cbc/<native>/<layers>            CBC on the same instance as an integer program, if cbc is
//                                       installed; the counter says how many times as long it takes
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "costmodel/base/index.h"
#include "strategies/solvers/exact.h"
#include "tests/support/autoparallel_instance.h"
#include "tests/support/process.h"

namespace shardlab {
namespace {

using testing_support::InstanceConstraints;

CostNetwork instance(std::int64_t native, std::int64_t layers,
                     const InstanceConstraints& constraints = {}) {
  const std::string form = native == 0 ? "einsum" : "native";
  if (layers == 1) return testing_support::one_layer_golden(form).network(1, constraints);
  return testing_support::whole_golden(form).network(static_cast<int>(layers), constraints);
}

double seconds_of(const CostNetwork& network) {
  const auto begin = std::chrono::steady_clock::now();
  benchmark::DoNotOptimize(ExactSolver(network).solve());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void BM_SolveProgram(benchmark::State& state) {
  const CostNetwork network = instance(state.range(0), state.range(1));
  ExactSolution solution;
  for (auto _ : state) {
    solution = ExactSolver(network).solve();
    benchmark::DoNotOptimize(solution);
  }
  if (!solution.optimal) state.SkipWithError("not proved optimal");
  state.counters["nodes"] = network.variables();
  state.counters["sweeps"] = solution.sweeps;
  state.counters["gap_us"] = solution.objective - solution.lower_bound;
}
BENCHMARK(BM_SolveProgram)->ArgsProduct({{0, 1}, {1, 2, 32}})->Unit(benchmark::kMillisecond);

void BM_ResolveAfterPin(benchmark::State& state) {
  InstanceConstraints constraints;
  constraints.inputs.reset();
  const CostNetwork network = instance(state.range(0), state.range(1), constraints);
  ExactSolver solver(network);
  const ExactSolution before = solver.solve();
  // Forbids the value that the embedding took.
  Restriction pin;
  for (int v = 0; v < network.variables(); ++v) {
    if (network.name(v) == "embedding") {
      const int taken = before.assignment[to_index(v)];
      for (int x = 0; x < network.values(v); ++x) {
        if (x != taken) pin.allowed.push_back(x);
      }
      pin.variable = v;
    }
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(solver.solve({.restrictions = {pin}}));
  }
}
BENCHMARK(BM_ResolveAfterPin)->ArgsProduct({{0, 1}, {1, 2, 32}})->Unit(benchmark::kMillisecond);

// The integer program has a binary variable for each value that arc consistency leaves, and for
// each pair of values of an edge a variable from 0 to 1; the sums over the pairs of a value equal
// the value's variable.
void write_lp(const CostNetwork& network, const std::filesystem::path& path) {
  const CutNetwork cut(network, {});
  std::ofstream out(path);
  out.precision(17);
  const auto value = [](int v, std::size_t x) {
    return "x" + std::to_string(v) + "_" + std::to_string(x);
  };
  const auto pair = [](std::size_t e, int x, int y) {
    return "y" + std::to_string(e) + "_" + std::to_string(x) + "_" + std::to_string(y);
  };
  out << "Minimize\n obj: 0 zero\n";
  for (int v = 0; v < cut.nodes(); ++v) {
    for (std::size_t x = 0; x < cut.values(v).size(); ++x) {
      const double cost = cut.costs()[cut.first(v) + x];
      if (cost > 0) out << " + " << cost << " " << value(v, x) << "\n";
    }
  }
  const auto each_pair = [&](std::size_t e, const auto& use) {
    const CutEdge& edge = cut.edges()[e];
    for (int x = 0; x < edge.a_values; ++x) {
      for (int y = 0; y < edge.b_values; ++y) {
        const double cost =
            cut.pool()[edge.a_major + static_cast<std::size_t>(x * edge.b_values + y)];
        if (cost < kForbidden) use(x, y, cost);
      }
    }
  };
  for (std::size_t e = 0; e < cut.edges().size(); ++e) {
    each_pair(e, [&](int x, int y, double cost) {
      if (cost > 0) out << " + " << cost << " " << pair(e, x, y) << "\n";
    });
  }
  out << "Subject To\n";
  for (int v = 0; v < cut.nodes(); ++v) {
    for (std::size_t x = 0; x < cut.values(v).size(); ++x) out << " + " << value(v, x);
    out << " = 1\n";
  }
  for (std::size_t e = 0; e < cut.edges().size(); ++e) {
    const CutEdge& edge = cut.edges()[e];
    std::vector<std::ostringstream> rows(static_cast<std::size_t>(edge.a_values));
    std::vector<std::ostringstream> columns(static_cast<std::size_t>(edge.b_values));
    each_pair(e, [&](int x, int y, double) {
      rows[to_index(x)] << " + " << pair(e, x, y) << "\n";
      columns[to_index(y)] << " + " << pair(e, x, y) << "\n";
    });
    for (std::size_t x = 0; x < rows.size(); ++x) {
      out << rows[x].str() << " - " << value(edge.a, x) << " = 0\n";
    }
    for (std::size_t y = 0; y < columns.size(); ++y) {
      out << columns[y].str() << " - " << value(edge.b, y) << " = 0\n";
    }
  }
  out << "Binaries\n";
  for (int v = 0; v < cut.nodes(); ++v) {
    for (std::size_t x = 0; x < cut.values(v).size(); ++x) out << " " << value(v, x) << "\n";
  }
  out << "End\n";
}

void BM_Cbc(benchmark::State& state) {
  const std::filesystem::path cbc = "/usr/bin/cbc";  // where Debian's package coinor-cbc puts it
  const CostNetwork network = instance(state.range(0), state.range(1));
  if (!std::filesystem::exists(cbc)) {
    state.SkipWithError("cbc is not installed: scripts/setup");
    return;
  }
  const testing_support::TemporaryFolder folder;
  const std::filesystem::path lp = folder.path() / "p.lp";
  write_lp(network, lp);
  double cbc_s = 0.0;
  std::string objective;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    const auto result = testing_support::run_process(
        {cbc.string(), lp.string(), "solve"},
        {.folder = folder.path(), .environment = {}, .timeout_s = 600});
    cbc_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const std::string mark = "Objective value:";
    const std::size_t place = result.out.find(mark);
    if (place == std::string::npos) {
      state.SkipWithError("cbc found no optimum in 600 s");
      return;
    }
    objective = result.out.substr(place + mark.size(), 40);
  }
  const ExactSolution ours = ExactSolver(network).solve();
  state.counters["ratio"] = cbc_s / std::min(seconds_of(network), seconds_of(network));
  state.counters["difference_us"] = std::stod(objective) - ours.objective;
}
BENCHMARK(BM_Cbc)->Args({0, 1})->Args({0, 2})->Args({1, 2})->Iterations(1)->Unit(
    benchmark::kSecond);

}  // namespace
}  // namespace shardlab
