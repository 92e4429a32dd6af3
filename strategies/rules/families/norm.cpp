// Layer, rms, batch and group norms and their backwards. The dims that are not normalised may be
// sharded; for a batch norm these are the channels. The rule set shardlab adds partials, since
// outputs are linear in weight and bias and gradients in the output's gradient, and shards of any
// dim of a batch norm that does not train. One that trains has no shards of the batch, since each
// rank would normalise by the statistics of its own shard. Source: PyTorch 2.13.0,
// _ops/_math_ops.py (layer_norm_single_dim_strategy and its neighbours, batch_norm_strategy,
// batch_norm_backward_strategy, group_norm_strategy), which has no rule for
// _native_batch_norm_legit_functional, the form that exported programs have.
#include <algorithm>
#include <utility>

#include "costmodel/base/error.h"
#include "strategies/rules/norm_args.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace norm_rules {

using namespace rows;
using Kind = NormArgs::Kind;

// A row by the roles of the tensors. Tensors that the call lacks get no entry.
struct NormRow {
  RowEntry output = kR;      // the output, or in a backward the gradient of the input
  RowEntry statistics = kR;  // mean and rstd, whether they are outputs or inputs
  RowEntry affine_gradient = kR;
  RowEntry bias_gradient = kR;
  RowEntry gradient = kR;
  RowEntry input = kR;
  RowEntry weight = kR;
  RowEntry bias = kR;
  RowEntry running = kR;
};

// Which gradients a backward returns: of the input, the weight and the bias. Layer and rms norms
// return none for a weight or bias that is not given.
std::array<bool, 3> gradients_of(const OpCall& call) {
  const NormArgs& args = norm_args(call.op);
  const std::vector<bool> mask = output_mask(call);
  std::array<bool, 3> there = {mask[0], mask[1], mask.size() > 2 && mask[2]};
  if (args.kind != Kind::kBatch) {
    there[1] = there[1] && norm_tensor(call, args.weight) != nullptr;
    there[2] = there[2] && norm_tensor(call, args.bias) != nullptr;
  }
  return there;
}

Row row_of(const OpCall& call, const NormRow& norm) {
  const NormArgs& args = norm_args(call.op);
  Row row;
  if (args.gradient >= 0) {
    const auto there = gradients_of(call);
    if (there[0]) row.push_back(norm.output);
    if (there[1]) row.push_back(norm.affine_gradient);
    if (there[2]) row.push_back(norm.bias_gradient);
  } else {
    row.push_back(norm.output);
    for (int i = 1; i < std::min(args.outputs, 3); ++i) row.push_back(norm.statistics);
    if (args.outputs == 4) row.push_back(kR);
    if (args.returns_running()) row.insert(row.end(), 2, norm.running);
  }
  for (int position = 0; position < args.tensors; ++position) {
    if (norm_tensor(call, position) == nullptr) continue;
    row.push_back(position == args.input                           ? norm.input
                  : position == args.gradient                      ? norm.gradient
                  : position == args.weight                        ? norm.weight
                  : position == args.bias                          ? norm.bias
                  : position == args.mean || position == args.rstd ? norm.statistics
                                                                   : norm.running);
  }
  return row;
}

// Statistics of 16-bit inputs are kept in f32, except those of a group norm.
DType statistics_dtype(const NormArgs& args, DType input) {
  const bool half = input == DType::kF16 || input == DType::kBF16;
  return half && args.kind != Kind::kGroup ? DType::kF32 : input;
}

Shape statistics_shape(const OpCall& call, const Shape& input) {
  switch (norm_args(call.op).kind) {
    case Kind::kLayer:
    case Kind::kRms: {
      Shape shape(input.begin(), input.begin() + normalized_axis(call));
      shape.resize(input.size(), 1);
      return shape;
    }
    case Kind::kBatch:
      return {input[1]};
    case Kind::kGroup:
      break;
  }
  return {input[0], call.integer_arg(3, 1)};
}

std::vector<TensorMeta> backward_outputs(const OpCall& call, const TensorMeta& input) {
  const NormArgs& args = norm_args(call.op);
  const auto there = gradients_of(call);
  std::vector<TensorMeta> outputs;
  if (there[0]) outputs.push_back({.dtype = input.dtype, .shape = input.shape, .strides = {}});
  Shape affine = {input.shape.size() > 1 ? input.shape[1] : 0};
  if (args.kind != Kind::kBatch) {
    affine.assign(input.shape.begin() + normalized_axis(call), input.shape.end());
  }
  const TensorSpec* weight = norm_tensor(call, args.weight);
  const TensorSpec* bias = norm_tensor(call, args.bias);
  const DType dtype = weight != nullptr ? weight->meta.dtype : input.dtype;
  if (there[1]) outputs.push_back({.dtype = dtype, .shape = affine, .strides = {}});
  if (there[2]) {
    const DType own = bias != nullptr ? bias->meta.dtype : dtype;
    outputs.push_back({.dtype = own, .shape = affine, .strides = {}});
  }
  if (outputs.empty())
    throw InputError(call.op + ": the output mask asks for no gradient that the op can return");
  return outputs;
}

std::vector<TensorMeta> norm_outputs(const OpCall& call) {
  check_norm(call);
  const NormArgs& args = norm_args(call.op);
  const TensorMeta& input = call.required_tensor(static_cast<std::size_t>(args.input)).meta;
  if (args.gradient >= 0) return backward_outputs(call, input);
  const TensorMeta out{.dtype = input.dtype, .shape = input.shape, .strides = {}};
  const TensorMeta statistics{.dtype = statistics_dtype(args, input.dtype),
                              .shape = statistics_shape(call, input.shape),
                              .strides = {}};
  std::vector<TensorMeta> outputs = {out, statistics};
  if (args.outputs > 2) outputs.push_back(statistics);
  // The fourth output is what cuDNN keeps for its backward. It is empty without cuDNN.
  if (args.outputs == 4) outputs.push_back({.dtype = DType::kU8, .shape = {0}, .strides = {}});
  if (args.returns_running()) {
    for (const int position : {args.running_mean, args.running_var}) {
      outputs.push_back(norm_tensor(call, position)->meta);
      outputs.back().strides.clear();
    }
  }
  return outputs;
}

// The rows that DTensor and shardlab share.
Rows rows_of_dims(const OpCall& call) {
  const NormArgs& args = norm_args(call.op);
  Rows rows;
  if (args.kind == Kind::kBatch) {
    const RowEntry data = RowEntry::any_shard(1);
    const RowEntry channels = RowEntry::any_shard(0);
    rows.push_back(row_of(call, {.output = data,
                                 .statistics = channels,
                                 .affine_gradient = channels,
                                 .bias_gradient = channels,
                                 .gradient = data,
                                 .input = data,
                                 .weight = channels,
                                 .bias = channels,
                                 .running = channels}));
    return rows;
  }
  const int dims = args.kind == Kind::kGroup ? 1 : normalized_axis(call);
  for (int d = 0; d < dims; ++d) {
    const RowEntry shard = RowEntry::any_shard(d);
    rows.push_back(row_of(call, {.output = shard,
                                 .statistics = shard,
                                 .affine_gradient = kSum,
                                 .bias_gradient = kSum,
                                 .gradient = shard,
                                 .input = shard}));
  }
  return rows;
}

// The output is the normalised input times the weight, plus the bias.
void add_affine_rows(Rows& rows, const OpCall& call) {
  const NormArgs& args = norm_args(call.op);
  const bool weighs = norm_tensor(call, args.weight) != nullptr;
  const bool biased = norm_tensor(call, args.bias) != nullptr;
  if (weighs) {
    rows.push_back(row_of(call, {.output = kSum, .weight = kSum, .bias = kSum}));
    rows.push_back(row_of(call, {.output = kAvg, .weight = kAvg, .bias = kAvg}));
    if (biased) rows.push_back(row_of(call, {.output = kAvg, .weight = kAvg}));
  }
  if (!biased) return;
  for (const Placement& p : {kAvg, kMax, kMin}) {
    rows.push_back(row_of(call, {.output = p, .bias = p}));
  }
}

void add_gradient_rows(Rows& rows, const OpCall& call) {
  const bool weighs = norm_tensor(call, norm_args(call.op).weight) != nullptr;
  for (const Placement& p : {kSum, kAvg}) {
    rows.push_back(
        row_of(call, {.output = p, .affine_gradient = p, .bias_gradient = p, .gradient = p}));
    // The weight is a factor only of the input's gradient.
    if (weighs && gradients_of(call)[0]) {
      rows.push_back(row_of(call, {.output = p, .weight = p}));
    }
  }
}

void set_input(Row& row, const OpCall& call, int position, const Placement& p) {
  const std::size_t outputs = row.size() - call.tensors().size();
  row[outputs + call.position(static_cast<std::size_t>(position))] = p;
}

// The outputs that repeat the running mean where a batch norm does not train.
void set_means(Row& row, const NormArgs& args, const Placement& p) {
  row[1] = p;
  if (args.returns_running()) row[3] = p;
}

// A batch norm that does not train is linear in the input, the running mean and the bias taken
// together. Some of them may be averages while the others are replicated. The saved mean, which is
// the second output, is the running mean, and so is the new running mean.
void add_applied_rows(Rows& rows, const OpCall& call) {
  const NormArgs& args = norm_args(call.op);
  const bool biased = norm_tensor(call, args.bias) != nullptr;
  const auto add = [&](const Placement& p, bool input, bool mean, bool bias) {
    Row row = row_of(call, {.output = p});
    if (input) set_input(row, call, args.input, p);
    if (mean) set_input(row, call, args.running_mean, p);
    if (mean) set_means(row, args, p);
    if (bias) set_input(row, call, args.bias, p);
    rows.push_back(std::move(row));
  };
  add(kSum, true, true, biased);
  for (const bool bias : {false, true}) {
    if (bias && !biased) continue;
    add(kAvg, true, true, bias);
    add(kAvg, true, false, bias);
    add(kAvg, false, true, bias);
  }
  if (norm_tensor(call, args.weight) != nullptr) return;
  // If there is no weight, which could have either sign, the output rises with the input and falls
  // with the running mean.
  add(kMax, true, false, false);
  add(kMin, true, false, false);
  for (const auto& [out, mean] : {std::pair(kMax, kMin), std::pair(kMin, kMax)}) {
    Row row = row_of(call, {.output = out});
    set_input(row, call, args.running_mean, mean);
    set_means(row, args, mean);
    rows.push_back(std::move(row));
  }
}

// The gradient of the weight is linear in the input and the running mean taken together.
void add_applied_gradient_rows(Rows& rows, const OpCall& call) {
  const NormArgs& args = norm_args(call.op);
  if (!gradients_of(call)[1]) return;
  const bool weighs = gradients_of(call)[0] && norm_tensor(call, args.weight) != nullptr;
  for (const Placement& p : {kSum, kAvg}) {
    for (const bool weight : {false, true}) {
      if (weight && !weighs) continue;
      Row row = row_of(
          call,
          {.output = weight ? p : kR, .affine_gradient = p, .input = p, .weight = weight ? p : kR});
      set_input(row, call, args.running_mean, p);
      rows.push_back(std::move(row));
    }
  }
}

std::string_view excuse(const OpCall& call, const Row& row) {
  const NormArgs& args = norm_args(call.op);
  const std::size_t outputs = row.size() - call.tensors().size();
  const auto is_moved = [&](int position) {
    if (norm_tensor(call, position) == nullptr) return false;
    return row[outputs + call.position(static_cast<std::size_t>(position))] != RowEntry(kR);
  };
  const bool running = is_moved(args.running_mean) || is_moved(args.running_var);
  if (args.returns_running() && is_training(call) && running) {
    return "the running statistics of a program are buffers, which are never partial";
  }
  if (args.kind == Kind::kBatch && is_training(call) && running) {
    return "running statistics are not read when the op trains";
  }
  if (args.gradient < 0) return "";
  const bool saved = is_moved(args.mean) || is_moved(args.rstd);
  if (args.kind == Kind::kBatch && !is_training(call) && saved) {
    return "saved statistics are not read when the op does not train";
  }
  if (is_moved(args.bias)) return "only the shape of the bias is read";
  if (!gradients_of(call)[0])
    return "if the mask leaves out the input's gradient, the op is linear in more tensors";
  return "";
}

Rows pytorch_rows(const OpCall& call, const OpRule&) {
  check_norm(call);
  return rows_of_dims(call);
}

Rows norm_rows(const OpCall& call, const OpRule&) {
  check_norm(call);
  const NormArgs& args = norm_args(call.op);
  Rows rows = rows_of_dims(call);
  if (args.kind == Kind::kBatch && !is_training(call)) {
    const int ndim = call.required_tensor(static_cast<std::size_t>(args.input)).meta.ndim();
    for (int d = 0; d < ndim; ++d) {
      if (d == 1) continue;
      const RowEntry shard = RowEntry::any_shard(d);
      rows.push_back(row_of(call, {.output = shard,
                                   .affine_gradient = kSum,
                                   .bias_gradient = kSum,
                                   .gradient = shard,
                                   .input = shard}));
    }
    if (args.gradient < 0) {
      add_applied_rows(rows, call);
    } else {
      add_applied_gradient_rows(rows, call);
    }
  }
  if (args.gradient >= 0) {
    add_gradient_rows(rows, call);
  } else {
    add_affine_rows(rows, call);
  }
  return rows;
}

constexpr OpRule norm(std::string_view op, RuleSets sets, RuleSets uneven_in = kNoRuleSet) {
  return {.op = op,
          .sets = sets,
          .outputs = norm_outputs,
          .rows = sets == kShardlab ? norm_rows : pytorch_rows,
          .uneven_in = uneven_in,
          .excuse = excuse,
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}

// -- The backward pass of weight_norm -------------------------------------------------------------

std::vector<TensorMeta> weight_norm_outputs(const OpCall& call) {
  expect_tensors(call, 4);
  std::vector<TensorMeta> outputs = {call.tensors()[1]->meta, call.tensors()[2]->meta};
  for (TensorMeta& output : outputs) output.strides.clear();
  return outputs;
}

// Each slice of the weight has a norm of its own. Both gradients are linear in the weight's, and
// the one of v is linear in g, too.
Rows weight_norm_rows(const OpCall& call, const OpRule&) {
  const int ndim = call.tensors()[1]->meta.ndim();
  const int dim = normalize_dim(call.integer_arg(0, 0), ndim, call.op);
  Rows rows = {all_alike(6, RowEntry::any_shard(dim))};
  for (const Placement& p : {kSum, kAvg}) {
    rows.push_back({p, p, p, kR, kR, kR});
    rows.push_back({p, kR, kR, kR, p, kR});
  }
  return rows;
}

constexpr OpRule kRules[] = {
    norm("aten._batch_norm_with_update.default", kDTensor),
    norm("aten._batch_norm_with_update.default", kShardlab),
    norm("aten._fused_rms_norm.default", kDTensor, kSinceRows),
    norm("aten._fused_rms_norm.default", kShardlab),
    norm("aten._fused_rms_norm_backward.default", kDTensor),
    norm("aten._fused_rms_norm_backward.default", kShardlab),
    norm("aten._native_batch_norm_legit.default", kDTensor),
    norm("aten._native_batch_norm_legit.default", kShardlab),
    norm("aten._native_batch_norm_legit.no_stats", kDTensor),
    norm("aten._native_batch_norm_legit.no_stats", kShardlab),
    norm("aten._native_batch_norm_legit_functional.default", kShardlab),
    norm("aten._native_batch_norm_legit_no_training.default", kDTensor),
    norm("aten._native_batch_norm_legit_no_training.default", kShardlab),
    // PyTorch has no rule for this op.
    {.op = "aten._weight_norm_interface_backward.default",
     .sets = kShardlab,
     .outputs = weight_norm_outputs,
     .rows = weight_norm_rows,
     .uneven_in = kEveryRuleSet,
     .kernel = Kernel::kReduction,
     .flops = first_input_flops},
    norm("aten.native_batch_norm.default", kDTensor),
    norm("aten.native_batch_norm.default", kShardlab),
    norm("aten.native_batch_norm_backward.default", kDTensor),
    norm("aten.native_batch_norm_backward.default", kShardlab),
    norm("aten.native_group_norm.default", kDTensor),
    norm("aten.native_group_norm.default", kShardlab),
    norm("aten.native_layer_norm.default", kDTensor, kSinceRows),
    norm("aten.native_layer_norm.default", kShardlab),
    norm("aten.native_layer_norm_backward.default", kDTensor),
    norm("aten.native_layer_norm_backward.default", kShardlab),
};

}  // namespace norm_rules

OP_RULES(norm){norm_rules::kRules};

}  // namespace shardlab
