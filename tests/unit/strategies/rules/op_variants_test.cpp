// Rules that a release derives from those of other ops: forms with `out` tensors, and in place.
#include "strategies/rules/op_variants.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/rules/rule_table.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace op_variants_test {

using testing_support::call_of;

const OpRule& rule_of(const char* op, RuleSet set = Release::k2_15) {
  return find_op_rule(op, set);
}

TEST(OpVariants, HaveTheRowsOfTheirBaseAndOneEntryForEachOut) {
  const OpRule& base = rule_of("aten.topk.default");
  const OpRule& form = rule_of("aten.topk.values");
  const OpCall own = call_of("aten.topk.default", {"f32[8,6] S(0)"}, 1, "[2,1]");
  const OpCall call =
      call_of("aten.topk.values", {"f32[8,6] S(0)", "f32[8,2] S(0)", "i64[8,2] S(0)"}, 1, "[2,1]");
  EXPECT_EQ(form.written_outputs(), 2U);
  EXPECT_EQ(form.outputs(call), base.outputs(own));
  const Rows expected = base.rows(own, base);
  const Rows rows = form.rows(call, form);
  ASSERT_EQ(rows.size(), expected.size());
  ASSERT_FALSE(rows.empty());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    Row row = expected[r];
    row.push_back(RowEntry(row[0]));
    row.push_back(RowEntry(row[1]));
    EXPECT_EQ(rows[r], row) << r;
  }
}

TEST(OpVariants, CostTheWorkOfTheirBase) {
  const OpRule& base = rule_of("aten.convolution.default");
  const OpRule& form = rule_of("aten.convolution.out");
  const char* args = "[[1,1],[1,1],[1,1],false,[0,0],1]";
  const OpCall own =
      call_of("aten.convolution.default", {"f32[4,3,8,8] R", "f32[6,3,3,3] R", "none"}, 1, args);
  const OpCall call =
      call_of("aten.convolution.out",
              {"f32[4,3,8,8] R", "f32[6,3,3,3] R", "none", "f32[4,6,8,8] R"}, 1, args);
  const std::vector<Shape> local = {{4, 3, 8, 8}, {6, 3, 3, 3}};
  std::vector<Shape> with_out = local;
  with_out.push_back({4, 6, 8, 8});
  EXPECT_GT(base.flops(local, own), 0.0);
  EXPECT_EQ(form.flops(with_out, call), base.flops(local, own));
}

TEST(OpVariants, AreThoseOfTheRelease) {
  EXPECT_TRUE(rule_of("aten.cumsum_.default").is_in_place());
  EXPECT_EQ(op_rule_or_null("aten.cumsum_.default", Release::k2_13), nullptr);
  EXPECT_NE(op_rule_or_null("aten.max.dim_max", Release::k2_13), nullptr);
  EXPECT_EQ(op_rule_or_null("aten.cumsum_.default", kShardlab), nullptr);
  EXPECT_THROW_MSG(find_op_rule("aten.cumsum_.default", kShardlab), InputError,
                   "aten.cumsum_.default: no sharding strategy registered in rule set shardlab; "
                   "valid: dtensor-2.15, dtensor-2.14, autoparallel-2.15");
}

// fill.Scalar is no op with a rule, so that its form comes from the one in place.
TEST(OpVariants, MayComeFromAnOpInPlace) {
  EXPECT_EQ(rule_of("aten.fill.Scalar_out").written_outputs(), 1U);
}

// PyTorch 2.15.0 leaves the mean of 3, 3, 3 and 1 elements as an average of the ranks' means.
TEST(OpVariants, LoseTheConditionOnTheWholeMesh) {
  EXPECT_NE(rule_of("aten.mean.default").filter, nullptr);
  EXPECT_EQ(rule_of("aten.mean.dtype_out").filter, nullptr);
}

TEST(OpVariants, RefuseOutsThatAreMissingOrOfAnotherShape) {
  const OpRule& form = rule_of("aten.topk.values");
  const auto message = [&](const std::vector<std::string>& inputs) {
    const OpCall call = call_of("aten.topk.values", inputs, 1, "[2,1]");
    return testing_support::message_of<InputError>([&] { static_cast<void>(form.outputs(call)); });
  };
  EXPECT_EQ(message({"f32[8,6] R", "f32[8,3] R", "i64[8,2] R"}),
            "aten.topk.values: out f32[8,3] does not have the result's shape, f32[8,2]");
  const std::string missing =
      "aten.topk.values: takes its operands and, as the last arguments, 2 out tensors";
  EXPECT_EQ(message({"f32[8,6] R", "f32[8,2] R"}), missing);
  EXPECT_EQ(message({"f32[8,6] R", "none", "none"}), missing);
}

TEST(OpVariants, KnowThemselves) {
  OpVariants variants(rule_table(Release::k2_15).rules(), Release::k2_15);
  EXPECT_TRUE(variants.rules().empty()) << "all forms have rules by now";
  EXPECT_EQ(variants.text(), "forms that DTensor of PyTorch 2.15.0 derives");
  EXPECT_THROW_MSG(variants.rule("aten.mm.default"), InputError,
                   "aten.mm.default: has no derived rule; valid: the ops of the source");
}

}  // namespace op_variants_test
}  // namespace shardlab
