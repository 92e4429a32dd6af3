// Kernels of embedding bags and of transformers' products of groups. Expected values are PyTorch
// 2.13.0's, on small whole numbers.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/kernel_values.h"

namespace shardlab {
namespace embedding_bag_test {

using testing_support::expect_first_output;
using testing_support::expect_outputs;
using testing_support::expect_refused;
using testing_support::KernelCall;
using testing_support::KernelCase;
using testing_support::Operand;

constexpr const char* kBag = "aten._embedding_bag.default";
constexpr const char* kBackward = "aten._embedding_bag_backward.default";

const Operand kTable = {"f64[4,2]", {1, -2, 3, 4, -5, 6, 7, -8}};
const Operand kIndices = {"i64[5]", {2, 0, 3, 3, 1}};
const Operand kOffsets = {"i64[2]", {0, 2}};
const Operand kWeights = {"f64[5]", {1, 2, 3, 4, 5}};
const Operand kGradient = {"f64[2,2]", {1, 2, 3, -4}};
const Operand kBags = {"i64[5]", {0, 0, 1, 1, 1}};
const Operand kSizes = {"i64[2]", {2, 3}};
const Operand kZeros = {"i64[2]", {0, 0}};

class BagKernel : public testing::TestWithParam<KernelCase> {};
TEST_P(BagKernel, ReturnsWhatPyTorchDoes) { expect_outputs(GetParam(), 1e-12); }

INSTANTIATE_TEST_SUITE_P(
    All, BagKernel,
    testing::Values(
        KernelCase{"Means",
                   kBag,
                   {kTable, kIndices, kOffsets},
                   "[false, 1, false, false, -1]",
                   {{-2, 2, 17.0 / 3, -4}, {0, 0, 1, 1, 1}, {2, 3}, {2, 3}}},
        KernelCase{"Maxima",
                   kBag,
                   {kTable, kIndices, kOffsets},
                   "[false, 2]",
                   {{1, 6, 7, 4}, {0, 0, 1, 1, 1}, {2, 3}, {0, 2, 3, 1}}},
        KernelCase{"MeansOfPaddedBagsUpToTheLastOffset",
                   kBag,
                   {kTable, kIndices, {"i64[3]", {0, 2, 5}}},
                   "[false, 1, false, true, 3]",
                   {{-2, 2, 3, 4}, {0, 0, 1, 1, 1}, {2, 1}, {2, 1}}},
        KernelCase{"OfSums",
                   kBackward,
                   {kGradient, kIndices, kOffsets, kBags, kZeros, kZeros},
                   "[4, false, 0, false, -1]",
                   {{1, 2, 3, -4, 1, 2, 6, -8}}},
        KernelCase{"OfSumsWithoutTheBagOfEachLookup",
                   kBackward,
                   {kGradient, kIndices, kOffsets, {"i64[0]", {}}, kZeros, kZeros},
                   "[4, false, 0, false, -1]",
                   {{1, 2, 3, -4, 1, 2, 6, -8}}},
        KernelCase{"OfWeightedSums",
                   kBackward,
                   {kGradient, kIndices, kOffsets, kBags, kZeros, kZeros, kWeights},
                   "[4, false, 0, false, 3]",
                   {{2, 4, 15, -20, 1, 2, 0, 0}}},
        KernelCase{"OfScaledMeans",
                   kBackward,
                   {kGradient, kIndices, kOffsets, kBags, kSizes, kSizes},
                   "[4, true, 1, false, -1]",
                   {{0.5, 1, 1, -4.0 / 3, 0.5, 1, 1, -4.0 / 3}}},
        KernelCase{"OfMaxima",
                   kBackward,
                   {kGradient, kIndices, kOffsets, kBags, kSizes, {"i64[2,2]", {0, 2, 3, 1}}},
                   "[4, false, 2, false, -1]",
                   {{1, 0, 0, -4, 0, 2, 3, 0}}},
        KernelCase{
            "GroupedProduct",
            "transformers.grouped_mm_fallback.default",
            {{"f64[3,2]", {1, 2, 3, 4, 5, 6}}, {"f64[2,2,1]", {1, -1, 2, 0.5}}, {"i32[2]", {1, 2}}},
            "[]",
            {{-1, 8, 0}}},
        KernelCase{"OfGroupedProduct",
                   "transformers.grouped_mm_fallback_backward.default",
                   {{"f64[3,2]", {1, 2, 3, 4, 5, 6}},
                    {"f64[2,2,1]", {1, -1, 2, 0.5}},
                    {"i32[2]", {1, 2}},
                    {"f64[3,1]", {1, 2, 3}}},
                   "[]",
                   {{1, -1, 4, 1, 0, 0}, {1, 2, 6, 8}}}),
    [](const auto& test) { return test.param.name; });

// PyTorch leaves the sizes of sums at 0, where the kernel counts.
TEST(BagKernels, AddWeightedRowsButThatOfThePadding) {
  expect_first_output(
      {"Sums", kBag, {kTable, kIndices, kOffsets}, "[]", "f64[2,2]", {-4, 4, 17, -12}});
  expect_first_output({"Weighted",
                       kBag,
                       {kTable, kIndices, kOffsets, kWeights},
                       "[false, 0, false, false, 3]",
                       "f64[2,2]",
                       {-3, 2, 15, 20}});
}

TEST(BagKernels, RefuseRowsThatAreNotThere) {
  expect_refused({"Forward", kBag, {kTable, {"i64[1]", {4}}, kOffsets}, "[]", "valid: 0 to 3"});
  expect_refused({"Backward",
                  kBackward,
                  {kGradient, kIndices, kOffsets, kBags, kSizes, kSizes},
                  "[3, false, 1, false, -1]",
                  "valid: 0 to 2"});
  expect_refused({"Groups",
                  "transformers.grouped_mm_fallback.default",
                  {{"f64[1,1]", {1}}, {"f64[1,1,1]", {1}}, {"i32[1]", {2}}},
                  "[]",
                  "valid: 0 to 1"});
}

}  // namespace embedding_bag_test
}  // namespace shardlab
