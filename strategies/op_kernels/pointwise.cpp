// Pointwise kernels: operands are broadcast, numbers follow the tensors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "costmodel/error.h"
#include "costmodel/json_reader.h"
#include "strategies/op_kernel.h"

namespace shardlab {
namespace {

using Operands = std::span<const double>;
using Result = OpKernel::Result;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // a number that is absent

// The numbers that follow the tensors.
std::vector<double> numbers_of(const OpCall& call, const OpKernel& kernel, std::size_t tensors) {
  const std::size_t count = kernel.operands - tensors;
  if (call.args.size() > count) {
    throw InputError(call.op + ": found " + std::to_string(call.args.size()) +
                     " arguments in --args; valid: at most " + std::to_string(count));
  }
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    const bool absent = i >= call.args.size() || call.args[i].is_null();
    const bool optional = tensors + i >= kernel.operands - kernel.optional;
    if (absent ? !optional : !call.args[i].is_number()) {
      throw InputError(call.op + ": argument " + std::to_string(i + 1) + " of --args: found " +
                       (absent ? "nothing" : describe_json(call.args[i])) + "; valid: a number");
    }
    numbers.push_back(absent ? kNone : call.args[i].get<double>());
  }
  return numbers;
}

DType dtype_of(const OpKernel& kernel, std::span<const HostTensor> tensors, const OpCall& call) {
  switch (kernel.result) {
    case Result::kAsSecond:
      return tensors[std::min<std::size_t>(1, tensors.size() - 1)].dtype();
    case Result::kTruth:
      return DType::kB8;
    case Result::kFloatingPoint:
      if (!is_floating_point(tensors[0].dtype())) {
        throw InputError(call.op + " of " + std::string(to_string(tensors[0].dtype())) +
                         " would be floating point; valid: floating point tensors");
      }
      break;
    case Result::kInteger:
      for (const HostTensor& tensor : tensors) {
        if (!is_floating_point(tensor.dtype())) continue;
        throw InputError(call.op + " of " + std::string(to_string(tensor.dtype())) +
                         "; valid: integers and b8");
      }
      break;
    case Result::kAsFirst:
      break;
  }
  return tensors[0].dtype();
}

LocalResult run_pointwise(const LocalCall& local, const OpKernel& kernel) {
  std::span<const HostTensor> tensors = local.inputs;
  if (local.call.op.ends_with("out")) tensors = tensors.first(tensors.size() - 1);
  if (tensors.empty() || tensors.size() > kernel.operands) {
    throw InputError(local.call.op + ": takes at most " + std::to_string(kernel.operands) +
                     " tensors, found " + std::to_string(tensors.size()));
  }
  const std::vector<double> numbers = numbers_of(local.call, kernel, tensors.size());
  std::vector<TensorSpec> specs(tensors.size());
  std::vector<const TensorSpec*> shown;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    specs[i].meta.shape = tensors[i].shape();
    shown.push_back(&specs[i]);
  }
  const Shape shape = broadcast_shape(shown, local.call.op);
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    elements = extent == 0 ? 0 : saturating_product(elements, extent);
  }
  expect_room(local.call.op, elements, local.memory);
  // Where each operand's element stands, for an index of the common shape.
  std::vector<std::vector<double>> values;
  std::vector<Shape> strides;
  for (const HostTensor& tensor : tensors) {
    values.push_back(as_doubles(tensor));
    Shape own = row_major_strides(tensor.shape());
    for (std::size_t d = 0; d < own.size(); ++d) {
      if (tensor.shape()[d] == 1) own[d] = 0;
    }
    own.insert(own.begin(), shape.size() - own.size(), 0);
    strides.push_back(own);
  }
  const DType dtype = dtype_of(kernel, tensors, local.call);
  std::vector<double> operands(kernel.operands);
  std::copy(numbers.begin(), numbers.end(), operands.begin() + std::ssize(tensors));
  std::vector<double> results(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      std::int64_t rest = i;
      std::int64_t place = 0;
      for (std::size_t d = shape.size(); d-- > 0;) {
        place += rest % shape[d] * strides[t][d];
        rest /= shape[d];
      }
      operands[t] = values[t][static_cast<std::size_t>(place)];
    }
    results[static_cast<std::size_t>(i)] = kernel.element(operands);
  }
  return {{from_doubles(local.memory, dtype, shape, results)}, {}};
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }
double limited(double x, double low, double high) {
  if (!std::isnan(low)) x = std::max(x, low);
  if (!std::isnan(high)) x = std::min(x, high);
  return x;
}
double log_sum(double a, double b, double base) {
  if (std::isnan(a) || std::isnan(b)) return kNone;
  const double most = std::max(a, b);
  if (std::isinf(most)) return most;
  return most + std::log1p(std::pow(base, std::min(a, b) - most)) / std::log(base);
}
double larger(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? kNone : std::max(a, b);
}
double smaller(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? kNone : std::min(a, b);
}

constexpr OpKernel row(std::string_view name, std::size_t operands, double (*element)(Operands),
                       Result result = Result::kAsFirst) {
  return {.name = name,
          .run = run_pointwise,
          .element = element,
          .operands = operands,
          .result = result};
}
constexpr OpKernel floating(std::string_view name, std::size_t operands,
                            double (*element)(Operands)) {
  return row(name, operands, element, Result::kFloatingPoint);
}
constexpr OpKernel truth(std::string_view name, double (*element)(Operands)) {
  return row(name, 2, element, Result::kTruth);
}

constexpr OpKernel kKernels[] = {
    row("abs", 1, [](Operands x) { return std::abs(x[0]); }),
    row("add", 2, [](Operands x) { return x[0] + x[1]; }),
    floating("addcdiv", 3, [](Operands x) { return x[0] + x[1] / x[2]; }),
    row("addcmul", 3, [](Operands x) { return x[0] + x[1] * x[2]; }),
    floating("asinh", 1, [](Operands x) { return std::asinh(x[0]); }),
    floating("atan", 1, [](Operands x) { return std::atan(x[0]); }),
    row(
        "bitwise_and", 2,
        [](Operands x) {
          return static_cast<double>(static_cast<std::int64_t>(x[0]) &
                                     static_cast<std::int64_t>(x[1]));
        },
        Result::kInteger),
    row("ceil", 1, [](Operands x) { return std::ceil(x[0]); }),
    {.name = "clamp",
     .run = run_pointwise,
     .element = [](Operands x) { return limited(x[0], x[1], x[2]); },
     .operands = 3,
     .optional = 2},
    row("clamp_max", 2, [](Operands x) { return smaller(x[0], x[1]); }),
    row("clamp_min", 2, [](Operands x) { return larger(x[0], x[1]); }),
    row("copy", 2, [](Operands x) { return x[1]; }),
    floating("cos", 1, [](Operands x) { return std::cos(x[0]); }),
    floating("div", 2, [](Operands x) { return x[0] / x[1]; }),
    truth("eq", [](Operands x) { return x[0] == x[1] ? 1.0 : 0.0; }),
    floating("erf", 1, [](Operands x) { return std::erf(x[0]); }),
    floating("erfc", 1, [](Operands x) { return std::erfc(x[0]); }),
    floating("exp", 1, [](Operands x) { return std::exp(x[0]); }),
    floating("exp2", 1, [](Operands x) { return std::exp2(x[0]); }),
    floating("expm1", 1, [](Operands x) { return std::expm1(x[0]); }),
    row("fill", 2, [](Operands x) { return x[1]; }),
    row("floor", 1, [](Operands x) { return std::floor(x[0]); }),
    row("fmax", 2, [](Operands x) { return std::fmax(x[0], x[1]); }),
    row("fmin", 2, [](Operands x) { return std::fmin(x[0], x[1]); }),
    truth("ge", [](Operands x) { return x[0] >= x[1] ? 1.0 : 0.0; }),
    floating("gelu", 1, [](Operands x) { return x[0] * normal_cdf(x[0]); }),
    floating("gelu_backward", 2,
             [](Operands x) {
               const double density =
                   std::exp(-0.5 * x[1] * x[1]) / std::sqrt(2.0 * std::numbers::pi);
               return x[0] * (normal_cdf(x[1]) + x[1] * density);
             }),
    truth("gt", [](Operands x) { return x[0] > x[1] ? 1.0 : 0.0; }),
    truth("le", [](Operands x) { return x[0] <= x[1] ? 1.0 : 0.0; }),
    floating("lerp", 3, [](Operands x) { return x[0] + x[2] * (x[1] - x[0]); }),
    floating("log", 1, [](Operands x) { return std::log(x[0]); }),
    floating("log1p", 1, [](Operands x) { return std::log1p(x[0]); }),
    floating("logaddexp", 2, [](Operands x) { return log_sum(x[0], x[1], std::numbers::e); }),
    floating("logaddexp2", 2, [](Operands x) { return log_sum(x[0], x[1], 2.0); }),
    truth("logical_and", [](Operands x) { return x[0] != 0.0 && x[1] != 0.0 ? 1.0 : 0.0; }),
    truth("lt", [](Operands x) { return x[0] < x[1] ? 1.0 : 0.0; }),
    row("masked_fill", 3, [](Operands x) { return x[1] != 0.0 ? x[2] : x[0]; }),
    row("maximum", 2, [](Operands x) { return larger(x[0], x[1]); }),
    row("minimum", 2, [](Operands x) { return smaller(x[0], x[1]); }),
    row("mul", 2, [](Operands x) { return x[0] * x[1]; }),
    truth("ne", [](Operands x) { return x[0] != x[1] ? 1.0 : 0.0; }),
    row("neg", 1, [](Operands x) { return -x[0]; }),
    row("positive", 1, [](Operands x) { return x[0]; }),
    floating("pow", 2, [](Operands x) { return std::pow(x[0], x[1]); }),
    floating("reciprocal", 1, [](Operands x) { return 1.0 / x[0]; }),
    row("relu", 1, [](Operands x) { return std::isnan(x[0]) ? x[0] : std::max(x[0], 0.0); }),
    row("round", 1, [](Operands x) { return std::nearbyint(x[0]); }),
    floating("rsqrt", 1, [](Operands x) { return 1.0 / std::sqrt(x[0]); }),
    row("rsub", 2, [](Operands x) { return x[1] - x[0]; }),
    row("sgn", 1, [](Operands x) { return sign(x[0]); }),
    floating("sigmoid", 1, [](Operands x) { return sigmoid(x[0]); }),
    floating("sigmoid_backward", 2, [](Operands x) { return x[0] * (1.0 - x[1]) * x[1]; }),
    row("sign", 1, [](Operands x) { return sign(x[0]); }),
    floating("silu", 1, [](Operands x) { return x[0] * sigmoid(x[0]); }),
    floating("silu_backward", 2,
             [](Operands x) {
               const double s = sigmoid(x[1]);
               return x[0] * s * (1.0 + x[1] * (1.0 - s));
             }),
    floating("sin", 1, [](Operands x) { return std::sin(x[0]); }),
    floating("sinh", 1, [](Operands x) { return std::sinh(x[0]); }),
    floating("sqrt", 1, [](Operands x) { return std::sqrt(x[0]); }),
    row("sub", 2, [](Operands x) { return x[0] - x[1]; }),
    floating("tanh", 1, [](Operands x) { return std::tanh(x[0]); }),
    floating("tanh_backward", 2, [](Operands x) { return x[0] * (1.0 - x[1] * x[1]); }),
    row("threshold_backward", 3, [](Operands x) { return x[1] <= x[2] ? 0.0 : x[0]; }),
    row("trunc", 1, [](Operands x) { return std::trunc(x[0]); }),
    row(
        "where", 3, [](Operands x) { return x[0] != 0.0 ? x[1] : x[2]; }, Result::kAsSecond),
    row("zero", 1, [](Operands) { return 0.0; }),
};

}  // namespace

OP_KERNELS(pointwise){kKernels};

}  // namespace shardlab
