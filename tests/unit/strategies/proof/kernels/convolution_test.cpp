// Kernels of convolutions. Expected values are PyTorch 2.13.0's, on small whole numbers.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/kernel_values.h"

namespace shardlab {
namespace convolution_test {

using testing_support::expect_outputs;
using testing_support::kernel_values;
using testing_support::KernelCase;
using testing_support::Operand;

class ConvolutionKernel : public testing::TestWithParam<KernelCase> {};

TEST_P(ConvolutionKernel, ReturnsWhatPyTorchDoes) { expect_outputs(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, ConvolutionKernel,
    testing::Values(
        KernelCase{"PaddedStrided",
                   "aten.convolution.default",
                   {{"f64[1,2,5]", {0, 1, -3, -1, -3, -1, 2, -2, 3, -3}},
                    {"f64[2,2,3]", {3, -4, -2, -2, -4, 0, -1, 2, 4, 4, -4, 1}},
                    {"f64[2]", {2, -3}}},
                   R"([[2],[1],[1],false,[0],1])",
                   {{4, 23, 17, 7, 5, 16}}},
        KernelCase{"DilatedPlane",
                   "aten.convolution.default",
                   {{"f64[1,1,3,4]", {-4, 1, 1, -1, 0, 4, 2, -3, 0, 0, 2, 1}},
                    {"f64[2,1,2,2]", {4, 3, 4, -4, 0, -4, 1, -4}}},
                   R"([[1,1],[0,1],[1,2],false,[0,0],1])",
                   {{-13, -21, 29, 12, 12, -2, 3, 16, -20, -12, 20, 2, -16, -16, 8, 2}}},
        KernelCase{"Groups",
                   "aten.convolution.default",
                   {{"f64[2,4,3]", {3, 2, 3,  4, -4, -4, -2, 0, -3, -1, -2, 0,
                                    2, 3, -3, 1, 0,  1,  -4, 2, -4, 3,  1,  4}},
                    {"f64[4,2,2]", {3, 3, -4, -2, 1, -3, 4, 4, 4, 0, -3, 1, -4, -4, -4, 4}},
                    {"f64[4]", {1, 0, 0, -2}}},
                   R"([[1],[0],[1],false,[0],2])",
                   {{8, 40, -3, -39, -7, 6, 2, 18, 12, -1, -3, 16, -24, 9, -2, 18}}},
        KernelCase{"Transposed",
                   "aten.convolution.default",
                   {{"f64[1,2,3]", {4, 3, 2, 0, -2, 0}},
                    {"f64[2,2,2]", {2, 3, 1, 2, -1, -3, 1, 1}},
                    {"f64[4]", {3, 3, 3, -3}}},
                   R"([[2],[1],[1],true,[1],2])",
                   {{15, 9, 12, 7, 9, 11, 6, 9, 5, 7, 3, 5, 9, 3, 3, -3, -5, -5, -3, -3}}},
        KernelCase{"AllGradients",
                   "aten.convolution_backward.default",
                   {{"f64[1,2,3]", {0, -1, -1, 3, 1, -4}},
                    {"f64[1,2,5]", {2, -3, 1, 4, 2, -2, 3, 3, -2, -3}},
                    {"f64[2,2,3]", {3, 3, 1, 2, -1, 1, 1, -1, 2, 3, -4, 2}}},
                   R"([[2],[2],[1],[1],false,[0],1,[true,true,true]])",
                   {{-3, 4, -4, -6, 1, -12, 7, -3, -13, 17},
                    {-1, -3, -4, -1, 0, 2, -19, -1, -5, 11, 9, 7},
                    {-2, 0}}},
        KernelCase{
            "OfThePlane",
            "aten.convolution_backward.default",
            {{"f64[1,2,2,4]", {4, -3, 1, -1, 3, 0, 4, 0, -4, -2, 2, -4, -2, 2, -2, -2}},
             {"f64[1,1,3,4]", {-3, 3, 3, 2, 2, 3, -3, 4, 3, -2, 4, -2}},
             {"f64[2,1,2,2]", {-2, 0, 2, -3, -1, 2, 3, -4}}},
            R"([null,[1,1],[0,1],[1,2],false,[0,0],1,[true,true,false]])",
            {{8, -12, 2, 4, -14, 2, 9, -15, 6, 1, -14, -4}, {21, 30, -8, 11, 4, -34, 16, 18}}},
        KernelCase{
            "OfGroups",
            "aten.convolution_backward.default",
            {{"f64[1,4,2]", {-3, 4, 0, 3, 4, 4, 2, 2}},
             {"f64[1,4,3]", {3, -2, -4, 1, -1, 1, -3, -2, 1, 1, 2, 2}},
             {"f64[4,2,2]", {-1, -1, 2, 0, 0, 3, -3, 2, 0, -4, 3, -4, -1, 1, -3, 1}}},
            R"([[4],[1],[0],[1],false,[0],2,[false,true,true]])",
            {{-17, -10, -7, 7, -6, -12, -3, 3, -20, -4, 12, 16, -10, -2, 6, 8}, {1, 3, 8, 4}}},
        KernelCase{"OfThePlaneWithoutBias",
                   "aten.convolution_backward.default",
                   {{"f64[1,2,2,4]", {4, -3, 1, -1, 3, 0, 4, 0, -4, -2, 2, -4, -2, 2, -2, -2}},
                    {"f64[1,1,3,4]", {-3, 3, 3, 2, 2, 3, -3, 4, 3, -2, 4, -2}},
                    {"f64[2,1,2,2]", {-2, 0, 2, -3, -1, 2, 3, -4}}},
                   R"([[0],[1,1],[0,1],[1,2],false,[0,0],1,[false,true,true]])",
                   {{21, 30, -8, 11, 4, -34, 16, 18}}},
        KernelCase{
            "OfTransposed",
            "aten.convolution_backward.default",
            {{"f64[1,4,5]", {1, 0, 0, -2, -3, -2, -1, 4, -1, 0, 1, 4, 0, 2, 3, -1, 3, -1, 4, 2}},
             {"f64[1,2,3]", {1, 3, 4, -4, 3, -1}},
             {"f64[2,2,2]", {-3, 0, -4, 1, -3, 1, 3, -4}}},
            R"([[4],[2],[1],[1],true,[1],2,[true,true,true]])",
            {{-2, 8, 10, 5, 1, 1}, {-8, -11, -7, 10, 10, -7, 5, -1}, {-4, 0, 10, 7}}}),
    [](const auto& test) { return test.param.name; });

TEST(ConvolutionKernelErrors, NameTensorsThatDoNotGoTogether) {
  const Operand input{"f64[1,2,3]", {1, 2, 3, 4, 5, 6}};
  EXPECT_THROW(
      static_cast<void>(kernel_values("aten.convolution.default", {input, {"f64[1,1,2]", {1, 2}}})),
      InputError);
  EXPECT_THROW(static_cast<void>(kernel_values("aten.convolution.default",
                                               {input, {"f64[1,2,4]", {1, 2, 3, 4, 5, 6, 7, 8}}})),
               InputError);
  EXPECT_THROW(
      static_cast<void>(kernel_values("aten.convolution.default",
                                      {input, {"f64[1,2,1]", {1, 2}}, {"f64[2]", {1, 2}}})),
      InputError);
  EXPECT_THROW(static_cast<void>(kernel_values(
                   "aten.convolution_backward.default",
                   {{"f64[1,1,2]", {1, 2}}, input, {"f64[1,2,1]", {1, 2}}}, "[null]")),
               InputError);
}

}  // namespace convolution_test
}  // namespace shardlab
