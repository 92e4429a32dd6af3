// Kernels of factories, which take no tensors, and of copies. Expected values are PyTorch 2.13.0's.
#include <gtest/gtest.h>

#include <set>

#include "strategies/proof/op_kernel.h"
#include "tests/support/kernel_values.h"

namespace shardlab {
namespace copy_test {

using testing_support::expect_outputs;
using testing_support::expect_refused;
using testing_support::kernel_values;
using testing_support::KernelCase;
using testing_support::kInf;
using testing_support::kNan;

class FactoryKernel : public testing::TestWithParam<KernelCase> {};
TEST_P(FactoryKernel, ReturnsWhatPyTorchDoes) { expect_outputs(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, FactoryKernel,
    testing::Values(
        KernelCase{"Full", "aten.full.default", {}, "[[2,2], 3]", {{3, 3, 3, 3}}},
        KernelCase{
            "FullLikeOfTruth", "aten.full_like.default", {{"f32[2]", {1, 2}}}, "[true]", {{1, 1}}},
        KernelCase{"FullOfTruth", "aten.full.default", {}, "[[2], true]", {{1, 1}}},
        KernelCase{"EmptyPermuted",
                   "aten.empty_permuted.default",
                   {},
                   R"([[2,1], [1,0], "i64"])",
                   {{0, 0}}},
        KernelCase{"Empty", "aten.empty.memory_format", {}, "[[1,2]]", {{0, 0}}},
        KernelCase{"CopyOfAnotherDTypeAndShape",
                   "aten.copy.default",
                   {{"i64[2,2]", {0, 0, 0, 0}}, {"f64[2]", {1.7, -2.3}}},
                   "[false]",
                   {{1, -2, 1, -2}}},
        KernelCase{"Scalar", "aten.scalar_tensor.default", {}, "[2.5]", {{2.5}}},
        KernelCase{"Range", "aten.arange.start_step", {}, "[1, 8, 3]", {{1, 4, 7}}},
        KernelCase{"RangeBackwards", "aten.arange.start_step", {}, "[3, -1, -1]", {{3, 2, 1, 0}}},
        KernelCase{
            "RangeOfFractions", "aten.arange.start_step", {}, "[0, 2.0, 0.5]", {{0, 0.5, 1, 1.5}}},
        KernelCase{"RangeWithoutNumbers", "aten.arange.start_step", {}, "[2, 2.0]", {{}}}),
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
                  "found [0,4,0]; valid: a start, an end, and a step that leads from"});
  expect_refused(
      {"StepAway", "aten.arange.start_step", {}, "[0, 4, -1]", "found [0,4,-1]; valid: "});
}

// C++ leaves open what becomes of these; the nearest integers that kernels hold stand for them.
TEST(CastKernel, NumbersWithoutAnIntegerGetOneThatCanBeAddedTo) {
  expect_outputs({"Cast",
                  "aten._to_copy.default",
                  {{"f64[5]", {kInf, -kInf, kNan, 1e300, -2.5}}},
                  R"(["i64"])",
                  {{0x1p52, -0x1p52, 0, 0x1p52, -2}}});
  expect_outputs(
      {"Infinite", "aten._to_copy.default", {{"f64[1]", {kInf}}}, R"(["f32"])", {{kInf}}});
}

// A tensor of random numbers holds the same ones on every rank that makes a part of it.
TEST(FactoryKernel, RandomNumbersDependOnTheirPlaceInTheWholeTensor) {
  for (const char* op : {"aten.rand.default", "aten.randn.default"}) {
    const std::vector<double> whole = kernel_values(op, {}, "[[4, 3]]")[0];
    ASSERT_EQ(whole.size(), 12U);
    EXPECT_EQ(std::set<double>(whole.begin(), whole.end()).size(), 12U);
    const auto memory = HostMemory::make(1 << 20U);
    const OpCall call{.op = op, .inputs = {}, .args = nlohmann::json::parse("[[4, 3]]")};
    const std::vector<Shape> shapes = {{2, 3}};
    const std::vector<RowLists> rows = {{{1, 3}, {0, 1, 2}}};
    const HostTensor part = run_op_kernel({.call = call,
                                           .memory = *memory,
                                           .inputs = {},
                                           .output_shapes = shapes,
                                           .output_rows = rows})
                                .outputs[0];
    const std::vector<double> expected = {whole[3], whole[4],  whole[5],
                                          whole[9], whole[10], whole[11]};
    EXPECT_EQ(part.dtype(), DType::kF32);
    EXPECT_EQ(as_doubles(part), expected);
  }
}

}  // namespace copy_test
}  // namespace shardlab
