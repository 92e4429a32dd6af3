// Rules by decomposition: which of the proposed rows remain.
#include "strategies/rules/decomposition.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace decomposition_test {

using testing_support::call_of;
using testing_support::row_texts;
using Texts = std::vector<std::string>;

Texts rows_of(const char* op, const std::vector<std::string>& inputs, const char* args = "[]",
              int mesh_ndim = 1) {
  const OpRule& rule = find_op_rule(op, Release::k2_13);
  const OpCall call = call_of(op, inputs, mesh_ndim, args);
  return row_texts(rule.rows(call, rule), rule.outputs(call).size());
}

struct RowsCase {
  const char* name;
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  Texts rows;
};
void PrintTo(const RowsCase& c, std::ostream* out) { *out << c.name; }
class DecomposedRows : public testing::TestWithParam<RowsCase> {};

TEST_P(DecomposedRows, AreThoseForWhichNoStepMovesItsInputs) {
  EXPECT_EQ(rows_of(GetParam().op, GetParam().inputs, GetParam().args), GetParam().rows);
}

// Only placements that occur among the inputs are proposed, but shards of them on every dim.
INSTANTIATE_TEST_SUITE_P(
    All, DecomposedRows,
    testing::Values(
        RowsCase{
            "ReplicasGiveReplicas", "aten.mv.default", {"f32[4,8] R", "f32[8] R"}, "[]", {"R|R,R"}},
        RowsCase{"AnyShardGivesShardsOfEveryDim",
                 "aten.mv.default",
                 {"f32[4,8] R", "f32[8] S(0)"},
                 "[]",
                 {"S(0)|S(0),R", "P(sum)|S(1),S(0)", "R|R,R"}},
        RowsCase{"ASumOfEitherSideStays",
                 "aten.mv.default",
                 {"f32[4,8] P", "f32[8] R"},
                 "[]",
                 {"P(sum)|P(sum),R", "P(sum)|R,P(sum)", "R|R,R"}},
        RowsCase{"StridedShardsToo",
                 "aten.mv.default",
                 {"f32[4,8] _S(0,2)", "f32[8] R"},
                 "[]",
                 {"_S(0,2)|_S(0,2),R", "P(sum)|_S(1,2),_S(0,2)", "R|R,R"}},
        RowsCase{"AMeanOfShards",
                 "aten.mse_loss.default",
                 {"f32[4] S(0)", "f32[4] R"},
                 "[1]",
                 {"P(avg)|S(0),S(0)", "R|R,R"}},
        RowsCase{"ASquareKeepsNoSum",
                 "aten.mse_loss.default",
                 {"f32[4] P", "f32[4] P"},
                 "[0]",
                 {"R|R,R"}},
        RowsCase{"AGradientKeepsASum",
                 "aten.leaky_relu_backward.default",
                 {"f32[4] P", "f32[4] R"},
                 "[0.5, false]",
                 {"R|R,R"}}),
    [](const auto& c) { return std::string(c.param.name); });

TEST(Decomposition, HasTheResultsOfItsSteps) {
  const Decomposition program(
      call_of("aten.mse_loss.default", {"bf16[4,8] R", "bf16[8] R"}, 1, "[0]"));
  ASSERT_EQ(program.outputs().size(), 1U);
  EXPECT_EQ(program.outputs()[0].text(), "bf16[4,8]");
}

TEST(Decomposition, RefusesCallsWithTheWrongTensors) {
  const auto message = [](const char* op, const std::vector<std::string>& inputs,
                          const char* args) {
    return testing_support::message_of<InputError>(
        [&] { static_cast<void>(Decomposition(call_of(op, inputs, 1, args))); });
  };
  EXPECT_EQ(message("aten.mm.default", {"f32[4,4] R", "f32[4,4] R"}, "[]"),
            "aten.mm.default has no decomposition");
  EXPECT_EQ(message("aten.mse_loss.default", {"f32[4] R"}, "[]"),
            "aten.mse_loss.default: takes 2 tensors, found 1");
  EXPECT_EQ(message("aten.mse_loss.default", {"f32[4] R", "f32[4] R"}, "[3]"),
            "aten.mse_loss.default: found reduction 3; valid: 0 (none), 1 (mean) or 2 (sum)");
  EXPECT_EQ(message("aten.mv.default", {"f32[4,8] R", "f32[4,8] R"}, "[]"),
            "aten.mv.default: tensor argument 1: found f32[4,8]; valid: a tensor of 1 dim");
}

}  // namespace decomposition_test
}  // namespace shardlab
