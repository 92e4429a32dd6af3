#include "strategies/rules/dispatch_handlers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardlab {
namespace dispatch_handlers_test {

using testing::HasSubstr;

TEST(DispatchHandlers, OnlyMatterToAConvolutionThatWouldMoveAnInput) {
  EXPECT_THAT(dispatch_note("aten.convolution.default", true), HasSubstr("convolution_handler"));
  EXPECT_EQ(dispatch_note("aten.convolution.default", false), "");
  EXPECT_THAT(dispatch_note("aten.argmax.default", true), HasSubstr("argminmax_handler"));
  EXPECT_EQ(dispatch_note("aten.argmax.default", false), "");
}

TEST(DispatchHandlers, MoveTheGradientOfAConvolutionInAnyCase) {
  EXPECT_THAT(dispatch_note("aten.convolution_backward.default", false),
              HasSubstr("moves the gradient to the input's layout"));
}

TEST(DispatchHandlers, LeaveOtherOpsToTheirStrategies) {
  EXPECT_EQ(dispatch_note("aten.mm.default", true), "");
  EXPECT_EQ(dispatch_note("aten.argsort.default", true), "");
}

}  // namespace dispatch_handlers_test
}  // namespace shardlab
