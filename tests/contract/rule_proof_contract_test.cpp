// Every op with a reference kernel: the rules of the set shardlab compute it, on two and on three
// virtual ranks.
#include <gtest/gtest.h>

#include <cctype>

#include "strategies/rule_proof.h"

namespace shardlab {
namespace {

std::vector<const OpRule*> provable_rules() {
  std::vector<const OpRule*> rules;
  for (const OpRuleFamily* family : all_op_rules()) {
    for (const OpRule& rule : family->rules) {
      if ((rule.sets & kShardlab) != 0 && is_provable(rule)) rules.push_back(&rule);
    }
  }
  return rules;
}

class ProvedOp : public testing::TestWithParam<const OpRule*> {};

TEST_P(ProvedOp, HasNoUnsoundRow) {
  const RuleProof proof = prove_rule(*GetParam(), {});
  for (const RuleFinding& finding : proof.unsound) {
    ADD_FAILURE() << finding.row << " in " << finding.call << " on " << finding.mesh << ": "
                  << finding.detail;
  }
  EXPECT_GT(proof.accepted, 0U);
}

std::string name_of(const testing::TestParamInfo<const OpRule*>& rule) {
  std::string name;
  for (const char c : rule.param->op) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, ProvedOp, testing::ValuesIn(provable_rules()), name_of);

}  // namespace
}  // namespace shardlab
