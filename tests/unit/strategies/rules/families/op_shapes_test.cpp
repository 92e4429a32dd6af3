// Shapes and refusals of views, convolutions and poolings. Expected shapes are PyTorch 2.13.0's.
#include <gtest/gtest.h>

#include <cctype>

#include "costmodel/base/error.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/op_rule.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace op_shapes_test {

using testing_support::call_of;

struct ShapeCase {
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  std::vector<std::string> outputs;  // shapes and dtypes
};
void PrintTo(const ShapeCase& c, std::ostream* out) { *out << c.op << c.args; }
class OpShape : public testing::TestWithParam<ShapeCase> {};

TEST_P(OpShape, IsThatOfPyTorch) {
  const OpCall call = call_of(GetParam().op, GetParam().inputs, 1, GetParam().args);
  for (const RuleSet set : {RuleSet(Release::k2_13), kShardlab}) {
    std::vector<std::string> found;
    for (const TensorMeta& meta : find_op_rule(call.op, set).outputs(call)) {
      found.push_back(meta.text());
    }
    EXPECT_EQ(found, GetParam().outputs);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OpShape,
    testing::Values(
        ShapeCase{"prims.convert_element_type.default", {"f32[4,6] R"}, R"(["i64"])", {"i64[4,6]"}},
        ShapeCase{"prims.abs.default", {"c64[4,6] R"}, "[]", {"f32[4,6]"}},
        ShapeCase{"prims.conj_physical.default", {"c64[4,6] R"}, "[]", {"c64[4,6]"}},
        ShapeCase{"prims.exp2.default", {"i32[4,6] R"}, "[]", {"i32[4,6]"}},
        ShapeCase{"prims.ne.default", {"f32[4,6] R", "f32[4,6] R"}, "[]", {"b8[4,6]"}},
        ShapeCase{"prims.frexp.default", {"f32[4,6] R"}, "[]", {"f32[4,6]", "i32[4,6]"}},
        ShapeCase{"prims.copy_to.default", {"f16[4,6] R", "f32[4,6] R"}, "[]", {"f16[4,6]"}},
        ShapeCase{"prims.view_of.default", {"f32[4,6] R"}, "[]", {"f32[4,6]"}},
        ShapeCase{"prims.sum.default", {"i32[4,6] R"}, "[[0]]", {"i32[6]"}},
        ShapeCase{"prims.sum.default", {"f32[4,6] R"}, R"([[0,1],"f64"])", {"f64[]"}},
        ShapeCase{"prims.prod.default", {"f32[4,6] R"}, "[[]]", {"f32[4,6]"}},
        ShapeCase{"prims.var.default", {"f16[4,6] R"}, "[[1],0.0]", {"f16[4]"}},
        ShapeCase{"aten.view.default", {"f32[4,6] R"}, "[[3,-1]]", {"f32[3,8]"}},
        ShapeCase{"aten.reshape.default", {"f32[] R"}, "[[1,1]]", {"f32[1,1]"}},
        ShapeCase{"aten.expand.default", {"f32[3,1] R"}, "[[2,-1,4]]", {"f32[2,3,4]"}},
        ShapeCase{"aten.repeat.default", {"i64[3,2] R"}, "[[2,1,3]]", {"i64[2,3,6]"}},
        ShapeCase{"aten.squeeze.dims", {"f32[1,2,1] R"}, "[[0,1]]", {"f32[2,1]"}},
        ShapeCase{"aten.squeeze.dim", {"f32[] R"}, "[0]", {"f32[]"}},
        ShapeCase{"aten.unsqueeze.default", {"f32[2,3] R"}, "[-2]", {"f32[2,1,3]"}},
        ShapeCase{"aten.permute.default", {"f32[2,3,4] R"}, "[[-1,0,1]]", {"f32[4,2,3]"}},
        ShapeCase{"aten.t.default", {"f32[3] R"}, "[]", {"f32[3]"}},
        ShapeCase{"aten.convolution.default",
                  {"f32[2,4,9,8] R", "f32[6,2,3,1] R"},
                  "[[2],[1,0],[2,1],false,[0],2]",
                  {"f32[2,6,4,4]"}},
        ShapeCase{"aten.convolution.default",
                  {"bf16[2,4,3] R", "bf16[4,3,4] R", "bf16[6] R"},
                  "[[2],[1],[1],true,[1],2]",
                  {"bf16[2,6,7]"}},
        ShapeCase{"aten.convolution_backward.default",
                  {"f32[2,6,7] R", "f32[2,4,9] R", "f32[6,4,3] R"},
                  "[[6],[1],[0],[1],false,[0],1,[false,true,true]]",
                  {"f32[6,4,3]", "f32[6]"}},
        // [0] is the sizes of a bias that is not there.
        ShapeCase{"aten.convolution_backward.default",
                  {"f32[2,6,7] R", "f32[2,4,9] R", "f32[6,4,3] R"},
                  "[[0],[1],[0],[1],false,[0],1,[false,true,true]]",
                  {"f32[6,4,3]"}},
        ShapeCase{"aten.max_pool2d_with_indices.default",
                  {"f32[3,5,6] R"},
                  "[[2,2],[2,2],[0,0],[1,1],true]",
                  {"f32[3,3,3]", "i64[3,3,3]"}},
        ShapeCase{
            "aten.avg_pool2d.default", {"f32[1,3,5,6] R"}, "[[3,2],[],[1,0]]", {"f32[1,3,2,3]"}},
        ShapeCase{
            "aten.upsample_nearest2d.default", {"f32[1,3,5,6] R"}, "[[10,7]]", {"f32[1,3,10,7]"}}),
    [](const auto& test) {
      std::string name = test.param.op + std::to_string(test.index);
      std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
      return name;
    });

TEST(OpShapeErrors, CallsThatTheOpsCannotTake) {
  const std::vector<std::tuple<const char*, std::vector<std::string>, const char*>> calls = {
      {"aten.view.default", {"f32[4,6] R"}, "[]"},
      {"aten.view.default", {"f32[4,6] R"}, "[[5,-1]]"},
      {"aten.view.default", {"f32[4,6] R"}, "[[-1,-1]]"},
      {"aten.view.default", {"f32[4,6] R"}, "[[4,-6]]"},
      {"aten.view.default", {"f32[0,6] R"}, "[[0,-1]]"},
      {"aten.view.default", {"f32[4,6] R", "f32[4] R"}, "[[24]]"},
      {"aten.view.default", {"[f32[4,6] R]"}, "[[24]]"},
      {"aten.view.default", {"none"}, "[[24]]"},
      {"aten.expand.default", {"f32[4,6] R"}, "[[4]]"},
      {"aten.expand.default", {"f32[4,6] R"}, "[[2,6]]"},
      {"aten.expand.default", {"f32[4] R"}, "[[-1,4]]"},
      {"aten.repeat.default", {"f32[4,6] R"}, "[[4]]"},
      {"aten.repeat.default", {"f32[4,6] R"}, "[[4,-1]]"},
      {"aten.repeat.default", {"f32[4096,4096] R"}, "[[4503599627370496,4096]]"},
      {"aten.permute.default", {"f32[4,6] R"}, "[[0]]"},
      {"aten.permute.default", {"f32[4,6] R"}, "[[0,-2]]"},
      {"aten.transpose.int", {"f32[4,6] R"}, "[0]"},
      {"aten.transpose.int", {"f32[4,6] R"}, "[0,2]"},
      {"aten.squeeze.dim", {"f32[4,6] R"}, "[2]"},
      {"aten.unsqueeze.default", {"f32[4,6] R"}, "[3]"},
      {"aten.t.default", {"f32[4,6,2] R"}, "[]"},
      {"aten.convolution.default", {"f32[2,4,9] R"}, "[]"},
      {"aten.convolution.default", {"f32[2,4,9] R", "f32[6,4,3,3] R"}, "[]"},
      {"aten.convolution.default", {"f32[2,4,9] R", "f32[6,3,3] R"}, "[]"},
      {"aten.convolution.default", {"f32[2,4,9] R", "f32[6,4,10] R"}, "[]"},
      {"aten.convolution.default", {"f32[2,4,9] R", "f32[6,4,3] R", "f32[5] R"}, "[]"},
      {"aten.convolution.default", {"f32[2,4,9] R", "f32[6,4,3] R"}, "[[0]]"},
      {"aten.convolution.default", {"f32[2,4,9] R", "f32[6,4,3] R"}, "[[1,1]]"},
      {"aten.convolution.default", {"f32[2,4,9] R", "f32[6,2,3] R"}, "[1,0,1,false,0,3]"},
      {"aten.convolution_backward.default",
       {"f32[2,6,8] R", "f32[2,4,9] R", "f32[6,4,3] R"},
       "[null,[1],[0],[1],false,[0],1]"},
      {"aten.convolution_backward.default",
       {"f32[2,6,7] R", "f32[2,4,9] R", "f32[6,4,3] R"},
       "[null,[1],[0],[1],false,[0],1,[false,false,true]]"},
      {"aten.convolution_backward.default",
       {"f32[2,6,7] R", "f32[2,4,9] R", "f32[6,4,3] R"},
       "[[5],[1],[0],[1],false,[0],1]"},
      {"aten.avg_pool2d.default", {"f32[2,4] R"}, "[[2,2]]"},
      {"aten.avg_pool2d.default", {"f32[3,2,4] R"}, "[[3,3]]"},
      {"aten.avg_pool2d.default", {"f32[3,5,4] R"}, "[[2,2],[2,2],[2,2]]"},
      {"aten.max_pool2d_with_indices_backward.default",
       {"f32[3,2,2] R", "f32[3,4,4] R", "i64[3,2,3] R"},
       "[[2,2]]"},
      {"aten.upsample_nearest2d.default", {"f32[3,5,4] R"}, "[[2,2]]"},
  };
  for (const auto& [op, inputs, args] : calls) {
    const OpCall call = call_of(op, inputs, 1, args);
    for (const RuleSet set : {RuleSet(Release::k2_13), kShardlab}) {
      EXPECT_THROW(static_cast<void>(find_op_rule(op, set).outputs(call)), InputError)
          << call.text();
      EXPECT_THROW(static_cast<void>(expand(find_op_rule(op, set), call, DeviceMesh::parse("2"))),
                   InputError)
          << call.text();
    }
  }
}

// Columns of an image may be sharded where windows lie within a stride and every shard has whole
// strides.
TEST(ConvolutionRows, SpatialShardsNeedWindowsThatLieApart) {
  const auto cuts_columns = [](const char* input, const char* weight, const char* args) {
    const OpCall call = call_of("aten.convolution.default", {input, weight}, 1, args);
    const OpRule& rule = find_op_rule(call.op, kShardlab);
    const Expansion candidates = expand(rule, call, DeviceMesh::parse("2"));
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      if (candidates.output(c, 0)[0].is_shard_like() && candidates.output(c, 0)[0].dim() == 3) {
        return true;
      }
    }
    return false;
  };
  constexpr const char* kFours = "[[4,4],[0,0],[1,1],false,[0,0],1]";
  EXPECT_TRUE(cuts_columns("f32[2,3,8,8] S(3)", "f32[6,3,4,4] R", kFours));
  EXPECT_TRUE(cuts_columns("f32[2,3,8,8] S(3)", "f32[6,3,4,3] R", kFours));
  EXPECT_FALSE(cuts_columns("f32[2,3,8,12] S(3)", "f32[6,3,4,4] R", kFours));
  EXPECT_FALSE(cuts_columns("f32[2,3,8,10] S(3)", "f32[6,3,4,4] R", kFours));
  EXPECT_FALSE(cuts_columns("f32[2,3,8,8] S(3)", "f32[6,3,4,5] R", kFours));
  EXPECT_FALSE(cuts_columns("f32[2,3,8,16] _S(3,4)", "f32[6,3,4,4] R", kFours));
  EXPECT_TRUE(cuts_columns("f32[2,3,8,16] _S(3,2)", "f32[6,3,4,4] R", kFours));
  EXPECT_TRUE(cuts_columns("f32[2,3,8,5] S(3)", "f32[6,3,1,1] R", "[1,0,1,false,0,1]"));
  EXPECT_FALSE(cuts_columns("f32[2,3,8,8] S(3)", "f32[6,3,3,3] R", "[1,1,1,false,0,1]"));
  EXPECT_FALSE(
      cuts_columns("f32[2,3,8,8] S(3)", "f32[3,6,4,4] R", "[[4,4],[0,0],[1,1],true,[0,0],1]"));
}

}  // namespace op_shapes_test
}  // namespace shardlab
