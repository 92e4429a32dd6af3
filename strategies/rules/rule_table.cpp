#include "strategies/rules/rule_table.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

std::string_view base_of(const OpRule* rule) { return split_op_name(rule->op).base; }

}  // namespace

RuleNames::RuleNames(std::vector<const OpRule*> rules) : rules_(std::move(rules)) {
  by_base_.resize(rules_.size());
  for (std::size_t i = 0; i < by_base_.size(); ++i) by_base_[i] = i;
  std::stable_sort(by_base_.begin(), by_base_.end(), [this](std::size_t a, std::size_t b) {
    return base_of(rules_[a]) < base_of(rules_[b]);
  });
}

std::vector<const OpRule*> RuleNames::named(std::string_view op) const {
  const OpName name = split_op_name(op);
  std::vector<std::size_t> found;
  const auto add = [&](std::string_view base, std::string_view overload) {
    auto next = std::lower_bound(
        by_base_.begin(), by_base_.end(), base,
        [this](std::size_t i, std::string_view b) { return base_of(rules_[i]) < b; });
    for (; next != by_base_.end(); ++next) {
      const OpName own = split_op_name(rules_[*next]->op);
      if (own.base != base) break;
      // autoparallel.dtype_cast.default has two dots, and may be written without the last word.
      const bool is_named =
          own.overload == overload || (own.overload.starts_with(overload) &&
                                       own.overload.substr(overload.size()) == ".default");
      if (overload.empty() || is_named) found.push_back(*next);
    }
  };
  add(name.base, name.overload);
  // DTensor knows softmax and log_softmax by the ops that they call.
  if (name.overload.empty() || name.overload == "int") add("_" + std::string(name.base), {});
  std::sort(found.begin(), found.end());
  std::vector<const OpRule*> rules;
  for (const std::size_t i : found) rules.push_back(rules_[i]);
  if (name.overload.empty()) {
    std::stable_partition(rules.begin(), rules.end(), [](const OpRule* rule) {
      return split_op_name(rule->op).overload == "default";
    });
  }
  return rules;
}

RuleTable::RuleTable(std::span<const OpRuleFamily* const> families, RuleSet set) {
  std::set<std::string_view> ops;
  for (const OpRuleFamily* family : families) {
    for (const OpRule& rule : family->rules) {
      if (!rule.sets.contains(set)) continue;
      SHARDLAB_CHECK(ops.insert(rule.op).second, "two rules of ", rule.op, " hold in one rule set");
      rules_.push_back(rule);
      rules_.back().resolved_for = set;
    }
  }
  const auto holds = [set](const PartialRow& row) { return row.sets.contains(set); };
  for (OpRule& rule : rules_) {
    if (std::all_of(rule.partial_rows.begin(), rule.partial_rows.end(), holds)) continue;
    std::vector<PartialRow>& kept = partial_rows_.emplace_back();
    std::copy_if(rule.partial_rows.begin(), rule.partial_rows.end(), std::back_inserter(kept),
                 holds);
    rule.partial_rows = kept;
  }
  if (const std::optional<Release> release = set.release()) {
    variants_ = std::make_unique<OpVariants>(rules_, *release);
    rules_.insert(rules_.end(), variants_->rules().begin(), variants_->rules().end());
  }
  std::vector<const OpRule*> rules;
  for (const OpRule& rule : rules_) rules.push_back(&rule);
  names_ = RuleNames(std::move(rules));
}

const OpRule* RuleTable::find(std::string_view op) const {
  const std::vector<const OpRule*> rules = named(op);
  return rules.empty() ? nullptr : rules.front();
}

std::optional<OpCall> base_call_of(const OpCall& call) {
  const OpName name = split_op_name(call.op);
  if (name.overload == "default" && !name.base.ends_with('_')) return std::nullopt;
  for (const ReleaseEntry& entry : kReleases) {
    if (auto base = rule_table(entry.release).variants()->base_call_of(call)) return base;
  }
  return std::nullopt;
}

void expect_one_overload(std::string_view op, std::span<const OpRule* const> named) {
  if (named.size() < 2 || !split_op_name(op).overload.empty()) return;
  std::vector<std::string> ops;
  for (const OpRule* rule : named) {
    const std::string_view overload = split_op_name(rule->op).overload;
    if (overload == "default") return;
    const bool writes_out = overload.find("out") != std::string_view::npos ||
                            overload.find("Out") != std::string_view::npos;
    if (!writes_out) ops.emplace_back(rule->op);
  }
  if (ops.size() < 2) return;
  throw InputError("op \"" + std::string(op) + "\" has several overloads; valid: " + join(ops));
}

const RuleTable& rule_table(RuleSet set) {
  struct Lazy {
    std::once_flag once;
    std::unique_ptr<const RuleTable> table;
  };
  static std::array<Lazy, EnumNames<RuleSet>::kNames.size()> tables;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (EnumNames<RuleSet>::kNames[i].value != set) continue;
    std::call_once(tables[i].once, [&] {
      tables[i].table = std::make_unique<const RuleTable>(all_op_rules(), set);
    });
    return *tables[i].table;
  }
  throw ContractError("a rule set without a name");
}

}  // namespace shardlab
