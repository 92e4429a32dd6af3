// Kernels of factories, which take no tensors. Expected values are PyTorch 2.13.0's.
#include <gtest/gtest.h>

#include "tests/support/kernel_values.h"

namespace shardlab {
namespace copy_test {

using testing_support::expect_outputs;
using testing_support::expect_refused;
using testing_support::KernelCase;

class FactoryKernel : public testing::TestWithParam<KernelCase> {};
TEST_P(FactoryKernel, ReturnsWhatPyTorchDoes) { expect_outputs(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, FactoryKernel,
    testing::Values(KernelCase{"Full", "aten.full.default", {}, "[[2,2], 3]", {{3, 3, 3, 3}}},
                    KernelCase{"FullOfTruth", "aten.full.default", {}, "[[2], true]", {{1, 1}}},
                    KernelCase{"EmptyPermuted",
                               "aten.empty_permuted.default",
                               {},
                               R"([[2,1], [1,0], "i64"])",
                               {{0, 0}}},
                    KernelCase{"Scalar", "aten.scalar_tensor.default", {}, "[2.5]", {{2.5}}},
                    KernelCase{"Range", "aten.arange.start_step", {}, "[1, 8, 3]", {{1, 4, 7}}}),
    [](const auto& test) { return test.param.name; });

TEST(FactoryKernelErrors, SayWhatTheOpTakes) {
  expect_refused(
      {"Shape", "aten.full.default", {}, "[[-1], 3]", "--args must begin with the shape"});
  expect_refused({"ShapePermuted",
                  "aten.empty_permuted.default",
                  {},
                  "[]",
                  "--args must begin with the shape"});
  expect_refused({"Step",
                  "aten.arange.start_step",
                  {},
                  "[0, 4, 0]",
                  "found start 0, end 4 and step 0; valid: "});
}

}  // namespace copy_test
}  // namespace shardlab
