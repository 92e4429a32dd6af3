// The rules of one rule set, resolved once, so that finding the rule of an op is one binary search.
//
//   const RuleTable& table = rule_table(Release::k2_13);
//   const OpRule* rule = table.find("aten.mm.default");   // null if the set has no rule for it
//   for (const OpRule& each : table.rules()) ...
//
// find_op_rule (op_rule.h) is the same look-up with error messages. The tables of all_op_rules()
// are made at their first use and live as long as the process.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "strategies/rules/op_rule.h"
#include "strategies/rules/op_variants.h"

namespace shardlab {

// Rules by the names of their ops, which may leave out "aten." and the overload (op_rule.h).
class RuleNames {
 public:
  RuleNames() = default;
  explicit RuleNames(std::vector<const OpRule*> rules);
  // All rules of that name, with the preferred one first.
  [[nodiscard]] std::vector<const OpRule*> named(std::string_view op) const;

 private:
  std::vector<const OpRule*> rules_;
  std::vector<std::size_t> by_base_;  // indices of rules_, sorted by the name without the overload
};

class RuleTable {
 public:
  // Takes the rules that hold in the set, in the order of the families. Throws ContractError if two
  // of them are for one op.
  RuleTable(std::span<const OpRuleFamily* const> families, RuleSet set);
  RuleTable(const RuleTable&) = delete;  // callers keep the addresses of rules
  RuleTable& operator=(const RuleTable&) = delete;

  // Copies of the families' rules: `resolved_for` is the table's set, and only those partial rows
  // are left that hold in it. A release has also the rules that it derives from them
  // (op_variants.h).
  [[nodiscard]] std::span<const OpRule> rules() const { return rules_; }
  // The last of them, those that are derived.
  [[nodiscard]] std::span<const OpRule> derived() const {
    return rules().last(variants_ == nullptr ? 0 : variants_->rules().size());
  }
  // The rules that are derived, with those that they come from; null for other sets.
  [[nodiscard]] const OpVariants* variants() const { return variants_.get(); }
  [[nodiscard]] std::vector<const OpRule*> named(std::string_view op) const {
    return names_.named(op);
  }
  // The preferred rule of that name, or null if there is none.
  [[nodiscard]] const OpRule* find(std::string_view op) const;

 private:
  std::vector<OpRule> rules_;
  // The rows of rules that keep only some of their rows.
  std::deque<std::vector<PartialRow>> partial_rows_;
  std::unique_ptr<OpVariants> variants_;  // only the sets of a release have variants
  RuleNames names_;
};

[[nodiscard]] const RuleTable& rule_table(RuleSet set);

// The call of the op that a form comes from (op_variants.h), which some release derives; nothing
// for other ops. Throws InputError where `out` tensors are missing.
[[nodiscard]] std::optional<OpCall> base_call_of(const OpCall& call);

// Throws InputError, which lists the overloads, if an op's name leaves out its overload and could
// mean several of the rules that have the name: none of them is "default", and more than one is
// left without those that write into `out=` tensors.
void expect_one_overload(std::string_view op, std::span<const OpRule* const> named);

}  // namespace shardlab
