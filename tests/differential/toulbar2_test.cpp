// The exact solver agrees with toulbar2, another exact solver (Debian package toulbar2), on
// networks that are too large for trying every assignment.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "runner/config/configs.h"
#include "runner/config/read_json.h"
#include "strategies/programs/program_prices.h"
#include "strategies/programs/program_strategies.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/solvers/cfn.h"
#include "strategies/solvers/exact.h"
#include "tests/support/autoparallel_instance.h"
#include "tests/support/process.h"
#include "tests/support/random_networks.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace toulbar2_test {

using testing_support::ProcessResult;
using testing_support::Random;
using testing_support::TemporaryFolder;

// The path of toulbar2; empty if it is not installed.
std::filesystem::path toulbar2() {
  const char* folders = std::getenv("PATH");
  std::istringstream list(folders == nullptr ? "" : folders);
  for (std::string folder; std::getline(list, folder, ':');) {
    const std::filesystem::path path = std::filesystem::path(folder) / "toulbar2";
    if (std::filesystem::exists(path)) return path;
  }
  return {};
}
bool has_toulbar2() { return !toulbar2().empty(); }

// The optimum that toulbar2 proves, infinite where it proves that there is no solution. Fails the
// test when it proves neither.
double toulbar2_optimum(const CostNetwork& network) {
  const TemporaryFolder folder;
  const auto path = folder.write("p.cfn", write_cfn(network, "p"));
  const ProcessResult result = testing_support::run_process(
      {toulbar2().string(), path.string()}, {.folder = folder.path(), .environment = {}});
  const std::string mark = "Optimum: ";
  const std::size_t place = result.out.find(mark);
  if (place != std::string::npos) return std::stod(result.out.substr(place + mark.size()));
  EXPECT_NE(result.out.find("No solution"), std::string::npos) << result.out << result.err;
  return kForbidden;
}

void expect_equal(const CostNetwork& network) {
  const double theirs = toulbar2_optimum(network);
  const ExactSolution ours = ExactSolver(network).solve({.explain = false});
  ASSERT_EQ(ours.feasible, theirs < kForbidden);
  if (ours.feasible) {
    EXPECT_NEAR(ours.objective, theirs, 1e-4);
    EXPECT_TRUE(ours.optimal);
  }
}

CostNetwork grid(Random& random, int rows, int columns, int values) {
  CostNetwork network;
  std::vector<std::string> names;
  for (int x = 0; x < values; ++x) names.push_back("v" + std::to_string(x));
  const int domain = network.add_domain(names);
  const auto price = [&] { return 0.001 * static_cast<double>(random.between(0, 50000)); };
  for (int i = 0; i < rows * columns; ++i) {
    std::vector<double> costs;
    for (int x = 0; x < values; ++x) costs.push_back(price());
    network.add_variable("n" + std::to_string(i), domain, costs);
  }
  const auto edge = [&](int a, int b) {
    std::vector<double> costs;
    for (int i = 0; i < values * values; ++i) {
      costs.push_back(random.percent(10) ? kForbidden : price());
    }
    network.add_edge(a, b, network.add_table(values, values, std::move(costs)));
  };
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      if (c + 1 < columns) edge(r * columns + c, r * columns + c + 1);
      if (r + 1 < rows) edge(r * columns + c, (r + 1) * columns + c);
    }
  }
  return network;
}

// A series-parallel network: it grows by putting an edge beside an edge, or a node into one.
CostNetwork series_parallel(Random& random, int nodes, int values) {
  CostNetwork network;
  std::vector<std::string> names;
  for (int x = 0; x < values; ++x) names.push_back("v" + std::to_string(x));
  const int domain = network.add_domain(names);
  const auto price = [&] { return 0.001 * static_cast<double>(random.between(0, 50000)); };
  std::vector<std::pair<int, int>> edges = {{0, 1}};
  for (int i = 0; i < nodes; ++i) {
    std::vector<double> costs;
    for (int x = 0; x < values; ++x) costs.push_back(price());
    network.add_variable("n" + std::to_string(i), domain, costs);
    if (i < 2) continue;
    const auto [a, b] = random.pick(edges);
    edges.emplace_back(a, i);
    edges.emplace_back(i, b);
  }
  for (const auto& [a, b] : edges) {
    std::vector<double> costs;
    for (int k = 0; k < values * values; ++k) {
      costs.push_back(random.percent(15) ? kForbidden : price());
    }
    network.add_edge(a, b, network.add_table(values, values, std::move(costs)));
  }
  return network;
}

void check(std::uint64_t test, int count) {
  if (!has_toulbar2()) GTEST_SKIP() << "toulbar2 is not installed: scripts/setup";
  Random random(test);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    if (i % 2 == 0) {
      expect_equal(grid(random, 2 + random.below(4), 3 + random.below(10), 2 + random.below(5)));
    } else {
      expect_equal(series_parallel(random, 5 + random.below(60), 2 + random.below(8)));
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Toulbar2, AgreesOnGridsAndSeriesParallelNetworks) { check(711, 20); }
TEST(Toulbar2Slow, AgreesOnGridsAndSeriesParallelNetworks) { check(712, 200); }

TEST(Toulbar2, AgreesOnAnInfeasibleNetwork) {
  if (!has_toulbar2()) GTEST_SKIP() << "toulbar2 is not installed: scripts/setup";
  CostNetwork network;
  const int domain = network.add_domain({"a", "b"});
  network.add_variable("x", domain, std::vector<double>{0, kForbidden});
  network.add_variable("y", domain, std::vector<double>{kForbidden, 0});
  network.add_edge(0, 1, network.add_table(2, 2, {0, kForbidden, kForbidden, 0}));
  expect_equal(network);
}

// Programs have names of layouts with commas and brackets, and nodes that are called as they like.
TEST(Toulbar2, ReadsTheNamesOfPrograms) {
  if (!has_toulbar2()) GTEST_SKIP() << "toulbar2 is not installed: scripts/setup";
  CostNetwork odd;
  const int domain = odd.add_domain({"RR<-RR,R", "RR<-RR,RR", "RR<-RR;RR",
                                     "_S(0,32000)R<-S(0)[1]S(0)[0]", "_S(0,32000)R<-S(0)(1)S(0)(0)",
                                     "32000", "_32000", "a b", "a_b", "{x}:\"y\\"});
  std::vector<double> costs(10);
  for (std::size_t x = 0; x < costs.size(); ++x) costs[x] = static_cast<double>(x % 7) + 0.5;
  for (const char* name : {"0", "_0", "w[0]", "w(0)", "w 0", "layers.0:w,1"}) {
    odd.add_variable(name, domain, costs);
  }
  expect_equal(odd);

  const ConfigStore store = testing_support::shipped();
  const Topology topology = store.topology("h100");
  const Stack stack = store.stack("alpha-beta");
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  StackEvaluator evaluator(stack, topology);
  const Program program = store.program("mlp");
  const ProgramStrategies strategies =
      enumerate_strategies(program, mesh,
                           {.rules = stack.rules.set_for("solve"),
                            .strided = false,
                            .links = links_of(evaluator.on(mesh))});
  const ProgramPrices prices(program, strategies, evaluator, mesh, 1);
  const CostNetwork network = network_of(make_problem(program, mesh, strategies, prices));
  const std::string text = write_cfn(network, program.name);
  ASSERT_NE(text.find("RR<-RR;RR"), std::string::npos);
  expect_equal(network);
}

// Names that toulbar2 would read as one stay different.
TEST(Cfn, NamesStayDifferent) {
  CostNetwork network;
  const int domain = network.add_domain({"a,b", "a;b", "a;b_2", "1", "_1"});
  network.add_variable("x[0]", domain, std::vector<double>{3, 2, 1, 4, 5});
  network.add_variable("x(0)", domain, std::vector<double>{3, 2, 4, 1, 5});
  const CfnProblem read =
      read_cfn(parse_json(strict_cfn(write_cfn(network, "a,b")), "g.cfn"), {"g.cfn", ""});
  EXPECT_EQ(read.name, "a;b");
  EXPECT_EQ(read.network.name(0), "x(0)");
  EXPECT_EQ(read.network.name(1), "x(0)_2");
  EXPECT_EQ(read.network.domain_names(0),
            (std::vector<std::string>{"a;b", "a;b_2", "a;b_2_2", "_1", "_1_2"}));
  EXPECT_EQ(ExactSolver(read.network).solve().objective, 2.0);
}

TEST(Cfn, WhatIsWrittenReadsBack) {
  Random random(713);
  for (int i = 0; i < 20; ++i) {
    const CostNetwork network = grid(random, 2, 3, 3);
    const CfnProblem read =
        read_cfn(parse_json(strict_cfn(write_cfn(network, "g")), "g.cfn"), {"g.cfn", ""});
    EXPECT_EQ(read.name, "g");
    const ExactSolution before = ExactSolver(network).solve({.explain = false});
    const ExactSolution after = ExactSolver(read.network).solve({.explain = false});
    ASSERT_EQ(before.feasible, after.feasible);
    if (before.feasible) {
      EXPECT_NEAR(before.objective, after.objective, 1e-9);
    }
  }
}

}  // namespace toulbar2_test
}  // namespace shardlab
