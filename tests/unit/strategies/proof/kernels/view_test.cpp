// Kernels of views. Expected values are PyTorch 2.13.0's.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/kernel_values.h"

namespace shardlab {
namespace view_test {

using testing_support::expect_outputs;
using testing_support::kernel_values;
using testing_support::KernelCase;
using testing_support::Operand;

class ViewKernel : public testing::TestWithParam<KernelCase> {};

TEST_P(ViewKernel, ReturnsWhatPyTorchDoes) { expect_outputs(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, ViewKernel,
                         testing::Values(KernelCase{"Permuted",
                                                    "aten.permute.default",
                                                    {{"f64[2,3,2]",
                                                      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}},
                                                    R"([[2,0,-2]])",
                                                    {{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}}},
                                         KernelCase{"T",
                                                    "aten.t.default",
                                                    {{"f64[2,3]", {0, 1, 2, 3, 4, 5}}},
                                                    R"([])",
                                                    {{0, 3, 1, 4, 2, 5}}},
                                         KernelCase{"Exchanged",
                                                    "aten.transpose.int",
                                                    {{"f64[2,2,2]", {0, 1, 2, 3, 4, 5, 6, 7}}},
                                                    R"([0,-1])",
                                                    {{0, 4, 2, 6, 1, 5, 3, 7}}},
                                         KernelCase{"Expanded",
                                                    "aten.expand.default",
                                                    {{"f64[1,3]", {0, 1, 2}}},
                                                    R"([[2,2,-1]])",
                                                    {{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}}},
                                         KernelCase{"ExpandedInside",
                                                    "aten.expand.default",
                                                    {{"f64[2,1]", {0, 3}}},
                                                    R"([[2,3]])",
                                                    {{0, 0, 0, 3, 3, 3}}},
                                         KernelCase{"Repeated",
                                                    "aten.repeat.default",
                                                    {{"f64[2,3]", {0, 1, 2, 3, 4, 5}}},
                                                    R"([[2,1,2]])",
                                                    {{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5,
                                                      0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}}}),
                         [](const auto& test) { return test.param.name; });

TEST(ViewKernelErrors, NameShapesThatDoNotFit) {
  const Operand input{"f64[2,3]", {1, 2, 3, 4, 5, 6}};
  for (const auto& [op, args] :
       {std::pair("aten.view.default", "[[4]]"), std::pair("aten.view.default", "[[-1, 4]]"),
        std::pair("aten.expand.default", "[[2, 6]]"), std::pair("aten.expand.default", "[[3]]"),
        std::pair("aten.repeat.default", "[[2]]"), std::pair("aten.permute.default", "[[0, 0]]"),
        std::pair("aten.transpose.int", "[0, 2]"), std::pair("aten.unsqueeze.default", "[4]")}) {
    EXPECT_THROW(static_cast<void>(kernel_values(op, {input}, args)), InputError) << op << args;
  }
}

}  // namespace view_test
}  // namespace shardlab
