// Kernels of the fused optimizers, and of the check for gradients that are not finite, which runs
// before them. Each runs on one element of the op's lists.
#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/base/error.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {
namespace foreach_kernels {

// Returns a tensor times a number, and whether one of its elements is not finite.
LocalResult run_unscale(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 3, 3);
  if (local.inputs[1].elements() != 1 || local.inputs[2].elements() != 1) {
    throw InputError(local.call.op + ": found " + tensor_text(local.inputs[1]) +
                     " as found_inf and " + tensor_text(local.inputs[2]) +
                     " as inv_scale; valid: tensors of one element");
  }
  const double scale = as_doubles(local.inputs[2])[0];
  std::vector<double> found = as_doubles(local.inputs[1]);
  std::vector<double> values = as_doubles(local.inputs[0]);
  for (double& value : values) {
    if (!std::isfinite(value)) found[0] = 1.0;
    value *= scale;
  }
  return {{from_doubles(local.memory, local.inputs[0].dtype(), local.inputs[0].shape(), values),
           from_doubles(local.memory, local.inputs[1].dtype(), local.inputs[1].shape(), found)},
          {}};
}

// The --args are lr (which tensor_lr takes as a tensor), beta1, beta2, weight decay, eps, amsgrad
// and maximize. AdamW decays the parameter itself, Adam does so by way of the gradient. Source:
// Kingma and Ba 2015; Loshchilov and Hutter 2019; PyTorch, torch.optim.Adam.
template <bool kDecoupled>
LocalResult run_adam(const LocalCall& local, const OpKernel&) {
  const OpCall& call = local.call;
  const bool lr_is_tensor = call.op.ends_with(".tensor_lr");
  std::array<const HostTensor*, 5> lists{};
  for (std::size_t i = 0; i < lists.size(); ++i) {
    lists[i] = i == 4 ? local.tensor(i) : &local.required_tensor(i);
    if (lists[i] != nullptr && lists[i]->shape() != lists[0]->shape()) {
      throw InputError(call.op + ": found " + tensor_text(*lists[i]) + " in list " +
                       std::to_string(i) + " for the parameter " + tensor_text(*lists[0]) +
                       "; valid: tensors of one shape");
    }
  }
  const auto number_in = [&](std::size_t i, double fallback) {
    const HostTensor* tensor = local.tensor(i);
    if (tensor == nullptr) return fallback;
    if (tensor->elements() != 1) {
      throw InputError(call.op + ": tensor argument " + std::to_string(i) + ": found " +
                       tensor_text(*tensor) + "; valid: one number");
    }
    return as_doubles(*tensor)[0];
  };
  const double step = number_in(5, 1.0);
  const std::size_t first = lr_is_tensor ? 0 : 1;
  const double lr = lr_is_tensor ? number_in(6, 0.0) : call.number_arg(0, 0.0);
  const double scale = number_in(lr_is_tensor ? 7 : 6, 1.0);
  const bool skips = number_in(lr_is_tensor ? 8 : 7, 0.0) != 0.0;
  const double beta1 = call.number_arg(first, 0.9);
  const double beta2 = call.number_arg(first + 1, 0.999);
  const double decay = call.number_arg(first + 2, 0.0);
  const double eps = call.number_arg(first + 3, 1e-8);
  const bool amsgrad = call.boolean_arg(first + 4, false);
  const double sign = call.boolean_arg(first + 5, false) ? -1.0 : 1.0;
  if (amsgrad && lists[4] == nullptr) {
    throw InputError(call.op + ": amsgrad needs tensor argument 4, the list max_exp_avg_sqs");
  }
  std::vector<double> param = as_doubles(*lists[0]);
  std::vector<double> grad = as_doubles(*lists[1]);
  std::vector<double> average = as_doubles(*lists[2]);
  std::vector<double> square = as_doubles(*lists[3]);
  std::vector<double> largest = lists[4] != nullptr ? as_doubles(*lists[4]) : square;
  for (std::size_t i = 0; !skips && i < param.size(); ++i) {
    grad[i] /= scale;
    double g = sign * grad[i];
    if (kDecoupled) {
      param[i] -= lr * decay * param[i];
    } else {
      g += decay * param[i];
    }
    average[i] = beta1 * average[i] + (1.0 - beta1) * g;
    square[i] = beta2 * square[i] + (1.0 - beta2) * g * g;
    if (amsgrad) largest[i] = std::max(largest[i], square[i]);
    const double moment = amsgrad ? largest[i] : square[i];
    const double corrected = std::sqrt(moment / (1.0 - std::pow(beta2, step))) + eps;
    param[i] -= lr / (1.0 - std::pow(beta1, step)) * average[i] / corrected;
  }
  LocalResult result;
  const std::array<const std::vector<double>*, 5> values = {&param, &grad, &average, &square,
                                                            &largest};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const HostTensor& like = lists[i] != nullptr ? *lists[i] : *lists[3];
    result.outputs.push_back(from_doubles(local.memory, like.dtype(), like.shape(), *values[i]));
  }
  return result;
}

constexpr OpKernel kKernels[] = {
    {.name = "_amp_foreach_non_finite_check_and_unscale", .run = run_unscale},
    {.name = "_fused_adam", .run = run_adam<false>},
    {.name = "_fused_adamw", .run = run_adam<true>},
};

}  // namespace foreach_kernels

OP_KERNELS(foreach){foreach_kernels::kKernels};

}  // namespace shardlab
