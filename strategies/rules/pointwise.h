// What the families of pointwise ops share: rows, shapes, dtypes, and rules that are made from
// words.
//
//   constexpr PointwiseOps kOps[] = {
//       {.words = "neg*", .dtensor = kNegation, .shardlab = kNegation, .outputs = ...}};
//   OP_RULES(pointwise){kPointwiseRules<kOps>};
//
// A word names an op without "aten.", and without the overload where that is "default". One that
// starts with "prims." names an op of that namespace. A mark at its end adds variants of the op:
//   add.Tensor~   add.Tensor and add_.Tensor
//   neg+          neg and neg.out
//   neg*          neg, neg_ and neg.out
//   eq.Tensor*    eq.Tensor, eq_.Tensor and eq.Tensor_out
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "strategies/rules/op_rule.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {

struct PointwiseOps {
  std::string_view words;
  std::span<const PartialRow> dtensor = {};   // the partial rows of DTensor's rule
  std::span<const PartialRow> shardlab = {};  // the partial rows of shardlab's rule
  RowsOf dtensor_rows = nullptr;              // used instead, if the rows depend on the call
  RowsOf shardlab_rows = nullptr;
  OutputsOf outputs = nullptr;
  RuleSets sets = kDTensor | kShardlab;
  ExcuseOf excuse = nullptr;
};

enum class ResultType : std::uint8_t {
  kPromoted,  // what the operands are promoted to, numbers included
  kFloat,     // the dtype of kPromoted, or f32 if that is not a floating point type
  kDouble,
  kTruth,   // b8
  kFirst,   // the dtype of the first tensor
  kChoice,  // what all tensors but the first are promoted to
  kCast,    // the dtype that the first argument names
};

// The dtype that the operands are promoted to. Tensors with dims take precedence over tensors
// without dims, and these over numbers. Source: PyTorch, "Tensor Attributes", type promotion.
[[nodiscard]] DType promoted_dtype(const OpCall& call, std::span<const TensorSpec* const> operands);
// The result of a pointwise op that takes at most `most` operands, not counting `out`. Throws
// InputError for more tensors, shapes that do not broadcast, or an `out` of another shape.
[[nodiscard]] TensorMeta pointwise_output(const OpCall& call, ResultType type, std::size_t most);
// A row of shards for each dim of the broadcast shape, then those partial rows of the rule that
// have as many inputs as the call.
[[nodiscard]] Rows pointwise_rows(const OpCall& call, const OpRule& rule);
[[nodiscard]] Rows pointwise_rows(const OpCall& call, std::span<const PartialRow> partial_rows);
// The tensor arguments without `out`. Throws InputError if there is none.
[[nodiscard]] boost::container::small_vector<const TensorSpec*, 4> pointwise_operands(
    const OpCall& call);
// The dim of a tensor that becomes `dim` of the broadcast shape, or -1 if the tensor lacks that dim
// or broadcasts it.
[[nodiscard]] int operand_dim(const Shape& shape, const Shape& common, int dim);
// One operation per element of the largest tensor.
[[nodiscard]] double pointwise_flops(std::span<const Shape> local, const OpCall& call);

// Throws InputError unless the tensor holds truth values.
void expect_mask(const OpCall& call, const TensorSpec& mask);

template <ResultType kType, std::size_t kMost>
std::vector<TensorMeta> outputs_as(const OpCall& call) {
  return {pointwise_output(call, kType, kMost)};
}

// How many of the last inputs are written to, judging by the overload's name.
[[nodiscard]] constexpr std::size_t out_tensors_of(std::string_view op) {
  const std::string_view overload = op.substr(op.rfind('.') + 1);
  const bool out = overload.ends_with("out") || overload == "out_mode" ||
                   overload == "grad_input" || overload.starts_with("Out");
  return out ? 1 : 0;
}

// -- Partial rows: output | inputs -----------------------------------------------------------

namespace partial_rows {

using rows::kAvg;
using rows::kMax;
using rows::kMin;
using rows::kR;
using rows::kSum;

inline constexpr PartialRow kAdditive[] = {
    {{kSum, kSum, kSum}, 3}, {{kAvg, kAvg, kAvg}, 3}, {{kAvg, kAvg, kR}, 3},
    {{kMax, kMax, kR}, 3},   {{kMin, kMin, kR}, 3},   {{kAvg, kR, kAvg}, 3},
};
// A sum keeps the order of both operands; a difference reverses that of the second.
inline constexpr PartialRow kSumOfTwo[] = {
    {{kSum, kSum, kSum}, 3}, {{kAvg, kAvg, kAvg}, 3}, {{kAvg, kAvg, kR}, 3}, {{kMax, kMax, kR}, 3},
    {{kMin, kMin, kR}, 3},   {{kAvg, kR, kAvg}, 3},   {{kMax, kR, kMax}, 3}, {{kMin, kR, kMin}, 3},
};
inline constexpr PartialRow kDifference[] = {
    {{kSum, kSum, kSum}, 3}, {{kAvg, kAvg, kAvg}, 3}, {{kAvg, kAvg, kR}, 3}, {{kMax, kMax, kR}, 3},
    {{kMin, kMin, kR}, 3},   {{kAvg, kR, kAvg}, 3},   {{kMin, kR, kMax}, 3}, {{kMax, kR, kMin}, 3},
};
// Rows of an operand plus a number, and of a number minus an operand.
inline constexpr PartialRow kShifted[] = {{{kAvg, kAvg}, 2}, {{kMax, kMax}, 2}, {{kMin, kMin}, 2}};
inline constexpr PartialRow kReflected[] = {
    {{kAvg, kAvg}, 2}, {{kMin, kMax}, 2}, {{kMax, kMin}, 2}};
// The first two rows serve calls whose other operand is a number.
inline constexpr PartialRow kMultiplicative[] = {
    {{kSum, kSum}, 2},     {{kAvg, kAvg}, 2},     {{kSum, kSum, kR}, 3},
    {{kAvg, kAvg, kR}, 3}, {{kSum, kR, kSum}, 3}, {{kAvg, kR, kAvg}, 3},
};
inline constexpr PartialRow kDivision[] = {
    {{kSum, kSum}, 2}, {{kAvg, kAvg}, 2}, {{kSum, kSum, kR}, 3}, {{kAvg, kAvg, kR}, 3}};
inline constexpr PartialRow kLinear[] = {{{kSum, kSum}, 2}, {{kAvg, kAvg}, 2}};
inline constexpr PartialRow kFirstLinear[] = {{{kSum, kSum, kR}, 3}, {{kAvg, kAvg, kR}, 3}};
inline constexpr PartialRow kNonDecreasing[] = {{{kMax, kMax}, 2}, {{kMin, kMin}, 2}};
inline constexpr PartialRow kNonIncreasing[] = {{{kMin, kMax}, 2}, {{kMax, kMin}, 2}};
// A falling function that is defined for positive numbers only. If the minimum of the parts is
// positive then all parts are, so the function may be applied to each of them. A positive maximum
// does not imply that.
inline constexpr PartialRow kDecreasingWherePositive[] = {{{kMax, kMin}, 2}};
// A rising function that is defined only from some number upwards. If it is defined for the minimum
// of the parts then it is defined for all of them.
inline constexpr PartialRow kRisingWhereDefined[] = {{{kMin, kMin}, 2}};
inline constexpr PartialRow kNegation[] = {
    {{kSum, kSum}, 2}, {{kAvg, kAvg}, 2}, {{kMin, kMax}, 2}, {{kMax, kMin}, 2}};
inline constexpr PartialRow kPreserveUnary[] = {
    {{kSum, kSum}, 2}, {{kAvg, kAvg}, 2}, {{kMax, kMax}, 2}, {{kMin, kMin}, 2}};
// The partials of rows::kPassThrough, in its order.
inline constexpr PartialRow kPassThroughUnary[] = {
    {{kSum, kSum}, 2}, {{kAvg, kAvg}, 2}, {{kMin, kMin}, 2}, {{kMax, kMax}, 2}};
inline constexpr PartialRow kPreserveBinary[] = {{{kSum, kSum, kSum}, 3},
                                                 {{kAvg, kAvg, kAvg}, 3},
                                                 {{kMax, kMax, kMax}, 3},
                                                 {{kMin, kMin, kMin}, 3}};
inline constexpr PartialRow kMonotone[] = {
    {{kMax, kMax, kR}, 3}, {{kMax, kR, kMax}, 3}, {{kMin, kMin, kR}, 3}, {{kMin, kR, kMin}, 3}};
inline constexpr PartialRow kMaxPreserving[] = {{{kMax, kMax, kR}, 3},
                                                {{kMax, kR, kMax}, 3},
                                                {{kMin, kMin, kR}, 3},
                                                {{kMin, kR, kMin}, 3},
                                                {{kMax, kMax, kMax}, 3}};
inline constexpr PartialRow kMinPreserving[] = {{{kMax, kMax, kR}, 3},
                                                {{kMax, kR, kMax}, 3},
                                                {{kMin, kMin, kR}, 3},
                                                {{kMin, kR, kMin}, 3},
                                                {{kMin, kMin, kMin}, 3}};

}  // namespace partial_rows

// -- Rules from words ------------------------------------------------------------------------

namespace pointwise_detail {

struct Form {
  std::string_view space = "aten.";
  std::string_view base;
  std::string_view overload = {};
  bool in_place = false;
  bool out = false;
};

// Calls use(form) for every op that the words name.
template <class Use>
constexpr void for_each_op(std::string_view words, Use&& use) {
  while (!words.empty()) {
    const std::size_t blank = words.find(' ');
    std::string_view word = words.substr(0, blank);
    words = blank == std::string_view::npos ? std::string_view() : words.substr(blank + 1);
    if (word.empty()) continue;
    const char mark = word.back();
    const bool marked = mark == '~' || mark == '+' || mark == '*';
    if (marked) word = word.substr(0, word.size() - 1);
    Form form;
    constexpr std::string_view kPrims = "prims.";
    if (word.starts_with(kPrims)) {
      form.space = kPrims;
      word.remove_prefix(kPrims.size());
    }
    const std::size_t dot = word.find('.');
    form.base = word.substr(0, dot);
    if (dot != std::string_view::npos) form.overload = word.substr(dot + 1);
    use(form);
    if (mark == '~' || mark == '*') use(Form{form.space, form.base, form.overload, true, false});
    if (mark == '+' || mark == '*') use(Form{form.space, form.base, form.overload, false, true});
  }
}

struct NameParts {
  std::array<std::string_view, 6> parts;
};
constexpr NameParts parts_of(const Form& form) {
  const std::string_view overload =
      form.overload.empty() ? (form.out ? "out" : "default") : form.overload;
  return {{form.space, form.base, form.in_place ? "_" : "", ".", overload,
           form.out && !form.overload.empty() ? "_out" : ""}};
}
constexpr std::size_t length_of(const Form& form) {
  std::size_t length = 0;
  for (const std::string_view part : parts_of(form).parts) length += part.size();
  return length;
}

struct Sizes {
  std::size_t characters = 0;
  std::size_t rules = 0;
};
// Whether one rule serves DTensor and shardlab alike.
constexpr bool is_shared(const PointwiseOps& ops) {
  return ops.dtensor.data() == ops.shardlab.data() && ops.dtensor_rows == ops.shardlab_rows;
}
constexpr Sizes sizes_of(std::span<const PointwiseOps> all) {
  Sizes sizes;
  for (const PointwiseOps& ops : all) {
    const bool both = ops.sets.intersects(kDTensor) && ops.sets.contains(kShardlab);
    for_each_op(ops.words, [&](const Form& form) {
      sizes.characters += length_of(form);
      sizes.rules += std::size_t{1} + (both && !is_shared(ops) ? 1U : 0U);
    });
  }
  return sizes;
}

// The full names of all ops, one after the other without separators.
template <const auto& kOps>
constexpr auto names_of() {
  std::array<char, sizes_of(kOps).characters> names{};
  std::size_t end = 0;
  for (const PointwiseOps& ops : kOps) {
    for_each_op(ops.words, [&](const Form& form) {
      for (const std::string_view part : parts_of(form).parts) {
        for (const char c : part) names[end++] = c;
      }
    });
  }
  return names;
}
template <const auto& kOps>
inline constexpr auto kNames = names_of<kOps>();

template <const auto& kOps>
constexpr auto rules_of() {
  std::array<OpRule, sizes_of(kOps).rules> rules{};
  std::size_t count = 0;
  std::size_t begin = 0;
  for (const PointwiseOps& ops : kOps) {
    for_each_op(ops.words, [&](const Form& form) {
      OpRule rule;
      rule.op = std::string_view(kNames<kOps>.data() + begin, length_of(form));
      begin += length_of(form);
      rule.outputs = ops.outputs;
      rule.uneven_in = kEveryRuleSet;
      rule.out_tensors = out_tensors_of(rule.op);
      rule.excuse = ops.excuse;
      rule.flops = pointwise_flops;
      rule.is_pointwise = true;
      const bool in_dtensor = ops.sets.intersects(kDTensor);
      const bool in_shardlab = ops.sets.contains(kShardlab);
      constexpr RowsOf kListed = pointwise_rows;
      if (in_dtensor) {
        rule.sets = is_shared(ops) ? ops.sets : ops.sets.among(kDTensor);
        rule.rows = ops.dtensor_rows != nullptr ? ops.dtensor_rows : kListed;
        rule.partial_rows = ops.dtensor;
        rules[count++] = rule;
      }
      if (in_shardlab && !(in_dtensor && is_shared(ops))) {
        rule.sets = kShardlab;
        rule.rows = ops.shardlab_rows != nullptr ? ops.shardlab_rows : kListed;
        rule.partial_rows = ops.shardlab;
        rules[count++] = rule;
      }
    });
  }
  return rules;
}

}  // namespace pointwise_detail

// The rules of both arrays.
template <std::size_t kFirst, std::size_t kSecond>
constexpr std::array<OpRule, kFirst + kSecond> joined_rules(const std::array<OpRule, kFirst>& first,
                                                            const OpRule (&second)[kSecond]) {
  std::array<OpRule, kFirst + kSecond> all{};
  for (std::size_t i = 0; i < kFirst; ++i) all[i] = first[i];
  for (std::size_t i = 0; i < kSecond; ++i) all[kFirst + i] = second[i];
  return all;
}

// One rule for each op, or two where DTensor's and shardlab's differ.
template <const auto& kOps>
inline constexpr auto kPointwiseRules = pointwise_detail::rules_of<kOps>();

}  // namespace shardlab
