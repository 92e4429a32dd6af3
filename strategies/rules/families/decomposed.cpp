// Ops that PyTorch 2.13.0 has no rules for: it shards them through their decomposition
// (decomposition.h). That finds fewer rows than are right, and also wrong ones where the program
// counts elements: a mean's gradient is divided by the global count in the program, but by the
// local count when the op runs on a shard. The rule set shardlab lists the right rows. Source:
// PyTorch 2.13.0, _decompositions.py.
#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/decomposition.h"
#include "strategies/rules/pointwise.h"
#include "strategies/rules/reduction_args.h"
#include "strategies/rules/rule_rows.h"

namespace shardlab {
namespace decomposed_rules {

using rows::kAvg;
using rows::kMax;
using rows::kMin;
using rows::kR;
using rows::kSum;

constexpr Placement kProduct = Placement::partial(ReduceOp::kProduct);

Shape common_shape(const OpCall& call) {
  const auto tensors = call.tensors();
  return broadcast_shape({tensors.data(), tensors.size()}, call.op);
}

// -- Rows of the rule set shardlab ----------------------------------------------------------------

void add_partials(Rows& all, const OpCall& call, std::span<const PartialRow> partials) {
  for (const PartialRow& partial : partials) {
    if (partial.size != 1 + call.tensors().size()) continue;
    all.emplace_back(partial.entries.begin(), partial.entries.begin() + partial.size);
  }
}

// Adds a row for each dim of the common shape, on which all inputs are sharded. output(d) is the
// entry of the outputs in the row that shards dim d.
template <class Output>
void add_shards(Rows& all, const OpCall& call, std::size_t outputs, Output&& output) {
  const Shape common = common_shape(call);
  for (int d = 0; d < static_cast<int>(common.size()); ++d) {
    Row row(outputs, output(d));
    for (const TensorSpec* tensor : call.tensors()) {
      row.push_back(rows::shard_or_replicate(operand_dim(tensor->meta.shape, common, d)));
    }
    all.push_back(row);
  }
}

Rows elementwise_rows(const OpCall& call, const OpRule& rule) {
  Rows all;
  add_shards(all, call, rule.outputs(call).size(), &RowEntry::any_shard);
  add_partials(all, call, rule.partial_rows);
  return all;
}

enum Reduction : std::int64_t { kNone = 0, kMean = 1 };

// The losses of the shards are added up or averaged, as the argument at kReductionArg asks.
template <std::size_t kReductionArg>
Rows loss_rows(const OpCall& call, const OpRule& rule) {
  const std::int64_t reduction = call.integer_arg(kReductionArg, kMean);
  Rows all;
  add_shards(all, call, 1, [&](int dim) {
    if (reduction == kNone) return RowEntry::any_shard(dim);
    return RowEntry(reduction == kMean ? kAvg : kSum);
  });
  add_partials(all, call, rule.partial_rows);
  return all;
}

// The average of local averages is the global average only where all shards have the same size.
template <std::size_t kReductionArg>
bool mean_is_even(const OpCall& call, std::span<const Placements> inputs, const DeviceMesh& mesh) {
  if (call.integer_arg(kReductionArg, kMean) != kMean) return true;
  const auto tensors = call.tensors();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (int d = 0; d < tensors[i]->meta.ndim(); ++d) {
      if (!is_evenly_shardable_on_dim(tensors[i]->meta.shape, inputs[i], mesh, d)) return false;
    }
  }
  return true;
}

// For a mean, a rank would divide the gradient by its local number of elements, so there are no
// rows with shards.
template <std::size_t kReductionArg>
Rows gradient_rows(const OpCall& call, const OpRule& rule) {
  Rows all;
  if (call.integer_arg(kReductionArg, kMean) != kMean) {
    add_shards(all, call, 1, &RowEntry::any_shard);
  }
  add_partials(all, call, rule.partial_rows);
  return all;
}

// Lets maxima and minima of the gradient pass, for ops that multiply it by a factor that is never
// negative.
void add_extremes(Rows& all) {
  all.push_back({kMax, kMax, kR});
  all.push_back({kMin, kMin, kR});
}

Rows softplus_rows(const OpCall& call, const OpRule& rule) {
  Rows all = elementwise_rows(call, rule);
  add_extremes(all);
  return all;
}

Rows leaky_relu_rows(const OpCall& call, const OpRule& rule) {
  Rows all = elementwise_rows(call, rule);
  if (call.number_arg(0, 0.01) >= 0.0) add_extremes(all);
  return all;
}

Rows elu_rows(const OpCall& call, const OpRule& rule) {
  Rows all = elementwise_rows(call, rule);
  const double scale = call.number_arg(1, 1.0);
  const double below = call.number_arg(0, 1.0) * scale * call.number_arg(2, 1.0);
  const bool by_result = call.boolean_arg(3, false);  // if true, the factor may have either sign
  if (scale >= 0.0 && below >= 0.0 && !by_result) add_extremes(all);
  return all;
}

Rows rsub_rows(const OpCall& call, const OpRule& rule) {
  Rows all = elementwise_rows(call, rule);
  const bool falls = call.number_arg(0, 1.0) >= 0.0;
  all.push_back({kMax, falls ? kMin : kMax, kR});
  all.push_back({kMin, falls ? kMax : kMin, kR});
  return all;
}

// Adds rows in which one argument is an average, or a sum if the op is `linear` in it, and the
// others are replicated.
void add_linear(Rows& all, const OpCall& call, std::size_t argument, bool linear) {
  if (call.tensor(argument) == nullptr) return;
  for (const Placement& partial : {kSum, kAvg}) {
    if (partial == kSum && !linear) continue;
    Row row(1 + call.tensors().size(), kR);
    row[0] = partial;
    row[1 + call.position(argument)] = partial;
    all.push_back(row);
  }
}

std::string_view cross_entropy_excuse(const OpCall&, const Row& row) {
  const Placement& out = row[0].placement();
  const bool extreme = out == kMax || out == kMin;
  return extreme ? "whether the loss rises with the target depends on the values of self" : "";
}

// The tensors are self, target and weight.
Rows cross_entropy_rows(const OpCall& call, const OpRule& rule) {
  Rows all = loss_rows<0>(call, rule);
  add_linear(all, call, 1, false);
  add_linear(all, call, 2, true);
  return all;
}

// The tensors are the gradient, self, target and weight.
Rows cross_entropy_gradient_rows(const OpCall& call, const OpRule& rule) {
  Rows all = gradient_rows<0>(call, rule);
  add_linear(all, call, 0, true);
  add_linear(all, call, 2, false);
  add_linear(all, call, 3, true);
  return all;
}

// The tensors are self, target, weight and the weight of positives.
Rows logits_rows(const OpCall& call, const OpRule& rule) {
  Rows all = cross_entropy_rows(call, rule);
  add_linear(all, call, 3, false);
  return all;
}

// The --args are the dim and keepdim.
Rows aminmax_rows(const OpCall& call, const OpRule&) {
  const TensorMeta& meta = call.required_tensor(0).meta;
  const ReducedDims reduction = reduced_dims(call, meta.ndim());
  Rows all;
  for (int d = 0; d < meta.ndim(); ++d) {
    const RowEntry shard = RowEntry::any_shard(d);
    if (reduction.reduced[to_index(d)]) {
      all.push_back({kMin, kMax, shard});
    } else {
      const RowEntry kept = RowEntry::any_shard(reduction.output_dim(d));
      all.push_back({kept, kept, shard});
    }
  }
  return all;
}

// An empty shard has neither a minimum nor a maximum.
bool every_shard_has_rows(const OpCall& call, std::span<const Placements> inputs,
                          const DeviceMesh& mesh) {
  const Shape& shape = call.tensors()[0]->meta.shape;
  const ReducedDims reduction = reduced_dims(call, static_cast<int>(shape.size()));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const int dim = static_cast<int>(d);
    const bool empty = local_extents(shape, dim, Layout(inputs[0]), mesh).front() == 0;
    if (reduction.reduced[d] && empty) return false;
  }
  return true;
}

// -- Partial rows: output | inputs -------------------------------------------------------------

// The op is linear in its first input, the gradient of the output.
constexpr PartialRow kLinearInFirst[] = {{{kSum, kSum, kR}, 3},
                                         {{kAvg, kAvg, kR}, 3},
                                         {{kSum, kSum, kR, kR}, 4},
                                         {{kAvg, kAvg, kR, kR}, 4}};
// The op is affine in the slope, which is the second input. Where the first input is negative, the
// result falls as the slope rises.
constexpr PartialRow kSlope[] = {
    {{kAvg, kR, kAvg}, 3}, {{kMax, kR, kMin}, 3}, {{kMin, kR, kMax}, 3}};
// The op is twice the difference of the last two inputs, times the gradient.
constexpr PartialRow kSquaredGradient[] = {{{kSum, kSum, kR, kR}, 4},   {{kAvg, kAvg, kR, kR}, 4},
                                           {{kSum, kR, kSum, kSum}, 4}, {{kAvg, kR, kAvg, kAvg}, 4},
                                           {{kAvg, kR, kAvg, kR}, 4},   {{kAvg, kR, kR, kAvg}, 4}};
constexpr PartialRow kNonDecreasing[] = {{{kMax, kMax}, 2}, {{kMin, kMin}, 2}};
constexpr PartialRow kDifference[] = {{{kSum, kSum, kSum}, 3}, {{kAvg, kAvg, kAvg}, 3},
                                      {{kAvg, kAvg, kR}, 3},   {{kAvg, kR, kAvg}, 3},
                                      {{kMax, kR, kMax}, 3},   {{kMin, kR, kMin}, 3}};
// Each element of the result is an element of the first or of the last input.
constexpr PartialRow kEither[] = {{{kSum, kSum, kR, kSum}, 4},
                                  {{kAvg, kAvg, kR, kAvg}, 4},
                                  {{kMax, kMax, kR, kMax}, 4},
                                  {{kMin, kMin, kR, kMin}, 4},
                                  {{kProduct, kProduct, kR, kProduct}, 4},
                                  {{kAvg, kAvg, kR, kR}, 4},
                                  {{kAvg, kR, kR, kAvg}, 4},
                                  {{kMax, kMax, kR, kR}, 4},
                                  {{kMax, kR, kR, kMax}, 4},
                                  {{kMin, kMin, kR, kR}, 4},
                                  {{kMin, kR, kR, kMin}, 4}};

// PyTorch's decomposition of this loss accepts the mean as a number but no other reduction.
Rows mean_alone_rows(const OpCall& call, const OpRule& rule) {
  if (call.integer_arg(1, kMean) != kMean) {
    throw InputError(call.op + ": PyTorch 2.13.0 refuses a reduction other than 1 (mean)");
  }
  return decomposed_rows(call, rule);
}

// -- Rules --------------------------------------------------------------------------------------

constexpr OpRule decomposed(std::string_view op) {
  return {.op = op,
          .sets = kDTensor,
          .outputs = decomposed_outputs,
          .rows = decomposed_rows,
          .flops = pointwise_flops};
}

constexpr OpRule as_rows(std::string_view op, RowsOf rows,
                         std::span<const PartialRow> partials = {}) {
  return {.op = op,
          .sets = kShardlab,
          .outputs = decomposed_outputs,
          .rows = rows,
          .partial_rows = partials,
          .flops = pointwise_flops};
}

template <std::size_t kReductionArg = 0>
constexpr OpRule loss(std::string_view op, std::span<const PartialRow> partials = {}) {
  OpRule rule = as_rows(op, loss_rows<kReductionArg>, partials);
  rule.filter = mean_is_even<kReductionArg>;
  return rule;
}

template <std::size_t kReductionArg = 0>
constexpr OpRule gradient(std::string_view op, std::span<const PartialRow> partials) {
  return as_rows(op, gradient_rows<kReductionArg>, partials);
}

constexpr OpRule with_excuse(OpRule rule, std::string_view (*excuse)(const OpCall&, const Row&)) {
  rule.excuse = excuse;
  return rule;
}

constexpr OpRule with_filter(OpRule rule, bool (*filter)(const OpCall&, std::span<const Placements>,
                                                         const DeviceMesh&)) {
  rule.filter = filter;
  return rule;
}

constexpr OpRule kRules[] = {
    decomposed("aten._prelu_kernel.default"),
    as_rows("aten._prelu_kernel.default", elementwise_rows, kSlope),
    decomposed("aten.aminmax.default"),
    with_filter(as_rows("aten.aminmax.default", aminmax_rows), every_shard_has_rows),
    decomposed("aten.binary_cross_entropy.default"),
    with_excuse(with_filter(as_rows("aten.binary_cross_entropy.default", cross_entropy_rows),
                            mean_is_even<0>),
                cross_entropy_excuse),
    decomposed("aten.binary_cross_entropy_backward.default"),
    as_rows("aten.binary_cross_entropy_backward.default", cross_entropy_gradient_rows),
    decomposed("aten.binary_cross_entropy_with_logits.default"),
    with_filter(as_rows("aten.binary_cross_entropy_with_logits.default", logits_rows),
                mean_is_even<0>),
    decomposed("aten.elu_backward.default"),
    as_rows("aten.elu_backward.default", elu_rows, kLinearInFirst),
    decomposed("aten.hardswish.default"),
    as_rows("aten.hardswish.default", elementwise_rows),
    decomposed("aten.huber_loss.default"),
    loss("aten.huber_loss.default"),
    decomposed("aten.huber_loss_backward.default"),
    gradient("aten.huber_loss_backward.default", kLinearInFirst),
    decomposed("aten.l1_loss.default"),
    loss("aten.l1_loss.default"),
    decomposed("aten.leaky_relu_backward.default"),
    as_rows("aten.leaky_relu_backward.default", leaky_relu_rows, kLinearInFirst),
    decomposed("aten.log_sigmoid_forward.default"),
    as_rows("aten.log_sigmoid_forward.default", elementwise_rows),
    {.op = "aten.margin_ranking_loss.default",
     .sets = kDTensor,
     .outputs = decomposed_outputs,
     .rows = mean_alone_rows,
     .flops = pointwise_flops},
    loss<1>("aten.margin_ranking_loss.default"),
    decomposed("aten.masked_fill.Tensor"),
    as_rows("aten.masked_fill.Tensor", elementwise_rows, kEither),
    decomposed("aten.mse_loss.default"),
    loss("aten.mse_loss.default"),
    decomposed("aten.mse_loss_backward.default"),
    gradient("aten.mse_loss_backward.default", kSquaredGradient),
    decomposed("aten.rsub.Tensor"),
    as_rows("aten.rsub.Tensor", rsub_rows, kDifference),
    decomposed("aten.smooth_l1_loss.default"),
    loss("aten.smooth_l1_loss.default"),
    decomposed("aten.smooth_l1_loss_backward.default"),
    gradient("aten.smooth_l1_loss_backward.default", kLinearInFirst),
    decomposed("aten.soft_margin_loss.default"),
    loss("aten.soft_margin_loss.default"),
    decomposed("aten.soft_margin_loss_backward.default"),
    gradient("aten.soft_margin_loss_backward.default", kLinearInFirst),
    decomposed("aten.softplus_backward.default"),
    as_rows("aten.softplus_backward.default", softplus_rows, kLinearInFirst),
    decomposed("aten.special_ndtr.default"),
    as_rows("aten.special_ndtr.default", elementwise_rows, kNonDecreasing),
};

}  // namespace decomposed_rules

OP_RULES(decomposed){decomposed_rules::kRules};

}  // namespace shardlab
