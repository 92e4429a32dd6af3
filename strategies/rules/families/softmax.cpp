// Softmax and its backward. Any dim may be sharded except the softmax's own. In PyTorch 2.13 they
// follow their input's layout; since 2.14, and in the rule set shardlab, they have rows. Source:
// PyTorch 2.13.0, _ops/_math_ops.py (softmax_strategy, softmax_backward_strategy), and 2.14.1
// (softmax_single_dim_strategy, softmax_backward_single_dim_strategy).
#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/reduction_args.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace softmax_rules {

using namespace rows;

int softmax_dim(const OpCall& call, int ndim) {
  if (call.args.empty()) throw InputError(call.op + ": --args must begin with the dim");
  return dim_arg(call, 0, ndim);
}

// The second of --args is the dtype of the result for _safe_softmax. For the others it says whether
// 16-bit inputs become f32.
std::vector<TensorMeta> softmax_outputs(const OpCall& call) {
  TensorMeta out = only_tensor(call).meta;
  static_cast<void>(softmax_dim(call, out.ndim()));
  out.strides.clear();
  if (call.op == "aten._safe_softmax.default") {
    out.dtype = dtype_arg(call, 1).value_or(out.dtype);
  } else if (call.boolean_arg(1, false)) {
    out.dtype = DType::kF32;
  }
  return {out};
}

std::vector<FollowCandidate> follow_softmax(const OpCall& call, const DeviceMesh&) {
  const TensorSpec& in = only_tensor(call);
  const int dim = softmax_dim(call, in.meta.ndim());
  const Placements kept = replicated_where(in.layout.placements, [dim](int d) { return d == dim; });
  return {FollowCandidate{.outputs = {kept}, .inputs = {kept}}};
}

Rows softmax_rows(const OpCall& call, const OpRule&) {
  const int ndim = only_tensor(call).meta.ndim();
  Rows rows;
  add_shards_besides(rows, ndim, softmax_dim(call, ndim), 2);
  return rows;
}

// The tensors are the gradient of the output and the output. The --args are the dim and the dtype
// of the input.
struct Backward {
  const TensorSpec& gradient;
  const TensorSpec& output;
  int dim;
};

Backward backward_of(const OpCall& call) {
  const auto tensors = call.tensors();
  if (tensors.size() != 2 || tensors[0]->meta.shape != tensors[1]->meta.shape) {
    throw InputError(call.op + ": takes the gradient and the output, 2 tensors of one shape");
  }
  return {*tensors[0], *tensors[1], softmax_dim(call, tensors[0]->meta.ndim())};
}

std::vector<TensorMeta> backward_outputs(const OpCall& call) {
  TensorMeta out = backward_of(call).gradient.meta;
  out.dtype = dtype_arg(call, 1).value_or(out.dtype);
  out.strides.clear();
  return {out};
}

std::vector<FollowCandidate> follow_backward(const OpCall& call, const DeviceMesh& mesh) {
  const Backward backward = backward_of(call);
  const Placements& gradient = backward.gradient.layout.placements;
  const Placements& output = backward.output.layout.placements;
  const bool first = num_shards(gradient, mesh, true) >= num_shards(output, mesh, true);
  const Placements kept =
      replicated_where(first ? gradient : output, [&](int d) { return d == backward.dim; });
  return {FollowCandidate{.outputs = {kept}, .inputs = {kept, kept}}};
}

// The op is linear in the gradient, which PyTorch's rows leave out.
Rows backward_rows(const OpCall& call, const OpRule& rule) {
  const Backward backward = backward_of(call);
  Rows rows;
  add_shards_besides(rows, backward.gradient.meta.ndim(), backward.dim, 3);
  if (!rule.sets.contains(kShardlab)) return rows;
  rows.push_back({kSum, kSum, kR});
  rows.push_back({kAvg, kAvg, kR});
  return rows;
}

constexpr RuleSets kFollow = kBeforeRows | kDTensorLegacy;

constexpr OpRule followed(std::string_view op) {
  return {.op = op,
          .sets = kFollow,
          .outputs = softmax_outputs,
          .follow = follow_softmax,
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}
constexpr OpRule as_rows(std::string_view op) {
  return {.op = op,
          .sets = kSinceRows | kShardlab,
          .outputs = softmax_outputs,
          .rows = softmax_rows,
          .uneven_in = kSinceRows,
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}
constexpr OpRule followed_backward(std::string_view op) {
  return {.op = op,
          .sets = kBeforeRows,
          .outputs = backward_outputs,
          .follow = follow_backward,
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}
constexpr OpRule backward_as_rows(std::string_view op, RuleSets sets) {
  return {.op = op,
          .sets = sets,
          .outputs = backward_outputs,
          .rows = backward_rows,
          .uneven_in = kSinceRows,
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}

constexpr OpRule kRules[] = {
    followed("aten._log_softmax.default"),
    as_rows("aten._log_softmax.default"),
    followed_backward("aten._log_softmax_backward_data.default"),
    backward_as_rows("aten._log_softmax_backward_data.default", kSinceRows),
    backward_as_rows("aten._log_softmax_backward_data.default", kShardlab),
    followed("aten._safe_softmax.default"),
    as_rows("aten._safe_softmax.default"),
    followed("aten._softmax.default"),
    as_rows("aten._softmax.default"),
    followed_backward("aten._softmax_backward_data.default"),
    backward_as_rows("aten._softmax_backward_data.default", kSinceRows),
    backward_as_rows("aten._softmax_backward_data.default", kShardlab),
};

}  // namespace softmax_rules

OP_RULES(softmax){softmax_rules::kRules};

}  // namespace shardlab
