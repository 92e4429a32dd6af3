// Which gradients of a convolution PyTorch leaves out on meshes of several dims.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/op_rule.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace families_convolution_test {

constexpr const char* kBackward = "aten.convolution_backward.default";

// What expanding the call to the mesh says; "" if it has candidates.
std::string refusal_of(const std::string& batch, const char* bias, const std::string& mask,
                       RuleSet set, const char* mesh) {
  const DeviceMesh device_mesh = DeviceMesh::parse(mesh);
  const std::string replicated(static_cast<std::size_t>(device_mesh.ndim()), 'R');
  const OpCall call = testing_support::call_of(
      kBackward, {"f32[8,4,8,8] " + batch, "f32[8,3,8,8] " + batch, "f32[4,3,3,3] " + replicated},
      device_mesh.ndim(),
      std::string("[") + bias + ", [1,1], [1,1], [1,1], false, [0,0], 1, " + mask + "]");
  const std::string said = testing_support::message_of<InputError>(
      [&] { static_cast<void>(expand(find_op_rule(call.op, set), call, device_mesh)); });
  return said == "(nothing was thrown)" ? "" : said;
}

TEST(ConvolutionBackward, MixesNoneWithPlacementsOnMeshesOfSeveralDims) {
  struct Mixed {
    const char* mask;
    int position;
  };
  for (const RuleSet set : {RuleSet(Release::k2_14), RuleSet(Release::k2_15)}) {
    for (const auto& [mask, position] :
         {Mixed{"[true,true,false]", 2}, Mixed{"[true,false,true]", 1},
          Mixed{"[true,false,false]", 1}, Mixed{"[false,true,true]", 0}}) {
      EXPECT_EQ(refusal_of("S(0)R", "[4]", mask, set, "2x4"),
                std::string(kBackward) + ": found output_mask " + mask +
                    " on the mesh 2x4; valid: a mesh of one dim, or a mask of three gradients, "
                    "each true; PyTorch since 2.14 says that strategy position " +
                    std::to_string(position) + " mixes None with placements across mesh dims")
          << to_string(set);
      EXPECT_EQ(refusal_of("S(0)", "[4]", mask, set, "4"), "") << mask;
      EXPECT_EQ(refusal_of("RR", "[4]", mask, set, "2x4"), "") << mask;
      EXPECT_EQ(refusal_of("S(0)R", "[4]", mask, Release::k2_13, "2x4"), "") << mask;
    }
  }
}

// Without extents of a bias no row has a placement for its gradient. With extents, be they those of
// a bias that is not given, all rows have one if the gradient is asked for.
TEST(ConvolutionBackward, AsksTheMaskAloneForTheGradientOfABiasWithExtents) {
  for (const RuleSet set : {RuleSet(Release::k2_14), RuleSet(Release::k2_15)}) {
    EXPECT_EQ(refusal_of("S(0)R", "null", "[true,true,false]", set, "2x4"), "");
    for (const char* bias : {"[0]", "[]"}) {
      EXPECT_EQ(refusal_of("S(0)R", bias, "[true,true,true]", set, "2x4"), "") << bias;
      EXPECT_NE(refusal_of("S(0)R", bias, "[true,true,false]", set, "2x4"), "") << bias;
    }
  }
}

}  // namespace families_convolution_test
}  // namespace shardlab
