// Rows of the batch norm that returns new running statistics.
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace families_norm_test {

using testing_support::call_of;
using testing_support::row_texts;
using Texts = std::vector<std::string>;

constexpr const char* kOp = "aten._native_batch_norm_legit_functional.default";

Texts rows_of(const char* args) {
  const OpCall call =
      call_of(kOp, {"f32[4,6,2] R", "f32[6] R", "f32[6] R", "f32[6] R", "f32[6] R"}, 1, args);
  const OpRule& rule = find_op_rule(kOp, kShardlab);
  return row_texts(rule.rows(call, rule), rule.outputs(call).size());
}

// Shards of the batch would have statistics of their own.
TEST(FunctionalBatchNorm, ShardsChannelsAloneWhereItTrains) {
  EXPECT_EQ(rows_of("[true, 0.1, 1e-5]"),
            (Texts{"?1,?0,?0,?0,?0|?1,?0,?0,?0,?0", "P(sum),R,R,R,R|R,P(sum),P(sum),R,R",
                   "P(avg),R,R,R,R|R,P(avg),P(avg),R,R", "P(avg),R,R,R,R|R,P(avg),R,R,R",
                   "P(avg),R,R,R,R|R,R,P(avg),R,R", "P(max),R,R,R,R|R,R,P(max),R,R",
                   "P(min),R,R,R,R|R,R,P(min),R,R"}));
}

TEST(FunctionalBatchNorm, ShardsEveryDimWhereItDoesNot) {
  const Texts rows = rows_of("[false, 0.1, 1e-5]");
  for (const char* row : {"?0,R,R,R,R|?0,R,R,R,R", "?2,R,R,R,R|?2,R,R,R,R",
                          "P(sum),P(sum),R,P(sum),R|P(sum),R,P(sum),P(sum),R"}) {
    EXPECT_EQ(std::count(rows.begin(), rows.end(), row), 1) << row;
  }
}

TEST(FunctionalBatchNorm, ReturnsAndNeedsRunningStatistics) {
  const OpCall call =
      call_of(kOp, {"bf16[4,6,2] R", "f32[6] R", "f32[6] R", "f64[6] R", "f64[6] R"}, 1, "[true]");
  Texts found;
  for (const TensorMeta& meta : find_op_rule(kOp, kShardlab).outputs(call)) {
    found.push_back(meta.text());
  }
  EXPECT_EQ(found, (Texts{"bf16[4,6,2]", "f32[6]", "f32[6]", "f64[6]", "f64[6]"}));
  const OpCall without = call_of(kOp, {"f32[4,6,2] R", "f32[6] R", "f32[6] R"}, 1, "[true]");
  EXPECT_THROW(static_cast<void>(find_op_rule(kOp, kShardlab).outputs(without)), InputError);
}

}  // namespace families_norm_test
}  // namespace shardlab
