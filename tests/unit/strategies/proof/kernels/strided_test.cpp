// as_strided and as_strided_scatter. Expected values are PyTorch 2.13.0's.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/proof/op_kernel.h"
#include "tests/support/kernel_values.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace strided_test {

using testing_support::expect_outputs;
using testing_support::expect_refused;
using testing_support::Operand;

const Operand kRows{"f64[2,3]", {0, 1, 2, 3, 4, 5}};

TEST(StridedKernel, ReadsAndWritesByPlacesInMemory) {
  expect_outputs({"Read", "aten.as_strided.default", {kRows}, "[[3], [2], 1]", {{1, 3, 5}}});
  expect_outputs({"Write",
                  "aten.as_strided_scatter.default",
                  {kRows, {"f64[3]", {10, 20, 30}}},
                  "[[3], [2], 1]",
                  {{0, 10, 2, 20, 4, 30}}});
}

// Of a transposed tensor the places follow its strides: the memory holds 0, 3, 1, 4, 2, 5.
TEST(StridedKernel, FollowsTheStridesOfItsTensor) {
  const auto memory = HostMemory::make(1 << 20U);
  OpCall call{.op = "aten.as_strided.default",
              .inputs = {},
              .args = nlohmann::json::parse("[[2, 2], [2, 1], 1]")};
  TensorMeta meta = TensorMeta::parse(kRows.meta);
  meta.strides = {1, 2};
  call.inputs.push_back({.tensors = {{meta, Layout::replicated(1)}}});
  const std::vector<HostTensor> inputs = {
      from_doubles(*memory, meta.dtype, meta.shape, kRows.values)};
  const LocalResult result = run_op_kernel({.call = call, .memory = *memory, .inputs = inputs});
  EXPECT_EQ(as_doubles(result.outputs[0]), (std::vector<double>{3, 1, 4, 2}));
}

TEST(StridedKernel, RefusesPlacesBeyondTheTensorAndPartsOfIt) {
  expect_refused({"Beyond",
                  "aten.as_strided.default",
                  {kRows},
                  "[[3], [3]]",
                  "found an element at place 6 of memory; valid: 0 to 5"});
  expect_refused({"NoStrides",
                  "aten.as_strided.default",
                  {kRows},
                  "[[3]]",
                  "--args must begin with a shape and its strides"});
  expect_refused({"OtherShape",
                  "aten.as_strided_scatter.default",
                  {kRows, {"f64[2]", {1, 2}}},
                  "[[3], [2]]",
                  "found f64[2]; valid: f64[3], the shape that --args name"});
  const auto memory = HostMemory::make(1 << 20U);
  OpCall call{
      .op = "aten.as_strided.default", .inputs = {}, .args = nlohmann::json::parse("[[2], [1]]")};
  call.inputs.push_back({.tensors = {{TensorMeta::parse(kRows.meta), Layout::replicated(1)}}});
  const std::vector<double> part = {0, 1, 2};
  const std::vector<HostTensor> inputs = {from_doubles(*memory, DType::kF64, {1, 3}, part)};
  EXPECT_EQ(testing_support::message_of<InputError>([&] {
              static_cast<void>(run_op_kernel({.call = call, .memory = *memory, .inputs = inputs}));
            }),
            "aten.as_strided.default: found f64[1,3] on a rank, a part of f64[2,3]; valid: the "
            "whole tensor, because its places in memory count");
}

}  // namespace strided_test
}  // namespace shardlab
