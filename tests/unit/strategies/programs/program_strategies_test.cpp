// Strategies of a program's nodes: what each kind of node lists, in which order, and what nodes
// share.
#include "strategies/programs/program_strategies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "costmodel/base/error.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/program_builder.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace program_strategies_test {

using testing_support::message_of;
using Texts = std::vector<std::string>;

Value input(ProgramBuilder& b, Shape shape) {
  return b.source(NodeKind::kInput, meta_of(DType::kBF16, std::move(shape)));
}
// The strategies of the last node of a program.
Texts strategies_of(ProgramBuilder b, const char* mesh, const StrategyOptions& options = {}) {
  const Program program = std::move(b).build().program;
  const ProgramStrategies all = enumerate_strategies(program, DeviceMesh::parse(mesh), options);
  const NodeClass& last = all.of(program.nodes.size() - 1);
  Texts strategies;
  for (std::size_t strategy = 0; strategy < last.strategies; ++strategy) {
    strategies.push_back(all.strategy_text(last, strategy));
  }
  return strategies;
}

TEST(ProgramStrategies, SourcesHaveNoPartials) {
  ProgramBuilder b("p", "");
  static_cast<void>(input(b, {16, 64}));
  EXPECT_EQ(strategies_of(std::move(b), "8x8"),
            (Texts{"RR", "RS(0)", "RS(1)", "S(0)R", "S(0)S(1)", "S(1)R", "S(1)S(0)", "S(1)S(1)"}));
}

TEST(ProgramStrategies, AnAliasChoosesAnew) {
  ProgramBuilder b("p", "");
  const Value x = input(b, {4, 4});
  const Value y = b.mm(x, x);
  static_cast<void>(b.unary("aten.alias.default", y));
  EXPECT_EQ(strategies_of(std::move(b), "2"), (Texts{"R<-R", "S(0)<-S(0)", "S(1)<-S(1)"}));
}

// Under DTensor's rules, too, whose strategy of the prim would reduce partials first.
TEST(ProgramStrategies, ACastKeepsWhatItsProducerMayLeave) {
  for (const RuleSet rules : {kShardlab, RuleSet(Release::k2_13)}) {
    ProgramBuilder b("p", "");
    const Value x = input(b, {4, 4});
    static_cast<void>(b.convert(b.mm(x, x), DType::kF32));
    Texts strategies = strategies_of(std::move(b), "2", {.rules = rules});
    EXPECT_THAT(strategies, testing::IsSupersetOf({"R<-R", "P(sum)<-P(sum)", "S(0)<-S(0)",
                                                   "S(1)<-S(1)", "P(avg)<-P(avg)"}));
  }
}

TEST(ProgramStrategies, AnEinsumTakesNoPartials) {
  ProgramBuilder b("p", "");
  const Value x = input(b, {4, 4, 4});
  const Value w = input(b, {4, 4});
  static_cast<void>(b.op("aten.einsum.default", {x, w}, nlohmann::json::array({"abk,kn->abn"}),
                         {meta_of(DType::kBF16, {4, 4, 4})}));
  EXPECT_EQ(strategies_of(std::move(b), "2"),
            (Texts{"R<-R,R", "P(sum)<-S(2),S(0)", "S(0)<-S(0),R", "S(1)<-S(1),R", "S(2)<-R,S(1)"}));
}

TEST(ProgramStrategies, AViewGathersWhatItCantShowPlainly) {
  ProgramBuilder b("p", "");
  static_cast<void>(b.view(input(b, {4, 4, 8}), {16, 8}));
  EXPECT_EQ(strategies_of(std::move(b), "2"), (Texts{"R<-R", "S(0)<-S(0)", "S(1)<-S(2)"}));
}

// PyTorch's rule keeps both shards, whose rows then do not fit the result: [6,32] over 2x2 leaves
// 2, 1, 2 and 1 rows of 32, but [12,16] leaves 3 rows of 16 everywhere.
TEST(ProgramStrategies, AViewOfUnevenShardsOverTwoMeshDimsKeepsOnlyWhatRanksHold) {
  const auto listed = [](std::int64_t rows, const StrategyOptions& options) {
    ProgramBuilder b("p", "");
    static_cast<void>(b.view(input(b, {8, rows, 32}), {8, 2 * rows, 16}));
    const Texts texts = strategies_of(std::move(b), "2x2", options);
    return std::find(texts.begin(), texts.end(), "S(1)S(1)<-S(1)S(1)") != texts.end();
  };
  for (const RuleSet set : {RuleSet(Release::k2_13), RuleSet(Release::k2_15), kShardlab}) {
    EXPECT_FALSE(listed(6, {.rules = set})) << name_of(set);
    EXPECT_TRUE(listed(8, {.rules = set})) << name_of(set);
  }
  EXPECT_TRUE(listed(6, {.rules = kAutoParallel}));  // as AutoParallel lists it
}

// AutoParallel's pull request 429: the second of the flattened dims becomes a strided shard, which
// the product then lists.
TEST(ProgramStrategies, StridedShardsComeThroughViewsIntoProducts) {
  ProgramBuilder b("p", "");
  const Value flat = b.view(input(b, {4, 4, 8}), {16, 8});
  const StrategyOptions strided{.rules = kAutoParallel, .strided = true};
  EXPECT_EQ(strategies_of(b, "2", strided),
            (Texts{"R<-R", "S(0)<-S(0)", "_S(0,4)<-S(1)", "S(1)<-S(2)"}));
  static_cast<void>(b.mm(flat, input(b, {8, 8})));
  const Texts strategies = strategies_of(b, "2", strided);
  EXPECT_NE(std::find(strategies.begin(), strategies.end(), "_S(0,4)<-_S(0,4),R"),
            strategies.end());
  EXPECT_NE(std::find(strategies.begin(), strategies.end(), "S(0)<-S(0),R"), strategies.end());
  // Without a strided input the list is the plain one.
  ProgramBuilder plain("p", "");
  const Value x = input(plain, {16, 8});
  static_cast<void>(plain.mm(x, input(plain, {8, 8})));
  EXPECT_EQ(strategies_of(plain, "2", strided), strategies_of(plain, "2"));
}

// With both, nothing of either list is lost, and nothing is listed twice. Strided shards that say
// the same as a shard order read as this order: _S(0,4)S(0) on 2x4 is S(0)[1]S(0)[0].
TEST(ProgramStrategies, StridedShardsAndShardOrdersAreListedTogether) {
  ProgramBuilder b("p", "");
  const Value flat = b.view(input(b, {8, 8, 8}), {64, 8});
  static_cast<void>(b.mm(flat, input(b, {8, 8})));
  const StrategyOptions strided{.rules = kAutoParallel, .strided = true};
  const StrategyOptions orders{.rules = kAutoParallel, .links = {0, 1}};
  const StrategyOptions both{.rules = kAutoParallel, .strided = true, .links = {0, 1}};
  Texts listed = strategies_of(b, "2x4", both);
  for (const StrategyOptions& one : {strided, orders}) {
    for (std::string text : strategies_of(b, "2x4", one)) {
      text = std::regex_replace(text, std::regex("_S\\(([01]),4\\)S\\(\\1\\)"), "S($1)[1]S($1)[0]");
      EXPECT_NE(std::find(listed.begin(), listed.end(), text), listed.end()) << text;
    }
  }
  std::sort(listed.begin(), listed.end());
  EXPECT_EQ(std::adjacent_find(listed.begin(), listed.end()), listed.end());
}

// Where two mesh dims cut one tensor dim, either may cut first. All tensors of a strategy have the
// same order.
TEST(ProgramStrategies, ShardOrdersFollowTheStrategiesInDefaultOrder) {
  ProgramBuilder b("p", "");
  const Value x = input(b, {16, 8});
  const StrategyOptions orders{.rules = kAutoParallel, .links = {0, 1}};
  const Texts plain = strategies_of(b, "2x4");
  Texts expected = plain;
  expected.insert(expected.end(), {"S(0)[1]S(0)[0]", "S(1)[1]S(1)[0]"});
  EXPECT_EQ(strategies_of(b, "2x4", orders), expected);
  static_cast<void>(b.unary("aten.relu.default", x));
  const Texts ops = strategies_of(b, "2x4", orders);
  EXPECT_NE(std::find(ops.begin(), ops.end(), "S(0)[1]S(0)[0]<-S(0)[1]S(0)[0]"), ops.end());
  EXPECT_EQ(std::find(ops.begin(), ops.end(), "S(0)[1]S(0)[0]<-S(0)S(0)"), ops.end());
  // On three mesh dims, three shards have six orders, and a pair of them two.
  ProgramBuilder cube("p", "");
  static_cast<void>(input(cube, {8}));
  EXPECT_EQ(strategies_of(cube, "2x2x2").size(), 8U);
  const auto count = [&](std::vector<int> links) {
    return strategies_of(cube, "2x2x2", {.rules = kAutoParallel, .links = std::move(links)}).size();
  };
  EXPECT_EQ(count({0, 1, 2}), 8U + 3U + 5U);
  // Among mesh dims with equal links, the order does not matter.
  EXPECT_EQ(count({0, 0, 0}), 8U);
  EXPECT_EQ(count({0, 1, 1}), 8U + 2U + 2U);
}

TEST(ProgramStrategies, OnlyEvenCutsHaveOrders) {
  ProgramBuilder b("p", "");
  static_cast<void>(input(b, {12, 7}));
  EXPECT_EQ(strategies_of(b, "2x4", {.rules = kAutoParallel, .links = {0, 1}}),
            strategies_of(b, "2x4"));
}

// [16] as [2,8] on a mesh 2x4: the first mesh dim cuts the 2 only where it cuts first.
TEST(ProgramStrategies, AViewHasTheOrdersThatItShowsWithoutMovingRows) {
  ProgramBuilder b("p", "");
  static_cast<void>(b.view(input(b, {8, 8, 4}), {64, 4}));
  const StrategyOptions orders{.rules = kAutoParallel, .links = {0, 1}};
  const Texts merged = strategies_of(b, "2x4", orders);
  const auto has = [](const Texts& all, const char* one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  EXPECT_TRUE(has(merged, "S(0)[1]S(0)[0]<-S(0)[1]S(0)[0]"));
  ProgramBuilder split("p", "");
  static_cast<void>(split.view(input(split, {16}), {2, 8}));
  const Texts parts = strategies_of(split, "2x4", {.rules = kShardlab, .links = {0, 1}});
  EXPECT_TRUE(has(parts, "S(0)S(1)<-S(0)S(0)"));
  EXPECT_FALSE(has(parts, "S(0)S(1)<-S(0)[1]S(0)[0]"));
}

TEST(ProgramStrategies, APartOfATupleKeepsItsElementsLayouts) {
  ProgramBuilder b("p", "");
  const Value q = input(b, {2, 2, 4, 8});
  const TensorMeta out = meta_of(DType::kBF16, {2, 2, 4, 8});
  const Value flash = b.op("aten._scaled_dot_product_flash_attention.default", {q, q, q},
                           nlohmann::json::array({0.0, true}),
                           {out, meta_of(DType::kF32, {2, 2, 4}), meta_of(DType::kU64, {2}),
                            meta_of(DType::kU64, {}), meta_of(DType::kBF16, {0})});
  EXPECT_EQ(strategies_of(b, "2")[1], "S(1),S(1),R,R,R<-S(1),S(1),S(1)");
  ProgramBuilder seed = b;
  static_cast<void>(seed.part(flash, 2));
  EXPECT_EQ(strategies_of(seed, "2"), (Texts{"R<-R"}));
  static_cast<void>(b.part(flash, 0));
  EXPECT_EQ(strategies_of(b, "2"), (Texts{"R<-R", "S(1)<-S(1)", "S(0)<-S(0)"}));
}

TEST(ProgramStrategies, AnOpWithoutARuleReplicatesAndIsNoted) {
  ProgramBuilder b("p", "");
  static_cast<void>(b.unary("mylib.secret.default", input(b, {4, 4})));
  const Program program = std::move(b).build().program;
  const ProgramStrategies all = enumerate_strategies(program, DeviceMesh::parse("2x2"));
  EXPECT_EQ(all.of(1).strategies, 1U);
  EXPECT_EQ(all.strategy_text(all.of(1), 0), "RR<-RR");
  EXPECT_EQ(all.notes, (Texts{"mylib.secret.default has no sharding rule, so node secret is "
                              "replicated, and priced by its bytes alone"}));
}

// One note tells of all nodes of an op.
TEST(ProgramStrategies, NodesOfOneUnknownOpShareANote) {
  ProgramBuilder b("p", "");
  Value y = input(b, {4, 4});
  for (int i = 0; i < 4; ++i) y = b.unary("mylib.secret.default", y);
  for (int i = 0; i < 2; ++i) y = b.unary("mylib.other.default", y);
  const Program program = std::move(b).build().program;
  EXPECT_EQ(enumerate_strategies(program, DeviceMesh::parse("2")).notes,
            (Texts{"mylib.secret.default has no sharding rule, so its 4 nodes are replicated, and "
                   "priced by their bytes alone: secret, "
                   "secret_1, secret_2, ...",
                   "mylib.other.default has no sharding rule, so its 2 nodes are replicated, and "
                   "priced by their bytes alone: other, "
                   "other_1"}));
}

// Truth values have no average. PyTorch's rules list it all the same, but no rank can run it.
TEST(ProgramStrategies, PartialsWithoutAReductionAreLeftOut) {
  ProgramBuilder b("p", "");
  const Value x = b.source(NodeKind::kInput, meta_of(DType::kB8, {4}));
  static_cast<void>(b.unary("aten.detach.default", x));
  for (const RuleSet rules : {RuleSet(Release::k2_14), kShardlab}) {
    EXPECT_EQ(strategies_of(b, "2", {.rules = rules}),
              (Texts{"R<-R", "S(0)<-S(0)", "P(sum)<-P(sum)", "P(min)<-P(min)", "P(max)<-P(max)"}));
  }
}

// DTensor lets rank 1 of two look up rows 4 to 7 of the index in rows 6 to 11, which are others.
TEST(ProgramStrategies, RowsThatComputeSomethingElseAreLeftOut) {
  const auto gathered = [](Shape index_shape, RuleSet rules) {
    ProgramBuilder b("p", "");
    const Value x = input(b, {12, 8});
    const TensorMeta made = meta_of(DType::kBF16, index_shape);
    const Value index = b.source(NodeKind::kInput, meta_of(DType::kI64, std::move(index_shape)));
    static_cast<void>(b.op("aten.gather.default", {x, index}, {1}, {made}));
    return strategies_of(std::move(b), "2", {.rules = rules});
  };
  const std::string by_rows = "S(0)<-S(0),S(0)";
  EXPECT_THAT(gathered({8, 4}, Release::k2_13), testing::Not(testing::Contains(by_rows)));
  EXPECT_THAT(gathered({12, 4}, Release::k2_13), testing::Contains(by_rows));
  EXPECT_THAT(gathered({8, 4}, kAutoParallel), testing::Contains(by_rows))
      << "as AutoParallel does";
}

TEST(ProgramStrategies, OtherRuleSetsListTheirStrategies) {
  ProgramBuilder b("p", "");
  const Value x = input(b, {4, 4});
  static_cast<void>(b.mm(x, x));
  EXPECT_EQ(strategies_of(b, "2", {.rules = kDTensorLegacy}),
            (Texts{"R<-R,R", "P(sum)<-S(1),S(0)", "S(0)<-S(0),R", "S(1)<-R,S(1)"}));
  EXPECT_EQ(strategies_of(b, "2", {.rules = kShardlab}).size(), 8U);
}

TEST(ProgramStrategies, ABadNodeIsNamed) {
  ProgramBuilder b("p", "");
  const Value x = input(b, {4, 4});
  static_cast<void>(b.op("aten.einsum.default", {x, x}, nlohmann::json::array({"ab,ab"}),
                         {meta_of(DType::kBF16, {4, 4})}));
  const Program program = std::move(b).build().program;
  EXPECT_EQ(message_of<NodeError>(
                [&] { static_cast<void>(enumerate_strategies(program, DeviceMesh::parse("2"))); }),
            "node einsum: aten.einsum.default: args.positional: einsum equation \"ab,ab\": at "
            "position 5: "
            "expected \"->\" and the output's letters");
  ProgramBuilder c("p", "");
  const Value y = input(c, {4, 4});
  static_cast<void>(c.op("aten.mm.default", {y, y}, nlohmann::json::array(),
                         {meta_of(DType::kBF16, {4, 4}), meta_of(DType::kBF16, {4, 4})}));
  const Program two = std::move(c).build().program;
  EXPECT_EQ(message_of<NodeError>(
                [&] { static_cast<void>(enumerate_strategies(two, DeviceMesh::parse("2"))); }),
            "node mm: its outputs are declared as bf16[4,4], bf16[4,4]; valid: bf16[4,4]");
}

TEST(ProgramStrategies, LayersShareTheirClasses) {
  const BuiltInProgram& llama = *find_built_in_program("llama3-8b");
  const auto classes = [&](std::int64_t layers, const char* mesh) {
    const Program program = llama.make({.layers = layers});
    return enumerate_strategies(program, DeviceMesh::parse(mesh)).classes.size();
  };
  EXPECT_EQ(classes(5, "8x8"), classes(2, "8x8"));
  EXPECT_EQ(classes(3, "2x4x8"), classes(2, "2x4x8"));
}

TEST(ProgramStrategies, AreListedOnMeshesOfThreeAndFourDims) {
  const Program program = find_built_in_program("llama3-8b")->make({.layers = 1, .batch = 4});
  const ProgramStrategies three = enumerate_strategies(program, DeviceMesh::parse("2x4x8"));
  std::size_t most = 0;
  double sum = 0.0;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    most = std::max<std::size_t>(most, three.of(n).strategies);
    sum += three.of(n).strategies;
  }
  EXPECT_EQ(most, 639U);  // as AutoParallel counts them for LLaMA3-8B
  EXPECT_NEAR(sum / static_cast<double>(program.nodes.size()), 142.0, 0.5);
  const ProgramStrategies four = enumerate_strategies(program, DeviceMesh::parse("2x2x2x8"));
  EXPECT_GT(four.of(program.find("add_1").value()).strategies, 639U);
  EXPECT_EQ(four.strategy_text(four.of(0), 0), "RRRR");
}

}  // namespace program_strategies_test
}  // namespace shardlab
