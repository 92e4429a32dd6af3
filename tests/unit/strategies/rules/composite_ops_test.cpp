// What runs in place of ops that DTensor never sees.
#include "strategies/rules/composite_ops.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace composite_ops_test {

TEST(CompositeOps, AreFoundByEveryFormOfTheirNames) {
  for (const char* op : {"chunk", "aten.chunk", "aten::chunk", "aten.chunk.default"}) {
    EXPECT_EQ(ops_in_place_of(op), "aten.split.Tensor") << op;
  }
  EXPECT_EQ(ops_in_place_of("aten.flatten.using_ints"), "aten.view.default");
  EXPECT_EQ(ops_in_place_of("aten.multiply.Tensor"), "aten.mul.Tensor");
  for (const char* op :
       {"chunks", "aten.multiply.out", "aten.repeat_interleave.Tensor", "aten.mm.default", ""}) {
    EXPECT_EQ(ops_in_place_of(op), "") << op;
  }
}

TEST(CompositeOps, AreRefusedByTheOpsThatRunInTheirPlace) {
  EXPECT_THROW_MSG(
      find_op_rule("aten.linear.default", kShardlab), InputError,
      "op \"aten.linear.default\" has no sharding rule, since PyTorch runs other ops in "
      "its place; valid: aten.t.default, aten.mm.default, aten.addmm.default");
}

TEST(CompositeOps, RunOpsThatHaveRules) {
  for (const char* op : {"linear", "matmul", "rms_norm", "scaled_dot_product_attention", "dropout",
                         "repeat_interleave", "cross_entropy_loss"}) {
    std::istringstream words{std::string(ops_in_place_of(op))};
    std::size_t found = 0;
    for (std::string name; words >> name; ++found) {
      if (name.back() == ',') name.pop_back();
      EXPECT_EQ(find_op_rule(name, kShardlab).op, name) << op;
    }
    EXPECT_GT(found, 0U) << op;
  }
}

}  // namespace composite_ops_test
}  // namespace shardlab
