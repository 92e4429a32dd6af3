// Pointwise rules: words, dtypes, and rows that depend on numbers.
#include "strategies/rules/pointwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "costmodel/base/error.h"
#include "strategies/rules/expansion.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace families_pointwise_test {

using testing_support::call_of;
using testing_support::row_texts;
using Texts = std::vector<std::string>;

constexpr PointwiseOps kSomeOps[] = {
    {.words = "neg add.Tensor", .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "abs* eq.Tensor* relu~ isnan+",
     .shardlab = partial_rows::kNegation,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
};

TEST(PointwiseWords, StandForOneOpOrForSeveral) {
  Texts names;
  for (const OpRule& rule : kPointwiseRules<kSomeOps>) {
    names.push_back(std::string(rule.op) + (rule.sets == kShardlab  ? " shardlab"
                                            : rule.sets == kDTensor ? " dtensor"
                                                                    : ""));
  }
  const Texts several = {"aten.abs.default",  "aten.abs_.default",  "aten.abs.out",
                         "aten.eq.Tensor",    "aten.eq_.Tensor",    "aten.eq.Tensor_out",
                         "aten.relu.default", "aten.relu_.default", "aten.isnan.default",
                         "aten.isnan.out"};
  Texts expected = {"aten.neg.default", "aten.add.Tensor"};
  for (const std::string& name : several) {
    expected.push_back(name + " dtensor");
    expected.push_back(name + " shardlab");
  }
  EXPECT_EQ(names, expected);
}

TEST(PointwiseWords, CoverTheOpsThatPyTorchRegisters) {
  std::size_t ops = 0;
  for (const std::string_view op : all_op_names()) {
    try {
      ops += find_op_rule(op, Release::k2_13).outputs != nullptr ? 1U : 0U;
    } catch (const InputError&) {
      continue;
    }
  }
  EXPECT_GE(ops, 790U);
}

struct OutputCase {
  const char* op;
  Texts inputs;
  const char* args;
  const char* output;
};
void PrintTo(const OutputCase& c, std::ostream* out) { *out << c.op; }
class PointwiseOutput : public testing::TestWithParam<OutputCase> {};

TEST_P(PointwiseOutput, HasTheDtypeOfPyTorch) {
  const OutputCase& c = GetParam();
  const OpCall call = call_of(c.op, c.inputs, 1, c.args);
  EXPECT_EQ(find_op_rule(c.op, Release::k2_13).outputs(call).front().text(), c.output);
}

const OutputCase kOutputs[] = {
    {"aten.sqrt.default", {"i32[4] R"}, "[]", "f32[4]"},
    {"aten.sqrt.default", {"bf16[4] R"}, "[]", "bf16[4]"},
    {"aten.abs.default", {"i32[4] R"}, "[]", "i32[4]"},
    {"aten.eq.Tensor", {"f32[4] R", "f32[4] R"}, "[]", "b8[4]"},
    {"aten.eq_.Tensor", {"f32[4] R", "f32[4] R"}, "[]", "f32[4]"},
    {"aten.add.Tensor", {"bf16[4] R", "f16[4] R"}, "[]", "f32[4]"},
    {"aten.add.Tensor", {"bf16[4] R", "f32[] R"}, "[]", "bf16[4]"},
    {"aten.add.Tensor", {"i32[4] R", "f32[] R"}, "[]", "f32[4]"},
    {"aten.add.Tensor", {"u8[4] R", "i8[4] R"}, "[]", "i16[4]"},
    {"aten.add.Scalar", {"i32[4] R"}, "[1.5]", "f32[4]"},
    {"aten.add.Scalar", {"i32[4] R"}, "[2]", "i32[4]"},
    {"aten.add.Scalar", {"b8[4] R"}, "[2]", "i64[4]"},
    {"aten.add.Scalar", {"bf16[4] R"}, "[2.5]", "bf16[4]"},
    {"aten.add_.Tensor", {"f32[4] R", "f64[4] R"}, "[]", "f32[4]"},
    {"aten.add.out", {"f32[4] R", "f32[4] R", "f64[4] R"}, "[]", "f64[4]"},
    {"aten.div.Tensor", {"i64[4] R", "i64[4] R"}, "[]", "f32[4]"},
    {"aten.where.self", {"b8[4] R", "bf16[4] R", "f32[4] R"}, "[]", "f32[4]"},
    {"aten.masked_fill.Scalar", {"i32[4] R", "b8[4] R"}, "[1.5]", "i32[4]"},
    {"aten.float_power.Tensor_Scalar", {"f32[4] R"}, "[2]", "f64[4]"},
    {"aten.clamp.default", {"i32[4] R"}, "[0, 1.5]", "f32[4]"},
    {"aten.to.dtype", {"f32[4] R"}, "[\"bf16\"]", "bf16[4]"},
    {"aten.frexp.Tensor", {"f32[4] R"}, "[]", "f32[4]"},
};
INSTANTIATE_TEST_SUITE_P(All, PointwiseOutput, testing::ValuesIn(kOutputs));

// The partial rows of a call in the rule set shardlab.
struct RowsCase {
  const char* op;
  Texts inputs;
  const char* args;
  Texts rows;
};
void PrintTo(const RowsCase& c, std::ostream* out) { *out << c.op << c.args; }
class ChosenRows : public testing::TestWithParam<RowsCase> {};

TEST_P(ChosenRows, DependOnTheNumbers) {
  const RowsCase& c = GetParam();
  const OpRule& rule = find_op_rule(c.op, kShardlab);
  const OpCall call = call_of(c.op, c.inputs, 1, c.args);
  Texts rows = row_texts(rule.rows(call, rule), rule.outputs(call).size());
  std::erase_if(rows, [](const std::string& row) { return row.find('?') != std::string::npos; });
  EXPECT_EQ(rows, c.rows);
}

const Texts kRising = {"P(max)|P(max)", "P(min)|P(min)"};
const Texts kFalling = {"P(min)|P(max)", "P(max)|P(min)"};
const RowsCase kRows[] = {
    {"aten.mul.Scalar",
     {"f32[4] R"},
     "[2]",
     {"P(sum)|P(sum)", "P(avg)|P(avg)", "P(max)|P(max)", "P(min)|P(min)"}},
    {"aten.mul.Scalar",
     {"f32[4] R"},
     "[-2]",
     {"P(sum)|P(sum)", "P(avg)|P(avg)", "P(min)|P(max)", "P(max)|P(min)"}},
    {"aten.mul.Scalar",
     {"f32[4] NP(2)"},
     "[2]",
     {"P(sum)|P(sum)", "P(avg)|P(avg)", "P(max)|P(max)", "P(min)|P(min)", "NP(2)|NP(2)"}},
    {"aten.add.Scalar", {"f32[4] R"}, "[2]", {"P(avg)|P(avg)", "P(max)|P(max)", "P(min)|P(min)"}},
    {"aten.rsub.Scalar", {"f32[4] R"}, "[2]", {"P(avg)|P(avg)", "P(min)|P(max)", "P(max)|P(min)"}},
    {"aten.threshold.default", {"f32[4] R"}, "[1, 0]", kRising},
    {"aten.threshold.default", {"f32[4] R"}, "[1, 2]", {}},
    {"aten.pow.Tensor_Scalar", {"f32[4] R"}, "[3]", kRising},
    {"aten.pow.Tensor_Scalar", {"f32[4] R"}, "[2]", {}},
    {"aten.pow.Scalar", {"f32[4] R"}, "[2]", kRising},
    {"aten.pow.Scalar", {"f32[4] R"}, "[0.5]", kFalling},
    {"aten.pow_.Scalar", {"f32[4] R"}, "[2]", {}},
    {"aten.div.Scalar_mode", {"f32[4] R"}, "[-2, \"floor\"]", kFalling},
    {"aten.leaky_relu.default", {"f32[4] R"}, "[-0.5]", {}},
    {"aten.logical_not.default", {"b8[4] R"}, "[]", kFalling},
    {"aten.logical_not.default", {"f32[4] R"}, "[]", {}},
    {"aten.masked_fill.Scalar",
     {"f32[4] R", "b8[4] R"},
     "[1]",
     {"P(avg)|P(avg),R", "P(max)|P(max),R", "P(min)|P(min),R"}},
    {"aten.masked_fill.Scalar",
     {"f32[4] R", "b8[4] R"},
     "[0]",
     {"P(sum)|P(sum),R", "P(avg)|P(avg),R", "P(max)|P(max),R", "P(min)|P(min),R"}},
    {"aten._to_copy.default", {"f32[4] R"}, "[\"i32\"]", {"P(min)|P(min)", "P(max)|P(max)"}},
    {"aten._to_copy.default", {"f32[4] R"}, "[\"b8\"]", {}},
};
INSTANTIATE_TEST_SUITE_P(All, ChosenRows, testing::ValuesIn(kRows));

TEST(OutTensors, AreTheLastOnesAndKeepTheirPlacements) {
  // PyTorch 2.13.0 replicates the grad_input of tanh_backward, which is registered by its own
  // schema. That of threshold_backward follows the output, since its rule is derived from the op
  // without it.
  const Texts inputs = {"f32[4] S(0)", "f32[4] S(0)", "f32[4] S(0)"};
  const auto rows = [&](const char* op, RuleSet set) {
    const OpRule& rule = find_op_rule(op, set);
    return row_texts(rule.rows(call_of(op, inputs, 1), rule), 1).front();
  };
  EXPECT_EQ(rows("aten.tanh_backward.grad_input", Release::k2_13), "?0|?0,?0,R");
  EXPECT_EQ(rows("aten.tanh_backward.grad_input", kShardlab), "?0|?0,?0,?0");
  EXPECT_EQ(rows("aten.threshold_backward.grad_input", Release::k2_13), "?0|?0,?0,?0");
}

TEST(OutTensors, AreTwoForAnOpWithTwoOutputs) {
  const OpCall call =
      call_of("aten.frexp.Tensor_out", {"f32[4] S(0)", "f32[4] S(0)", "i32[4] R"}, 1);
  const OpRule& rule = find_op_rule("aten.frexp.Tensor_out", kShardlab);
  EXPECT_EQ(expand(rule, call, DeviceMesh::parse("2")).size(), 0U);
}

TEST(OutTensors, AreTwoForTheMeanAndTheVarianceOfOneOp) {
  // PyTorch since 2.14 refuses the call, since it may move neither `out` tensor.
  const OpCall call = call_of("aten.var_mean.correction_out",
                              {"f32[6,5] R", "f32[6] S(0)", "f32[6] R"}, 1, "[[1]]");
  const OpRule& rule = find_op_rule(call.op, Release::k2_14);
  EXPECT_EQ(expand(rule, call, DeviceMesh::parse("2")).size(), 0U);
}

TEST(Copies, PassPartialsOnSince2_14) {
  const auto partial_rows_of = [](const char* op, RuleSet set, const Texts& inputs = {"f32[4] R"}) {
    const OpRule& rule = find_op_rule(op, set);
    Texts rows = row_texts(rule.rows(call_of(op, inputs, 1), rule), 1);
    std::erase_if(rows, [](const std::string& row) { return row.find('?') != std::string::npos; });
    return rows;
  };
  const Texts passed = {"P(sum)|P(sum)", "P(avg)|P(avg)", "P(min)|P(min)", "P(max)|P(max)"};
  for (const char* op : {"aten.clone.default", "aten._foreach_clone.default"}) {
    EXPECT_EQ(partial_rows_of(op, Release::k2_13), Texts()) << op;
    EXPECT_EQ(partial_rows_of(op, Release::k2_14), passed) << op;
    EXPECT_EQ(partial_rows_of(op, Release::k2_15), passed) << op;
  }
  EXPECT_EQ(partial_rows_of("aten.clone.out", Release::k2_15, {"f32[4] R", "f32[4] R"}).front(),
            "P(sum)|P(sum),P(sum)");
}

TEST(FusedOptimizers, ReplicateStepsAndScales) {
  const Texts inputs = {"[f32[4] S(0)]", "[f32[4] S(0)]", "[f32[4] S(0)]", "[f32[4] S(0)]",
                        "[f32[4] S(0)]", "[f32[] R]",     "f32[] R"};
  const OpRule& rule = find_op_rule("aten._fused_adam_.tensor_lr", Release::k2_13);
  const OpCall call = call_of("aten._fused_adam_.tensor_lr", inputs, 1);
  EXPECT_TRUE(is_foreach(rule.op));
  EXPECT_TRUE(rule.outputs(call).empty());
  EXPECT_EQ(row_texts(rule.rows(call, rule), 0), Texts({"|?0,?0,?0,?0,?0,R,R"}));
}

TEST(FusedOptimizers, RefuseTheWrongLists) {
  const OpCall call = call_of("aten._fused_adam_.default", {"[f32[4] R]", "[f32[4] R]"}, 1);
  EXPECT_THROW_MSG(find_op_rule("aten._fused_adam_.default", Release::k2_13).outputs(call),
                   InputError,
                   "aten._fused_adam_.default: takes 6 tensor lists (the fifth may be none), found "
                   "2 with 2 tensors");
}

}  // namespace families_pointwise_test
}  // namespace shardlab
