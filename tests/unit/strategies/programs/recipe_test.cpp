// Recipes: what a file may say, in which words it is refused, and which nodes its rules place
// where.
#include "strategies/programs/recipe.h"

#include <gtest/gtest.h>

#include <fstream>

#include "costmodel/base/error.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/solvers/exact.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace recipe_test {

using nlohmann::json;
using testing_support::message_of;
using testing_support::stack_with;
using testing_support::topology_with;

json recipe_json(const char* patch = "{}") {
  json recipe = json::parse(R"({
    "schema": "shardlab/recipe/1", "name": "r", "meshes": [["dp"], ["dp", "tp"]],
    "rules": [{"nodes": {"kind": "parameter"}, "place": {"dp": "R"}}]})");
  recipe.merge_patch(json::parse(patch));
  return recipe;
}

struct Refused {
  const char* name;
  const char* patch;
  const char* message;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

class RecipeFile : public testing::TestWithParam<Refused> {};

TEST_P(RecipeFile, ErrorsNameThePlaceAndWhatIsValid) {
  EXPECT_EQ(message_of<ConfigError>([&] {
              static_cast<void>(Recipe::from_json(recipe_json(GetParam().patch), {"r.json", ""}));
            }),
            GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, RecipeFile,
    testing::Values(
        Refused{"OtherSchema", R"({"schema": "shardlab/stack/1"})",
                "r.json:/schema: found \"shardlab/stack/1\"; valid: \"shardlab/recipe/1\""},
        Refused{"UnknownKey", R"({"rule": []})",
                "r.json:/rule: unknown key (did you mean \"rules\"?); valid: schema, name, title, "
                "source, meshes, rules"},
        Refused{"NoMesh", R"({"meshes": []})",
                "r.json:/meshes: found an empty array; valid: an array of at least one mesh"},
        Refused{"MeshWithoutDims", R"({"meshes": [[]]})",
                "r.json:/meshes/0: found an empty array; valid: an array of at least one text"},
        Refused{"TwoMeshesOfOneDim", R"({"meshes": [["dp"], ["tp"]]})",
                "r.json:/meshes/1: found a second mesh of 1 dims; valid: one mesh for each number "
                "of dims"},
        Refused{"NoRules", R"({"rules": []})",
                "r.json:/rules: found an empty array; valid: an array of at least one rule"},
        Refused{"RuleForNothing", R"({"rules": [{"nodes": {}, "place": {"dp": "R"}}]})",
                "r.json:/rules/0/nodes: found nothing to match; valid: kind, phase, labels, ops, "
                "batched"},
        Refused{"UnknownKind",
                R"({"rules": [{"nodes": {"kind": "paramter"}, "place": {"dp": "R"}}]})",
                "r.json:/rules/0/nodes/kind: found \"paramter\" (did you mean \"parameter\"?); "
                "valid: op, parameter, buffer, input, tangent, output, gradient, buffer_update"},
        Refused{"UnknownPhase",
                R"({"rules": [{"nodes": {"phase": "both"}, "place": {"dp": "R"}}]})",
                "r.json:/rules/0/nodes/phase: found \"both\"; valid: forward, backward"},
        Refused{"EmptyPattern", R"({"rules": [{"nodes": {"labels": [""]}, "place": {"dp": "R"}}]})",
                "r.json:/rules/0/nodes/labels/0: found \"\"; valid: a text that is not empty"},
        Refused{
            "NothingPlaced", R"({"rules": [{"nodes": {"kind": "op"}, "place": {}}]})",
            "r.json:/rules/0/place: found an object; valid: an object with a placement for each "
            "role"},
        Refused{"UnknownRole", R"({"rules": [{"nodes": {"kind": "op"}, "place": {"pp": "R"}}]})",
                "r.json:/rules/0/place/pp: unknown role (did you mean \"dp\"?); valid: dp, tp"},
        Refused{"NoPlacement", R"({"rules": [{"nodes": {"kind": "op"}, "place": {"dp": "Q"}}]})",
                "r.json:/rules/0/place/dp: placement \"Q\": at position 0: expected a placement: "
                "R, S(d), _S(d,f), P(op), MP or NP(p)"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Pattern, AStarStandsForAnyText) {
  EXPECT_TRUE(matches_pattern("layers.*.wq", "layers.11.attention.wq"));
  EXPECT_TRUE(matches_pattern("*.weight.grad", "output.weight.grad"));
  EXPECT_TRUE(matches_pattern("a*b*c", "abbcbc"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("norm", "norm"));
  EXPECT_FALSE(matches_pattern("norm", "norm.weight"));
  EXPECT_FALSE(matches_pattern("layers.*.wq", "layers.wq"));
  EXPECT_FALSE(matches_pattern("a*b", "abc"));
  EXPECT_FALSE(matches_pattern("", "a"));
}

Program llama(MatmulForm matmul = MatmulForm::kEinsum, std::int64_t batch = 16) {
  return find_built_in_program("llama3-8b")
      ->make({.layers = 1, .batch = batch, .seqlen = 1024, .matmul = matmul});
}

TEST(Recipe, TheLaterRuleCountsAndWhatIsNotPlacedStaysOpen) {
  const Recipe recipe = Recipe::from_json(recipe_json(R"json({"rules": [
      {"nodes": {"kind": "parameter"}, "place": {"dp": "R"}},
      {"nodes": {"labels": ["*.wq.weight"]}, "place": {"tp": "S(0)"}},
      {"nodes": {"labels": ["layers.0.attention.wq.weight"]}, "place": {"dp": "S(1)"}},
      {"nodes": {"ops": ["aten.emb*"], "phase": "forward"}, "place": {"tp": "S(2)"}}]})json"),
                                          {"r.json", ""});
  const Program program = llama();
  const std::vector<LayoutMask> masks = recipe.masks(program, DeviceMesh::parse("8x8"));
  ASSERT_EQ(masks.size(), 13U);  // 12 parameters and the embedding
  for (const LayoutMask& mask : masks) {
    const ProgramNode& node = program.nodes[mask.node];
    const bool is_wq = node.label == "layers.0.attention.wq.weight";
    EXPECT_EQ(mask.by, "recipe r");
    ASSERT_EQ(mask.placements.size(), 2U);
    if (node.kind == NodeKind::kOp) {
      EXPECT_EQ(node.name, "embedding");
      EXPECT_EQ(mask.placements[0], std::nullopt);
      EXPECT_EQ(mask.placements[1], Placement::shard(2));
    } else {
      EXPECT_EQ(mask.placements[0], is_wq ? Placement::shard(1) : Placement::replicate());
      EXPECT_EQ(mask.placements[1], is_wq ? std::optional(Placement::shard(0)) : std::nullopt);
    }
  }
}

TEST(Recipe, AMeshOrARuleThatFitsNothingIsRefused) {
  const Recipe recipe = Recipe::from_json(recipe_json(), {"r.json", ""});
  EXPECT_EQ(message_of<InputError>(
                [&] { static_cast<void>(recipe.masks(llama(), DeviceMesh::parse("2x2x2"))); }),
            "recipe r: found a mesh of 3 dims; valid: 1 (dp), 2 (dp x tp)");
  json labelled =
      recipe_json(R"({"rules": [{"nodes": {"labels": ["h.*", "wte"]}, "place": {"dp": "R"}}]})");
  EXPECT_EQ(
      message_of<InputError>([&] {
        static_cast<void>(
            Recipe::from_json(labelled, {"r.json", ""}).masks(llama(), DeviceMesh::parse("8")));
      }),
      "recipe r: /rules/0 matches no node of the program llama3-8b (labels h.*, wte)");
  labelled["rules"][0]["optional"] = true;
  EXPECT_TRUE(
      Recipe::from_json(labelled, {"r.json", ""}).masks(llama(), DeviceMesh::parse("8")).empty());
}

class ShippedRecipe : public testing::TestWithParam<const char*> {};

Recipe shipped(const std::string& name) {
  std::ifstream in(SHARDLAB_SOURCE_DIR "/configs/recipes/" + name + ".json");
  return Recipe::from_json(json::parse(in), {name + ".json", ""});
}

// Each recipe gives a plan for both forms of the program on every mesh that it is for; no such plan
// is cheaper than the optimum, and every node that the recipe places has that layout in the best
// completion.
TEST_P(ShippedRecipe, HasABestCompletion) {
  const Recipe recipe = shipped(GetParam());
  EXPECT_EQ(recipe.name, GetParam());
  EXPECT_FALSE(recipe.title.empty());
  EXPECT_FALSE(recipe.source.empty());
  for (const std::vector<std::string>& roles : recipe.meshes) {
    const DeviceMesh mesh = DeviceMesh::parse(roles.size() == 1   ? "4"
                                              : roles.size() == 2 ? "2x4"
                                                                  : "2x2x2");
    for (const MatmulForm form : {MatmulForm::kEinsum, MatmulForm::kNative}) {
      if (roles.size() == 3 && form == MatmulForm::kNative)
        continue;  // this one takes longer than all others together
      const Program program = llama(form, 8);
      const ProgramStrategies strategies = enumerate_strategies(program, mesh);
      StackEvaluator evaluator(stack_with("ap-nccl"), topology_with(8));
      const ProgramPrices prices(program, strategies, evaluator, mesh);
      const auto solve = [&](const ProblemOptions& options) {
        const CostNetwork network =
            network_of(make_problem(program, mesh, strategies, prices, options));
        return ExactSolver(network).solve();
      };
      ProblemOptions options;
      options.masks = recipe.masks(program, mesh);
      const ExactSolution with = solve(options);
      ASSERT_TRUE(with.feasible) << mesh.text();
      EXPECT_TRUE(with.optimal);
      EXPECT_GE(with.objective, solve({}).objective * (1 - 1e-9));
      for (const LayoutMask& mask : options.masks) {
        const auto strategy = static_cast<std::size_t>(with.assignment[mask.node]);
        const NodeClass& node = strategies.of(mask.node);
        const Placements& layout = strategies.layouts[strategies.layout(node, strategy, 0)];
        for (std::size_t m = 0; m < layout.size(); ++m) {
          if (mask.placements[m]) {
            EXPECT_EQ(layout[m], *mask.placements[m]) << program.nodes[mask.node].name;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShippedRecipe,
                         testing::Values("dp", "fsdp", "hsdp", "tp", "tp-sp", "fsdp-tp",
                                         "fsdp-tp-sp"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Under plain data parallelism only gradients move, and they have as many bytes as all parameters.
TEST(ShippedRecipes, DataParallelMovesGradientsAlone) {
  const Program program = llama(MatmulForm::kEinsum, 8);
  const DeviceMesh mesh = DeviceMesh::parse("4");
  const ProgramStrategies strategies = enumerate_strategies(program, mesh);
  StackEvaluator evaluator(stack_with("ap-nccl"), topology_with(8));
  const ProgramPrices prices(program, strategies, evaluator, mesh);
  ProblemOptions options;
  options.masks = shipped("dp").masks(program, mesh);
  const ShardingProblem problem = make_problem(program, mesh, strategies, prices, options);
  const CostNetwork network = network_of(problem);
  const ExactSolution found = ExactSolver(network).solve();
  double reduced_us = 0.0;
  Redistributor& redistributor = evaluator.on(mesh);
  for (const auto& [parameter, gradient] : program.pairs) {
    if (program.nodes[gradient].kind != NodeKind::kGradient) continue;
    reduced_us += redistributor.cost_us(program.nodes[gradient].outputs[0],
                                        Layout::parse("P(sum)", 1), Layout::parse("R", 1));
  }
  EXPECT_NEAR(problem.breakdown(strategies, prices, found.assignment).communication_us, reduced_us,
              1e-9 * reduced_us);
}

}  // namespace recipe_test
}  // namespace shardlab
