// Proofs of ops whose right combinations are known, and of rules that are wrong on purpose.
#include "strategies/proof/rule_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/rules/rule_rows.h"

namespace shardlab {
namespace rule_proof_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> rows_of(const std::vector<RuleFinding>& findings) {
  std::vector<std::string> rows;
  for (const RuleFinding& finding : findings) rows.push_back(finding.row);
  return rows;
}

// The rule of an op, with other rows.
template <class MakeRows>
OpRule with_rows(std::string_view op, MakeRows rows) {
  OpRule rule = find_op_rule(op, kShardlab);
  rule.rows = +rows;  // the function behind a lambda
  rule.follow = nullptr;
  return rule;
}

TEST(RuleProof, MatrixProductsAreSoundAndComplete) {
  const RuleProof proof = prove_rule(find_op_rule("aten.mm.default", kShardlab), {});
  EXPECT_THAT(rows_of(proof.unsound), IsEmpty());
  EXPECT_THAT(rows_of(proof.missing), IsEmpty());
  EXPECT_EQ(proof.accepted, 8U);                    // R, three shards, four partials
  EXPECT_EQ(proof.combinations, proof.calls * 64);  // R, two shards, five partials; two tensors
}

TEST(RuleProof, AWrongRowIsUnsoundWithAWitness) {
  const OpRule rule = with_rows("aten.mm.default", [](const OpCall&, const OpRule&) {
    return Rows{{rows::kSum, rows::kSum, rows::kSum},  // (a + b)(c + d) is not ac + bd
                {RowEntry::any_shard(0), RowEntry::any_shard(0), rows::kR}};
  });
  const RuleProof proof = prove_rule(rule, {.mesh_sizes = {2}});
  ASSERT_THAT(rows_of(proof.unsound), ElementsAre("P(sum) | P(sum), P(sum)"));
  EXPECT_THAT(proof.unsound[0].call, HasSubstr("aten.mm.default(f32["));
  EXPECT_THAT(proof.unsound[0].detail, HasSubstr("reduces to"));
  EXPECT_EQ(proof.unsound[0].mesh, 2);
}

TEST(RuleProof, ACombinationThatIsRightAndNoRowIsMissing) {
  const OpRule rule = with_rows("aten.mm.default", [](const OpCall&, const OpRule&) {
    return Rows{{rows::kSum, RowEntry::any_shard(1), RowEntry::any_shard(0)},
                {rows::kSum, rows::kSum, rows::kR},
                {rows::kSum, rows::kR, rows::kSum},
                {rows::kAvg, rows::kAvg, rows::kR},
                {rows::kAvg, rows::kR, rows::kAvg}};
  });
  const RuleProof proof = prove_rule(rule, {});
  EXPECT_THAT(rows_of(proof.unsound), IsEmpty());
  EXPECT_THAT(rows_of(proof.missing), ElementsAre("S(0) | S(0), R", "S(1) | R, S(1)"));
}

TEST(RuleProof, AnExcuseTurnsAMissingRowIntoAKnownOmission) {
  OpRule rule = with_rows("aten.mm.default", [](const OpCall&, const OpRule&) {
    return Rows{{rows::kSum, RowEntry::any_shard(1), RowEntry::any_shard(0)},
                {RowEntry::any_shard(0), RowEntry::any_shard(0), rows::kR},
                {RowEntry::any_shard(1), rows::kR, RowEntry::any_shard(1)}};
  });
  rule.excuse = [](const OpCall&, const Row& row) -> std::string_view {
    return row[0].placement().is_partial() ? "partials are not wanted here" : "";
  };
  const RuleProof proof = prove_rule(rule, {});
  EXPECT_THAT(rows_of(proof.missing), IsEmpty());
  EXPECT_EQ(proof.known_omissions.size(), 4U);
  for (const RuleFinding& omission : proof.known_omissions) {
    EXPECT_EQ(omission.reason, "partials are not wanted here");
  }
}

// The average of local averages is right where all ranks have as many rows, which the rule's filter
// ensures.
TEST(RuleProof, AFilterCanMakeARowSound) {
  OpRule rule = with_rows("aten.mean.default", [](const OpCall&, const OpRule&) {
    return Rows{{rows::kAvg, RowEntry::any_shard(0)}};
  });
  EXPECT_THAT(rows_of(prove_rule(rule, {}).unsound), IsEmpty());
  rule.filter = nullptr;
  EXPECT_THAT(rows_of(prove_rule(rule, {}).unsound), ElementsAre("P(avg) | S(0)"));
}

TEST(RuleProof, AnOpWithoutKernelCannotBeProved) {
  OpRule rule = find_op_rule("aten.mm.default", kShardlab);
  rule.op = "aten.no_such_op.default";
  EXPECT_FALSE(is_provable(rule));
  EXPECT_THROW(static_cast<void>(prove_rule(rule, {})), InputError);
}

}  // namespace rule_proof_test
}  // namespace shardlab
