// The batch norm that returns new running statistics, and the backward pass of weight_norm.
// Expected values are PyTorch 2.13.0's.
#include <gtest/gtest.h>

#include "tests/support/kernel_values.h"

namespace shardlab {
namespace norm_kernel_test {

using testing_support::expect_outputs;
using testing_support::expect_values;
using testing_support::kernel_values;
using testing_support::KernelCase;
using testing_support::Operand;

constexpr const char* kOp = "aten._native_batch_norm_legit_functional.default";
const std::vector<Operand> kOperands = {{"f64[3,2]", {1, 2, 3, -4, 2, 5}},
                                        {"f64[2]", {2, -1}},
                                        {"f64[2]", {0.5, 1}},
                                        {"f64[2]", {1, -1}},
                                        {"f64[2]", {4, 2}}};

// The running variance moves towards the variance of a sample of three.
TEST(FunctionalBatchNormKernel, MovesRunningStatisticsWhereItTrains) {
  expect_outputs({"Training",
                  kOp,
                  kOperands,
                  "[true, 0.1, 1e-5]",
                  {{-1.9494713718167804, 0.7327388535379681, 2.9494713718167804, 2.33630573231016,
                    0.5, -0.06904458584812784},
                   {2, 1},
                   {1.2247356859083902, 0.267261146462032},
                   {1.1, -0.8},
                   {3.7, 3.9}}},
                 1e-12);
}

// On a GPU the saved statistics are the running ones.
TEST(FunctionalBatchNormKernel, KeepsRunningStatisticsWhereItDoesNot) {
  const auto found = kernel_values(kOp, kOperands, "[false, 0.1, 1e-5]");
  expect_values(found[0],
                {0.5, -1.1213150402786711, 2.4999975000046875, 3.121315040278671,
                 1.4999987500023437, -3.2426300805573423},
                1e-12);
  expect_values(found[1], {1, -1});
  expect_values(found[3], {1, -1});
  expect_values(found[4], {4, 2});
}

TEST(WeightNormKernel, ReturnsPyTorchsGradientsOfDirectionAndLength) {
  const char* op = "aten._weight_norm_interface_backward.default";
  const Operand gradient{"f64[2,3]", {1, 2, 3, 4, 5, 6}};
  const Operand direction{"f64[2,3]", {1, -1, 2, 0.5, 3, -2}};
  expect_outputs({"ByRows",
                  op,
                  {gradient,
                   direction,
                   {"f64[2,1]", {2, 3}},
                   {"f64[2,1]", {2.449489742783178, 3.640054944640259}}},
                  "[0]",
                  {{0.13608276348795423, 2.313406979295224, 1.0886621079036345, 3.1411510095436057,
                    3.1878017671110848, 5.566990403052529},
                   {2.041241452319315, 1.3736056394868903}}},
                 1e-14);
  expect_outputs({"ByColumns",
                  op,
                  {gradient,
                   direction,
                   {"f64[1,3]", {2, 3, 4}},
                   {"f64[1,3]", {1.118033988749895, 3.1622776601683795, 2.8284271247461903}}},
                  "[1]",
                  {{-2.504396134799764, 3.130654883566695, 6.363961030678927, 5.008792269599529,
                    1.0435516278555654, 6.363961030678928},
                   {2.6832815729997477, 4.110960958218893, -2.1213203435596424}}},
                 1e-14);
}

}  // namespace norm_kernel_test
}  // namespace shardlab
