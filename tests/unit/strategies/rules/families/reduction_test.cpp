// Rules of reductions, scans, softmax, losses and norms where they could go wrong: which placements
// are kept, what PyTorch 2.13.0 gets wrong, the outputs' dtypes, and calls that the ops do not
// take.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/op_rule.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace families_reduction_test {

using testing_support::call_of;

// The one candidate of a follow rule: outputs | inputs.
struct Follows {
  const char* name;
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  const char* candidate;
};
void PrintTo(const Follows& c, std::ostream* out) { *out << c.name; }
class FollowedReduction : public testing::TestWithParam<Follows> {};

TEST_P(FollowedReduction, GivesTheLayoutsOfPyTorch) {
  const OpCall call = call_of(GetParam().op, GetParam().inputs, 1, GetParam().args);
  const Expansion e = expand(find_op_rule(call.op, Release::k2_13), call, DeviceMesh::parse("2"));
  ASSERT_EQ(e.size(), 1U);
  std::string text;
  for (std::size_t o = 0; o < e.outputs(); ++o) {
    text += (o > 0 ? "," : "") + Layout(e.output(0, o)).text();
  }
  for (std::size_t i = 0; i < e.inputs(); ++i) {
    text += (i > 0 ? "," : "|") + Layout(e.input(0, i)).text();
  }
  EXPECT_EQ(text, GetParam().candidate);
}

INSTANTIATE_TEST_SUITE_P(
    All, FollowedReduction,
    testing::Values(
        Follows{"AnyOfShardsIsASum", "aten.any.default", {"b8[8] S(0)"}, "[]", "P(sum)|S(0)"},
        Follows{
            "AllOfShardsIsAProduct", "aten.all.dim", {"b8[8,8] S(0)"}, "[0]", "P(product)|S(0)"},
        Follows{"NormOfShards", "aten.norm.Scalar", {"f32[8] S(0)"}, "[3]", "NP(3)|S(0)"},
        Follows{"NormOfPartials", "aten.norm.Scalar", {"f32[8] P"}, "[3]", "R|R"},
        // Four faults of PyTorch: it takes a maximum of maxima for a norm, does not gather the last
        // dim when it is called -1, overlooks the keepdim of logsumexp, and takes an empty list of
        // dims for none instead of all.
        Follows{"FaultMaximumNormOfMaxima",
                "aten.linalg_vector_norm.default",
                {"f32[8] P(max)"},
                R"(["inf"])",
                "P(max)|P(max)"},
        Follows{"FaultCumsumOfTheLastDim",
                "aten.cumsum.default",
                {"f32[8,8] S(1)"},
                "[-1]",
                "S(1)|S(1)"},
        Follows{"CumsumOfDimOne", "aten.cumsum.default", {"f32[8,8] S(1)"}, "[1]", "R|R"},
        Follows{"FaultLogsumexpKeepsDims",
                "aten.logsumexp.default",
                {"f32[8,8] S(1)"},
                "[[0], true]",
                "S(0)|S(1)"},
        Follows{"FaultSumOverNoDims",
                "aten.sum.dim_IntList",
                {"f32[8,8] S(1)"},
                "[[], true]",
                "S(1)|S(1)"},
        Follows{"AnOutTensorStaysWhereItIs",
                "aten.amax.out",
                {"f32[8,8] S(0)", "f32[8] R"},
                "[[0]]",
                "P(max)|S(0),R"},
        Follows{"VarianceAndMeanAlike",
                "aten.var_mean.correction",
                {"f32[8,8] S(1)"},
                "[[0]]",
                "S(0),S(0)|S(1)"},
        Follows{"SoftmaxBackwardFollowsTheMoreShards",
                "aten._softmax_backward_data.default",
                {"f32[8,8] R", "f32[8,8] S(0)"},
                R"([1, "f32"])",
                "S(0)|S(0),S(0)"},
        Follows{"NllMeanOfShards",
                "aten.nll_loss_forward.default",
                {"f32[8,4] S(0)", "i64[8] R", "f32[4] S(0)"},
                "[1, -100]",
                "P(avg),P(sum)|S(0),S(0),R"},
        Follows{"NllOfEachTarget",
                "aten.nll_loss2d_forward.default",
                {"f32[8,4,2,2] S(2)", "i64[8,2,2] R", "none"},
                "[0, -100]",
                "S(1),R|S(2),S(1)"},
        Follows{"NllSumLeavesTheTotalWeight",
                "aten.nll_loss_backward.default",
                {"f32[] P", "f32[8,4] S(0)", "i64[8] R", "none", "f32[] P"},
                "[2, -100]",
                "S(0)|R,S(0),S(0),P(sum)"}),
    [](const auto& test) { return std::string(test.param.name); });

struct Outputs {
  const char* name;
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  std::vector<std::string> outputs;
};
void PrintTo(const Outputs& c, std::ostream* out) { *out << c.name; }
class ReductionOutputs : public testing::TestWithParam<Outputs> {};

TEST_P(ReductionOutputs, HaveTheShapesAndDtypesOfPyTorch) {
  for (const RuleSet set : {RuleSet(Release::k2_13), kShardlab}) {
    const OpCall call = call_of(GetParam().op, GetParam().inputs, 1, GetParam().args);
    std::vector<std::string> found;
    for (const TensorMeta& meta : find_op_rule(call.op, set).outputs(call)) {
      found.push_back(meta.text());
    }
    EXPECT_EQ(found, GetParam().outputs) << name_of(set);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ReductionOutputs,
    testing::Values(
        Outputs{"SumOfIntegers", "aten.sum.dim_IntList", {"i32[4,8] R"}, "[[1]]", {"i64[4]"}},
        Outputs{"SumInAnotherDtype", "aten.sum.default", {"bf16[4] R"}, R"(["f32"])", {"f32[]"}},
        Outputs{"AllOfU8", "aten.all.default", {"u8[4] R"}, "[]", {"u8[]"}},
        Outputs{"AnyOfNoDims", "aten.any.dims", {"f32[4,8] R"}, "[[]]", {"b8[4,8]"}},
        Outputs{"ArgmaxOfAll", "aten.argmax.default", {"f32[4,8] R"}, "[null, true]", {"i64[1,1]"}},
        Outputs{"MaxOfADim", "aten.max.dim", {"bf16[4,8] R"}, "[-1]", {"bf16[4]", "i64[4]"}},
        Outputs{
            "KthOfTheLast", "aten.kthvalue.default", {"f32[4,8] R"}, "[8]", {"f32[4]", "i64[4]"}},
        Outputs{"Topk", "aten.topk.default", {"f32[4,8] R"}, "[3]", {"f32[4,3]", "i64[4,3]"}},
        Outputs{"Histc", "aten.histc.default", {"f32[4,8] R"}, "[7]", {"f32[7]"}},
        Outputs{"LayerNormOfHalves",
                "aten.native_layer_norm.default",
                {"bf16[4,8] R", "bf16[8] R", "none"},
                "[[8], 1e-5]",
                {"bf16[4,8]", "f32[4,1]", "f32[4,1]"}},
        Outputs{"LayerNormBackwardWithoutBias",
                "aten.native_layer_norm_backward.default",
                {"f32[4,8] R", "f32[4,8] R", "f32[4,1] R", "f32[4,1] R", "f32[8] R", "none"},
                "[[8], [true, true, true]]",
                {"f32[4,8]", "f32[8]"}},
        Outputs{"BatchNormBackwardMasked",
                "aten.native_batch_norm_backward.default",
                {"f32[4,8] R", "f32[4,8] R", "none", "none", "none", "f32[8] R", "f32[8] R"},
                "[true, 1e-5, [false, true, false]]",
                {"f32[8]"}},
        Outputs{"BatchNormKeepsAReserve",
                "aten._batch_norm_with_update.default",
                {"f16[4,8] R", "none", "none", "f32[8] R", "f32[8] R"},
                "[0.1, 1e-5]",
                {"f16[4,8]", "f32[8]", "f32[8]", "u8[0]"}},
        Outputs{"GroupNormKeepsItsDtype",
                "aten.native_group_norm.default",
                {"bf16[4,8,3] R"},
                "[4, 8, 3, 2, 1e-5]",
                {"bf16[4,8,3]", "bf16[4,2]", "bf16[4,2]"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(HistcRows, NeedBoundsThatDoNotDependOnTheData) {
  const auto count = [](RuleSet set, const char* args) {
    const OpRule& rule = find_op_rule("aten.histc.default", set);
    return rule.rows(call_of("aten.histc.default", {"f32[4,8] S(0)"}, 1, args), rule).size();
  };
  EXPECT_EQ(count(kShardlab, "[8, 0, 4]"), 2U);
  EXPECT_EQ(count(Release::k2_13, "[8, 0, 4]"), 2U);
  EXPECT_EQ(count(kShardlab, "[8, 3, 3]"), 0U);
  EXPECT_EQ(count(Release::k2_13, "[8, 3, 3]"), 2U) << "a fault: equal bounds are the data's own";
  EXPECT_EQ(count(Release::k2_13, "[8, -1, 0]"), 0U) << "a max of 0 counts as absent";
  EXPECT_EQ(count(kShardlab, "[8, -1, 0]"), 2U);
}

TEST(NllRows, AMeanIsNotTheAverageOfLocalMeans) {
  const auto keeps_shards = [](const char* args) {
    const OpCall call =
        call_of("aten.nll_loss_forward.default", {"f32[8,4] S(0)", "i64[8] S(0)"}, 1, args);
    const Expansion e = expand(find_op_rule(call.op, kShardlab), call, DeviceMesh::parse("2"));
    for (std::size_t c = 0; c < e.size(); ++c) {
      if (e.keeps_inputs(c)) return true;
    }
    return false;
  };
  EXPECT_TRUE(keeps_shards("[0, -100]"));
  EXPECT_FALSE(keeps_shards("[1, -100]"));
  EXPECT_TRUE(keeps_shards("[2, -100]"));
}

struct Mistake {
  const char* name;
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  const char* message;
};
void PrintTo(const Mistake& c, std::ostream* out) { *out << c.name; }
class ReductionMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(ReductionMistakes, AreErrorsWordForWord) {
  const OpCall call = call_of(GetParam().op, GetParam().inputs, 1, GetParam().args);
  EXPECT_THROW_MSG(
      (void)expand(find_op_rule(call.op, Release::k2_13), call, DeviceMesh::parse("2")), InputError,
      GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, ReductionMistakes,
    testing::Values(
        Mistake{"OutIsMissing",
                "aten.amax.out",
                {"f32[8] R"},
                "[]",
                "aten.amax.out: takes 2 tensors, out last, found 1"},
        Mistake{"OutOfAnotherShape",
                "aten.mean.out",
                {"f32[8,4] R", "f32[4] R"},
                "[[1]]",
                "aten.mean.out: out f32[4] does not have the result's shape, f32[8]"},
        Mistake{"MaxWithoutDim",
                "aten.max.dim",
                {"f32[8] R"},
                "[]",
                "aten.max.dim: argument 0 of --args must be the dim"},
        Mistake{"MeanOfIntegers",
                "aten.mean.default",
                {"i64[8] R"},
                "[]",
                "aten.mean.default: found i64; valid: floating point tensors"},
        Mistake{"KthPastTheEnd",
                "aten.kthvalue.default",
                {"f32[8] R"},
                "[9]",
                "aten.kthvalue.default: found a k of 9 for a dim of 8 elements; valid: 1 to 8"},
        Mistake{"OrderOfNoName",
                "aten.norm.Scalar",
                {"f32[8] R"},
                R"(["fro"])",
                "aten.norm.Scalar: argument 0 of --args: found \"fro\"; valid: a number, the p of "
                "norm.Scalar(Tensor self, Scalar p=2) -> Tensor"},
        Mistake{"ShardOfAResultWithoutDims",
                "aten.sum.dim_IntList",
                {"f32[8] S(0)"},
                "[[]]",
                "aten.sum.dim_IntList: if the list of dims is empty, PyTorch 2.13.0 keeps S(0) on "
                "a result that lacks this dim; valid: null, which means all dims"},
        Mistake{"UnevenMeanOfALoss",
                "aten.nll_loss_forward.default",
                {"f32[5,4] S(0)", "i64[5] R"},
                "[1, -100]",
                "aten.nll_loss_forward.default: the mean over the target i64[5] in S(0) would be "
                "biased; valid: shards of equal size, or reduction 2 (sum)"},
        Mistake{"TargetOfAnotherShape",
                "aten.nll_loss_forward.default",
                {"f32[5,4] R", "i64[4] R"},
                "[1, -100]",
                "aten.nll_loss_forward.default: found a target i64[4]; valid: integers in the "
                "shape of the scores without the dim of the classes"},
        Mistake{"NormOfOtherDims",
                "aten.native_layer_norm.default",
                {"f32[5,4] R"},
                "[[5]]",
                "aten.native_layer_norm.default: argument 0 of --args: found [5]; valid: the last "
                "dims of f32[5,4], which are normalized"},
        Mistake{"MaskOfTwo",
                "aten.native_batch_norm_backward.default",
                {"f32[4,8] R", "f32[4,8] R", "none", "none", "none", "f32[8] R", "f32[8] R"},
                "[true, 1e-5, [true, true]]",
                "aten.native_batch_norm_backward.default: argument 2 of --args: found [true,true]; "
                "valid: an output mask of 3 values, each true or false"},
        Mistake{"GroupsThatDoNotDivide",
                "aten.native_group_norm.default",
                {"f32[4,8] R"},
                "[4, 8, 1, 3, 1e-5]",
                "aten.native_group_norm.default: found 3 groups of 8 channels; valid: a number of "
                "groups that divides the channels"},
        Mistake{
            "NoRunningStatistics",
            "aten.native_batch_norm.default",
            {"f32[4,8] R"},
            "[false, 0.1, 1e-5]",
            "aten.native_batch_norm.default: takes a running mean and variance when it does not "
            "train"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace families_reduction_test
}  // namespace shardlab
