#include "strategies/rules/op_rule.h"

#include <algorithm>
#include <map>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

struct RuleSetName {
  RuleSet set;
  std::string_view name;
};
constexpr std::array<RuleSetName, 4> kRuleSets = {{
    {kDTensor213, "dtensor-2.13"},
    {kDTensorLegacy, "dtensor-legacy"},
    {kShardlab, "shardlab"},
    {kAutoParallel, "autoparallel"},
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

// Where the rules of a name are, in the order of the families.
class RuleIndex {
 public:
  RuleIndex() {
    for (const OpRuleFamily* family : all_op_rules()) {
      for (const OpRule& rule : family->rules) {
        by_base_[split(rule.op).base].push_back(rules_.size());
        rules_.push_back(&rule);
      }
    }
  }

  [[nodiscard]] const OpRule& rule(std::size_t number) const { return *rules_[number]; }
  [[nodiscard]] std::vector<std::size_t> named(std::string_view asked) const {
    const OpName name = split(asked);
    std::vector<std::size_t> found;
    const auto add = [&](const std::string& base, std::string_view overload) {
      const auto rules = by_base_.find(std::string_view(base));
      if (rules == by_base_.end()) return;
      for (const std::size_t number : rules->second) {
        const OpName own = split(rules_[number]->op);
        if (overload.empty() || overload == own.overload) found.push_back(number);
      }
    };
    add(std::string(name.base), name.overload);
    // softmax and log_softmax are known to DTensor by the ops that they call.
    if (name.overload.empty() || name.overload == "int") add("_" + std::string(name.base), {});
    std::sort(found.begin(), found.end());
    if (name.overload.empty()) {
      std::stable_partition(found.begin(), found.end(), [&](std::size_t number) {
        return split(rules_[number]->op).overload == "default";
      });
    }
    return found;
  }

 private:
  std::vector<const OpRule*> rules_;
  std::map<std::string_view, std::vector<std::size_t>> by_base_;  // numbers of rules
};

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
std::size_t OpRule::written_outputs() const {
  return out_tensors > 0 || !split(op).overload.ends_with("out") ? out_tensors : 1;
}
bool OpRule::is_foreach() const {
  constexpr std::array<std::string_view, 4> kPrefixes = {"_foreach_", "_amp_foreach_",
                                                         "_fused_adam", "_fused_sgd"};
  const std::string_view base = split(op).base;
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return base.starts_with(prefix); });
}

std::vector<std::string_view> all_op_names() {
  std::vector<std::string_view> all;
  for (const OpRuleFamily* family : all_op_rules()) {
    for (const OpRule& rule : family->rules) all.push_back(rule.op);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

namespace {

// The best of the sets that autoparallel borrows from; null when none has the op.
const OpRule* borrowed(const RuleIndex& index, std::string_view op) {
  const OpRule* best = nullptr;
  const auto rank = [](const OpRule& rule) {
    const int set = (rule.sets & kDTensor213) != 0 ? 1 : 0;
    return (rule.sets & (kDTensor213 | kShardlab)) == 0 ? 0 : 1 + set + (rule.rows ? 2 : 0);
  };
  for (const std::size_t number : index.named(op)) {
    const OpRule& rule = index.rule(number);
    if (rank(rule) > (best == nullptr ? 0 : rank(*best))) best = &rule;
  }
  return best;
}

}  // namespace

const OpRule& find_op_rule(std::string_view op, RuleSet set) {
  static const RuleIndex index;
  const OpRule* elsewhere = nullptr;
  for (const std::size_t number : index.named(op)) {
    const OpRule& rule = index.rule(number);
    if ((rule.sets & set) != 0) return rule;
    elsewhere = &rule;
  }
  if (set == kAutoParallel) {
    if (const OpRule* rule = borrowed(index, op)) return *rule;
  }
  if (elsewhere != nullptr) {
    throw InputError(std::string(elsewhere->op) + ": no sharding strategy registered in rule set " +
                     std::string(to_string(set)));
  }
  std::vector<std::string_view> all = all_op_names();
  // Short forms too: aten.mm is near aten.mmm, aten.mm.default is not.
  constexpr std::string_view kDefault = ".default";
  for (std::size_t i = 0, full = all.size(); i < full; ++i) {
    if (all[i].ends_with(kDefault))
      all.push_back(all[i].substr(0, all[i].size() - kDefault.size()));
  }
  throw InputError("unknown op \"" + std::string(op) + "\"" + did_you_mean(op, all) +
                   "; valid: the ops of `shardlab list ops`");
}

}  // namespace shardlab
