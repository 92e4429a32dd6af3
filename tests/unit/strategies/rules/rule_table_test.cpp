// Which rule of an op holds in which rule set and release.
#include "strategies/rules/rule_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/base/error.h"
#include "strategies/rules/rule_rows.h"

namespace shardlab {
namespace rule_table_test {

using rows::kMax;
using rows::kR;
using rows::kSum;

// The two releases after the newest one, which do not exist.
constexpr auto kNext = static_cast<Release>(static_cast<int>(kNewestRelease) + 1);
constexpr auto kAfterNext = static_cast<Release>(static_cast<int>(kNewestRelease) + 2);

Rows few_rows(const OpCall&, const OpRule&) { return {}; }
Rows more_rows(const OpCall&, const OpRule&) { return {{kSum, kSum}}; }

constexpr PartialRow kPartialRows[] = {{{kSum, kSum}, 2},
                                       {{kMax, kMax}, 2, since(kNext)},
                                       {{kR, kSum}, 2, until(kNewestRelease) | kShardlab}};

constexpr OpRule with_rows(std::string_view op, RowsOf rows) { return {.op = op, .rows = rows}; }

constexpr OpRule kRules[] = {
    {.op = "aten.unchanged.default", .rows = few_rows, .partial_rows = kPartialRows},
    {.op = "aten.changed.default", .sets = until(kNewestRelease) | kShardlab, .rows = few_rows},
    {.op = "aten.changed.default", .sets = since(kNext), .rows = more_rows},
    {.op = "aten.added.default", .sets = since(kNext), .rows = few_rows},
    with_rows("aten.removed.default", few_rows).in(until(kNewestRelease)),
    {.op = "aten.reverted.default", .sets = until(kNewestRelease), .rows = few_rows},
    {.op = "aten.reverted.default", .sets = since(kNext).among(until(kNext)), .rows = more_rows},
    {.op = "aten.reverted.default", .sets = since(kAfterNext), .rows = few_rows},
};
constexpr OpRuleFamily kFamily{kRules};
constexpr const OpRuleFamily* kFamilies[] = {&kFamily};

TEST(Releases, AreListedInOrderAndNamedAfterTheirTorch) {
  for (std::size_t i = 0; i < kReleases.size(); ++i) {
    const ReleaseEntry& entry = kReleases[i];
    EXPECT_EQ(static_cast<std::size_t>(entry.release), i) << entry.rule_set;
    EXPECT_TRUE(("dtensor-" + std::string(entry.torch)).starts_with(entry.rule_set));
    EXPECT_EQ(from_name<RuleSet>(entry.rule_set), RuleSet(entry.release));
    EXPECT_EQ(RuleSet(entry.release).release(), entry.release);
  }
}

TEST(Releases, NoTwoRulesOfAnOpHoldInOneRuleSet) {
  for (const auto& [set, name] : EnumNames<RuleSet>::kNames) {
    EXPECT_NO_THROW(RuleTable(all_op_rules(), set)) << name;
  }
}

TEST(Releases, TwoRulesOfAnOpInOneReleaseAreRefused) {
  static constexpr OpRule kTwice[] = {{.op = "aten.op.default", .sets = until(kNext)},
                                      {.op = "aten.op.default", .sets = since(kNext)}};
  static constexpr OpRuleFamily kTwiceFamily{kTwice};
  const OpRuleFamily* const families[] = {&kTwiceFamily};
  EXPECT_NO_THROW(RuleTable(families, kNewestRelease));
  EXPECT_THROW(RuleTable(families, kNext), ContractError);
  EXPECT_NO_THROW(RuleTable(families, kAfterNext));
}

TEST(Releases, AChangedRuleReplacesTheOldOneFromItsReleaseOn) {
  const RuleTable now(kFamilies, kNewestRelease);
  const RuleTable next(kFamilies, kNext);
  const RuleTable after_next(kFamilies, kAfterNext);
  EXPECT_EQ(now.find("aten.changed.default")->rows, few_rows);
  EXPECT_EQ(next.find("aten.changed.default")->rows, more_rows);
  EXPECT_EQ(after_next.find("aten.changed.default")->rows, more_rows);
  EXPECT_EQ(now.find("aten.reverted.default")->rows, few_rows);
  EXPECT_EQ(next.find("aten.reverted.default")->rows, more_rows);
  EXPECT_EQ(after_next.find("aten.reverted.default")->rows, few_rows);
}

TEST(Releases, ARuleThatIsSilentAboutThemHoldsInEveryOne) {
  for (const Release release : {kNewestRelease, kNext, kAfterNext}) {
    const RuleTable table(kFamilies, release);
    const OpRule* rule = table.find("aten.unchanged.default");
    ASSERT_NE(rule, nullptr);
    EXPECT_EQ(rule->rows, few_rows);
    EXPECT_TRUE(rule->sets.contains(release));
  }
}

TEST(Releases, MayAddAndRemoveOps) {
  const RuleTable now(kFamilies, kNewestRelease);
  const RuleTable next(kFamilies, kNext);
  EXPECT_EQ(now.find("aten.added.default"), nullptr);
  EXPECT_NE(next.find("aten.added.default"), nullptr);
  EXPECT_NE(now.find("aten.removed.default"), nullptr);
  EXPECT_EQ(next.find("aten.removed.default"), nullptr);
}

TEST(Releases, LeaveTheOtherRuleSetsAlone) {
  const RuleTable own(kFamilies, kShardlab);
  EXPECT_EQ(own.rules().size(), 2U);
  EXPECT_EQ(own.find("aten.changed.default")->rows, few_rows);
  EXPECT_TRUE(RuleTable(kFamilies, kDTensorLegacy).rules().empty());
  EXPECT_TRUE(RuleTable(kFamilies, kAutoParallel).rules().empty());
}

TEST(Releases, PartialRowsHoldInTheirsAlone) {
  const auto entries = [](RuleSet set) {
    const RuleTable table(kFamilies, set);
    std::vector<std::array<Placement, 4>> all;
    for (const PartialRow& row : table.find("aten.unchanged.default")->partial_rows) {
      all.push_back(row.entries);
    }
    return all;
  };
  const std::array<Placement, 4> sum = kPartialRows[0].entries;
  const std::array<Placement, 4> max = kPartialRows[1].entries;
  const std::array<Placement, 4> reduced = kPartialRows[2].entries;
  EXPECT_EQ(entries(kNewestRelease), (std::vector{sum, reduced}));
  EXPECT_EQ(entries(kNext), (std::vector{sum, max}));
  EXPECT_EQ(entries(kShardlab), (std::vector{sum, reduced}));
}

TEST(Releases, SwitchTheFormOfARule) {
  const auto is_row = [](const char* op, RuleSet set) {
    return find_op_rule(op, set).rows != nullptr;
  };
  EXPECT_FALSE(is_row("aten._softmax.default", Release::k2_13));
  EXPECT_TRUE(is_row("aten._softmax.default", Release::k2_14));
  EXPECT_TRUE(is_row("aten._softmax.default", Release::k2_15));
  EXPECT_FALSE(is_row("aten.unbind.int", Release::k2_14));
  EXPECT_TRUE(is_row("aten.unbind.int", Release::k2_15));
  EXPECT_FALSE(is_row("aten.stack.default", Release::k2_15));
  EXPECT_EQ(rule_table(Release::k2_14).find("aten.cholesky.default"), nullptr);
  EXPECT_NE(rule_table(Release::k2_13).find("aten.cholesky.default"), nullptr);
}

TEST(RuleTables, SayForWhichSetTheirRulesWereResolved) {
  for (const auto& [set, name] : EnumNames<RuleSet>::kNames) {
    const auto rules = rule_table(set).rules();
    EXPECT_FALSE(rules.empty()) << name;
    EXPECT_TRUE(std::all_of(rules.begin(), rules.end(), [set = set](const OpRule& rule) {
      return rule.resolved_for == set;
    })) << name;
  }
}

TEST(RuleTables, FindTheSameRuleAsFindOpRule) {
  const RuleTable& table = rule_table(Release::k2_13);
  EXPECT_EQ(table.find("mm"), &find_op_rule("aten.mm.default", Release::k2_13));
  EXPECT_EQ(table.find("aten.einsum.default"), nullptr);
}

}  // namespace rule_table_test
}  // namespace shardlab
