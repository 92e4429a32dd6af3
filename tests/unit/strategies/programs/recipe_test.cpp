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
                "r.json:/rules/0/nodes: found nothing to match; valid: kind, phase, roles, labels, "
                "ops, batched"},
        Refused{"UnknownKind",
                R"({"rules": [{"nodes": {"kind": "paramter"}, "place": {"dp": "R"}}]})",
                "r.json:/rules/0/nodes/kind: found \"paramter\" (did you mean \"parameter\"?); "
                "valid: op, parameter, buffer, input, tangent, output, gradient, buffer_update"},
        Refused{"UnknownPhase",
                R"({"rules": [{"nodes": {"phase": "both"}, "place": {"dp": "R"}}]})",
                "r.json:/rules/0/nodes/phase: found \"both\"; valid: forward, backward"},
        Refused{
            "UnknownModelRole",
            R"({"rules": [{"nodes": {"roles": ["column"]}, "place": {"dp": "R"}}]})",
            "r.json:/rules/0/nodes/roles/0: found \"column\"; valid: column_linear, row_linear, "
            "column_bias, row_bias, router, expert, norm, embedding, attention, stream, inner, "
            "weight_gradient"},
        Refused{"EmptyPattern", R"({"rules": [{"nodes": {"labels": [""]}, "place": {"dp": "R"}}]})",
                "r.json:/rules/0/nodes/labels/0: found \"\"; valid: a text that is not empty"},
        Refused{
            "NothingPlaced", R"({"rules": [{"nodes": {"kind": "op"}, "place": {}}]})",
            "r.json:/rules/0/place: found an object; valid: an object with a placement for each "
            "role"},
        Refused{"UnknownRole", R"({"rules": [{"nodes": {"kind": "op"}, "place": {"pp": "R"}}]})",
                "r.json:/rules/0/place/pp: unknown role (did you mean \"dp\"?); valid: dp, tp"},
        Refused{"UnknownDim",
                R"json({"rules": [{"nodes": {"kind": "op"}, "place": {"dp": "S(seq)"}}]})json",
                "r.json:/rules/0/place/dp: placement \"S(seq)\": at position 2: expected a number "
                "or one of out, in, expert, sequence"},
        Refused{"DimBeforeTheFirst",
                R"json({"rules": [{"nodes": {"kind": "op"}, "place": {"dp": "S(-0)"}}]})json",
                "r.json:/rules/0/place/dp: placement \"S(-0)\": at position 3: expected a dim from "
                "1 to 16"},
        Refused{"NoPlacement", R"({"rules": [{"nodes": {"kind": "op"}, "place": {"dp": "Q"}}]})",
                "r.json:/rules/0/place/dp: placement \"Q\": at position 0: expected a placement: "
                "R, S(d), _S(d,f), P(op), MP or NP(p); or one that is registered: RG(DIMS:UNITS)"}),
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

// In a rule a shard may be that of a dim that depends on the node.
TEST(Recipe, AShardMayBeOfADimThatTheNodesRoleDefines) {
  const Recipe recipe = Recipe::from_json(recipe_json(R"json({"rules": [
      {"nodes": {"kind": "parameter", "roles": ["column_linear", "embedding"]},
       "place": {"dp": "S(out)"}},
      {"nodes": {"kind": "parameter", "roles": ["row_linear"]}, "place": {"dp": "S(in)"}},
      {"nodes": {"kind": "parameter", "roles": ["expert"]}, "place": {"dp": "S(expert)"}},
      {"nodes": {"kind": "parameter", "roles": ["router"]}, "place": {"dp": "S(-1)"}},
      {"nodes": {"kind": "output"}, "place": {"dp": "Shard(dim=-2)"}},
      {"nodes": {"kind": "op", "roles": ["norm"]}, "place": {"dp": "S(sequence)"}}]})json"),
                                          {"r.json", ""});
  const Program program =
      find_built_in_program("moe-1.3b-64e")->make({.layers = 1, .batch = 16, .seqlen = 64});
  std::string found;
  std::size_t norms = 0;
  for (const LayoutMask& mask : recipe.masks(program, DeviceMesh::parse("4"))) {
    const ProgramNode& node = program.nodes[mask.node];
    const std::string placed = mask.placements[0].value().text();
    EXPECT_FALSE(mask.where_possible[0]);
    if (node.kind == NodeKind::kOp) {
      EXPECT_EQ(placed, "S(1)") << node.name;
      ++norms;
    } else {
      found += node.outputs[0].text() + " " + placed + "\n";
    }
  }
  EXPECT_GE(norms, 3U);
  EXPECT_EQ(found, R"(f32[32000,2048] S(1)
f32[64,2048] S(1)
f32[6144,2048] S(0)
f32[2048,2048] S(1)
f32[2048,64] S(1)
f32[64,2048,8192] S(0)
f32[64,8192,2048] S(0)
f32[32000,2048] S(0)
bf16[16,64,32000] S(1)
)");
}

TEST(Recipe, AMisfitSaysWhichRolesTheProgramHas) {
  const auto misfit = [](const char* rule) {
    json recipe = recipe_json();
    recipe["rules"] = json::array({json::parse(rule)});
    return message_of<InputError>([&] {
      static_cast<void>(
          Recipe::from_json(recipe, {"r.json", ""}).masks(llama(), DeviceMesh::parse("8")));
    });
  };
  EXPECT_EQ(misfit(R"({"nodes": {"kind": "parameter", "roles": ["router", "expert"]},
                       "place": {"dp": "R"}})"),
            "recipe r: /rules/0 matches no node of the program llama3-8b (roles router, expert); "
            "its nodes of kind parameter have these roles: 6 column_linear, 2 row_linear, 3 norm, "
            "1 embedding");
  EXPECT_EQ(misfit(R"({"nodes": {"kind": "tangent", "batched": true, "roles": ["stream"]},
                       "place": {"dp": "R"}})"),
            "recipe r: /rules/0 matches no node of the program llama3-8b (roles stream; batched); "
            "its nodes of kind tangent have these roles: 1 inner");
  EXPECT_EQ(misfit(R"json({"nodes": {"kind": "parameter"}, "place": {"dp": "S(sequence)"}})json"),
            "recipe r: /rules/0 matches nodes of the program llama3-8b, but none has the dim of "
            "S(sequence)");
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

// The recipes know no labels, so that they fit other models too. What a recipe places where
// possible is placed there or open; its linear layers are placed.
TEST_P(ShippedRecipe, FitsOtherModels) {
  const Recipe recipe = shipped(GetParam());
  const DeviceMesh mesh = DeviceMesh::parse("2x4");
  for (const char* name : {"gpt2-xl", "moe-1.3b-64e"}) {
    const Program program =
        find_built_in_program(name)->make({.layers = 1, .batch = 8, .seqlen = 512});
    const std::vector<NodeRoles> roles = model_roles(program);
    const ProgramStrategies strategies = enumerate_strategies(program, mesh);
    StackEvaluator evaluator(stack_with("ap-nccl"), topology_with(8));
    const ProgramPrices prices(program, strategies, evaluator, mesh);
    ProblemOptions options;
    options.masks = recipe.masks(program, mesh);
    const CostNetwork network =
        network_of(make_problem(program, mesh, strategies, prices, options));
    const ExactSolution found = ExactSolver(network).solve();
    ASSERT_TRUE(found.feasible) << name;
    for (const LayoutMask& mask : options.masks) {
      const ProgramNode& node = program.nodes[mask.node];
      const bool is_weight = node.kind == NodeKind::kParameter && node.outputs[0].shape.size() > 1;
      if (!is_weight || roles[mask.node].has(ModelRole::kRouter)) continue;
      const auto strategy = static_cast<std::size_t>(found.assignment[mask.node]);
      const Placements& layout =
          strategies.layouts[strategies.layout(strategies.of(mask.node), strategy, 0)];
      for (std::size_t m = 0; m < layout.size(); ++m) {
        EXPECT_EQ(layout[m], *mask.placements[m]) << name << " " << node.name;
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
