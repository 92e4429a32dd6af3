#include "strategies/rules/op_variants.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "costmodel/base/error.h"
#include "strategies/rules/op_kinds.h"
#include "strategies/rules/op_schemas.h"

namespace shardlab {
namespace {

// A type without the marks of what is aliased and written: "Tensor(a!)" is a "Tensor".
std::string plain_type(std::string_view type) {
  const std::size_t open = type.find('(');
  const std::size_t close = type.find(')');
  if (open == std::string_view::npos || close == std::string_view::npos) return std::string(type);
  return std::string(type.substr(0, open)) + std::string(type.substr(close + 1));
}

bool is_out(const SchemaArgument& argument) {
  return argument.only_by_name && argument.is_written();
}

bool take_the_same(const OpSchema& base, std::span<const SchemaArgument> arguments) {
  return std::ranges::equal(
      base.arguments, arguments, [](const SchemaArgument& left, const SchemaArgument& right) {
        return left.name == right.name && left.only_by_name == right.only_by_name &&
               plain_type(left.type) == plain_type(right.type);
      });
}

// The arguments that are not `out` tensors. Nothing unless there is one `out` tensor for each
// result.
std::optional<std::vector<SchemaArgument>> without_out(const OpSchema& schema) {
  std::vector<SchemaArgument> others;
  std::size_t outs = 0;
  for (const SchemaArgument& argument : schema.arguments) {
    if (!is_out(argument)) {
      others.push_back(argument);
    } else if (argument.kind == SchemaArgument::Kind::kTensor) {
      ++outs;
    } else {
      return std::nullopt;
    }
  }
  return outs > 0 && outs == schema.results ? std::optional(std::move(others)) : std::nullopt;
}

// The rule with rows, among overloads of one name, whose op takes these arguments and has as many
// results as `form`; null if there is none.
const OpRule* rule_with(std::span<const OpRule* const> overloads, const OpSchema& form,
                        std::span<const SchemaArgument> arguments) {
  for (const OpRule* rule : overloads) {
    const std::optional<OpSchema> own = find_op_schema(rule->op);
    const bool fits = own && std::ranges::none_of(own->arguments, is_out) &&
                      own->results == form.results && rule->rows != nullptr &&
                      take_the_same(*own, arguments);
    if (fits) return rule;
  }
  return nullptr;
}

}  // namespace

OpVariants::OpVariants(std::span<const OpRule> listed, Release release) : release_(release) {
  std::set<std::string_view> known;
  std::map<std::string, std::vector<const OpRule*>, std::less<>> by_base;
  for (const OpRule& rule : listed) {
    known.insert(rule.op);
    if (rule.op.starts_with("aten.")) {
      by_base[std::string(split_op_name(rule.op).base)].push_back(&rule);
    }
  }
  for (const AtenOp& op : aten_ops_of(OpKind::kStrategy, release)) {
    const std::optional<OpSchema> schema = find_op_schema(op.name);
    if (!schema || !schema->writes || known.contains(op.name)) continue;
    const std::string base(split_op_name(op.name).base);
    if (const auto arguments = without_out(*schema)) {
      // fill.Scalar_out comes from fill_.Scalar, which has no form that writes to nothing.
      for (const std::string& name : {base, base + "_"}) {
        const OpRule* rule = rule_with(by_base[name], *schema, *arguments);
        if (rule == nullptr) continue;
        add(*rule, op.name, schema->results);
        break;
      }
    } else if (base.ends_with('_')) {
      const OpRule* rule =
          rule_with(by_base[base.substr(0, base.size() - 1)], *schema, schema->arguments);
      if (rule != nullptr) add(*rule, op.name, 0);
    }
  }
  for (const Variant& variant : variants_) rules_.push_back(derived(variant));
}

void OpVariants::add(const OpRule& base, std::string op, std::size_t out_tensors) {
  const Variant& variant = variants_.emplace_back(Variant{std::move(op), base, out_tensors});
  by_op_.emplace(variant.op, &variant);
}

// The functions of the rule ask this source, which asks those of the base.
OpRule OpVariants::derived(const Variant& variant) {
  OpRule rule = variant.base;
  rule.op = variant.op;
  rule.out_tensors = variant.out_tensors;
  rule.filter = nullptr;
  rule.excuse = nullptr;
  rule.equation = {};
  rule.outputs = {*this, [](RuleSource& source, const OpCall& call) {
                    return static_cast<OpVariants&>(source).outputs(call);
                  }};
  rule.rows = {*this, [](RuleSource& source, const OpCall& call, const OpRule&) {
                 return static_cast<OpVariants&>(source).rows(call);
               }};
  if (rule.flops != nullptr) {
    rule.flops = {*this, [](RuleSource& source, std::span<const Shape> inputs, const OpCall& call) {
                    return static_cast<OpVariants&>(source).flops(inputs, call);
                  }};
  }
  if (rule.shape != nullptr) {
    rule.shape = {*this, [](RuleSource& source, std::span<const Shape> inputs, const OpCall& call,
                            KernelQuery& query) {
                    static_cast<OpVariants&>(source).set_shape(inputs, call, query);
                  }};
  }
  return rule;
}

const OpRule* OpVariants::base_of(std::string_view op) const {
  const auto found = by_op_.find(op);
  return found == by_op_.end() ? nullptr : &found->second->base;
}

std::optional<OpCall> OpVariants::base_call_of(const OpCall& call) const {
  const auto found = by_op_.find(call.op);
  return found == by_op_.end() ? std::nullopt : std::optional(base_call(*found->second, call));
}

std::string OpVariants::text() const {
  return "forms that DTensor of PyTorch " + std::string(torch_version(release_)) + " derives";
}

const OpRule& OpVariants::rule(std::string_view op) {
  const auto found = std::ranges::find(rules_, op, &OpRule::op);
  if (found == rules_.end())
    throw InputError(std::string(op) + ": has no derived rule; valid: the ops of the source");
  return *found;
}

std::vector<std::string_view> OpVariants::ops() {
  std::vector<std::string_view> ops;
  for (const auto& [op, variant] : by_op_) ops.push_back(op);
  return ops;
}

const OpVariants::Variant& OpVariants::variant_of(std::string_view op) const {
  const auto found = by_op_.find(op);
  SHARDLAB_CHECK(found != by_op_.end(), op, " is no derived form");
  return *found->second;
}

OpCall OpVariants::base_call(const Variant& variant, const OpCall& call) const {
  OpCall base = call;
  base.op = variant.base.op;
  const std::size_t outs = variant.out_tensors;
  const auto is_given = [](const TensorArg& arg) { return !arg.is_list && !arg.is_absent(); };
  const std::optional<OpSchema> schema = find_op_schema(variant.op);
  const auto tensors = std::ranges::count_if(
      schema->arguments, [](const SchemaArgument& argument) { return argument.is_tensor(); });
  const auto of_outs =
      base.inputs.end() - static_cast<std::ptrdiff_t>(std::min(outs, base.inputs.size()));
  const bool may_lack = std::ranges::any_of(schema->arguments, [](const SchemaArgument& argument) {
    return argument.kind == SchemaArgument::Kind::kOptionalTensor;
  });
  if ((!may_lack && std::ssize(base.inputs) != tensors) || base.inputs.size() < outs ||
      !std::all_of(of_outs, base.inputs.end(), is_given)) {
    throw InputError(call.op + ": takes its operands and, as the last arguments, " +
                     (outs == 1 ? "the out tensor" : std::to_string(outs) + " out tensors"));
  }
  base.inputs.resize(base.inputs.size() - outs);
  return base;
}

std::vector<TensorMeta> OpVariants::outputs(const OpCall& call) const {
  const Variant& variant = variant_of(call.op);
  const OpCall base = base_call(variant, call);
  std::vector<TensorMeta> results = variant.base.outputs(base);
  if (variant.out_tensors == 0) return results;
  if (results.size() != variant.out_tensors) {
    throw InputError(call.op + ": found " + std::to_string(variant.out_tensors) +
                     " out tensors for " + std::to_string(results.size()) +
                     " results; valid: one for each");
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TensorMeta& out = call.inputs[base.inputs.size() + i].tensors[0].meta;
    if (out.shape == results[i].shape) continue;
    throw InputError(call.op + ": out " + out.text() + " does not have the result's shape, " +
                     results[i].text());
  }
  return results;
}

double OpVariants::flops(std::span<const Shape> inputs, const OpCall& call) const {
  const Variant& variant = variant_of(call.op);
  return variant.base.flops(inputs.first(inputs.size() - variant.out_tensors),
                            base_call(variant, call));
}

void OpVariants::set_shape(std::span<const Shape> inputs, const OpCall& call,
                           KernelQuery& query) const {
  const Variant& variant = variant_of(call.op);
  variant.base.shape(inputs.first(inputs.size() - variant.out_tensors), base_call(variant, call),
                     query);
}

Rows OpVariants::rows(const OpCall& call) const {
  const Variant& variant = variant_of(call.op);
  Rows rows = variant.base.rows(base_call(variant, call), variant.base);
  for (Row& row : rows) {
    for (std::size_t i = 0; i < variant.out_tensors; ++i) row.push_back(RowEntry(row[i]));
  }
  return rows;
}

}  // namespace shardlab
