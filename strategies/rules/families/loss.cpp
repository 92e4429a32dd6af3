// Negative log likelihood, which with _log_softmax makes up cross entropy. The dim of the classes
// is not sharded; the other dims of the scores are sharded together with those of the target. In
// PyTorch 2.13 all tensors follow the scores' layout. It averages local means, which is wrong if
// weights or ignored targets differ between shards, so PyTorch since 2.14 and the rule set shardlab
// do not shard a loss that is a mean. Source: PyTorch 2.13.0, _ops/_math_ops.py
// (nll_loss_forward_strategy, nll_loss_backward_strategy), and 2.14.1
// (nll_loss_forward_single_dim_strategy, nll_loss_backward_single_dim_strategy).
#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/rule_rows.h"

namespace shardlab {
namespace loss_rules {

using namespace rows;

enum class LossReduction : std::uint8_t { kNone, kMean, kSum };

// The tensors are scores, target and weight, and in the backward gradient, scores, target, weight
// and total weight. The --args are the reduction and the ignored target.
struct Loss {
  const TensorSpec* gradient = nullptr;
  const TensorSpec* scores = nullptr;
  const TensorSpec* target = nullptr;
  const TensorSpec* weight = nullptr;
  const TensorSpec* total_weight = nullptr;
  LossReduction reduction = LossReduction::kMean;
  int channel = 0;  // the dim of the classes
};

bool is_backward(const OpCall& call) { return call.op.find("backward") != std::string::npos; }

Loss loss_of(const OpCall& call) {
  Loss loss;
  const std::size_t first = is_backward(call) ? 1 : 0;
  const std::size_t most = is_backward(call) ? 5 : 3;
  if (call.inputs.size() > most) {
    throw InputError(call.op + ": takes at most " + std::to_string(most) +
                     " tensor arguments, found " + std::to_string(call.inputs.size()));
  }
  if (is_backward(call)) {
    loss.gradient = &call.required_tensor(0);
    loss.total_weight = &call.required_tensor(4);
  }
  loss.scores = &call.required_tensor(first);
  loss.target = &call.required_tensor(first + 1);
  loss.weight = call.tensor(first + 2);
  const std::int64_t reduction = call.integer_arg(0, 1);
  if (reduction < 0 || reduction > 2) {
    throw InputError(call.op + ": found reduction " + std::to_string(reduction) +
                     "; valid: 0 (none), 1 (mean) or 2 (sum)");
  }
  static_cast<void>(call.integer_arg(1, -100));
  loss.reduction = static_cast<LossReduction>(reduction);
  const Shape& scores = loss.scores->meta.shape;
  const bool is_2d = call.op.find("2d") != std::string::npos;
  if (is_2d ? scores.size() != 4 : scores.empty() || scores.size() > 2) {
    throw InputError(call.op + ": found scores " + loss.scores->meta.text() + "; valid: scores " +
                     (is_2d ? "[N,C,H,W]" : "[N,C] or [C]"));
  }
  loss.channel = scores.size() >= 2 ? 1 : 0;
  Shape target = scores;
  target.erase(target.begin() + loss.channel);
  if (loss.target->meta.shape != target || is_floating_point(loss.target->meta.dtype)) {
    throw InputError(call.op + ": found a target " + loss.target->meta.text() +
                     "; valid: integers in the shape of the scores without the dim of the classes");
  }
  if (loss.weight != nullptr && loss.weight->meta.shape != Shape{scores[to_index(loss.channel)]}) {
    throw InputError(call.op + ": found a weight " + loss.weight->meta.text() +
                     "; valid: one number for each of " +
                     std::to_string(scores[to_index(loss.channel)]) + " classes");
  }
  if (loss.gradient != nullptr) {
    const bool none = loss.reduction == LossReduction::kNone;
    if (loss.gradient->meta.shape != (none ? target : Shape{}) ||
        !loss.total_weight->meta.shape.empty()) {
      throw InputError(
          call.op + ": found a gradient " + loss.gradient->meta.text() + " and a total weight " +
          loss.total_weight->meta.text() +
          "; valid: a gradient in the shape of the loss, and a total weight without dims");
    }
  }
  return loss;
}

std::vector<TensorMeta> loss_outputs(const OpCall& call) {
  const Loss loss = loss_of(call);
  TensorMeta out = loss.scores->meta;
  out.strides.clear();
  if (is_backward(call)) return {out};
  TensorMeta total = out;
  total.shape.clear();
  out.shape = loss.reduction == LossReduction::kNone ? loss.target->meta.shape : Shape{};
  return {out, total};
}

// -- PyTorch 2.13: layouts that follow the scores -------------------------------------------------

struct Followed {
  Placements scores;
  Placements target;
};

Followed followed_by(const Loss& loss) {
  Followed followed;
  followed.scores =
      replicated_where(loss.scores->layout.placements, [&](int d) { return d == loss.channel; });
  for (const Placement& p : followed.scores) {
    followed.target.push_back(p.is_shard_like() && p.dim() > loss.channel ? p.with_dim(p.dim() - 1)
                                                                          : p);
  }
  return followed;
}

Placements replicated(const DeviceMesh& mesh) {
  return Placements(static_cast<std::size_t>(mesh.ndim()), kR);
}

Placements reduced_to(const Placements& placements, const Placement& partial) {
  Placements result;
  for (const Placement& p : placements) result.push_back(p.is_shard_like() ? partial : p);
  return result;
}

std::vector<FollowCandidate> follow_forward(const OpCall& call, const DeviceMesh& mesh) {
  const Loss loss = loss_of(call);
  const Followed followed = followed_by(loss);
  FollowCandidate candidate;
  candidate.inputs = {followed.scores, followed.target};
  if (loss.weight != nullptr) candidate.inputs.push_back(replicated(mesh));
  if (loss.reduction == LossReduction::kNone) {
    candidate.outputs = {followed.target, replicated(mesh)};
    return {candidate};
  }
  if (loss.reduction == LossReduction::kMean) {
    const Shape& shape = loss.target->meta.shape;
    for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
      if (!is_evenly_shardable_on_dim(shape, followed.target, mesh, d)) {
        throw InputError(call.op + ": the mean over the target " + loss.target->meta.text() +
                         " in " + Layout(followed.target).text() +
                         " would be biased; valid: shards of equal size, or reduction 2 (sum)");
      }
    }
  }
  const bool mean = loss.reduction == LossReduction::kMean;
  candidate.outputs = {reduced_to(followed.target, mean ? kAvg : kSum),
                       reduced_to(followed.target, kSum)};
  return {candidate};
}

// Only a mean depends on the total weight.
std::vector<FollowCandidate> follow_backward(const OpCall& call, const DeviceMesh& mesh) {
  const Loss loss = loss_of(call);
  const Followed followed = followed_by(loss);
  FollowCandidate candidate;
  candidate.outputs = {followed.scores};
  candidate.inputs = {loss.reduction == LossReduction::kNone ? followed.target : replicated(mesh),
                      followed.scores, followed.target};
  if (loss.weight != nullptr) candidate.inputs.push_back(replicated(mesh));
  candidate.inputs.push_back(loss.reduction == LossReduction::kMean
                                 ? replicated(mesh)
                                 : loss.total_weight->layout.placements);
  return {candidate};
}

// -- Rows ---------------------------------------------------------------------------------------

// The entries of both tensors in a row that shards a dim of both.
struct SharedDim {
  RowEntry target;
  RowEntry scores;
};

std::vector<SharedDim> shared_dims(const Loss& loss) {
  std::vector<SharedDim> dims;
  for (int d = 0; d < loss.target->meta.ndim(); ++d) {
    dims.push_back({RowEntry::any_shard(d), RowEntry::any_shard(d < loss.channel ? d : d + 1)});
  }
  return dims;
}

// The loss is linear in the scores. It is linear in the weights too unless it is divided by their
// sum. PyTorch lists the shards alone.
Rows forward_rows(const OpCall& call, const OpRule& rule) {
  const Loss loss = loss_of(call);
  const bool weighs = loss.weight != nullptr;
  const bool none = loss.reduction == LossReduction::kNone;
  Rows rows;
  const auto add = [&](const RowEntry& out, const RowEntry& total, const RowEntry& scores,
                       const RowEntry& target, const RowEntry& weight) {
    rows.push_back({out, total, scores, target});
    if (weighs) rows.back().push_back(weight);
  };
  if (loss.reduction != LossReduction::kMean) {
    for (const SharedDim& d : shared_dims(loss)) {
      add(none ? d.target : RowEntry(kSum), none ? kR : kSum, d.scores, d.target, kR);
    }
  }
  if (!rule.sets.contains(kShardlab)) return rows;
  for (const Placement& p : {kSum, kAvg}) add(p, kR, p, kR, kR);
  if (!weighs && (none || loss.target->meta.ndim() == 0)) {  // the loss is minus a score
    add(kMax, kR, kMin, kR, kR);
    add(kMin, kR, kMax, kR, kR);
  }
  if (weighs && loss.reduction != LossReduction::kMean) {
    for (const Placement& p : {kSum, kAvg}) add(p, none ? kR : p, kR, kR, p);
  }
  return rows;
}

// The total weight is used only if the reduction is a mean. Otherwise PyTorch passes a sum of it
// on, except beside shards of a loss that is not reduced.
Rows pytorch_backward_rows(const OpCall& call, const OpRule&) {
  const Loss loss = loss_of(call);
  const bool none = loss.reduction == LossReduction::kNone;
  Rows rows;
  const auto add = [&](const RowEntry& scores, const RowEntry& gradient, const RowEntry& target,
                       const RowEntry& total) {
    rows.push_back({scores, gradient, scores, target});
    if (loss.weight != nullptr) rows.back().push_back(kR);
    rows.back().push_back(total);
  };
  for (const SharedDim& d : shared_dims(loss)) {
    const RowEntry gradient = none ? d.target : RowEntry(kR);
    add(d.scores, gradient, d.target, kR);
    if (loss.reduction == LossReduction::kSum) add(d.scores, gradient, d.target, kSum);
  }
  if (loss.reduction != LossReduction::kMean) add(kR, kR, kR, kSum);
  return rows;
}

// The gradient of the scores is linear in the loss's gradient and in the weights.
Rows backward_rows(const OpCall& call, const OpRule&) {
  const Loss loss = loss_of(call);
  const bool weighs = loss.weight != nullptr;
  const bool none = loss.reduction == LossReduction::kNone;
  Rows rows;
  const auto add = [&](const RowEntry& out, const RowEntry& gradient, const RowEntry& scores,
                       const RowEntry& target, const RowEntry& weight) {
    rows.push_back({out, gradient, scores, target});
    if (weighs) rows.back().push_back(weight);
    rows.back().push_back(kR);
  };
  for (const SharedDim& d : shared_dims(loss)) {
    add(d.scores, none ? d.target : RowEntry(kR), d.scores, d.target, kR);
  }
  for (const Placement& p : {kSum, kAvg}) {
    add(p, p, kR, kR, kR);
    if (weighs) add(p, kR, kR, kR, p);
  }
  if (!weighs && loss.reduction != LossReduction::kMean) {
    add(kMax, kMin, kR, kR, kR);
    add(kMin, kMax, kR, kR, kR);
  }
  return rows;
}

std::string_view excuse_forward(const OpCall&, const Row& row) {
  if (row[2].placement() == kMax || row[2].placement() == kMin) {
    return "the row holds only for weights that are not negative";
  }
  return "";
}

std::string_view excuse_backward(const OpCall& call, const Row& row) {
  if (row[2].placement().is_partial()) return "only the shape of the scores is read";
  if (loss_of(call).reduction != LossReduction::kMean && row.back() != RowEntry(kR)) {
    return "the op uses the total weight only if the reduction is a mean";
  }
  if (row[1].placement() == kMax || row[1].placement() == kMin) {
    return "the row holds only for weights that are not negative";
  }
  return "";
}

// One operation for each target forward, and for each score that the gradient is written of
// backward: both are the second tensor.
double elements(std::span<const Shape> local, const OpCall&) { return element_count(local[1]); }

constexpr OpRule followed(std::string_view op, decltype(OpRule::follow) follow) {
  return {.op = op,
          .sets = kBeforeRows,
          .outputs = loss_outputs,
          .follow = follow,
          .kernel = Kernel::kReduction,
          .flops = elements};
}
constexpr OpRule as_rows(std::string_view op, RuleSets sets, decltype(OpRule::rows) rows,
                         decltype(OpRule::excuse) excuse) {
  return {.op = op,
          .sets = sets,
          .outputs = loss_outputs,
          .rows = rows,
          .excuse = excuse,
          .kernel = Kernel::kReduction,
          .flops = elements};
}

constexpr OpRule kRules[] = {
    followed("aten.nll_loss2d_backward.default", follow_backward),
    as_rows("aten.nll_loss2d_backward.default", kSinceRows, pytorch_backward_rows, excuse_backward),
    as_rows("aten.nll_loss2d_backward.default", kShardlab, backward_rows, excuse_backward),
    followed("aten.nll_loss2d_forward.default", follow_forward),
    as_rows("aten.nll_loss2d_forward.default", kSinceRows, forward_rows, excuse_forward),
    as_rows("aten.nll_loss2d_forward.default", kShardlab, forward_rows, excuse_forward),
    followed("aten.nll_loss_backward.default", follow_backward),
    as_rows("aten.nll_loss_backward.default", kSinceRows, pytorch_backward_rows, excuse_backward),
    as_rows("aten.nll_loss_backward.default", kShardlab, backward_rows, excuse_backward),
    followed("aten.nll_loss_forward.default", follow_forward),
    as_rows("aten.nll_loss_forward.default", kSinceRows, forward_rows, excuse_forward),
    as_rows("aten.nll_loss_forward.default", kShardlab, forward_rows, excuse_forward),
};

}  // namespace loss_rules

OP_RULES(loss){loss_rules::kRules};

}  // namespace shardlab
