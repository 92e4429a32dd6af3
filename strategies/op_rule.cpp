#include "strategies/op_rule.h"

#include <algorithm>

#include "costmodel/error.h"
#include "costmodel/text.h"

namespace shardlab {
namespace {

struct RuleSetName {
  RuleSet set;
  std::string_view name;
};
constexpr std::array<RuleSetName, 3> kRuleSets = {{
    {kDTensor213, "dtensor-2.13"},
    {kDTensorLegacy, "dtensor-legacy"},
    {kShardlab, "shardlab"},
}};

// "aten::add_.Tensor" -> base "add_", overload "Tensor".
struct OpName {
  std::string_view base;
  std::string_view overload;  // empty when left out
};

OpName split(std::string_view op) {
  for (const std::string_view prefix : {"aten.", "aten::"}) {
    if (op.starts_with(prefix)) op = op.substr(prefix.size());
  }
  const std::size_t dot = op.find('.');
  if (dot == std::string_view::npos) return {op, {}};
  return {op.substr(0, dot), op.substr(dot + 1)};
}

bool names(std::string_view asked, const OpRule& rule) {
  const OpName a = split(asked);
  const OpName b = split(rule.op);
  if (a.base == b.base) return a.overload.empty() || a.overload == b.overload;
  // softmax and log_softmax are known to DTensor by the ops that they call.
  return b.base.starts_with('_') && a.base == b.base.substr(1) &&
         (a.overload.empty() || a.overload == "int");
}

}  // namespace

std::string_view to_string(RuleSet set) {
  for (const RuleSetName& row : kRuleSets) {
    if (row.set == set) return row.name;
  }
  return "";
}

std::optional<RuleSet> rule_set_from_name(std::string_view name) {
  for (const RuleSetName& row : kRuleSets) {
    if (row.name == name) return row.set;
  }
  return std::nullopt;
}

bool OpRule::is_in_place() const { return split(op).base.ends_with('_'); }
bool OpRule::is_out_variant() const { return split(op).overload.ends_with("out"); }
bool OpRule::is_foreach() const { return split(op).base.starts_with("_foreach_"); }

std::vector<std::string_view> all_op_names() {
  std::vector<std::string_view> all;
  for (const OpRuleFamily* family : all_op_rules()) {
    for (const OpRule& rule : family->rules) all.push_back(rule.op);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

const OpRule& find_op_rule(std::string_view op, RuleSet set) {
  const OpRule* elsewhere = nullptr;
  for (const OpRuleFamily* family : all_op_rules()) {
    for (const OpRule& rule : family->rules) {
      if (!names(op, rule)) continue;
      if ((rule.sets & set) != 0) return rule;
      elsewhere = &rule;
    }
  }
  if (elsewhere != nullptr) {
    throw InputError(std::string(elsewhere->op) + ": no sharding strategy registered in rule set " +
                     std::string(to_string(set)));
  }
  const std::vector<std::string_view> all = all_op_names();
  throw InputError("unknown op \"" + std::string(op) + "\"" + did_you_mean(op, all) +
                   "; valid: the ops of `shardlab list ops`");
}

}  // namespace shardlab
