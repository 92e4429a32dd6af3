// Operators whose rules DTensor derives from those of another one: the forms that write to `out`
// tensors, and the in-place forms, of every operator with rows that a release has a strategy for.
//
//   OpVariants variants(rules, Release::k2_15);
//   variants.rule("aten.topk.values").rows(call, rule);   // those of aten.topk.default, and for
//                                                         // each `out` tensor its result's entry
//
// Rules that families/ list themselves are not derived. A form that returns updated copies
// (_native_batch_norm_legit_functional) has no rule here. A condition on the layouts of the whole
// mesh is lost, as in PyTorch: mean.dtype_out leaves a mean of uneven shards as P(avg), which
// mean.default refuses. Source: PyTorch 2.13.0 to 2.15.0, _ops/autogen.py
// (auto_register_op_variants, and _clone_strategy_info, which does not copy
// full_mesh_strategy_filter).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/rules/op_rule.h"
#include "strategies/rules/rule_source.h"

namespace shardlab {

// A source of rules, so that the functions of a derived rule can ask for the rule that it comes
// from. It knows its ops by their full names; RuleTable finds them by short ones.
class OpVariants final : public RuleSource {
 public:
  // `listed` are the rules that hold in the release, which are copied.
  OpVariants(std::span<const OpRule> listed, Release release);

  [[nodiscard]] std::span<const OpRule> rules() const { return rules_; }

  // The rule that a form's rule comes from; null for other ops.
  [[nodiscard]] const OpRule* base_of(std::string_view op) const;
  // The call of the op that the form comes from, without the `out` tensors; nothing for other ops.
  // Throws InputError where `out` tensors are missing.
  [[nodiscard]] std::optional<OpCall> base_call_of(const OpCall& call) const;

  [[nodiscard]] std::string text() const override;
  [[nodiscard]] const OpRule& rule(std::string_view op) override;
  [[nodiscard]] std::vector<std::string_view> ops() override;
  void prepare(std::span<const OpCall* const>) override {}

 private:
  struct Variant {
    std::string op;
    OpRule base;
    std::size_t out_tensors = 0;
  };

  void add(const OpRule& base, std::string op, std::size_t out_tensors);
  [[nodiscard]] OpRule derived(const Variant& variant);
  // The variant that the call is of, and the call of its base: without the `out` tensors.
  [[nodiscard]] const Variant& variant_of(std::string_view op) const;
  [[nodiscard]] OpCall base_call(const Variant& variant, const OpCall& call) const;

  // What the functions of the derived rules return.
  [[nodiscard]] std::vector<TensorMeta> outputs(const OpCall& call) const;
  [[nodiscard]] Rows rows(const OpCall& call) const;
  [[nodiscard]] double flops(std::span<const Shape> inputs, const OpCall& call) const;
  void set_shape(std::span<const Shape> inputs, const OpCall& call, KernelQuery& query) const;

  Release release_;
  std::deque<Variant> variants_;  // rules refer to the texts of their names
  std::map<std::string_view, const Variant*> by_op_;
  std::vector<OpRule> rules_;
};

}  // namespace shardlab
