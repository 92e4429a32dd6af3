// The problem that we make of LLaMA3-8B's program equals AutoParallel's own instances: nodes,
// strategies strategy by strategy, kernels, edges, bans and the price of the optimum. The instances
// are a committed sample and, where they are there, the whole files.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <regex>
#include <set>

#include "costmodel/base/index.h"
#include "runner/config/read_json.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/dtype_chains.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/sharding_problem.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace autoparallel_program_test {

using nlohmann::json;
using testing_support::shipped;

Program llama(const std::string& form, std::int64_t layers) {
  const MatmulForm matmul = form == "native" ? MatmulForm::kNative : MatmulForm::kEinsum;
  return find_built_in_program("llama3-8b")
      ->make({.layers = layers, .batch = 16, .seqlen = 8192, .matmul = matmul});
}

// The golden optima's constraints.
ProblemOptions golden_options() {
  ProblemOptions options;
  options.pin_inputs = Layout::parse("S(0)R", 2).placements;
  options.pin_outputs = Layout::parse("S(0)S(2)", 2).placements;
  options.parameter_budget = 1.0 / 64.0;
  return options;
}

// A program, with its strategies and prices.
struct Instance {
  explicit Instance(Program made)
      : program(std::move(made)),
        mesh(DeviceMesh::parse("8x8")),
        strategies(enumerate_strategies(program, mesh)),
        evaluator(shipped().stack("ap-nccl"), shipped().topology("h100")),
        prices(program, strategies, evaluator, mesh),
        problem(make_problem(program, mesh, strategies, prices, golden_options())) {
    for (std::size_t e = 0; e < prices.edges().size(); ++e) {
      const PricedEdge& edge = prices.edges()[e];
      edges[{edge.reader, edge.argument}] = e;
    }
  }
  Program program;
  DeviceMesh mesh;
  ProgramStrategies strategies;
  StackEvaluator evaluator;
  ProgramPrices prices;
  ShardingProblem problem;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> edges;  // by reader and argument

  [[nodiscard]] double cost(std::size_t edge, std::size_t row, std::size_t column) const {
    const ProblemTable& table = problem.tables[to_index(problem.edges[edge].table)];
    return table.costs[row * static_cast<std::size_t>(table.columns) + column];
  }
  [[nodiscard]] bool changes(std::size_t edge, std::size_t row, std::size_t column) const {
    const PricedEdge& priced = problem.priced[edge];
    const NodeClass& reader = strategies.of(priced.reader);
    return strategies.layout(reader, row, reader.outputs + priced.argument) !=
           strategies.layout(strategies.of(priced.producer), column, priced.output);
  }
};

// Says how a cost differs from that of the golden communication; empty if it does not.
std::string difference(const Instance& instance, std::size_t edge, std::size_t row,
                       std::size_t column, const json& golden) {
  const double found = instance.cost(edge, row, column);
  double expected = kInfinity;
  if (golden.is_number()) {
    expected = golden.get<double>() + (instance.changes(edge, row, column) ? 1.0 : 0.0);
  }
  if (expected == found || std::abs(found - expected) <= 1e-12 * expected) return "";
  return "row " + std::to_string(row) + ", column " + std::to_string(column) + ": found " +
         std::to_string(found) + ", golden " + golden.dump();
}

// What the chosen strategies cost in this problem, edge by edge.
double objective_of(const ShardingProblem& problem, const std::vector<int>& chosen) {
  double total = 0.0;
  for (std::size_t n = 0; n < chosen.size(); ++n) {
    total += problem.costs[n][to_index(chosen[n])];
  }
  for (const ProblemEdge& edge : problem.edges) {
    const ProblemTable& table = problem.tables[to_index(edge.table)];
    total += table.costs[to_index(chosen[to_index(edge.first)] * table.columns +
                                  chosen[to_index(edge.second)])];
  }
  return total;
}

void expect_optimum(const Instance& instance, const std::vector<int>& chosen, const json& optimum) {
  const double golden = optimum["objective"];
  EXPECT_NEAR(objective_of(instance.problem, chosen), golden, 1e-9 * golden);
  const Breakdown parts = instance.problem.breakdown(instance.strategies, instance.prices, chosen);
  EXPECT_NEAR(parts.total_us(), golden, 1e-9 * golden);
  EXPECT_NEAR(parts.compute_us, optimum["compute"].get<double>(), 1e-9 * golden);
  EXPECT_NEAR(parts.communication_us, optimum["communication"].get<double>(), 1e-9 * golden);
  EXPECT_EQ(parts.transition_us, optimum["transitions"].get<double>());
}

// -- The committed sample -------------------------------------------------------------------------

class ApProgramSample : public testing::TestWithParam<const char*> {
 protected:
  static const json& file() {
    static const json sample =
        read_json_file(SHARDLAB_SOURCE_DIR "/tests/golden/autoparallel/llama3_8b.json");
    return sample;
  }
  static const json& form() { return file()[GetParam()]; }
};

std::string target_of(const ProgramNode& node) {
  if (node.is_source()) return "";
  return node.op == kGetItem ? "<built-in function getitem>" : node.op;
}

TEST_P(ApProgramSample, EveryDepthHasItsNodesEdgesAndOps) {
  for (const auto& [layers, golden] : form()["depths"].items()) {
    const Program program = llama(GetParam(), std::stoll(layers));
    EXPECT_EQ(program.nodes.size(), golden["nodes"].get<std::size_t>());
    EXPECT_EQ(boost::num_edges(graph_of(program)), golden["edges"].get<std::size_t>());
    std::map<std::string, int> targets;
    for (const ProgramNode& node : program.nodes) ++targets[target_of(node)];
    EXPECT_EQ(json(targets), golden["targets"]) << layers << " layers";
  }
}

TEST_P(ApProgramSample, HasTheGoldenStrategiesAndKernels) {
  const Instance instance(llama(GetParam(), 2));
  std::size_t points = 0;
  for (const json& list : form()["lists"]) {
    const std::size_t node = instance.program.find(list[0].get<std::string>()).value();
    const NodeClass& own = instance.strategies.of(node);
    EXPECT_EQ(own.strategies, list[1].get<std::size_t>()) << list[0];
    const std::span<const double> us =
        instance.prices.compute_us(instance.strategies.class_of[node]);
    for (const json& row : list[2]) {
      const std::size_t i = row[0];
      ASSERT_LT(i, own.strategies);
      EXPECT_EQ(instance.strategies.strategy_text(own, i), row[1]) << list[0];
      EXPECT_NEAR(us[i], row[2].get<double>(), 1e-12 * us[i]) << list[0] << " " << row;
      ++points;
    }
  }
  EXPECT_GT(points, 500U);
}

TEST_P(ApProgramSample, HasTheGoldenEdgesAndBans) {
  const Instance instance(llama(GetParam(), 2));
  std::size_t points = 0;
  for (const json& table : form()["edges"]) {
    const std::size_t reader = instance.program.find(table[0].get<std::string>()).value();
    const std::size_t edge = instance.edges.at({reader, table[1].get<std::size_t>()});
    const ProblemTable& own = instance.problem.tables[to_index(instance.problem.edges[edge].table)];
    ASSERT_EQ(own.rows, table[2].get<int>()) << table[0];
    ASSERT_EQ(own.columns, table[3].get<int>()) << table[0];
    for (const json& entry : table[4]) {
      EXPECT_EQ(difference(instance, edge, entry[0], entry[1], entry[2]), "") << table[0];
      ++points;
    }
  }
  EXPECT_GT(points, 1000U);
}

TEST_P(ApProgramSample, TheGoldenPlanHasItsPrice) {
  expect_optimum(Instance(llama(GetParam(), 2)), form()["chosen"].get<std::vector<int>>(),
                 form()["depths"]["2"]["optimum"]);
}

// Counts lists together with their kernels, and tables of communication with their bans, as
// AutoParallel does.
TEST_P(ApProgramSample, HasAsManyDistinctListsAndTablesAtEveryDepth) {
  for (const std::int64_t layers : {1, 2, 32}) {
    const Instance instance(llama(GetParam(), layers));
    std::set<std::vector<std::string>> lists;
    for (std::size_t c = 0; c < instance.strategies.classes.size(); ++c) {
      const NodeClass& own = instance.strategies.classes[c];
      std::vector<std::string> list;
      for (std::size_t strategy = 0; strategy < own.strategies; ++strategy) {
        std::string text = instance.strategies.strategy_text(own, strategy);
        // In AutoParallel's instances a source is its own input.
        if (own.inputs() == 0) text += "<-" + text;
        list.push_back(
            text + " " +
            std::to_string(instance.prices.compute_us(static_cast<std::uint32_t>(c))[strategy]));
      }
      lists.insert(list);
    }
    std::set<std::vector<double>> tables;
    const std::vector<bool> silent = silent_nodes(instance.program, {});
    std::set<std::pair<std::uint32_t, bool>> seen;
    for (const PricedEdge& edge : instance.prices.edges()) {
      if (!seen.insert({edge.table, silent[edge.reader]}).second) continue;
      const PriceTable& prices = instance.prices.table(edge.table);
      std::vector<double> costs = {static_cast<double>(prices.columns())};
      for (std::size_t row = 0; row < prices.rows(); ++row) {
        for (std::size_t column = 0; column < prices.columns(); ++column) {
          const double us = prices.at(row, column);
          costs.push_back(silent[edge.reader] && us > 0.0 ? kInfinity : us);
        }
      }
      tables.insert(costs);
    }
    const json& distinct = file()["header"]["distinct"][GetParam()];
    EXPECT_EQ(lists.size(), distinct[0].get<std::size_t>()) << layers << " layers";
    EXPECT_EQ(tables.size(), distinct[1].get<std::size_t>()) << layers << " layers";
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, ApProgramSample, testing::Values("einsum", "native"),
                         [](const auto& test) { return std::string(test.param); });

// -- The whole files ------------------------------------------------------------------------------

class ApProgramWhole : public testing::TestWithParam<const char*> {
 protected:
  static json read() {
    return read_json_file(std::string(SHARDLAB_GOLDEN_DIR "/autoparallel/autoparallel_llama3_8b_") +
                          GetParam() + ".json");
  }
};

json own_layout_text(const json& layout) {
  static const std::regex mask(R"(MaskP\(sum, torch\.Size\(\[(\d+), \d+\]\), 0\))");
  return std::regex_replace(layout.get<std::string>(), mask, "MP(0,$1)");
}

// "S(0)R<-S(0)R,RR" of a golden row.
std::string row_text_of(const json& row, bool reads) {
  const auto joined = [](const json& layouts) {
    std::string text;
    for (const json& layout : layouts.is_array() ? layouts : json::array({layouts})) {
      if (layout.is_null()) continue;
      text += (text.empty() ? "" : ",") + own_layout_text(layout).get<std::string>();
    }
    return text;
  };
  return joined(row[0]) + (reads ? "<-" + joined(row[1]) : "");
}

std::string dtype_name(const std::string& torch) {
  static const std::map<std::string, std::string> kNames = {{"torch.bfloat16", "bf16"},
                                                            {"torch.float32", "f32"},
                                                            {"torch.int64", "i64"},
                                                            {"torch.uint64", "u64"},
                                                            {"torch.complex64", "c64"}};
  return kNames.at(torch);
}

void expect_same_node(const ProgramNode& own, const json& golden, const json& metas) {
  EXPECT_EQ(own.name, golden[0]);
  EXPECT_EQ(target_of(own), golden[1] == "placeholder" ? "" : golden[2]);
  std::vector<json> tensors;
  for (const json& meta : metas) {
    if (!meta.is_null()) tensors.push_back(meta);
  }
  ASSERT_EQ(own.outputs.size(), tensors.size()) << own.name;
  for (std::size_t o = 0; o < tensors.size(); ++o) {
    const Shape& shape = own.outputs[o].shape;
    const Shape strides = own.outputs[o].all_strides();
    EXPECT_EQ(json(std::vector<std::int64_t>(shape.begin(), shape.end())), tensors[o][0]);
    EXPECT_EQ(json(std::vector<std::int64_t>(strides.begin(), strides.end())), tensors[o][1]);
    EXPECT_EQ(to_string(own.outputs[o].dtype), dtype_name(tensors[o][2])) << own.name;
  }
  const std::vector<ValueRef> values = values_read(own);
  ASSERT_EQ(values.size(), golden[5].size()) << own.name;
  for (std::size_t a = 0; a < values.size(); ++a) EXPECT_EQ(values[a].node, golden[5][a][0]);
}

TEST_P(ApProgramWhole, IsReproducedFromTheProgramAlone) {
  const json file = read();
  for (const auto& [layers, model] : file["models"].items()) {
    const Instance instance(llama(GetParam(), std::stoll(layers)));
    const json& nodes = model["nodes"];
    ASSERT_EQ(instance.program.nodes.size(), nodes.size());
    std::set<std::pair<std::size_t, std::size_t>> lists;
    std::set<std::tuple<std::size_t, std::size_t, std::size_t>> tables;
    std::size_t edge = 0;
    std::size_t entries = 0;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      expect_same_node(instance.program.nodes[n], nodes[n],
                       file["metas"][nodes[n][3].get<std::size_t>()]);
      const NodeClass& own = instance.strategies.of(n);
      const std::size_t list = nodes[n][4];
      const json& rows = file["strategy_tables"][list];
      if (lists.insert({instance.strategies.class_of[n], list}).second) {
        ASSERT_EQ(own.strategies, rows.size()) << nodes[n][0];
        const std::span<const double> us =
            instance.prices.compute_us(instance.strategies.class_of[n]);
        for (std::size_t row = 0; row < rows.size(); ++row) {
          EXPECT_EQ(instance.strategies.strategy_text(own, row),
                    row_text_of(rows[row], own.inputs() > 0))
              << nodes[n][0];
          EXPECT_NEAR(us[row], rows[row][2].get<double>(), 1e-12 * us[row]) << nodes[n][0];
        }
      }
      for (const json& argument : nodes[n][5]) {
        const std::size_t number = argument[1];
        const auto id = static_cast<std::size_t>(instance.problem.edges[edge].table);
        if (tables.insert({id, instance.prices.edges()[edge].table, number}).second) {
          const json& golden = file["edge_tables"][number];
          std::set<std::pair<std::size_t, std::size_t>> banned;
          for (const json& pair : golden["dtype_banned"])
            banned.emplace(pair[0].get<std::size_t>(), pair[1].get<std::size_t>());
          for (std::size_t row = 0; row < golden["comm"].size(); ++row) {
            for (std::size_t column = 0; column < golden["comm"][row].size(); ++column) {
              const json expected =
                  banned.contains({row, column}) ? json() : golden["comm"][row][column];
              const std::string text = difference(instance, edge, row, column, expected);
              ASSERT_EQ(text, "") << nodes[n][0] << " of " << layers << " layers";
              ++entries;
            }
          }
        }
        ++edge;
      }
    }
    EXPECT_GT(entries, 150000U);
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (const json& pair : model["pairs"]) pairs.emplace_back(pair[1], pair[2]);
    EXPECT_EQ(instance.program.pairs, pairs);
    expect_optimum(instance, model["optimum"]["chosen"].get<std::vector<int>>(), model["optimum"]);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, ApProgramWhole, testing::Values("einsum", "native"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace autoparallel_program_test
}  // namespace shardlab
