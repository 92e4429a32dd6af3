// The rules of the set shardlab compute their op on two and on three virtual ranks, for every op
// that has a reference kernel.
#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "strategies/proof/rule_proof.h"
#include "strategies/rules/rule_table.h"

namespace shardlab {
namespace rule_proof_contract_test {

std::vector<const OpRule*> provable_rules() {
  std::vector<const OpRule*> rules;
  for (const OpRule& rule : rule_table(kShardlab).rules()) {
    if (is_provable(rule)) rules.push_back(&rule);
  }
  return rules;
}

class ProvedOp : public testing::TestWithParam<const OpRule*> {};

void fail(std::string_view kind, const std::vector<RuleFinding>& findings) {
  for (const RuleFinding& finding : findings) {
    ADD_FAILURE() << kind << ": " << finding.row << " in " << finding.call << " on " << finding.mesh
                  << " ranks " << finding.detail;
  }
}

TEST_P(ProvedOp, HasNoUnsoundRowAndLacksNone) {
  const RuleProof proof = prove_rule(*GetParam(), {});
  fail("unsound", proof.unsound);
  fail("missing", proof.missing);
  EXPECT_GT(proof.accepted, 0U);
  for (const RuleFinding& omission : proof.known_omissions) {
    EXPECT_FALSE(omission.reason.empty()) << omission.row;
  }
}

TEST(ProvedOps, AreMostOfAllOps) {
  std::set<std::string_view> ops;
  for (const OpRule* rule : provable_rules()) ops.insert(rule->op);
  EXPECT_GE(ops.size(), 900U);
}

std::string name_of(const testing::TestParamInfo<const OpRule*>& rule) {
  std::string name;
  for (const char c : rule.param->op) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, ProvedOp, testing::ValuesIn(provable_rules()), name_of);

}  // namespace rule_proof_contract_test
}  // namespace shardlab
