// Whether a program's tensors are those that its ops make: which node is refused, and what the
// message says.
#include "strategies/programs/program_check.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/program_builder.h"
#include "strategies/programs/program_strategies.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace program_check_test {

using nlohmann::json;
using testing_support::message_of;

constexpr const char* kSources =
    R"({"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [64, 32]}]},
       {"name": "w", "kind": "parameter", "outputs": [{"dtype": "f32", "shape": [32, 48]}]},)";

// A program with a node "h" behind x f32[64,32] and w f32[32,48].
Program program_of(const std::string& node) {
  return Program::from_json(
      json::parse(R"({"schema": "shardlab/program/1", "name": "p", "nodes": [)" +
                  std::string(kSources) + R"({"name": "h", )" + node + "}]}"),
      {"p.json", ""});
}
std::string refusal_of(const Program& program, RuleSet rules) {
  return message_of<NodeError>([&] { check_program(program, rules); });
}

struct BadNode {
  const char* name;
  const char* node;
  const char* message;
};
void PrintTo(const BadNode& node, std::ostream* out) { *out << node.name; }
class BadNodes : public testing::TestWithParam<BadNode> {};

TEST_P(BadNodes, AreRefusedUnderEveryRuleSet) {
  const Program program = program_of(GetParam().node);
  for (const RuleSet rules : {kAutoParallel, RuleSet(Release::k2_13), kShardlab}) {
    EXPECT_EQ(refusal_of(program, rules), std::string("node h: ") + GetParam().message)
        << name_of(rules);
    try {
      static_cast<void>(enumerate_strategies(program, DeviceMesh::parse("2x4"), {.rules = rules}));
      ADD_FAILURE() << name_of(rules);
    } catch (const NodeError& error) {
      EXPECT_EQ(error.what(), std::string("node h: ") + GetParam().message);
      EXPECT_EQ(error.pointer(), "/nodes/2");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadNodes,
    testing::Values(
        BadNode{"InnerDims", R"("op": "aten.mm.default", "inputs": ["w", "x"],
                                "outputs": [{"dtype": "f32", "shape": [32, 32]}])",
                "aten.mm.default: shapes do not fit mk,kn->mn: found [32,48], [64,32]"},
        BadNode{"OutputShape", R"("op": "aten.mm.default", "inputs": ["x", "w"],
                                  "outputs": [{"dtype": "f32", "shape": [64, 49]}])",
                "its outputs are declared as f32[64,49]; valid: f32[64,48]"},
        BadNode{"OutputDType", R"("op": "aten.relu.default", "inputs": ["x"],
                                  "outputs": [{"dtype": "f16", "shape": [64, 32]}])",
                "its outputs are declared as f16[64,32]; valid: f32[64,32]"},
        BadNode{"View", R"("op": "aten.view.default", "inputs": ["x"],
                           "args": {"positional": [[32, 64]]},
                           "outputs": [{"dtype": "f32", "shape": [2048]}])",
                "its outputs are declared as f32[2048]; valid: f32[32,64]"},
        BadNode{"TooFewInputs", R"("op": "aten.mm.default", "inputs": ["x"],
                                   "outputs": [{"dtype": "f32", "shape": [64, 48]}])",
                "aten.mm.default: takes 2 tensors, found 1"},
        BadNode{"NoOutput", R"("op": "aten.relu.default", "inputs": ["x"], "outputs": [])",
                "its outputs are declared as none; valid: f32[64,32]"},
        BadNode{"Dim", R"("op": "aten.sum.dim_IntList", "inputs": ["x"],
                          "args": {"positional": [[7]]},
                          "outputs": [{"dtype": "f32", "shape": [64]}])",
                "aten.sum.dim_IntList: dim 7 out of range; valid: -2 to 1"},
        // The message does not say `--args`, as a program has no such option.
        BadNode{"Argument", R"("op": "aten._softmax.default", "inputs": ["x"],
                               "args": {"positional": ["abc"]},
                               "outputs": [{"dtype": "f32", "shape": [64, 32]}])",
                "aten._softmax.default: argument 0 of args.positional: found \"abc\"; valid: an "
                "integer, the dim of _softmax(Tensor self, int dim, bool half_to_float) -> Tensor"},
        BadNode{"Output", R"("kind": "output", "inputs": ["x"],
                             "outputs": [{"dtype": "f32", "shape": [4]}])",
                "its outputs are declared as f32[4]; valid: f32[64,32]"},
        BadNode{"OutputOfTwo", R"("kind": "output", "inputs": ["x", "w"],
                                  "outputs": [{"dtype": "f32", "shape": [64, 32]}])",
                "it reads 2 tensors; valid: 1 tensor for kind output"},
        BadNode{"PartOfNothing", R"("op": "_operator.getitem", "inputs": [],
                                    "outputs": [{"dtype": "f32", "shape": [64, 32]}])",
                "it reads 0 tensors; valid: 1 tensor for _operator.getitem"},
        BadNode{"Part", R"("op": "_operator.getitem", "inputs": ["x"],
                           "outputs": [{"dtype": "bf16", "shape": [64, 32]}])",
                "its outputs are declared as bf16[64,32]; valid: f32[64,32]"},
        BadNode{"Nothing", R"("op": "mylib.secret.default", "inputs": [], "outputs": [])",
                "mylib.secret.default has no tensor; valid: a tensor that it reads or makes"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ProgramCheck, StridesAndOpsWithoutARuleAreNotJudged) {
  const Program strided = program_of(
      R"("op": "aten.relu.default", "inputs": ["x"],
         "outputs": [{"dtype": "f32", "shape": [64, 32], "stride": [1, 64]}])");
  EXPECT_NO_THROW(check_program(strided, kAutoParallel));
  const Program secret = program_of(
      R"("op": "mylib.secret.default", "inputs": ["x"],
         "outputs": [{"dtype": "i64", "shape": [3]}])");
  EXPECT_NO_THROW(check_program(secret, kAutoParallel));
}

// A graph may show the random state in parts of its own, in any dtype; everything else has to be
// right.
TEST(ProgramCheck, AttentionsRandomStateMayBeShownOtherwise) {
  const auto flash = [](const TensorMeta& out, const TensorMeta& logsumexp) {
    ProgramBuilder b("p", "");
    const Value q = b.source(NodeKind::kInput, meta_of(DType::kBF16, {2, 2, 4, 8}));
    static_cast<void>(b.op("aten._scaled_dot_product_flash_attention.default", {q, q, q},
                           json::array({0.0, true}),
                           {out, logsumexp, meta_of(DType::kU64, {2}), meta_of(DType::kU64, {}),
                            meta_of(DType::kBF16, {0})}));
    return std::move(b).build().program;
  };
  const TensorMeta out = meta_of(DType::kBF16, {2, 2, 4, 8});
  const TensorMeta logsumexp = meta_of(DType::kF32, {2, 2, 4});
  EXPECT_NO_THROW(check_program(flash(out, logsumexp), kAutoParallel));
  EXPECT_THROW(check_program(flash(meta_of(DType::kBF16, {2, 2, 4, 9}), logsumexp), kAutoParallel),
               NodeError);
  EXPECT_THROW(check_program(flash(out, meta_of(DType::kF32, {2, 2, 5})), kAutoParallel),
               NodeError);
}

// A node shares its strategies only with nodes of the same tensors, so that none goes unchecked
// behind another.
TEST(ProgramCheck, ABadNodeBehindAGoodOneIsFound) {
  const std::string x = R"({"dtype": "f32", "shape": [64, 32]})";
  for (const std::string kind : {R"("kind": "output")", R"("op": "aten.alias.default")"}) {
    const auto named = [&](const char* name, const std::string& outputs) {
      return std::string(R"({"name": ")") + name + R"(", )" + kind + R"(, "inputs": ["x"], )" +
             R"("outputs": [)" + outputs + "]}";
    };
    const Program program = Program::from_json(
        json::parse(R"({"schema": "shardlab/program/1", "name": "p", "nodes": [)" +
                    std::string(kSources) + named("good", x) + ", " + named("bad", x + ", " + x) +
                    "]}"),
        {"p.json", ""});
    EXPECT_EQ(message_of<NodeError>([&] {
                static_cast<void>(enumerate_strategies(program, DeviceMesh::parse("2")));
              }),
              "node bad: its outputs are declared as f32[64,32], f32[64,32]; valid: f32[64,32]");
  }
}

// A solver needs the outputs of a node that leaves the program; a run does not.
TEST(ProgramCheck, ANodeThatLeavesNeedNotShowItsTensorAgain) {
  const Program program = program_of(R"("kind": "output", "inputs": ["x"], "outputs": [])");
  EXPECT_NO_THROW(check_program(program, kAutoParallel));
  EXPECT_EQ(message_of<NodeError>(
                [&] { static_cast<void>(enumerate_strategies(program, DeviceMesh::parse("2"))); }),
            "node h: found no outputs; valid: one output, which repeats the tensor that the node "
            "reads, so that its layout can be solved");
}

TEST(ProgramCheck, OnlyTheShapeIsCheckedOfWhatIsMadeFromNoTensor) {
  const auto full = [](const char* outputs) {
    return program_of(R"("op": "aten.full.default", "inputs": [],
                         "args": {"positional": [[4, 8], 1.0]}, "outputs": [)" +
                      std::string(outputs) + "]");
  };
  EXPECT_NO_THROW(check_program(full(R"({"dtype": "b8", "shape": [4, 8]})"), kAutoParallel));
  EXPECT_EQ(refusal_of(full(R"({"dtype": "b8", "shape": [4, 9]})"), kAutoParallel),
            "node h: its outputs are declared as b8[4,9]; valid: f32[4,8]");
}

TEST(ProgramCheck, BuiltInProgramsAreRightUnderEveryRuleSet) {
  for (const BuiltInProgram& program : all_built_in_programs()) {
    for (const RuleSet rules : {kAutoParallel, RuleSet(Release::k2_13), kShardlab}) {
      EXPECT_NO_THROW(check_program(program.make({.layers = 1}), rules))
          << program.name << " " << name_of(rules);
    }
  }
}

}  // namespace program_check_test
}  // namespace shardlab
