// Kernels of reductions, scans, losses and norms, with all of their outputs. Expected values are
// those of PyTorch 2.13.0 on its CPU; a batch norm that does not train has the statistics of its
// GPU kernels.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/kernel_values.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace reduction_test {

using testing_support::expect_outputs;
using testing_support::kernel_outputs;
using testing_support::KernelCase;
using testing_support::kInf;
using testing_support::kNan;
using testing_support::message_of;
using testing_support::Operand;

class ReductionKernel : public testing::TestWithParam<KernelCase> {};

TEST_P(ReductionKernel, ReturnsWhatPyTorchDoes) { expect_outputs(GetParam(), 1e-13); }

INSTANTIATE_TEST_SUITE_P(
    All, ReductionKernel,
    testing::Values(
        KernelCase{
            "MedianIsTheLower", "aten.median.default", {{"f64[4]", {3, 1, 2, 4}}}, R"([])", {{2}}},
        KernelCase{"MedianOfNan",
                   "aten.median.dim",
                   {{"f64[4]", {3, kNan, 2, 4}}},
                   R"([0])",
                   {{kNan}, {1}}},
        KernelCase{"NanmedianSkipsNan",
                   "aten.nanmedian.dim",
                   {{"f64[4]", {3, kNan, 2, 4}}},
                   R"([0])",
                   {{3}, {0}}},
        KernelCase{"ModeIsTheSmallest",
                   "aten.mode.default",
                   {{"f64[5]", {2, 1, 1, 2, 3}}},
                   R"([])",
                   {{1}, {2}}},
        KernelCase{"KthvalueCountsNanLast",
                   "aten.kthvalue.default",
                   {{"f64[3]", {3, kNan, 1}}},
                   R"([3])",
                   {{kNan}, {1}}},
        KernelCase{"CummaxNamesTheLast",
                   "aten.cummax.default",
                   {{"f64[5]", {1, 3, 3, kNan, 2}}},
                   R"([0])",
                   {{1, 3, 3, kNan, kNan}, {0, 1, 2, 3, 3}}},
        KernelCase{"CumminNamesTheLast",
                   "aten.cummin.default",
                   {{"f64[4]", {2, 2, 1, 1}}},
                   R"([0])",
                   {{2, 2, 1, 1}, {0, 1, 2, 3}}},
        KernelCase{"LogcumsumexpFromNothing",
                   "aten.logcumsumexp.default",
                   {{"f64[3]", {-kInf, 0, 0}}},
                   R"([-1])",
                   {{-kInf, 0, 0.6931471805599453}}},
        KernelCase{"LogsumexpOfNothing",
                   "aten.logsumexp.default",
                   {{"f64[2]", {-kInf, -kInf}}},
                   R"([[0]])",
                   {{-kInf}}},
        KernelCase{
            "Cumprod", "aten.cumprod.default", {{"f64[3]", {2, 3, 4}}}, R"([0])", {{2, 6, 24}}},
        KernelCase{"VarianceOfASample",
                   "aten.var.correction",
                   {{"f64[4]", {1, 2, 3, 4}}},
                   R"([])",
                   {{1.6666666666666667}}},
        KernelCase{"VarianceOfAll",
                   "aten.var.correction",
                   {{"f64[4]", {1, 2, 3, 4}}},
                   R"([[0], 0])",
                   {{1.25}}},
        KernelCase{"VarianceAndMean",
                   "aten.var_mean.correction",
                   {{"f64[4]", {1, 2, 3, 4}}},
                   R"([[0], 2])",
                   {{2.5}, {2.5}}},
        KernelCase{"VarianceOfOne", "aten.var.correction", {{"f64[1]", {1}}}, R"([])", {{kNan}}},
        KernelCase{"NormOfZero",
                   "aten.linalg_vector_norm.default",
                   {{"f64[3]", {0, -2, 3}}},
                   R"([0])",
                   {{2}}},
        KernelCase{"NormOfOne",
                   "aten.linalg_vector_norm.default",
                   {{"f64[3]", {0, -2, 3}}},
                   R"([1])",
                   {{5}}},
        KernelCase{"NormOfHalf",
                   "aten.linalg_vector_norm.default",
                   {{"f64[3]", {0, -2, 3}}},
                   R"([0.5])",
                   {{9.898979485566358}}},
        KernelCase{"NormOfMinusInf",
                   "aten.linalg_vector_norm.default",
                   {{"f64[3]", {0, -2, 3}}},
                   R"(["-inf"])",
                   {{0}}},
        KernelCase{"PowsumHasNoRoot",
                   "aten.linalg__powsum.default",
                   {{"f64[3]", {0, -2, 3}}},
                   R"([3])",
                   {{35}}},
        KernelCase{"HistcKeepsItsUpperBound",
                   "aten.histc.default",
                   {{"f64[5]", {0, 1, 2, 4, 5}}},
                   R"([4, 0, 4])",
                   {{1, 1, 1, 1}}},
        KernelCase{"HistcOfEqualBounds",
                   "aten.histc.default",
                   {{"f64[3]", {1, 2, 5}}},
                   R"([2, 3, 3])",
                   {{2, 1}}},
        KernelCase{
            "HistcOfEqualData", "aten.histc.default", {{"f64[2]", {2, 2}}}, R"([2])", {{0, 2}}},
        KernelCase{"SortsNanAsLargest",
                   "aten.sort.default",
                   {{"f64[3]", {2, kNan, 1}}},
                   R"([0, true])",
                   {{kNan, 2, 1}, {1, 0, 2}}},
        KernelCase{"TopkOfTheSmallest",
                   "aten.topk.default",
                   {{"f64[3]", {2, 3, 1}}},
                   R"([2, 0, false])",
                   {{1, 2}, {2, 0}}},
        KernelCase{"AnyKeepsU8", "aten.any.default", {{"u8[2]", {0, 3}}}, R"([])", {{1}}},
        KernelCase{"AnyOfNoDims", "aten.any.dims", {{"f64[2]", {0, 2}}}, R"([[]])", {{0, 1}}},
        KernelCase{"ArgminOfNan", "aten.argmin.default", {{"f64[2]", {1, kNan}}}, R"([])", {{1}}},
        KernelCase{
            "LayerNorm",
            "aten.native_layer_norm.default",
            {{"f64[2,2]", {1, 2, 3, 5}}, {"f64[2]", {2, 3}}, {"f64[2]", {1, -1}}},
            R"([[2], 1e-5])",
            {{-0.9999600011999599, 1.9999400017999398, -0.9999900000749995, 1.9999850001124992},
             {1.5, 4},
             {1.9999600011999599, 0.9999950000374997}}},
        KernelCase{"LayerNormBackward",
                   "aten.native_layer_norm_backward.default",
                   {{"f64[2,2]", {1, 0, 2, -1}},
                    {"f64[2,2]", {1, 2, 3, 5}},
                    {"f64[2,1]", {1.5, 4}},
                    {"f64[2,1]", {1.9999600011999599, 0.9999950000374997}},
                    {"f64[2]", {2, 3}},
                    {"f64[2]", {1, -1}}},
                   R"([[2], [true, false, true]])",
                   {{7.99952002408233e-05, -7.999520023993512e-05, 3.499947500529288e-05,
                     -3.4999475007069236e-05},
                    {3, -1}}},
        KernelCase{"RmsNorm",
                   "aten._fused_rms_norm.default",
                   {{"f64[2,2]", {1, 2, 3, 5}}, {"f64[2]", {2, 3}}},
                   R"([[2], 1e-5])",
                   {{1.264908534252813, 3.7947256027584393, 1.4552133222141426, 3.6380333055353566},
                    {0.6324542671264065, 0.2425355537023571}}},
        KernelCase{
            "RmsNormBackward",
            "aten._fused_rms_norm_backward.default",
            {{"f64[2,2]", {1, 0, 2, -1}},
             {"f64[2,2]", {1, 2, 3, 5}},
             {"f64[2,1]", {0.6324542671264065, 0.2425355537023571}},
             {"f64[2]", {2, 3}}},
            R"([[2], [true, true]])",
            {{1.0119278393250302, -0.5059613898555658, 1.0343427647891406, -0.6206057444742176},
             {2.087667589340549, -1.2126777685117855}}},
        KernelCase{
            "BatchNormTrains",
            "aten.native_batch_norm.default",
            {{"f64[2,2]", {1, 2, 3, 5}},
             {"f64[2]", {2, 3}},
             {"f64[2]", {1, -1}},
             {"f64[2]", {1, 2}},
             {"f64[2]", {4, 9}}},
            R"([true, 0.1, 1e-5])",
            {{-0.9999900000749995, -3.9999933333555555, 2.9999900000749995, 1.9999933333555555},
             {2, 3.5},
             {0.9999950000374997, 0.6666651851901234}}},
        KernelCase{"BatchNormBackward",
                   "aten.native_batch_norm_backward.default",
                   {{"f64[2,2]", {1, 0, 2, -1}},
                    {"f64[2,2]", {1, 2, 3, 5}},
                    {"f64[2]", {2, 3}},
                    {"f64[2]", {1, 2}},
                    {"f64[2]", {4, 9}},
                    {"f64[2]", {2, 3.5}},
                    {"f64[2]", {0.9999950000374997, 0.6666651851901234}}},
                   R"([true, 1e-5, [true, true, true]])",
                   {{-9.999850001709384e-06, 4.444414815030136e-06, 9.999850001709384e-06,
                     -4.444414815030136e-06},
                    {0.9999950000374997, -0.9999977777851852},
                    {3, -1}}},
        KernelCase{"BatchNormAppliesTheRunningStatistics",
                   "aten.native_batch_norm.default",
                   {{"f64[2,2]", {1, 2, 3, 5}},
                    {"f64[2]", {2, 3}},
                    {"f64[2]", {1, -1}},
                    {"f64[2]", {1, 2}},
                    {"f64[2]", {4, 9}}},
                   R"([false, 0.1, 1e-5])",
                   {{1, -1, 2.9999975000046875, 1.9999983333347222},
                    {1, 2},
                    {0.49999937500117186, 0.33333314814830245}}},
        KernelCase{"BatchNormBackwardOfTheRunningStatistics",
                   "aten.native_batch_norm_backward.default",
                   {{"f64[2,2]", {1, 0, 2, -1}},
                    {"f64[2,2]", {1, 2, 3, 5}},
                    {"f64[2]", {2, 3}},
                    {"f64[2]", {1, 2}},
                    {"f64[2]", {4, 9}},
                    {"f64[2]", {1, 2}},
                    {"f64[2]", {4, 9}}},
                   R"([false, 1e-5, [true, true, true]])",
                   {{0.9999987500023437, 0, 1.9999975000046875, -0.9999994444449074},
                    {1.9999975000046875, -0.9999994444449074},
                    {3, -1}}},
        KernelCase{
            "GroupNorm",
            "aten.native_group_norm.default",
            {{"f64[1,4,2]", {1, 2, 3, 5, 2, 0, 4, 1}},
             {"f64[4]", {1, 2, 3, 4}},
             {"f64[4]", {0, 1, 0, 1}}},
            R"([1, 4, 2, 2, 1e-5])",
            {{-1.1832132521355803, -0.5070913937723915, 1.3380609291815946, 4.04254836263435,
              0.5070913937723915, -3.5496397564067417, 7.085096725268699, -1.0283655750895666},
             {2.75, 1.75},
             {0.6761218583631888, 0.6761218583631888}}},
        KernelCase{"SoftmaxBackward",
                   "aten._softmax_backward_data.default",
                   {{"f64[1,2]", {1, 2}}, {"f64[1,2]", {0.25, 0.75}}},
                   R"([1, "f64"])",
                   {{-0.1875, 0.1875}}},
        KernelCase{"LogSoftmaxBackward",
                   "aten._log_softmax_backward_data.default",
                   {{"f64[1,2]", {1, 2}}, {"f64[1,2]", {-1, -0.5}}},
                   R"([1, "f64"])",
                   {{-0.103638323514327, 0.18040802086209973}}},
        KernelCase{"NllLossOfEachTarget",
                   "aten.nll_loss_forward.default",
                   {{"f64[2,2]", {1, 2, 3, 5}}, {"i64[2]", {1, -100}}, {"f64[2]", {2, 3}}},
                   R"([0, -100])",
                   {{-6, 0}, {0}}},
        KernelCase{"NllLossOfOneTarget",
                   "aten.nll_loss_forward.default",
                   {{"f64[2]", {1, 2}}, {"i64[]", {1}}, {"f64[2]", {2, 3}}},
                   R"([1, -100])",
                   {{-2}, {3}}},
        KernelCase{"NllLossBackwardOfTheMean",
                   "aten.nll_loss_backward.default",
                   {{"f64[]", {2}},
                    {"f64[2,2]", {1, 2, 3, 5}},
                    {"i64[2]", {1, 0}},
                    {"f64[2]", {2, 3}},
                    {"f64[]", {5}}},
                   R"([1, -100])",
                   {{0, -1.2000000000000002, -0.8, 0}}},
        KernelCase{
            "Nll2dSkipsTheIgnored",
            "aten.nll_loss2d_forward.default",
            {{"f64[1,2,2,2]", {1, 2, 3, 4, 5, 6, 7, 8}}, {"i64[1,2,2]", {0, 1, 1, -100}}, {}},
            R"([2, -100])",
            {{-14}, {3}}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ReductionKernels, GiveTheDtypesOfPyTorch) {
  const auto dtype = [](const char* op, const Operand& input, const char* args = "[]") {
    return std::string(to_string(kernel_outputs(op, {input}, args)[0].dtype()));
  };
  EXPECT_EQ(dtype("aten.sum.default", {"i32[2]", {1, 2}}), "i64");
  EXPECT_EQ(dtype("aten.sum.default", {"b8[2]", {1, 1}}), "i64");
  EXPECT_EQ(dtype("aten.sum.default", {"bf16[2]", {1, 2}}, R"(["f32"])"), "f32");
  EXPECT_EQ(dtype("aten.cumsum.default", {"i32[2]", {1, 2}}, "[0]"), "i64");
  EXPECT_EQ(dtype("aten.any.default", {"u8[2]", {0, 3}}), "u8");
  EXPECT_EQ(dtype("aten.any.default", {"f32[2]", {0, 3}}), "b8");
  EXPECT_EQ(dtype("aten.argmin.default", {"f32[2]", {0, 3}}), "i64");
  EXPECT_EQ(dtype("aten._softmax.default", {"bf16[2]", {0, 3}}, "[0, true]"), "f32");
}

TEST(ReductionKernels, RefuseWhatHasNoResult) {
  const auto error = [](const char* op, const std::vector<Operand>& inputs,
                        const char* args = "[]") {
    return message_of<InputError>([&] { (void)kernel_outputs(op, inputs, args); });
  };
  EXPECT_EQ(error("aten.max.dim", {{"f32[0,2]", {}}}, "[0]"),
            "aten.max.dim of an empty tensor has no result");
  EXPECT_EQ(error("aten.linalg_vector_norm.default", {{"f32[0]", {}}}, R"(["inf"])"),
            "aten.linalg_vector_norm.default of an empty tensor has no result");
  EXPECT_EQ(error("aten.kthvalue.default", {{"f32[2]", {1, 2}}}, "[3]"),
            "aten.kthvalue.default: found k 3; valid: 1 to 2");
  EXPECT_EQ(error("aten.topk.default", {{"f32[2]", {1, 2}}}, "[3]"),
            "aten.topk.default: found k 3; valid: 0 to 2");
  EXPECT_EQ(error("aten.native_layer_norm.default", {{"f32[2]", {1, 2}}}, "[[3]]"),
            "aten.native_layer_norm.default: argument 0 of --args: found [3]; valid: the "
            "last dims of f32[2], which are normalized");
  EXPECT_EQ(error("aten.nll_loss_forward.default", {{"f32[1,2]", {1, 2}}, {"i64[1]", {2}}}),
            "aten.nll_loss_forward.default: found the target 2; valid: 0 to 1, or -100, which is "
            "ignored");
}

}  // namespace reduction_test
}  // namespace shardlab
