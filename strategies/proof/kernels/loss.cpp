// Negative log likelihood of scores [N,C], [C] or [N,C,H,W], and its backward. The --args are the
// reduction (0 none, 1 the weighted mean, 2 the sum) and the target that is ignored.
#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {
namespace loss_kernels {

struct Targets {
  std::vector<std::size_t> scores;  // by target: the flat index of its score
  std::vector<double> weights;      // by target: its weight, 0 where the target is ignored
  std::vector<bool> ignored;        // by target: whether it is ignored
  double total = 0.0;               // the sum of the weights
};

std::int64_t reduction_of(const LocalCall& local) {
  const std::int64_t reduction = local.call.integer_arg(0, 1);
  if (reduction < 0 || reduction > 2) {
    throw InputError(local.call.op + ": found reduction " + std::to_string(reduction) +
                     "; valid: 0 (none), 1 (mean) or 2 (sum)");
  }
  return reduction;
}

Targets targets_of(const LocalCall& local, const HostTensor& scores, const HostTensor& target,
                   const HostTensor* weight) {
  if (scores.ndim() == 0) {
    throw InputError(local.call.op + ": found scores without dims; valid: a dim of classes");
  }
  const int channel = scores.ndim() >= 2 ? 1 : 0;
  Shape without = scores.shape();
  without.erase(without.begin() + channel);
  if (target.shape() != without) {
    throw InputError(local.call.op + ": found scores " + tensor_text(scores) + " and a target " +
                     tensor_text(target) + "; valid: a target " +
                     tensor_text(target.dtype(), without) + ", without the dim of the classes");
  }
  const std::int64_t classes = scores.extent(channel);
  if (is_floating_point(target.dtype())) {
    throw InputError(local.call.op + ": found a target " + tensor_text(target) +
                     "; valid: a target of integers");
  }
  if (weight != nullptr && weight->shape() != Shape{classes}) {
    throw InputError(local.call.op + ": found a weight " + tensor_text(*weight) + "; valid: " +
                     tensor_text(weight->dtype(), {classes}) + ", a number for each class");
  }
  const auto ignored = static_cast<double>(local.call.integer_arg(1, -100));
  const std::vector<double> found = as_doubles(target);
  const std::vector<double> weights =
      weight != nullptr ? as_doubles(*weight)
                        : std::vector<double>(static_cast<std::size_t>(classes), 1.0);
  std::int64_t inner = 1;
  for (int d = channel + 1; d < scores.ndim(); ++d) inner *= scores.extent(d);
  Targets targets;
  for (std::size_t i = 0; i < found.size(); ++i) {
    targets.ignored.push_back(found[i] == ignored);
    if (!targets.ignored.back() && !(found[i] >= 0.0 && found[i] < static_cast<double>(classes))) {
      throw InputError(
          local.call.op + ": found the target " + format_double(found[i]) +
          "; valid: " + (classes > 0 ? "0 to " + std::to_string(classes - 1) + ", or " : "") +
          format_double(ignored) + ", which is ignored");
    }
    const std::int64_t c = targets.ignored.back() ? 0 : static_cast<std::int64_t>(found[i]);
    const auto flat = static_cast<std::int64_t>(i);
    targets.scores.push_back(to_index((flat / inner * classes + c) * inner + flat % inner));
    targets.weights.push_back(targets.ignored.back() ? 0.0 : weights[to_index(c)]);
    targets.total += targets.weights.back();
  }
  return targets;
}

LocalResult run_forward(const LocalCall& local, const OpKernel&) {
  const HostTensor& scores = local.required_tensor(0);
  const std::int64_t reduction = reduction_of(local);
  const HostTensor& target = local.required_tensor(1);
  const Targets targets = targets_of(local, scores, target, local.tensor(2));
  const std::vector<double> values = as_doubles(scores);
  std::vector<double> losses;
  double loss = 0.0;
  for (std::size_t i = 0; i < targets.scores.size(); ++i) {
    losses.push_back(targets.ignored[i] ? 0.0 : -targets.weights[i] * values[targets.scores[i]]);
    loss += losses.back();
  }
  const bool none = reduction == 0;
  if (!none) losses = {reduction == 1 ? loss / targets.total : loss};
  const std::vector<double> total = {none ? 0.0 : targets.total};
  return {{from_doubles(local.memory, scores.dtype(), none ? target.shape() : Shape{}, losses),
           from_doubles(local.memory, scores.dtype(), {}, total)},
          {}};
}

// The tensors are gradient, scores, target, weight and total weight.
LocalResult run_backward(const LocalCall& local, const OpKernel&) {
  const HostTensor& gradient = local.required_tensor(0);
  const HostTensor& scores = local.required_tensor(1);
  const HostTensor& target = local.required_tensor(2);
  const HostTensor& total = local.required_tensor(4);
  const std::int64_t reduction = reduction_of(local);
  const Targets targets = targets_of(local, scores, target, local.tensor(3));
  if (gradient.shape() != (reduction == 0 ? target.shape() : Shape{}) || total.ndim() != 0) {
    throw InputError(local.call.op + ": found a gradient " + tensor_text(gradient) +
                     " and a total weight " + tensor_text(total) +
                     "; valid: a gradient in the shape of the loss, " +
                     tensor_text(gradient.dtype(), reduction == 0 ? target.shape() : Shape{}) +
                     ", and a total weight without dims");
  }
  const std::vector<double> g = as_doubles(gradient);
  const double divisor = reduction == 1 ? as_doubles(total)[0] : 1.0;
  std::vector<double> result(static_cast<std::size_t>(scores.elements()), 0.0);
  for (std::size_t i = 0; i < targets.scores.size(); ++i) {
    if (targets.ignored[i]) continue;
    result[targets.scores[i]] = -targets.weights[i] * g[reduction == 0 ? i : 0] / divisor;
  }
  return {{from_doubles(local.memory, scores.dtype(), scores.shape(), result)}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "nll_loss2d_backward", .run = run_backward},
    {.name = "nll_loss2d_forward", .run = run_forward},
    {.name = "nll_loss_backward", .run = run_backward},
    {.name = "nll_loss_forward", .run = run_forward},
};

}  // namespace loss_kernels

OP_KERNELS(loss){loss_kernels::kKernels};

}  // namespace shardlab
