#include "strategies/rules/op_rule.h"

#include <algorithm>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "strategies/rules/composite_ops.h"
#include "strategies/rules/op_kinds.h"
#include "strategies/rules/rule_table.h"

namespace shardlab {
namespace {

// The release whose rules a set has or borrows.
Release release_behind(RuleSet set) {
  return set.release().value_or(set == kAutoParallel2_15 ? Release::k2_15 : kReferenceRelease);
}

// The rule that a set of AutoParallel's borrows. A rule with rows is preferred to a follow rule,
// and DTensor's rule to shardlab's.
const OpRule* borrowed(std::string_view op, RuleSet set) {
  const Release release = release_behind(set);
  const std::vector<const OpRule*> dtensor = rule_table(release).named(op);
  const std::vector<const OpRule*> shardlab = rule_table(kShardlab).named(op);
  expect_one_overload(op, dtensor.empty() ? shardlab : dtensor);
  for (const auto* rules : {&dtensor, &shardlab}) {
    const auto with_rows = std::find_if(rules->begin(), rules->end(),
                                        [](const OpRule* rule) { return rule->rows != nullptr; });
    if (with_rows != rules->end()) return *with_rows;
  }
  if (!dtensor.empty()) return dtensor.front();
  return shardlab.empty() ? nullptr : shardlab.front();
}

constexpr std::string_view kAten = "aten.";

// A name as Python code writes it, without the module: torch.matmul and F.linear are functions.
std::string_view without_python_module(std::string_view op) {
  for (const std::string_view module : {"torch.nn.functional.", "torch.Tensor.", "torch.", "F."}) {
    if (op.starts_with(module) && !op.starts_with("torch.ops.")) return op.substr(module.size());
  }
  return op;
}

// The rules of all sets, with those that a release derives.
std::vector<const OpRule*> all_rules() {
  std::vector<const OpRule*> all;
  for (const OpRuleFamily* family : all_op_rules()) {
    for (const OpRule& rule : family->rules) all.push_back(&rule);
  }
  for (const ReleaseEntry& entry : kReleases) {
    for (const OpRule& rule : rule_table(entry.release).derived()) all.push_back(&rule);
  }
  return all;
}

// Throws InputError for an op that the set has no rule for.
[[noreturn]] void fail_to_find(std::string_view op, RuleSet set) {
  const RuleNames names(all_rules());
  const std::vector<const OpRule*> elsewhere = names.named(op);
  if (!elsewhere.empty()) {
    const std::string_view name = elsewhere.back()->op;
    std::vector<std::string_view> sets;
    for (const auto& [known, its_name] : EnumNames<RuleSet>::kNames) {
      if (op_rule_or_null(name, known) != nullptr) sets.push_back(its_name);
    }
    const Release release = release_behind(set);
    const std::optional<AtenOp> aten = find_aten_op(name, release);
    const bool missed = set.release() && aten && aten->kind == OpKind::kStrategy;
    throw InputError(std::string(name) + ": no sharding strategy registered in rule set " +
                     std::string(name_of(set)) +
                     (missed
                          ? ", although DTensor of PyTorch " + std::string(torch_version(release)) +
                                " has one, which shardlab "
                                "does not know"
                          : "") +
                     "; valid: " + join(sets));
  }
  const std::string_view name = without_python_module(op);
  const std::string_view instead = ops_in_place_of(name);
  if (!instead.empty()) {
    throw InputError("op \"" + std::string(op) +
                     "\" has no sharding rule, since PyTorch runs other ops in its place; valid: " +
                     std::string(instead));
  }
  // A name that has a rule without its module is suggested below.
  const Release release = release_behind(set);
  const std::optional<AtenOp> aten = find_aten_op(name, release);
  if (aten && names.named(name).empty()) {
    throw InputError("op \"" + aten->name + "\" " + why_no_rule(*aten, release) + "; valid: " +
                     (aten->kind == OpKind::kComposite
                          ? "those ops, which a TorchDispatchMode shows"
                          : "the ops of `shardlab list ops`"));
  }
  std::vector<std::string_view> all = all_op_names();
  // Short forms are compared too: aten.mm is near aten.mmm, but aten.mm.default is not.
  constexpr std::string_view kDefault = ".default";
  for (std::size_t i = 0, full = all.size(); i < full; ++i) {
    const std::string_view known = all[i];
    if (known.ends_with(kDefault)) all.push_back(known.substr(0, known.size() - kDefault.size()));
    if (known.starts_with(kAten)) all.push_back(split_op_name(known).base);
  }
  std::vector<std::string> composites;
  for (const std::string_view composite : composite_op_names()) {
    composites.emplace_back(composite);
    composites.push_back(std::string(kAten) + composites.back());
  }
  all.insert(all.end(), composites.begin(), composites.end());
  throw InputError("unknown op \"" + std::string(op) + "\"" + did_you_mean(name, all) +
                   "; valid: the ops of `shardlab list ops`");
}

}  // namespace

bool OpRule::is_in_place() const { return split_op_name(op).base.ends_with('_'); }
std::size_t OpRule::written_outputs() const {
  return out_tensors > 0 || !split_op_name(op).overload.ends_with("out") ? out_tensors : 1;
}
std::vector<std::string_view> all_op_names() {
  std::vector<std::string_view> all;
  for (const OpRule* rule : all_rules()) all.push_back(rule->op);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

const OpRule* op_rule_or_null(std::string_view op, RuleSet set) {
  const std::vector<const OpRule*> named = rule_table(set).named(op);
  expect_one_overload(op, named);
  if (!named.empty()) return named.front();
  return kAutoParallels.contains(set) ? borrowed(op, set) : nullptr;
}

const OpRule& find_op_rule(std::string_view op, RuleSet set) {
  const OpRule* rule = op_rule_or_null(op, set);
  if (rule == nullptr) fail_to_find(op, set);
  return *rule;
}

}  // namespace shardlab
