// Layer, rms, batch and group norms, and their backwards.
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/norm_args.h"

namespace shardlab {
namespace norm_kernels {

using Kind = NormArgs::Kind;

// The tensor argument at this position; null if the op has no such tensor or it is missing.
const HostTensor* optional_tensor(const LocalCall& local, int position) {
  return position < 0 ? nullptr : local.tensor(static_cast<std::size_t>(position));
}

void expect_shape(const LocalCall& local, const HostTensor* tensor, const Shape& shape) {
  if (tensor == nullptr || tensor->shape() == shape) return;
  throw InputError(local.call.op + ": found " + tensor_text(*tensor) +
                   "; valid: " + tensor_text(tensor->dtype(), shape) + ", which fits the input");
}

// Which elements are normalised together.
struct Groups {
  Shape statistics;                 // the shape of the means
  Shape affine;                     // the shape of weight and bias
  std::vector<std::size_t> group;   // by element: the number of its group
  std::vector<std::size_t> weight;  // by element: the flat index of its weight
  std::vector<double> sizes;        // by group: how many elements it has
};

Groups groups_of(const LocalCall& local, const NormArgs& args, const HostTensor& input) {
  Groups groups;
  const Shape& shape = input.shape();
  std::int64_t inner = 1;  // how many consecutive elements belong to one row or channel
  if (args.kind == Kind::kLayer || args.kind == Kind::kRms) {
    const int axis = normalized_axis(local.call);
    groups.statistics.assign(shape.begin(), shape.begin() + axis);
    groups.statistics.resize(shape.size(), 1);
    groups.affine.assign(shape.begin() + axis, shape.end());
    const Shape& whole =
        local.call.required_tensor(static_cast<std::size_t>(args.input)).meta.shape;
    if (groups.affine != Shape(whole.begin() + axis, whole.end())) {
      throw InputError(local.call.op + ": found a part of the normalized dims on a rank, " +
                       tensor_text(input) + "; valid: the whole of them");
    }
    for (const std::int64_t extent : groups.affine) inner *= extent;
  } else {
    groups.affine = {shape[1]};
    for (std::size_t d = 2; d < shape.size(); ++d) inner *= shape[d];
    groups.statistics = {shape[1]};
  }
  std::int64_t count = 1;
  std::int64_t in_groups = 1;
  if (args.kind == Kind::kGroup) {
    in_groups = local.call.integer_arg(3, 1);
    if (shape[1] != local.call.integer_arg(1, shape[1]) || in_groups < 1 ||
        shape[1] % in_groups != 0) {
      throw InputError(local.call.op + ": found " + std::to_string(shape[1]) + " channels in " +
                       std::to_string(in_groups) +
                       " groups; valid: " + std::to_string(local.call.integer_arg(1, shape[1])) +
                       " channels, as --args say, in groups of equal size");
    }
    groups.statistics = {shape[0], in_groups};
  }
  for (const std::int64_t extent : groups.statistics) count *= extent;
  groups.sizes.assign(static_cast<std::size_t>(count), 0.0);
  expect_room(local.call.op, saturating_product(std::max<std::int64_t>(input.elements(), 1), 8),
              local.memory);
  for (std::int64_t i = 0; i < input.elements(); ++i) {
    const std::int64_t outer = i / inner;  // the row, or the channel counted through all samples
    std::int64_t group = outer;
    std::int64_t weight = i % inner;
    if (args.kind == Kind::kBatch || args.kind == Kind::kGroup) {
      weight = outer % shape[1];
      group = args.kind == Kind::kBatch
                  ? weight
                  : outer / shape[1] * in_groups + weight / (shape[1] / in_groups);
    }
    groups.group.push_back(static_cast<std::size_t>(group));
    groups.weight.push_back(static_cast<std::size_t>(weight));
    groups.sizes[groups.group.back()] += 1.0;
  }
  return groups;
}

// The default of an rms norm depends on the dtype of the call's input, which may differ from the
// local tensor's.
double epsilon(const LocalCall& local, const NormArgs& args) {
  const DType dtype = local.call.required_tensor(static_cast<std::size_t>(args.input)).meta.dtype;
  const double fallback = args.kind == Kind::kRms ? 2.0 * unit_roundoff(dtype) : 1e-5;
  return args.eps < 0 ? fallback
                      : local.call.number_arg(static_cast<std::size_t>(args.eps), fallback);
}

struct Statistics {
  std::vector<double> mean;  // by group; zeros in an rms norm
  std::vector<double> rstd;
  std::vector<double> var = {};  // the mean square, if it was measured
};

std::vector<double> averages(const Groups& groups, const std::vector<double>& values) {
  std::vector<double> sums(groups.sizes.size(), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) sums[groups.group[i]] += values[i];
  for (std::size_t g = 0; g < sums.size(); ++g) sums[g] /= groups.sizes[g];
  return sums;
}

// A batch norm that does not train uses the running statistics.
Statistics running(const LocalCall& local, const NormArgs& args) {
  const HostTensor* mean = optional_tensor(local, args.running_mean);
  const HostTensor* var = optional_tensor(local, args.running_var);
  if (mean == nullptr || var == nullptr) {
    throw InputError(local.call.op + ": takes running statistics when it does not train");
  }
  Statistics statistics{as_doubles(*mean), as_doubles(*var)};
  for (double& v : statistics.rstd) v = 1.0 / std::sqrt(v + epsilon(local, args));
  return statistics;
}

Statistics measured(const Groups& groups, const NormArgs& args, const std::vector<double>& x,
                    double eps) {
  Statistics statistics;
  statistics.mean =
      args.kind == Kind::kRms ? std::vector<double>(groups.sizes.size(), 0.0) : averages(groups, x);
  std::vector<double> squares(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double off = x[i] - statistics.mean[groups.group[i]];
    squares[i] = off * off;
  }
  statistics.var = averages(groups, squares);
  statistics.rstd = statistics.var;
  for (double& v : statistics.rstd) v = 1.0 / std::sqrt(v + eps);
  return statistics;
}

bool trains(const LocalCall& local, const NormArgs& args) {
  return args.kind != Kind::kBatch || is_training(local.call);
}

const HostTensor& checked_input(const LocalCall& local, const NormArgs& args) {
  const HostTensor& input = local.required_tensor(static_cast<std::size_t>(args.input));
  const int least = args.kind == Kind::kBatch || args.kind == Kind::kGroup ? 2 : 1;
  if (input.ndim() < least || !is_floating_point(input.dtype())) {
    throw InputError(local.call.op + ": found an input " + tensor_text(input) +
                     "; valid: a floating point input of at least " +
                     (least == 1 ? "1 dim" : std::to_string(least) + " dims"));
  }
  return input;
}

std::vector<double> values_or(const HostTensor* tensor, const Groups& groups, double fallback) {
  if (tensor != nullptr) return as_doubles(*tensor);
  return std::vector<double>(static_cast<std::size_t>(elements_of(groups.affine)), fallback);
}

// Running statistics move towards those of the input by the momentum. The variance that they move
// towards is that of a sample: the mean square times n / (n - 1). A norm that does not train keeps
// them.
void add_running(const LocalCall& local, const NormArgs& args, const Groups& groups,
                 const Statistics& statistics, LocalResult& result) {
  const double momentum = local.call.number_arg(1, 0.1);
  const bool moves = trains(local, args);
  for (const int position : {args.running_mean, args.running_var}) {
    const HostTensor& kept = local.required_tensor(static_cast<std::size_t>(position));
    std::vector<double> values = as_doubles(kept);
    for (std::size_t g = 0; moves && g < values.size(); ++g) {
      const double n = groups.sizes[g];
      const double own =
          position == args.running_mean ? statistics.mean[g] : statistics.var[g] * n / (n - 1.0);
      values[g] += momentum * (own - values[g]);
    }
    result.outputs.push_back(from_doubles(local.memory, kept.dtype(), kept.shape(), values));
  }
}

LocalResult run_norm(const LocalCall& local, const OpKernel&) {
  const NormArgs& args = norm_args(local.call.op);
  const HostTensor& input = checked_input(local, args);
  const Groups groups = groups_of(local, args, input);
  for (const int position : {args.weight, args.bias}) {
    expect_shape(local, optional_tensor(local, position), groups.affine);
  }
  for (const int position : {args.running_mean, args.running_var}) {
    expect_shape(local, optional_tensor(local, position), groups.affine);
  }
  const std::vector<double> x = as_doubles(input);
  const double eps = epsilon(local, args);
  const Statistics statistics =
      trains(local, args) ? measured(groups, args, x, eps) : running(local, args);
  const std::vector<double> weight = values_or(optional_tensor(local, args.weight), groups, 1.0);
  const std::vector<double> bias = values_or(optional_tensor(local, args.bias), groups, 0.0);
  std::vector<double> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t g = groups.group[i];
    const double normal = (x[i] - statistics.mean[g]) * statistics.rstd[g];
    out[i] = normal * weight[groups.weight[i]] + bias[groups.weight[i]];
  }
  const bool half = input.dtype() == DType::kF16 || input.dtype() == DType::kBF16;
  const DType kept = half && args.kind != Kind::kGroup ? DType::kF32 : input.dtype();
  LocalResult result;
  result.outputs = {from_doubles(local.memory, input.dtype(), input.shape(), out)};
  if (args.kind != Kind::kRms) {
    result.outputs.push_back(from_doubles(local.memory, kept, groups.statistics, statistics.mean));
  }
  result.outputs.push_back(from_doubles(local.memory, kept, groups.statistics, statistics.rstd));
  if (args.outputs == 4) result.outputs.push_back(HostTensor::make(local.memory, DType::kU8, {0}));
  if (args.returns_running()) add_running(local, args, groups, statistics, result);
  return result;
}

// The gradient of the input is rstd (h - mean(h) - n mean(h n)), where g is the gradient of the
// output, n = (x - mean) rstd and h = g weight. The second term is missing in an rms norm, and both
// means are missing where the statistics do not depend on the input.
LocalResult run_backward(const LocalCall& local, const OpKernel&) {
  const NormArgs& args = norm_args(local.call.op);
  const HostTensor& input = checked_input(local, args);
  const Groups groups = groups_of(local, args, input);
  const HostTensor& gradient = local.required_tensor(static_cast<std::size_t>(args.gradient));
  expect_shape(local, &gradient, input.shape());
  for (const int position : {args.weight, args.bias, args.running_mean, args.running_var}) {
    expect_shape(local, optional_tensor(local, position), groups.affine);
  }
  for (const int position : {args.mean, args.rstd}) {
    expect_shape(local, optional_tensor(local, position), groups.statistics);
  }
  const bool depends = trains(local, args);
  Statistics statistics;
  if (depends) {
    statistics.rstd = as_doubles(local.required_tensor(static_cast<std::size_t>(args.rstd)));
    statistics.mean = args.mean < 0
                          ? std::vector<double>(statistics.rstd.size(), 0.0)
                          : as_doubles(local.required_tensor(static_cast<std::size_t>(args.mean)));
  } else {
    statistics = running(local, args);
  }
  const std::vector<double> x = as_doubles(input);
  const std::vector<double> g = as_doubles(gradient);
  const std::vector<double> weight = values_or(optional_tensor(local, args.weight), groups, 1.0);
  std::vector<double> normal(x.size());
  std::vector<double> h(x.size());
  std::vector<double> products(x.size());
  std::vector<double> weight_gradient(weight.size(), 0.0);
  std::vector<double> bias_gradient(weight.size(), 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t group = groups.group[i];
    normal[i] = (x[i] - statistics.mean[group]) * statistics.rstd[group];
    h[i] = g[i] * weight[groups.weight[i]];
    products[i] = h[i] * normal[i];
    weight_gradient[groups.weight[i]] += g[i] * normal[i];
    bias_gradient[groups.weight[i]] += g[i];
  }
  std::vector<double> along(groups.sizes.size(), 0.0);
  std::vector<double> shift(groups.sizes.size(), 0.0);
  if (depends) along = averages(groups, products);
  if (depends && args.kind != Kind::kRms) shift = averages(groups, h);
  std::vector<double> result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t group = groups.group[i];
    result[i] = statistics.rstd[group] * (h[i] - shift[group] - normal[i] * along[group]);
  }
  const std::vector<bool> mask = output_mask(local.call);
  const bool always = args.kind == Kind::kBatch;
  const HostTensor* affine = optional_tensor(local, args.weight);
  const HostTensor* bias = optional_tensor(local, args.bias);
  const DType dtype = affine != nullptr ? affine->dtype() : input.dtype();
  LocalResult out;
  if (mask[0]) {
    out.outputs.push_back(from_doubles(local.memory, input.dtype(), input.shape(), result));
  }
  if (mask[1] && (always || affine != nullptr)) {
    out.outputs.push_back(from_doubles(local.memory, dtype, groups.affine, weight_gradient));
  }
  if (mask.size() > 2 && mask[2] && (always || bias != nullptr)) {
    out.outputs.push_back(from_doubles(local.memory, bias != nullptr ? bias->dtype() : dtype,
                                       groups.affine, bias_gradient));
  }
  return out;
}

// The gradients of the direction v and the length g of a weight w = g v / |v|, where the norm is
// taken over all dims but one. The tensors are the gradient of w, v, g and |v|.
LocalResult run_weight_norm_backward(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 4, 4);
  const HostTensor& direction = local.inputs[1];
  const HostTensor& length = local.inputs[2];
  const std::size_t dim =
      to_index(normalize_dim(local.call.integer_arg(0, 0), direction.ndim(), local.call.op));
  Shape lengths(direction.shape().size(), 1);
  lengths[dim] = direction.shape()[dim];
  expect_shape(local, local.inputs.data(), direction.shape());
  expect_shape(local, &length, lengths);
  expect_shape(local, &local.inputs[3], lengths);
  const std::vector<double> grad = as_doubles(local.inputs[0]);
  const std::vector<double> v = as_doubles(direction);
  const std::vector<double> g = as_doubles(length);
  const std::vector<double> norm = as_doubles(local.inputs[3]);
  std::vector<double> along(g.size(), 0.0);  // by slice: the product of v and the gradient of w
  for_each_element(direction.shape(), [&](const Shape& index, std::int64_t i) {
    along[to_index(index[dim])] += grad[to_index(i)] * v[to_index(i)];
  });
  std::vector<double> of_direction(v.size());
  for_each_element(direction.shape(), [&](const Shape& index, std::int64_t i) {
    const std::size_t slice = to_index(index[dim]);
    const double radial = v[to_index(i)] * along[slice] / (norm[slice] * norm[slice]);
    of_direction[to_index(i)] = g[slice] / norm[slice] * (grad[to_index(i)] - radial);
  });
  std::vector<double> of_length(g.size());
  for (std::size_t i = 0; i < g.size(); ++i) of_length[i] = along[i] / norm[i];
  return {{from_doubles(local.memory, direction.dtype(), direction.shape(), of_direction),
           from_doubles(local.memory, length.dtype(), lengths, of_length)},
          {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "_batch_norm_with_update", .run = run_norm},
    {.name = "_fused_rms_norm", .run = run_norm},
    {.name = "_fused_rms_norm_backward", .run = run_backward},
    {.name = "_native_batch_norm_legit", .run = run_norm},
    {.name = "_native_batch_norm_legit_functional", .run = run_norm},
    {.name = "_native_batch_norm_legit_no_training", .run = run_norm},
    {.name = "_weight_norm_interface_backward", .run = run_weight_norm_backward},
    {.name = "native_batch_norm", .run = run_norm},
    {.name = "native_batch_norm_backward", .run = run_backward},
    {.name = "native_group_norm", .run = run_norm},
    {.name = "native_layer_norm", .run = run_norm},
    {.name = "native_layer_norm_backward", .run = run_backward},
};

}  // namespace norm_kernels

OP_KERNELS(norm){norm_kernels::kKernels};

}  // namespace shardlab
