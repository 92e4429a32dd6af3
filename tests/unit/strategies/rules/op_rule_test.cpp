// Names of ops and rule sets; the rows of each class of op.
#include "strategies/rules/op_rule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/base/error.h"
#include "strategies/rules/expansion.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace op_rule_test {

using testing_support::call_of;
using testing_support::row_texts;
using Texts = std::vector<std::string>;

TEST(OpNames, MayLeaveOutPrefixAndOverload) {
  for (const char* name : {"aten.mm.default", "aten::mm", "mm", "mm.default", "aten.mm",
                           "torch.ops.aten.mm.default", "torch.ops.aten.mm"}) {
    EXPECT_EQ(find_op_rule(name, Release::k2_13).op, "aten.mm.default") << name;
  }
  EXPECT_EQ(find_op_rule("add.Scalar", Release::k2_13).op, "aten.add.Scalar");
  EXPECT_EQ(find_op_rule("aten::where", Release::k2_13).op, "aten.where.self");
}

TEST(OpNames, WithSeveralOverloadsAndNoDefaultListThem) {
  EXPECT_THROW_MSG(find_op_rule("aten::add", Release::k2_13), InputError,
                   "op \"aten::add\" has several overloads; valid: aten.add.Tensor, "
                   "aten.add.Scalar");
  EXPECT_THROW_MSG(find_op_rule("add_", Release::k2_15), InputError,
                   "op \"add_\" has several overloads; valid: aten.add_.Tensor, aten.add_.Scalar");
}

TEST(OpNames, AnUnknownOpIsAnErrorThatNamesTheNearest) {
  EXPECT_THROW_MSG(find_op_rule("aten.mmm.default", Release::k2_13), InputError,
                   "unknown op \"aten.mmm.default\" (did you mean \"aten.bmm.default\"?); valid: "
                   "the ops of `shardlab list ops`");
}

TEST(OpNames, ErrorsKnowShortNamesCompositeOpsAndPythonsFunctions) {
  const auto unknown = [](std::string_view op, std::string_view suggestion) {
    return "unknown op \"" + std::string(op) + "\" (did you mean \"" + std::string(suggestion) +
           "\"?); valid: the ops of `shardlab list ops`";
  };
  EXPECT_THROW_MSG(find_op_rule("conv2", kShardlab), InputError, unknown("conv2", "conv2d"));
  EXPECT_THROW_MSG(find_op_rule("aten.conv2", kShardlab), InputError,
                   unknown("aten.conv2", "aten.conv2d"));
  EXPECT_THROW_MSG(find_op_rule("cummsum", kShardlab), InputError, unknown("cummsum", "cumsum"));
  EXPECT_THROW_MSG(find_op_rule("torch.bmm", kShardlab), InputError, unknown("torch.bmm", "bmm"));
  const std::string_view linear =
      "has no sharding rule, since PyTorch runs other ops in its place; valid: aten.t.default, "
      "aten.mm.default, aten.addmm.default";
  for (const std::string_view op : {"F.linear", "torch.nn.functional.linear", "aten.linear"}) {
    EXPECT_THROW_MSG(find_op_rule(op, kShardlab), InputError,
                     "op \"" + std::string(op) + "\" " + std::string(linear));
  }
  EXPECT_EQ(find_op_rule("torch.ops.aten.bmm.default", kShardlab).op, "aten.bmm.default");
}

TEST(OpNames, OpsOfOtherNamespacesMayLeaveOutDefault) {
  EXPECT_EQ(find_op_rule("autoparallel.dtype_cast", kAutoParallel).op,
            "autoparallel.dtype_cast.default");
  EXPECT_THROW_MSG(find_op_rule("autoparallel.dtype", kAutoParallel), InputError,
                   "unknown op \"autoparallel.dtype\" (did you mean \"autoparallel.dtype_cast\"?); "
                   "valid: the ops of `shardlab list ops`");
}

TEST(OpNames, AnOpOfOtherRuleSetsSaysSo) {
  EXPECT_THROW_MSG(find_op_rule("aten.einsum.default", Release::k2_13), InputError,
                   "aten.einsum.default: no sharding strategy registered in rule set dtensor-2.13; "
                   "valid: shardlab, autoparallel, autoparallel-2.15");
  EXPECT_THROW_MSG(
      find_op_rule("aten.topk.default", kDTensorLegacy), InputError,
      "aten.topk.default: no sharding strategy registered in rule set dtensor-legacy; valid: "
      "dtensor-2.15, dtensor-2.14, dtensor-2.13, shardlab, autoparallel, autoparallel-2.15");
}

TEST(OpNames, AreSortedAndUnique) {
  const auto names = all_op_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_GE(names.size(), 100U);
}

TEST(OpNames, SayWhatTheOpWritesTo) {
  const auto rule = [](const char* op) { return OpRule{.op = op}; };
  EXPECT_TRUE(rule("aten.add_.Tensor").is_in_place());
  EXPECT_TRUE(rule("aten._foreach_add_.List").is_in_place());
  EXPECT_FALSE(rule("aten.add.Tensor").is_in_place());
  EXPECT_FALSE(rule("aten._foreach_add.List").is_in_place());
  EXPECT_TRUE(rule("aten.mul.out").is_out_variant());
  EXPECT_TRUE(rule("aten.sum.IntList_out").is_out_variant());
  EXPECT_FALSE(rule("aten.mul.Tensor").is_out_variant());
  EXPECT_TRUE(is_foreach("aten._foreach_add.List"));
  EXPECT_TRUE(is_foreach("aten._fused_adamw_.default"));
  EXPECT_FALSE(is_foreach("aten.add.Tensor"));
}

TEST(RuleSets, ReadBackByTheirNames) {
  for (const RuleSet set :
       {RuleSet(Release::k2_13), kDTensorLegacy, kShardlab, kAutoParallel, kAutoParallel2_15}) {
    EXPECT_EQ(from_name<RuleSet>(name_of(set)), set);
  }
  EXPECT_EQ(valid_names<RuleSet>(),
            "dtensor-2.15, dtensor-2.14, dtensor-2.13, dtensor-legacy, shardlab, autoparallel, "
            "autoparallel-2.15");
  EXPECT_FALSE(from_name<RuleSet>("autoparalel").has_value());
}

TEST(RuleSets, AutoParallelBorrowsWhatItHasNoRuleOfItsOwnFor) {
  EXPECT_EQ(find_op_rule("aten.einsum.default", kAutoParallel).sets, kAutoParallels);
  EXPECT_EQ(&find_op_rule("aten.mm.default", kAutoParallel),
            &find_op_rule("aten.mm.default", Release::k2_13));
  // DTensor derives whole layouts here, so shardlab's rule is borrowed, which has rows.
  EXPECT_EQ(&find_op_rule("aten._softmax.default", kAutoParallel),
            &find_op_rule("aten._softmax.default", kShardlab));
  // Under PyTorch 2.15 it borrows the rules of that release, which has rows there.
  EXPECT_EQ(&find_op_rule("aten._softmax.default", kAutoParallel2_15),
            &find_op_rule("aten._softmax.default", Release::k2_15));
}

Texts rows_of(const char* op, const std::vector<std::string>& inputs, RuleSet set = Release::k2_13,
              const std::string& args = "[]") {
  const OpRule& rule = find_op_rule(op, set);
  const OpCall call = call_of(op, inputs, 1, args);
  return row_texts(rule.rows(call, rule), rule.outputs(call).size());
}

TEST(PointwiseRows, R22AbsPassesNoPartial) {
  EXPECT_EQ(rows_of("aten.abs.default", {"f32[4,8] R"}), (Texts{"?0|?0", "?1|?1"}));
}

TEST(PointwiseRows, R22NegSwapsMaximaAndMinima) {
  EXPECT_EQ(rows_of("aten.neg.default", {"f32[4,8] R"}),
            (Texts{"?0|?0", "?1|?1", "P(sum)|P(sum)", "P(avg)|P(avg)", "P(min)|P(max)",
                   "P(max)|P(min)"}));
}

TEST(PointwiseRows, R22ABroadcastOperandIsShardedOnItsOwnDim) {
  const Texts rows = rows_of("aten.add.Tensor", {"f32[4,8] R", "f32[8] R"});
  EXPECT_EQ(rows[0], "?0|?0,R");
  EXPECT_EQ(rows[1], "?1|?1,?0");
}

TEST(PointwiseRows, R22TheSixAdditiveRowsInTheirOrder) {
  const Texts rows = rows_of("aten.add.Tensor", {"f32[4,8] R", "f32[4,8] R"});
  EXPECT_EQ(Texts(rows.begin() + 2, rows.end()),
            (Texts{"P(sum)|P(sum),P(sum)", "P(avg)|P(avg),P(avg)", "P(avg)|P(avg),R",
                   "P(max)|P(max),R", "P(min)|P(min),R", "P(avg)|R,P(avg)"}));
}

TEST(PointwiseRows, R22MulWithAScalarKeepsSumAndAvg) {
  EXPECT_EQ(rows_of("aten.mul.Tensor", {"f32[4,8] R"}),
            (Texts{"?0|?0", "?1|?1", "P(sum)|P(sum)", "P(avg)|P(avg)"}));
}

TEST(PointwiseRows, R55AddWithAScalarKeepsNoPartial) {
  EXPECT_EQ(rows_of("aten.add.Scalar", {"f32[8] R"}), (Texts{"?0|?0"}));
  EXPECT_EQ(rows_of("aten.add.Tensor", {"f32[8] R"}), (Texts{"?0|?0"}));
}

TEST(PointwiseRows, ASizeOneOperandDimIsReplicatedWhereTheOtherIsLarger) {
  EXPECT_EQ(rows_of("aten.mul.Tensor", {"f32[4,1] R", "f32[1,8] R"})[0], "?0|?0,R");
  EXPECT_EQ(rows_of("aten.mul.Tensor", {"f32[4,1] R", "f32[1,8] R"})[1], "?1|R,?1");
  EXPECT_EQ(rows_of("aten.abs.default", {"f32[1,8] R"})[0], "?0|?0");
}

TEST(PointwiseRows, R26AnOutTensorFollowsTheOutput) {
  const Texts rows = rows_of("aten.mul.out", {"f32[8] R", "f32[8] R", "f32[8] R"});
  EXPECT_EQ(rows, (Texts{"?0|?0,?0,?0", "P(sum)|P(sum),R,P(sum)", "P(avg)|P(avg),R,P(avg)",
                         "P(sum)|R,P(sum),P(sum)", "P(avg)|R,P(avg),P(avg)"}));
}

TEST(PointwiseRows, MaximumKeepsMaximaAndPassesMinima) {
  const Texts rows = rows_of("aten.maximum.default", {"f32[8] R", "f32[8] R"});
  EXPECT_EQ(Texts(rows.begin() + 1, rows.end()),
            (Texts{"P(max)|P(max),R", "P(max)|R,P(max)", "P(min)|P(min),R", "P(min)|R,P(min)",
                   "P(max)|P(max),P(max)"}));
}

TEST(MatmulRows, R63ABiasTakesThePlacementOfTheOutput) {
  EXPECT_EQ(rows_of("aten.addmm.default", {"f32[8] R", "f32[50,6] R", "f32[6,8] R"}),
            (Texts{"P(sum)|P(sum),?1,?0", "?0|R,?0,R", "?1|?0,R,?1", "P(sum)|P(sum),P(sum),R",
                   "P(sum)|P(sum),R,P(sum)", "P(avg)|P(avg),P(avg),R", "P(avg)|P(avg),R,P(avg)"}));
}

TEST(MatmulRows, ABiasOfOneRowIsReplicatedThere) {
  EXPECT_EQ(rows_of("aten.addmm.default", {"f32[1,8] R", "f32[50,6] R", "f32[6,8] R"})[1],
            "?0|R,?0,R");
  EXPECT_EQ(rows_of("aten.addmm.default", {"f32[50,8] R", "f32[50,6] R", "f32[6,8] R"})[1],
            "?0|?0,?0,R");
}

TEST(MatmulRows, LegacyOnesAreConcreteAndPassNoPartials) {
  EXPECT_EQ(rows_of("aten.mm.default", {"f32[4,8] R", "f32[8,2] R"}, kDTensorLegacy),
            (Texts{"P(sum)|S(1),S(0)", "S(0)|S(0),R", "S(1)|R,S(1)"}));
}

TEST(MatmulRows, EinsumDerivesThemFromTheEquation) {
  EXPECT_EQ(rows_of("aten.einsum.default", {"f32[2,3,4] R", "f32[4,5] R"}, kShardlab,
                    R"(["bsk,kn->bsn"])")
                .size(),
            4U + 4U);
  EXPECT_THROW_MSG(
      rows_of("aten.einsum.default", {"f32[2,3] R"}, kShardlab), InputError,
      "aten.einsum.default: --args must begin with the equation, such as [\"mk,kn->mn\"]");
}

TEST(ReductionRows, ASumOverOneDimTurnsItsShardIntoASum) {
  EXPECT_EQ(rows_of("aten.sum.dim_IntList", {"f32[4,8,2] R"}, kShardlab, "[[1]]"),
            (Texts{"?0|?0", "P(sum)|?1", "?1|?2", "P(sum)|P(sum)", "P(avg)|P(avg)"}));
  EXPECT_EQ(rows_of("aten.sum.dim_IntList", {"f32[4,8,2] R"}, kShardlab, "[[-2], true]"),
            (Texts{"?0|?0", "P(sum)|?1", "?2|?2", "P(sum)|P(sum)", "P(avg)|P(avg)"}));
}

TEST(ReductionRows, AMaximumOverAllDimsTurnsShardsIntoMaxima) {
  EXPECT_EQ(rows_of("aten.max.default", {"f32[4,8] R"}, kShardlab),
            (Texts{"P(max)|?0", "P(max)|?1", "P(max)|P(max)"}));
}

TEST(SoftmaxRows, NeverShardTheSoftmaxDim) {
  EXPECT_EQ(rows_of("aten._softmax.default", {"f32[4,8,2] R"}, kShardlab, "[-2, false]"),
            (Texts{"?0|?0", "?2|?2"}));
}

TEST(CatRows, NeverShardTheJoinedDimAndPassPartials) {
  EXPECT_EQ(rows_of("aten.cat.default", {"[f32[4,8] R; f32[2,8] R]"}, kShardlab, "[0]"),
            (Texts{"?1|?1,?1", "P(sum)|P(sum),P(sum)", "P(avg)|P(avg),P(avg)",
                   "P(min)|P(min),P(min)", "P(max)|P(max),P(max)"}));
}

TEST(StackRows, RenumberTheDimsAfterTheNewOne) {
  const Texts rows = rows_of("aten.stack.default", {"[f32[4,8] R; f32[4,8] R]"}, kShardlab, "[1]");
  EXPECT_EQ(rows[0], "?0|?0,?0");
  EXPECT_EQ(rows[1], "?2|?1,?1");
}

struct OutputCase {
  const char* name;
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  const char* output;
};
void PrintTo(const OutputCase& c, std::ostream* out) { *out << c.op; }
class OpOutputs : public testing::TestWithParam<OutputCase> {};

TEST_P(OpOutputs, HaveThisShapeInEveryRuleSet) {
  const OutputCase& c = GetParam();
  for (const RuleSet set : {RuleSet(Release::k2_13), kDTensorLegacy, kShardlab}) {
    const OpRule* rule = nullptr;
    try {
      rule = &find_op_rule(c.op, set);
    } catch (const InputError&) {
      continue;  // the set has no rule of the op
    }
    const auto outputs = rule->outputs(call_of(c.op, c.inputs, 1, c.args));
    ASSERT_EQ(outputs.size(), 1U);
    EXPECT_EQ(outputs[0].text(), c.output) << name_of(set);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OpOutputs,
    testing::Values(
        OutputCase{"Mm", "aten.mm.default", {"bf16[4,8] R", "bf16[8,2] R"}, "[]", "bf16[4,2]"},
        OutputCase{"Bmm", "aten.bmm.default", {"f32[3,4,8] R", "f32[3,8,2] R"}, "[]", "f32[3,4,2]"},
        OutputCase{"Mv", "aten.mv.default", {"f32[4,8] R", "f32[8] R"}, "[]", "f32[4]"},
        OutputCase{"Dot", "aten.dot.default", {"f32[8] R", "f32[8] R"}, "[]", "f32[]"},
        OutputCase{"Addmm",
                   "aten.addmm.default",
                   {"f32[2] R", "f32[4,8] R", "f32[8,2] R"},
                   "[]",
                   "f32[4,2]"},
        OutputCase{"Add", "aten.add.Tensor", {"f32[4,1] R", "f32[8] R"}, "[]", "f32[4,8]"},
        OutputCase{"SumOfOneDim", "aten.sum.dim_IntList", {"f32[4,8] R"}, "[[1]]", "f32[4]"},
        OutputCase{
            "SumKeepingIt", "aten.sum.dim_IntList", {"f32[4,8] R"}, "[[-1], true]", "f32[4,1]"},
        OutputCase{"SumOfAll", "aten.sum.default", {"f32[4,8] R"}, "[]", "f32[]"},
        OutputCase{"Softmax", "aten._softmax.default", {"f32[4,8] R"}, "[1, false]", "f32[4,8]"},
        OutputCase{"Cat", "aten.cat.default", {"[f32[4,8] R; f32[2,8] R]"}, "[0]", "f32[6,8]"},
        OutputCase{"CatBack", "aten.cat.default", {"[f32[4,8] R; f32[4,1] R]"}, "[-1]", "f32[4,9]"},
        OutputCase{"Stack",
                   "aten.stack.default",
                   {"[f32[4,8] R; f32[4,8] R; f32[4,8] R]"},
                   "[-1]",
                   "f32[4,8,3]"}),
    [](const auto& test) { return std::string(test.param.name); });

struct CallError {
  const char* name;
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  const char* message;
};
void PrintTo(const CallError& c, std::ostream* out) { *out << c.op; }
class OpCallMistakes : public testing::TestWithParam<CallError> {};

TEST_P(OpCallMistakes, AreErrorsWordForWord) {
  const CallError& c = GetParam();
  const OpCall call = call_of(c.op, c.inputs, 1, c.args);
  EXPECT_THROW_MSG(find_op_rule(c.op, Release::k2_13).outputs(call), InputError, c.message);
}

INSTANTIATE_TEST_SUITE_P(
    All, OpCallMistakes,
    testing::Values(
        CallError{"OneTensorForMm",
                  "aten.mm.default",
                  {"f32[4,8] R"},
                  "[]",
                  "aten.mm.default: takes 2 tensors, found 1"},
        CallError{"ShapesOfMm",
                  "aten.mm.default",
                  {"f32[4,8] R", "f32[4,8] R"},
                  "[]",
                  "aten.mm.default: shapes do not fit mk,kn->mn: found [4,8], [4,8]"},
        CallError{"BiasThatDoesNotFit",
                  "aten.addmm.default",
                  {"f32[3] R", "f32[4,8] R", "f32[8,2] R"},
                  "[]",
                  "aten.addmm.default: shapes do not broadcast: f32[3], f32[4,2]"},
        CallError{"BiasLargerThanTheProduct",
                  "aten.addmm.default",
                  {"f32[4,2] R", "f32[1,8] R", "f32[8,2] R"},
                  "[]",
                  "aten.addmm.default: bias f32[4,2] does not broadcast to f32[1,2]"},
        CallError{"NoTensor",
                  "aten.add.Tensor",
                  {},
                  "[]",
                  "aten.add.Tensor: takes at least one tensor, found none"},
        CallError{"OutAlone",
                  "aten.add.out",
                  {"f32[8] R"},
                  "[]",
                  "aten.add.out: takes its operands and, as the last argument, the out tensor; "
                  "found one tensor"},
        CallError{"OutOfAnotherShape",
                  "aten.add.out",
                  {"f32[8] R", "f32[8] R", "f32[4] R"},
                  "[]",
                  "aten.add.out: out f32[4] does not have the result's shape, f32[8]"},
        CallError{"TwoTensorsForSum",
                  "aten.sum.default",
                  {"f32[8] R", "f32[8] R"},
                  "[]",
                  "aten.sum.default: takes 1 tensor, found 2"},
        CallError{"DimOutOfRange",
                  "aten.sum.dim_IntList",
                  {"f32[4,8] R"},
                  "[[2]]",
                  "aten.sum.dim_IntList: dim 2 out of range; valid: -2 to 1"},
        CallError{"SoftmaxWithoutDim",
                  "aten._softmax.default",
                  {"f32[4,8] R"},
                  "[]",
                  "aten._softmax.default: --args must begin with the dim"},
        CallError{"CatOfNoList",
                  "aten.cat.default",
                  {"f32[4,8] R"},
                  "[0]",
                  "aten.cat.default: takes one tensor list, such as \"[f32[8,8] R; f32[8,8] "
                  "S(0)]\""},
        CallError{"CatOfOtherRanks",
                  "aten.cat.default",
                  {"[f32[4,8] R; f32[4] R]"},
                  "[0]",
                  "aten.cat.default: found f32[4,8] and f32[4]; valid: tensors with the same "
                  "number of dims"},
        CallError{"CatOfOtherShapes",
                  "aten.cat.default",
                  {"[f32[4,8] R; f32[4,7] R]"},
                  "[0]",
                  "aten.cat.default: shapes differ outside dim 0: f32[4,8] and f32[4,7]"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace op_rule_test
}  // namespace shardlab
