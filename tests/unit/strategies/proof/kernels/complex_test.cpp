// Kernels of complex numbers, which are held as pairs.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/kernel_values.h"

namespace shardlab {
namespace complex_test {

using testing_support::expect_outputs;
using testing_support::expect_refused;
using testing_support::KernelCall;
using testing_support::KernelCase;

class PairKernel : public testing::TestWithParam<KernelCase> {};
TEST_P(PairKernel, ComputesComplexNumbers) { expect_outputs(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, PairKernel,
                         testing::Values(
                             // (1 + 2i)(3 + 4i) = -5 + 10i, (0 + i)(0 + i) = -1
                             KernelCase{"Product",
                                        "shardlab.complex_product",
                                        {{"f64[2,2]", {1, 2, 0, 1}}, {"f64[2,2]", {3, 4, 0, 1}}},
                                        "[]",
                                        {{-5, 10, -1, 0}}},
                             // Rows of the first times one number of the second, and the reverse.
                             KernelCase{"ProductBroadcast",
                                        "shardlab.complex_product",
                                        {{"f64[2,1,2]", {1, 0, 0, 1}}, {"f64[2,2]", {2, 3, 5, 7}}},
                                        "[]",
                                        {{2, 3, 5, 7, -3, 2, -7, 5}}},
                             // Lengths 2 and 3 at angles 0 and pi.
                             KernelCase{"Polar",
                                        "shardlab.complex_polar",
                                        {{"f64[2]", {2, 3}}, {"f64[2]", {0, std::numbers::pi}}},
                                        "[]",
                                        {{2, 0, -3, 3 * std::sin(std::numbers::pi)}}},
                             KernelCase{"Conjugate",
                                        "shardlab.complex_conjugate",
                                        {{"f64[2,2]", {1, 2, 3, -4}}},
                                        "[]",
                                        {{1, -2, 3, 4}}}),
                         [](const auto& test) { return test.param.name; });

class PairKernelErrors : public testing::TestWithParam<KernelCall> {};
TEST_P(PairKernelErrors, SayWhatTheOpTakes) { expect_refused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, PairKernelErrors,
    testing::Values(KernelCall{"NoPairs",
                               "shardlab.complex_conjugate",
                               {{"f64[2,3]", {1, 2, 3, 4, 5, 6}}},
                               "[]",
                               "found f64[2,3]; valid: a last dim of extent 2"},
                    KernelCall{"LengthsWithoutAngles",
                               "shardlab.complex_polar",
                               {{"f64[2]", {1, 2}}, {"f64[1]", {0}}},
                               "[]",
                               "found f64[2] and f64[1]; valid: two tensors of one shape"},
                    KernelCall{"OtherExtents",
                               "shardlab.complex_product",
                               {{"f64[2,2]", {1, 2, 3, 4}}, {"f64[3,2]", {1, 2, 3, 4, 5, 6}}},
                               "[]",
                               "found f64[2,2] and f64[3,2]; valid: tensors that "
                               "can be broadcast to each other"}),
    [](const auto& test) { return test.param.name; });

}  // namespace complex_test
}  // namespace shardlab
