// The contracts of every rule of every rule set, checked on sample calls in many layouts. An op
// without a sample fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "costmodel/base/error.h"
#include "strategies/rules/decomposition.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/rule_table.h"
#include "tests/support/op_samples.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace op_rule_contract_test {

using testing_support::all_layouts;
using testing_support::layouts_text;
using testing_support::Random;
using testing_support::row_text;
using testing_support::sample_calls;

struct RuleAndCall {
  const OpRule* rule;
  OpCall call;
  std::vector<TensorMeta> outputs;
  Rows filled;  // empty where the rule has no rows

  [[nodiscard]] std::string text() const { return call.text(); }
};

// Empty where a rule of PyTorch refuses its inputs, as the rule of a view does where the view would
// have to move its input.
std::optional<Expansion> expanded(const RuleAndCall& one, const DeviceMesh& mesh) {
  const bool may_refuse = one.rule->follow != nullptr || one.rule->sets.intersects(kDTensor);
  if (!may_refuse) return expand(*one.rule, one.call, mesh);
  try {
    return expand(*one.rule, one.call, mesh);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

class OpRuleContract : public testing::TestWithParam<RuleSet> {
 protected:
  static std::vector<const OpRule*> rules() {
    std::vector<const OpRule*> all;
    for (const OpRule& rule : rule_table(GetParam()).rules()) all.push_back(&rule);
    return all;
  }
  static std::vector<RuleAndCall> rules_and_calls(int mesh_ndim = 1) {
    std::vector<RuleAndCall> all;
    for (const OpRule* rule : rules()) {
      for (const OpCall& call : sample_calls(rule->op, mesh_ndim)) {
        RuleAndCall one{rule, call, rule->outputs(call), {}};
        try {
          if (rule->rows != nullptr) {
            one.filled = fill_rows(rule->rows(call, *rule), one.outputs.size(), call);
          }
        } catch (const InputError&) {
          // A release of PyTorch may refuse what other rule sets take.
          if (GetParam().release()) continue;
          throw;
        }
        all.push_back(one);
      }
    }
    return all;
  }
};

bool returns_nothing(const RuleAndCall& one) {
  return one.rule->is_in_place() && is_foreach(one.rule->op) && one.outputs.empty();
}

TEST_P(OpRuleContract, EveryOpHasOneRule) {
  std::set<std::string_view> seen;
  for (const OpRule* rule : rules()) EXPECT_TRUE(seen.insert(rule->op).second) << rule->op;
  EXPECT_GE(seen.size(), 30U);
}

TEST_P(OpRuleContract, ARuleHasOutputsAndEitherRowsOrALayoutToFollow) {
  for (const OpRule* rule : rules()) {
    EXPECT_NE(rule->outputs, nullptr) << rule->op;
    EXPECT_NE(rule->rows == nullptr, rule->follow == nullptr) << rule->op;
    EXPECT_TRUE(rule->op.starts_with("aten.") || rule->op.starts_with("prims.") ||
                rule->op.starts_with("transformers.") || rule->op.starts_with("higher_order."))
        << rule->op;
    EXPECT_TRUE(rule->filter == nullptr || rule->rows != nullptr) << rule->op;
  }
}

TEST_P(OpRuleContract, EveryOpIsFoundByItsName) {
  for (const OpRule* rule : rules())
    EXPECT_EQ(&find_op_rule(rule->op, GetParam()), rule) << rule->op;
}

TEST_P(OpRuleContract, EverySampleHasOutputs) {
  for (const RuleAndCall& one : rules_and_calls()) {
    // An in-place op on lists may return nothing.
    ASSERT_TRUE(!one.outputs.empty() || returns_nothing(one)) << one.text();
    for (const TensorMeta& out : one.outputs) {
      EXPECT_LE(out.ndim(), kMaxTensorDims) << one.text();
      EXPECT_TRUE(out.is_contiguous()) << one.text();
    }
  }
}

TEST_P(OpRuleContract, ARowHasAnEntryForEveryOutputAndInput) {
  for (const RuleAndCall& one : rules_and_calls()) {
    for (const Row& row : one.filled) {
      EXPECT_EQ(row.size(), one.outputs.size() + one.call.tensors().size())
          << one.text() << ": " << row_text(row, one.outputs.size());
      for (const RowEntry& entry : row) EXPECT_FALSE(entry.is_any_shard()) << one.text();
    }
  }
}

// It comes first, but where PyTorch lists what it tries in the order of a set (decomposition.h).
TEST_P(OpRuleContract, TheReplicatedRowIsThereOnceAndFirst) {
  for (const RuleAndCall& one : rules_and_calls()) {
    if (one.rule->rows == nullptr) continue;
    const Row replicated(one.outputs.size() + one.call.tensors().size(),
                         RowEntry(Placement::replicate()));
    ASSERT_FALSE(one.filled.empty()) << one.text();
    const bool is_decomposed =
        !one.rule->sets.contains(kShardlab) &&
        std::ranges::any_of(all_decompositions(), [&](const DecompositionEntry& entry) {
          return entry.op == one.rule->op;
        });
    if (!is_decomposed) {
      EXPECT_EQ(one.filled.front(), replicated) << one.text();
    }
    EXPECT_EQ(std::count(one.filled.begin(), one.filled.end(), replicated), 1) << one.text();
  }
}

TEST_P(OpRuleContract, NoRowIsListedTwice) {
  for (const RuleAndCall& one : rules_and_calls()) {
    std::set<std::string> seen;
    for (const Row& row : one.filled) {
      EXPECT_TRUE(seen.insert(row_text(row, one.outputs.size())).second)
          << one.text() << ": " << row_text(row, one.outputs.size());
    }
  }
}

TEST_P(OpRuleContract, ShardsNameDimsThatTheirTensorHas) {
  for (const RuleAndCall& one : rules_and_calls()) {
    const auto tensors = one.call.tensors();
    for (const Row& row : one.filled) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        const Placement& p = row[i].placement();
        if (!p.is_shard_like()) continue;
        const int ndim = i < one.outputs.size() ? one.outputs[i].ndim()
                                                : tensors[i - one.outputs.size()]->meta.ndim();
        EXPECT_LT(p.dim(), ndim) << one.text() << ": " << row_text(row, one.outputs.size());
      }
    }
  }
}

TEST_P(OpRuleContract, ARowUsesOneKindOfShardAlone) {
  for (const RuleAndCall& one : rules_and_calls()) {
    for (const Row& row : one.filled) {
      std::set<std::pair<bool, int>> kinds;
      for (const RowEntry& entry : row) {
        const Placement& p = entry.placement();
        if (p.is_shard_like()) kinds.insert({p.is_strided(), p.split_factor()});
      }
      EXPECT_LE(kinds.size(), 1U) << one.text() << ": " << row_text(row, one.outputs.size());
    }
  }
}

TEST_P(OpRuleContract, AnInPlaceOpWritesWhereItReads) {
  for (const RuleAndCall& one : rules_and_calls()) {
    if (!one.rule->is_in_place() || one.rule->is_out_variant()) continue;
    if (returns_nothing(one)) continue;
    if (one.rule->rows == nullptr) continue;  // squeeze_ is a view in place, and drops dims
    EXPECT_EQ(one.outputs[0].shape, one.call.tensors()[0]->meta.shape) << one.text();
    const DeviceMesh mesh = DeviceMesh::parse("2");
    const Expansion e = expand(*one.rule, one.call, mesh);
    for (std::size_t c = 0; c < e.size(); ++c) {
      EXPECT_EQ(e.output(c, 0), e.input(c, 0)) << one.text();
      EXPECT_EQ(e.input(c, 0), one.call.tensors()[0]->layout.placements) << one.text();
    }
    EXPECT_EQ(e.size() == 0, !e.in_place_error().empty()) << one.text();
  }
}

TEST_P(OpRuleContract, AnOutVariantWritesIntoItsLastTensor) {
  for (const RuleAndCall& one : rules_and_calls()) {
    if (!one.rule->is_out_variant()) continue;
    // A fault of PyTorch, 2.13.0 to 2.15.0: it replicates tensors to write to that have another
    // name than `out`.
    if (GetParam().release() && !one.rule->op.ends_with("out")) continue;
    if (GetParam().release() && one.outputs.size() > 1) continue;
    for (const Row& row : one.filled) EXPECT_EQ(row.front(), row.back()) << one.text();
  }
}

TEST_P(OpRuleContract, CandidatesNeverMixPartialsAndNeverShardToNothing) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  for (const RuleAndCall& one : rules_and_calls(2)) {
    const std::optional<Expansion> found = expanded(one, mesh);
    if (!found) continue;
    const Expansion& e = *found;
    const auto tensors = one.call.tensors();
    ASSERT_EQ(e.inputs(), tensors.size()) << one.text();
    ASSERT_EQ(e.outputs(), one.outputs.size()) << one.text();
    for (std::size_t c = 0; c < e.size(); ++c) {
      for (std::size_t o = 0; o < e.outputs(); ++o) {
        EXPECT_EQ(e.output(c, o).size(), 2U);
        EXPECT_FALSE(has_mixed_partials(e.output(c, o))) << one.text();
      }
      for (std::size_t i = 0; i < e.inputs(); ++i) {
        const Placements placements = e.input(c, i);
        EXPECT_FALSE(has_mixed_partials(placements)) << one.text();
        if (one.rule->rows == nullptr)
          continue;  // a rule that follows its inputs keeps uneven shards
        const bool kept = placements == tensors[i]->layout.placements;
        EXPECT_TRUE(is_shardable(tensors[i]->meta.shape, placements, mesh) ||
                    (one.rule->allows_uneven() && kept))
            << one.text() << ": input " << i << " as " << Layout(placements).text();
      }
    }
  }
}

// A legal call always has a candidate, unless an op that writes to a tensor, or shows it, would
// have to move it.
TEST_P(OpRuleContract, EveryLegalCallHasACandidate) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  for (const RuleAndCall& one : rules_and_calls(2)) {
    if (one.rule->is_in_place() || one.rule->is_out_variant()) continue;
    const std::optional<Expansion> found = expanded(one, mesh);
    if (!found) continue;
    EXPECT_GT(found->size(), 0U) << one.text();
  }
}

TEST_P(OpRuleContract, TheWorkOfTheLocalKernelIsFiniteAndShrinksWithTheShards) {
  for (const RuleAndCall& one : rules_and_calls()) {
    if (one.rule->flops == nullptr) continue;
    std::vector<Shape> whole;
    std::vector<Shape> halves;
    for (const TensorSpec* tensor : one.call.tensors()) {
      whole.push_back(tensor->meta.shape);
      halves.push_back(tensor->meta.shape);
      for (std::int64_t& extent : halves.back()) extent = (extent + 1) / 2;
    }
    const double all = one.rule->flops(whole, one.call);
    EXPECT_GT(all, 0) << one.text();
    EXPECT_LE(one.rule->flops(halves, one.call), all) << one.text();
  }
}

INSTANTIATE_TEST_SUITE_P(RuleSets, OpRuleContract,
                         testing::Values(RuleSet(Release::k2_13), RuleSet(Release::k2_14),
                                         RuleSet(Release::k2_15), kDTensorLegacy, kShardlab),
                         [](const auto& test) {
                           std::string name(name_of(test.param));
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

}  // namespace op_rule_contract_test
}  // namespace shardlab
