// Reductions, softmax, and losses.
#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/error.h"
#include "strategies/op_kernel.h"

namespace shardlab {
namespace {

void expect_floating(const LocalCall& local) {
  const DType dtype = local.inputs[0].dtype();
  if (is_floating_point(dtype)) return;
  throw InputError(local.call.op + " of " + std::string(to_string(dtype)) +
                   " would be floating point; valid: floating point tensors");
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The elements that each output element reduces, in row-major order of the reduced dims.
struct Folds {
  Shape output;
  std::vector<std::vector<double>> elements;
};

Folds folds_of(const LocalCall& local) {
  expect_inputs(local, 1, 1);
  const HostTensor& input = local.inputs[0];
  const ReducedDims dims = ReducedDims::of(local.call, input.ndim());
  Folds folds;
  folds.output = dims.output_shape(input.shape());
  ReducedDims flat = dims;
  flat.keepdim = true;
  const Shape kept = flat.output_shape(input.shape());
  const Shape strides = row_major_strides(kept);
  std::int64_t count = 1;
  for (const std::int64_t extent : kept) {
    count = extent == 0 ? 0 : saturating_product(count, extent);
  }
  expect_room(local.call.op, saturating_product(count, 4), local.memory);
  folds.elements.resize(static_cast<std::size_t>(count));
  const std::vector<double> values = as_doubles(input);
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t place = 0;
    for (std::size_t d = kept.size(); d-- > 0;) {
      if (!dims.reduced[d]) place += rest % input.shape()[d] * strides[d];
      rest /= input.shape()[d];
    }
    folds.elements[static_cast<std::size_t>(place)].push_back(values[i]);
  }
  return folds;
}

using Fold = double (*)(std::span<const double>);

template <Fold kFold>
LocalResult run_fold(const LocalCall& local, const OpKernel& kernel) {
  const DType dtype = local.inputs[0].dtype();
  if (kernel.result == OpKernel::Result::kFloatingPoint) expect_floating(local);
  const Folds folds = folds_of(local);
  std::vector<double> results;
  for (const std::vector<double>& elements : folds.elements) {
    if (elements.empty() && std::isnan(kFold({})) && kernel.name != "mean") {
      throw InputError(local.call.op + " of an empty tensor has no result");
    }
    results.push_back(kFold(elements));
  }
  const DType out = kernel.result == OpKernel::Result::kTruth ? DType::kB8
                    : kernel.name == "argmax"                 ? DType::kI64
                                                              : dtype;
  return {{from_doubles(local.memory, out, folds.output, results)}, {}};
}

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

double sum(std::span<const double> x) {
  double total = 0.0;
  for (const double v : x) total += v;
  return total;
}
double nansum(std::span<const double> x) {
  double total = 0.0;
  for (const double v : x) total += std::isnan(v) ? 0.0 : v;
  return total;
}
double mean(std::span<const double> x) { return sum(x) / static_cast<double>(x.size()); }
double product(std::span<const double> x) {
  double total = 1.0;
  for (const double v : x) total *= v;
  return total;
}
// NaN is above and below all numbers, as in PyTorch.
bool is_less(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
// The order in which the smallest, or NaN, is the last.
bool is_greater_or_nan(double a, double b) { return a > b || (std::isnan(b) && !std::isnan(a)); }
double largest(std::span<const double> x) {
  return x.empty() ? kNothing : *std::max_element(x.begin(), x.end(), is_less);
}
double smallest(std::span<const double> x) {
  return x.empty() ? kNothing : *std::max_element(x.begin(), x.end(), is_greater_or_nan);
}
double place_of_largest(std::span<const double> x) {
  return x.empty() ? kNothing
                   : static_cast<double>(std::max_element(x.begin(), x.end(), is_less) - x.begin());
}
double all(std::span<const double> x) {
  return std::all_of(x.begin(), x.end(), [](double v) { return v != 0.0; }) ? 1.0 : 0.0;
}
double any(std::span<const double> x) {
  return std::any_of(x.begin(), x.end(), [](double v) { return v != 0.0; }) ? 1.0 : 0.0;
}

// The first of --args is the dim.
enum class Softmax : std::uint8_t { kPlain, kLog, kSafe };
template <Softmax kKind>
LocalResult run_softmax(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  const HostTensor& input = local.inputs[0];
  expect_floating(local);
  const int dim = normalize_dim(local.call.integer_arg(0, -1), input.ndim(), local.call.op);
  std::vector<double> values = as_doubles(input);
  const std::int64_t extent = input.ndim() == 0 ? 1 : input.extent(dim);
  const std::int64_t stride =
      input.ndim() == 0 ? 1 : row_major_strides(input.shape())[static_cast<std::size_t>(dim)];
  for (std::size_t first = 0; first < values.size(); ++first) {
    if (static_cast<std::int64_t>(first) / stride % extent != 0) continue;
    const auto at = [&](std::int64_t i) -> double& {
      return values[first + static_cast<std::size_t>(i * stride)];
    };
    double most = at(0);
    for (std::int64_t i = 1; i < extent; ++i) most = std::max(most, at(i));
    double total = 0.0;
    for (std::int64_t i = 0; i < extent; ++i) total += std::exp(at(i) - most);
    for (std::int64_t i = 0; i < extent; ++i) {
      at(i) =
          kKind == Softmax::kLog ? at(i) - most - std::log(total) : std::exp(at(i) - most) / total;
      // The safe one makes zeros of a row that is all minus infinity.
      if (kKind == Softmax::kSafe && most == -kInfinity) at(i) = 0.0;
    }
  }
  return {{from_doubles(local.memory, input.dtype(), input.shape(), values)}, {}};
}

// nll_loss_forward(log_probabilities [N,C], target [N], weight [C] or none; reduction, ignored
// target): the loss and the total weight. Reduction 1 is the mean, weighted; 2 the sum.
LocalResult run_nll_loss(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 3);
  const HostTensor& scores = local.inputs[0];
  const HostTensor& target = local.inputs[1];
  if (scores.ndim() != 2 || target.ndim() != 1 || scores.extent(0) != target.extent(0)) {
    throw InputError(local.call.op + ": takes scores [N,C] and a target [N]");
  }
  const auto classes_of = scores.extent(1);
  const bool weighs = local.inputs.size() == 3;
  if (is_floating_point(target.dtype()) ||
      (weighs && local.inputs[2].shape() != Shape{classes_of})) {
    throw InputError(local.call.op + ": takes whole numbers as target and a weight [C]");
  }
  const std::int64_t reduction = local.call.integer_arg(0, 1);
  const auto ignored = static_cast<double>(local.call.integer_arg(1, -100));
  if (reduction != 1 && reduction != 2) {
    throw InputError(local.call.op + ": reduction " + std::to_string(reduction) +
                     "; valid: 1 (mean) or 2 (sum)");
  }
  const std::vector<double> values = as_doubles(scores);
  const std::vector<double> classes = as_doubles(target);
  const std::vector<double> weights =
      local.inputs.size() == 3
          ? as_doubles(local.inputs[2])
          : std::vector<double>(static_cast<std::size_t>(scores.extent(1)), 1.0);
  double loss = 0.0;
  double total = 0.0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] == ignored) continue;
    if (!(classes[i] >= 0.0 && classes[i] < static_cast<double>(weights.size()))) {
      throw InputError(local.call.op + ": a target out of range");
    }
    const auto c = static_cast<std::size_t>(classes[i]);
    loss -= weights[c] * values[i * weights.size() + c];
    total += weights[c];
  }
  const double result = reduction == 1 ? loss / total : loss;
  return {{from_doubles(local.memory, scores.dtype(), {}, std::vector<double>{result}),
           from_doubles(local.memory, scores.dtype(), {}, std::vector<double>{total})},
          {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "_log_softmax", .run = run_softmax<Softmax::kLog>},
    {.name = "_safe_softmax", .run = run_softmax<Softmax::kSafe>},
    {.name = "_softmax", .run = run_softmax<Softmax::kPlain>},
    {.name = "all", .run = run_fold<all>, .result = OpKernel::Result::kTruth},
    {.name = "amax", .run = run_fold<largest>},
    {.name = "amin", .run = run_fold<smallest>},
    {.name = "any", .run = run_fold<any>, .result = OpKernel::Result::kTruth},
    {.name = "argmax", .run = run_fold<place_of_largest>},
    {.name = "max", .run = run_fold<largest>},
    {.name = "mean", .run = run_fold<mean>, .result = OpKernel::Result::kFloatingPoint},
    {.name = "min", .run = run_fold<smallest>},
    {.name = "nansum", .run = run_fold<nansum>},
    {.name = "nll_loss_forward", .run = run_nll_loss},
    {.name = "prod", .run = run_fold<product>},
    {.name = "sum", .run = run_fold<sum>},
};

}  // namespace

OP_KERNELS(reduction){kKernels};

}  // namespace shardlab
