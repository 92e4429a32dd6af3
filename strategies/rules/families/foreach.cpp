// Ops on lists of tensors. Each element of the lists is a call of its own, also in the fused
// optimizers. Source: PyTorch 2.13.0, _ops/_pointwise_ops.py; single_dim_strategy.py (which op
// stands for the elements of a list, and what the rows of an op without outputs are); autogen.py.
#include <algorithm>

#include "costmodel/base/error.h"
#include "strategies/rules/pointwise.h"
#include "strategies/rules/pointwise_choices.h"
#include "strategies/rules/rule_rows.h"

namespace shardlab {
namespace foreach_rules {

using namespace partial_rows;

// -- Without outputs -------------------------------------------------------------------------
//
// If no op on single tensors stands for the elements of an in-place op, PyTorch derives its rows
// from its own schema. That schema returns nothing, so the rows have no outputs.

std::vector<TensorMeta> no_outputs(const OpCall& call) {
  const auto tensors = pointwise_operands(call);
  static_cast<void>(broadcast_shape({tensors.data(), tensors.size()}, call.op));
  return {};
}

Rows rows_of_inputs(const OpCall& call, const OpRule& rule) {
  Rows rows = pointwise_rows(call, rule);
  for (Row& row : rows) row.erase(row.begin());
  return rows;
}

// -- Numbers in a tensor ---------------------------------------------------------------------
//
// _foreach_addcdiv_.Tensor and _foreach_addcmul_.Tensor take a last tensor that has one number for
// each element of the lists. PyTorch 2.13.0 broadcasts it with the elements.

OpCall without_last_tensor(const OpCall& call) {
  if (call.inputs.size() != 4) {
    throw InputError(call.op + ": takes 4 tensor arguments, found " +
                     std::to_string(call.inputs.size()));
  }
  OpCall rest = call;
  rest.inputs.pop_back();
  return rest;
}
std::vector<TensorMeta> outputs_besides_numbers(const OpCall& call) {
  return {pointwise_output(without_last_tensor(call), ResultType::kPromoted, 3)};
}
template <RowsOf kRows>
Rows rows_besides_numbers(const OpCall& call, const OpRule& rule) {
  Rows rows = kRows(without_last_tensor(call), rule);
  for (Row& row : rows) row.push_back(RowEntry(kR));
  // The op is also linear in the number.
  for (const auto& [self, number] : {std::pair(kSum, kSum), {kAvg, kAvg}, {kR, kAvg}}) {
    Row row(5, RowEntry(kR));
    row[0] = RowEntry(number);
    row[1] = RowEntry(self);
    row[4] = RowEntry(number);
    rows.push_back(row);
  }
  return rows;
}

// -- Zeros -----------------------------------------------------------------------------------

constexpr PartialRow kZeros[] = {
    {{kSum, kSum}, 2},
    {{kAvg, kAvg}, 2},
    {{kMax, kMax}, 2},
    {{kMin, kMin}, 2},
    {{Placement::partial(ReduceOp::kProduct), Placement::partial(ReduceOp::kProduct)}, 2}};

constexpr PointwiseOps kOps[] = {
    {.words = "_foreach_add.Tensor~ _foreach_add.List~",
     .dtensor = kAdditive,
     .shardlab_rows = added_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "_foreach_sub.List~",
     .dtensor = kAdditive,
     .shardlab_rows = subtracted_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "_foreach_div.Tensor~ _foreach_div.List~",
     .dtensor = kDivision,
     .shardlab_rows = divided_rows,
     .outputs = outputs_as<ResultType::kFloat, 2>,
     .excuse = for_some_values},
    {.words = "_foreach_div.ScalarList~ _foreach_div.Scalar~",
     .dtensor = kLinear,
     .shardlab_rows = divided_rows,
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = for_some_values},
    {.words = "_foreach_mul.ScalarList~ _foreach_mul.Scalar~",
     .dtensor = kLinear,
     .shardlab_rows = scaled_rows,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "_foreach_clamp_min.List~ _foreach_maximum.List~",
     .dtensor = kMaxPreserving,
     .shardlab = kMaxPreserving,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "_foreach_clamp_max.List~ _foreach_minimum.List~",
     .dtensor = kMinPreserving,
     .shardlab = kMinPreserving,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "_foreach_mul.Tensor~ _foreach_mul.List~",
     .dtensor = kMultiplicative,
     .shardlab_rows = scaled_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "_foreach_neg~",
     .dtensor = kNegation,
     .shardlab = kNegation,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "_foreach_atan~ _foreach_erf~ _foreach_exp~ _foreach_expm1~ _foreach_sigmoid~ "
              "_foreach_sinh~ _foreach_tanh~",
     .dtensor = kNonDecreasing,
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kFloat, 1>},
    {.words = "_foreach_ceil~ _foreach_clamp_max_.Scalar _foreach_clamp_min_.Scalar "
              "_foreach_floor~ _foreach_round~ _foreach_sign~ _foreach_trunc~",
     .dtensor = kNonDecreasing,
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "_foreach_erfc~",
     .dtensor = kNonIncreasing,
     .shardlab = kNonIncreasing,
     .outputs = outputs_as<ResultType::kFloat, 1>},
    {.words = "_foreach_rsqrt~",
     .shardlab = kDecreasingWherePositive,
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = where_defined},
    {.words = "_foreach_clamp_max.Scalar _foreach_clamp_max.ScalarList~ _foreach_clamp_min.Scalar "
              "_foreach_clamp_min.ScalarList~",
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "_foreach_frac~", .outputs = outputs_as<ResultType::kFirst, 1>},
    {.words = "_foreach_cos~ _foreach_cosh~ _foreach_reciprocal~ _foreach_sin~ _foreach_tan~",
     .outputs = outputs_as<ResultType::kFloat, 1>},
    {.words = "_foreach_acos~ _foreach_asin~ _foreach_lgamma~",
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = where_defined},
    {.words = "_foreach_abs~", .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "_foreach_clone",
     .shardlab = kPreserveUnary,
     .outputs = outputs_as<ResultType::kFirst, 1>,
     .sets = rows::kBeforeRows | kShardlab},
    {.words = "_foreach_clone",
     .dtensor = kPassThroughUnary,
     .outputs = outputs_as<ResultType::kFirst, 1>,
     .sets = rows::kSinceRows},
    {.words = "_foreach_log~ _foreach_log10~ _foreach_log1p~ _foreach_log2~ _foreach_sqrt~",
     .shardlab = kRisingWhereDefined,
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = where_defined},
    {.words = "_foreach_add.ScalarList~ _foreach_add.Scalar~",
     .shardlab_rows = added_rows,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "_foreach_lerp.ScalarList~ _foreach_lerp.Scalar~",
     .shardlab_rows = lerp_rows,
     .outputs = outputs_as<ResultType::kFirst, 2>},
    {.words = "_foreach_lerp.List~",
     .shardlab_rows = lerp_rows,
     .outputs = outputs_as<ResultType::kFirst, 3>},
    {.words = "_foreach_pow.ScalarAndTensor _foreach_pow.ScalarList~ _foreach_pow.Scalar~",
     .shardlab_rows = power_rows,
     .outputs = outputs_as<ResultType::kPromoted, 1>,
     .excuse = where_defined},
    {.words = "_foreach_pow.List~",
     .shardlab_rows = power_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>,
     .excuse = where_defined},
    {.words = "_foreach_sub.ScalarList~ _foreach_sub.Scalar~",
     .shardlab_rows = subtracted_rows,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "_foreach_zero_", .shardlab = kZeros, .outputs = outputs_as<ResultType::kFirst, 1>},
    {.words = "_foreach_addcmul.Scalar",
     .shardlab_rows = added_product_rows,
     .outputs = outputs_as<ResultType::kPromoted, 3>},
    {.words = "_foreach_addcmul_.Scalar _foreach_addcmul_.ScalarList",
     .shardlab_rows = added_product_rows,
     .outputs = outputs_as<ResultType::kPromoted, 3>,
     .sets = kShardlab},
    {.words = "_foreach_addcmul_.Tensor",
     .shardlab_rows = rows_besides_numbers<added_product_rows>,
     .outputs = outputs_besides_numbers,
     .sets = kShardlab},
    {.words = "_foreach_addcdiv_.Scalar _foreach_addcdiv_.ScalarList",
     .shardlab_rows = added_quotient_rows,
     .outputs = outputs_as<ResultType::kPromoted, 3>,
     .sets = kShardlab},
    {.words = "_foreach_addcdiv_.Tensor",
     .shardlab_rows = rows_besides_numbers<added_quotient_rows>,
     .outputs = outputs_besides_numbers,
     .sets = kShardlab},
    {.words = "_foreach_addcdiv_.Tensor _foreach_addcmul_.Tensor",
     .dtensor_rows = rows_of_inputs,
     .outputs = no_outputs,
     .sets = kDTensor},
    {.words = "_foreach_addcdiv_.Scalar _foreach_addcdiv_.ScalarList "
              "_foreach_addcmul_.Scalar _foreach_addcmul_.ScalarList",
     .dtensor_rows = rows_of_inputs,
     .outputs = no_outputs,
     .sets = rows::kBeforeRows},
    // PyTorch since 2.14 takes the rows of addcdiv and addcmul for all of these.
    {.words = "_foreach_addcdiv_.Scalar _foreach_addcdiv_.ScalarList "
              "_foreach_addcmul_.Scalar _foreach_addcmul_.ScalarList "
              "_foreach_addcdiv.Scalar _foreach_addcdiv.ScalarList _foreach_addcmul.ScalarList",
     .outputs = outputs_as<ResultType::kPromoted, 3>,
     .sets = rows::kSinceRows},
};

// -- _amp_foreach_non_finite_check_and_unscale_ ----------------------------------------------

void expect_unscale(const OpCall& call) {
  if (call.inputs.size() == 3 && call.tensors().size() >= 3) return;
  throw InputError(call.op + ": takes 3 tensor arguments, all of them given, found " +
                   std::to_string(call.inputs.size()) + " with " +
                   std::to_string(call.tensors().size()) + " tensors");
}

// The outputs are the element, and whether any of its numbers is not finite. Each rank checks its
// own shard.
std::vector<TensorMeta> unscale_outputs(const OpCall& call) {
  expect_unscale(call);
  TensorMeta self = call.tensors()[0]->meta;
  TensorMeta found = call.tensors()[1]->meta;
  self.strides.clear();
  found.strides.clear();
  return {self, found};
}
Rows unscale_rows(const OpCall& call, const OpRule&) {
  expect_unscale(call);
  Rows rows;
  for (int dim = 0; dim < call.tensors()[0]->meta.ndim(); ++dim) {
    Row row(5, RowEntry::any_shard(dim));
    row[1] = RowEntry(kMax);
    row[3] = RowEntry(kMax);
    row[4] = RowEntry(kR);
    rows.push_back(row);
  }
  return rows;
}

std::string_view of_finite_parts(const OpCall&, const Row& row) {
  const Placement& elements = row[2].placement();
  if (elements.is_partial()) return "parts that are finite may add up to a value that is not";
  if (elements.is_shard_like())
    return "a rank that finds a value in its shard that is not finite must let the other ranks "
           "know";
  return "if the elements are replicated, every rank finds the same, so found_inf is replicated "
         "too";
}

// -- Fused optimizers ------------------------------------------------------------------------
//
// There are six lists of tensors: parameters, gradients, first moments, second moments, largest
// second moments (only with amsgrad) and steps, which have no dims. lr (a tensor in the overload
// tensor_lr), grad_scale and found_inf are replicated.

constexpr std::size_t kOptimizerLists = 6;

boost::container::small_vector<const TensorSpec*, 6> listed_tensors(const OpCall& call) {
  boost::container::small_vector<const TensorSpec*, 6> tensors;
  for (std::size_t i = 0; i < std::min(kOptimizerLists, call.inputs.size()); ++i) {
    for (const TensorSpec& tensor : call.inputs[i].tensors) tensors.push_back(&tensor);
  }
  bool given = call.inputs.size() >= kOptimizerLists;
  for (const std::size_t i : {0U, 1U, 2U, 3U, 5U}) given = given && !call.inputs[i].tensors.empty();
  if (!given) {
    throw InputError(call.op + ": takes " + std::to_string(kOptimizerLists) +
                     " tensor lists (the fifth may be none), found " +
                     std::to_string(call.inputs.size()) + " with " +
                     std::to_string(tensors.size()) + " tensors");
  }
  return tensors;
}

// The outputs are the updated parameters, gradients, moments and largest second moments.
std::vector<TensorMeta> optimizer_outputs(const OpCall& call) {
  const auto tensors = listed_tensors(call);
  static_cast<void>(broadcast_shape({tensors.data(), tensors.size()}, call.op));
  std::vector<TensorMeta> outputs;
  for (std::size_t i = 0; i < 5; ++i) {
    const TensorArg& list = call.inputs[i];
    outputs.push_back((list.tensors.empty() ? call.inputs[3] : list).tensors[0].meta);
    outputs.back().strides.clear();
  }
  return outputs;
}
std::vector<TensorMeta> no_optimizer_outputs(const OpCall& call) {
  static_cast<void>(optimizer_outputs(call));
  return {};
}

template <std::size_t kOutputs>
Rows optimizer_rows(const OpCall& call, const OpRule&) {
  const auto tensors = listed_tensors(call);
  const Shape common = broadcast_shape({tensors.data(), tensors.size()}, call.op);
  Rows rows;
  for (int dim = 0; dim < static_cast<int>(common.size()); ++dim) {
    Row row(kOutputs, RowEntry::any_shard(dim));
    for (const TensorSpec* tensor : tensors) {
      row.push_back(rows::shard_or_replicate(operand_dim(tensor->meta.shape, common, dim)));
    }
    row.resize(kOutputs + call.tensors().size(), RowEntry(kR));
    rows.push_back(row);
  }
  return rows;
}

constexpr OpRule optimizer(std::string_view op, RuleSets sets, OutputsOf outputs, RowsOf rows) {
  return {.op = op,
          .sets = sets,
          .outputs = outputs,
          .rows = rows,
          .uneven_in = kEveryRuleSet,
          .excuse = of_whole_parameters,
          .flops = pointwise_flops};
}
constexpr OpRule functional(std::string_view op) {
  return optimizer(op, kDTensor | kShardlab, optimizer_outputs, optimizer_rows<5>);
}
constexpr OpRule in_place(std::string_view op) {
  return optimizer(op, kDTensor, no_optimizer_outputs, optimizer_rows<0>);
}
// In the rule set shardlab an op's outputs are the tensors that it writes, even if its schema
// returns nothing.
constexpr OpRule in_place_with_outputs(std::string_view op) {
  return optimizer(op, kShardlab, optimizer_outputs, optimizer_rows<5>);
}

constexpr OpRule kOtherRules[] = {
    optimizer("aten._amp_foreach_non_finite_check_and_unscale_.default", kDTensor, no_outputs,
              rows_of_inputs),
    {.op = "aten._amp_foreach_non_finite_check_and_unscale_.default",
     .sets = kShardlab,
     .outputs = unscale_outputs,
     .rows = unscale_rows,
     .uneven_in = kEveryRuleSet,
     .excuse = of_finite_parts,
     .flops = pointwise_flops},
    functional("aten._fused_adam.default"),
    functional("aten._fused_adam.tensor_lr"),
    in_place("aten._fused_adam_.default"),
    in_place_with_outputs("aten._fused_adam_.default"),
    in_place("aten._fused_adam_.tensor_lr"),
    in_place_with_outputs("aten._fused_adam_.tensor_lr"),
    functional("aten._fused_adamw.default"),
    functional("aten._fused_adamw.tensor_lr"),
    in_place("aten._fused_adamw_.default"),
    in_place_with_outputs("aten._fused_adamw_.default"),
    in_place("aten._fused_adamw_.tensor_lr"),
    in_place_with_outputs("aten._fused_adamw_.tensor_lr"),
};

constexpr auto kRules = joined_rules(kPointwiseRules<kOps>, kOtherRules);

}  // namespace foreach_rules

OP_RULES(foreach){foreach_rules::kRules};

}  // namespace shardlab
