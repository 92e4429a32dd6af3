// Reference kernels where they could differ from PyTorch: at NaN and infinity, on empty dims, and
// with arguments that are absent or too many. Expected values are PyTorch 2.13.0's.
#include "strategies/proof/op_kernel.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/kernel_values.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace op_kernel_test {

using testing_support::expect_values;
using testing_support::kernel_values;
using testing_support::kInf;
using testing_support::kNan;
using testing_support::message_of;
using testing_support::Operand;

struct KernelCase {
  const char* name;
  const char* op;
  std::vector<Operand> inputs;
  const char* args;
  std::vector<double> expected;
};
void PrintTo(const KernelCase& c, std::ostream* out) { *out << c.name; }
class OpKernelValue : public testing::TestWithParam<KernelCase> {};

TEST_P(OpKernelValue, IsWhatPyTorchReturns) {
  expect_values(kernel_values(GetParam().op, GetParam().inputs, GetParam().args).front(),
                GetParam().expected, 1e-15);
}

INSTANTIATE_TEST_SUITE_P(
    All, OpKernelValue,
    testing::Values(
        KernelCase{"MaxOfNan", "aten.max.default", {{"f64[3]", {1, kNan, 2}}}, "[]", {kNan}},
        KernelCase{"MinOfNan", "aten.min.default", {{"f64[3]", {1, kNan, 2}}}, "[]", {kNan}},
        KernelCase{"MinOfNumbers", "aten.amin.default", {{"f64[3]", {1, -4, 2}}}, "[]", {-4}},
        KernelCase{"ArgmaxOfNan", "aten.argmax.default", {{"f64[3]", {1, kNan, 2}}}, "[]", {1}},
        KernelCase{"SignOfNan", "aten.sign.default", {{"f64[3]", {-2, kNan, 0}}}, "[]", {-1, 0, 0}},
        KernelCase{"RoundIsToEven",
                   "aten.round.default",
                   {{"f64[3]", {0.5, 1.5, -2.5}}},
                   "[]",
                   {0, 2, -2}},
        KernelCase{"LogaddexpOfNan",
                   "aten.logaddexp.default",
                   {{"f64[1]", {1}}, {"f64[1]", {kNan}}},
                   "[]",
                   {kNan}},
        KernelCase{"LogaddexpOfInfinity",
                   "aten.logaddexp.default",
                   {{"f64[1]", {kInf}}, {"f64[1]", {1}}},
                   "[]",
                   {kInf}},
        KernelCase{"ClampWithoutMin",
                   "aten.clamp.default",
                   {{"f64[3]", {1, 2, 3}}},
                   "[null, 2]",
                   {1, 2, 2}},
        KernelCase{"SafeSoftmaxOfNothing",
                   "aten._safe_softmax.default",
                   {{"f64[2,2]", {-kInf, -kInf, 1, 1}}},
                   "[1]",
                   {0, 0, 0.5, 0.5}},
        KernelCase{"SumOverNoDimsIsOverAll",
                   "aten.sum.dim_IntList",
                   {{"f64[2,2]", {1, 2, 3, 4}}},
                   "[[]]",
                   {10}},
        KernelCase{"SumKeepsDims",
                   "aten.sum.dim_IntList",
                   {{"f64[2,3]", {1, 2, 3, 4, 5, 6}}},
                   "[[-1], true]",
                   {6, 15}},
        KernelCase{"MeanOfNothing", "aten.mean.default", {{"f64[0]", {}}}, "[]", {kNan}},
        KernelCase{"Broadcasts",
                   "aten.sub.Tensor",
                   {{"f64[2,1]", {1, 2}}, {"f64[3]", {1, 2, 3}}},
                   "[]",
                   {0, -1, -2, 1, 0, -1}},
        KernelCase{
            "RsubTakesItsNumberFirst", "aten.rsub.Scalar", {{"f64[2]", {1, 2}}}, "[10]", {9, 8}},
        KernelCase{"Addmm",
                   "aten.addmm.default",
                   {{"f64[2]", {10, 20}}, {"f64[2,2]", {1, 2, 3, 4}}, {"f64[2,2]", {1, 0, 0, 1}}},
                   "[]",
                   {11, 22, 13, 24}},
        KernelCase{"EinsumTransposes",
                   "aten.einsum.default",
                   {{"f64[2,2]", {1, 2, 3, 4}}},
                   R"(["ij->ji"])",
                   {1, 3, 2, 4}},
        KernelCase{"ViewInfersOne",
                   "aten.view.default",
                   {{"f64[2,3]", {1, 2, 3, 4, 5, 6}}},
                   "[[3, -1]]",
                   {1, 2, 3, 4, 5, 6}},
        KernelCase{"Stack",
                   "aten.stack.default",
                   {{"f64[2]", {1, 2}}, {"f64[2]", {3, 4}}},
                   "[1]",
                   {1, 3, 2, 4}},
        KernelCase{"CatOfNegativeDim",
                   "aten.cat.default",
                   {{"f64[2,1]", {1, 2}}, {"f64[2,2]", {3, 4, 5, 6}}},
                   "[-1]",
                   {1, 3, 4, 2, 5, 6}},
        KernelCase{"NllIgnoresATarget",
                   "aten.nll_loss_forward.default",
                   {{"f64[2,3]", {0, 1, 2, 3, 4, 5}}, {"i64[2]", {-100, 1}}},
                   "[1, -100]",
                   {-4}},
        KernelCase{"Where",
                   "aten.where.self",
                   {{"b8[2]", {1, 0}}, {"f64[2]", {1, 2}}, {"f64[2]", {3, 4}}},
                   "[]",
                   {1, 4}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(OpKernel, RefusesWhatItWouldGetWrong) {
  const auto error = [](const std::string& op, const std::vector<Operand>& inputs,
                        const char* args = "[]") {
    return message_of<InputError>([&] { (void)kernel_values(op, inputs, args); });
  };
  EXPECT_EQ(error("aten.add.Tensor", {{"f32[1]", {1}}}),
            "aten.add.Tensor: argument 0 of --args: found nothing; valid: a number");
  EXPECT_EQ(error("aten.add.Tensor", {{"f32[1]", {1}}, {"f32[1]", {1}}}, "[2, 3]"),
            "aten.add.Tensor: found 2 arguments in --args; valid: at most 1");
  EXPECT_EQ(error("aten.cat.default", {{"f32[1]", {1}}, {"f64[1]", {1}}}, "[0]"),
            "aten.cat.default: found f32[1] and f64[1]; valid: tensors of one dtype whose shapes "
            "differ in dim 0 only");
  EXPECT_EQ(error("aten.stack.default", {{"f32[1]", {1}}, {"f32[2]", {1, 2}}}, "[0]"),
            "aten.stack.default: found f32[1] and f32[2]; valid: tensors of one shape");
  EXPECT_EQ(
      error("aten.addmm.default", {{"f32[3]", {1, 2, 3}}, {"f32[1,1]", {1}}, {"f32[1,2]", {1, 2}}}),
      "aten.addmm.default: the bias does not broadcast to the product");
  EXPECT_EQ(error("aten.embedding.default", {{"f32[2]", {1, 2}}, {"i64[1]", {2}}}),
            "aten.embedding.default: found index 2; valid: 0 to 1");
  EXPECT_EQ(error("aten.bitwise_and.Tensor", {{"f32[1]", {1}}, {"f32[1]", {1}}}),
            "aten.bitwise_and.Tensor: found f32[1]; valid: tensors of integers or b8");
  EXPECT_EQ(error("aten.mul.Scalar", {{"i64[1]", {0x1p52}}}, "[4]"),
            "a result of 18014398509481984 does not fit i64");
  EXPECT_EQ(error("aten.lu.default", {{"f32[1]", {1}}}),
            "aten.lu.default has no reference kernel, so it can't be executed");
  EXPECT_EQ(find_op_kernel("aten.where.ScalarSelf"), nullptr);
  EXPECT_EQ(message_of<LimitError>([&] {
              (void)kernel_values("aten.mm.default", {{"f32[4000,1]", std::vector<double>(4000)},
                                                      {"f32[1,4000]", std::vector<double>(4000)}});
            }),
            "aten.mm.default: its kernel would need 16000000 doubles; valid: smaller tensors, or a "
            "memory limit above 16 MiB");
}

}  // namespace op_kernel_test
}  // namespace shardlab
