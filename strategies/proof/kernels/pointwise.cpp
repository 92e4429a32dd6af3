// Kernels of the pointwise ops: arithmetic, comparisons, activations and their gradients.
#include "strategies/rules/pointwise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <numeric>
#include <string>
#include <string_view>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/base/units.h"
#include "strategies/proof/pointwise_kernel.h"

namespace shardlab {
namespace pointwise_kernels {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }
double limited(double x, double low, double high) {
  if (!std::isnan(low)) x = std::max(x, low);
  if (!std::isnan(high)) x = std::min(x, high);
  return x;
}
double log_sum(double a, double b, double base) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  const double most = std::max(a, b);
  if (std::isinf(most)) return most;
  return most + std::log1p(std::pow(base, std::min(a, b) - most)) / std::log(base);
}
double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b); }
double smaller(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b);
}

std::int64_t whole(double x) {
  if (!(std::abs(x) <= 0x1p53)) {
    throw InputError("found the operand " + format_double(x) +
                     "; valid: whole numbers from -2^53 to 2^53");
  }
  return static_cast<std::int64_t>(x);
}
// The integer x * 2 ** n, rounded down where n is negative.
double shifted(double x, double n) {
  constexpr double kMost = 4096.0;  // beyond any exponent
  return std::floor(
      std::ldexp(x, std::isnan(n) ? 0 : static_cast<int>(std::clamp(n, -kMost, kMost))));
}
// The remainder with the sign of b, as in Python.
double remainder_of(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

// div with a rounding mode. If the divisor is a number, the mode comes after it in --args.
LocalResult run_divide(const LocalCall& local, const OpKernel& kernel) {
  const std::size_t tensors =
      local.inputs.size() - std::min(local.inputs.size(), out_tensors_of(local.call.op));
  const std::size_t mode_arg = tensors > 1 ? 0 : 1;
  const std::string mode = local.call.text_arg(mode_arg, "");
  OpCall plain = local.call;
  if (plain.args.size() > mode_arg)
    plain.args.erase(plain.args.begin() + static_cast<std::ptrdiff_t>(mode_arg));
  LocalCall call{.call = plain, .memory = local.memory, .inputs = local.inputs};
  if (mode.empty()) return run_pointwise(call, kernel, [](Operands x) { return x[0] / x[1]; });
  if (mode == "floor") {
    return run_pointwise(call, kernel, [](Operands x) { return std::floor(x[0] / x[1]); });
  }
  if (mode == "trunc") {
    return run_pointwise(call, kernel, [](Operands x) { return std::trunc(x[0] / x[1]); });
  }
  throw InputError(local.call.op + ": found the rounding mode \"" + mode +
                   "\"; valid: floor, trunc, none");
}

double gelu(double x) { return x * normal_cdf(x); }
double gelu_by_tanh(double x) {
  return 0.5 * x *
         (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
// For ops whose arguments besides tensors are not numbers, so that they are not passed on.
LocalResult run_on_tensors(const LocalCall& local, const OpKernel& kernel,
                           double (*element)(Operands)) {
  OpCall plain = local.call;
  plain.args = nlohmann::json::array();
  return run_pointwise({.call = plain, .memory = local.memory, .inputs = local.inputs}, kernel,
                       element);
}
// The only argument names the approximation.
LocalResult run_gelu(const LocalCall& local, const OpKernel& kernel) {
  const bool by_tanh = local.call.text_arg(0, "none") == "tanh";
  if (by_tanh) return run_on_tensors(local, kernel, [](Operands x) { return gelu_by_tanh(x[0]); });
  return run_on_tensors(local, kernel, [](Operands x) { return gelu(x[0]); });
}
// The only argument is non_blocking, which changes no element.
LocalResult run_copy(const LocalCall& local, const OpKernel& kernel) {
  return run_on_tensors(local, kernel, kernel.element);
}

// The next number that the tensors' dtype can represent.
LocalResult run_nextafter(const LocalCall& local, const OpKernel& kernel) {
  if (local.inputs.empty()) throw InputError(local.call.op + ": takes 2 tensors, found none");
  switch (local.inputs[0].dtype()) {
    case DType::kF64:
      return run_pointwise(local, kernel, [](Operands x) { return std::nextafter(x[0], x[1]); });
    case DType::kF32:
      return run_pointwise(local, kernel, [](Operands x) {
        return static_cast<double>(
            std::nextafter(static_cast<float>(x[0]), static_cast<float>(x[1])));
      });
    default:
      throw InputError(local.call.op + ": found " + tensor_text(local.inputs[0]) +
                       "; valid: tensors of f32 or f64");
  }
}

// A second tensor is the lower limit or, where that is left out, the upper one.
LocalResult run_clamp(const LocalCall& local, const OpKernel& kernel) {
  const bool above = local.call.inputs.size() > 2 && local.call.inputs[1].is_absent();
  if (!above) return run_pointwise(local, kernel, kernel.element);
  return run_pointwise(local, kernel, [](Operands x) { return limited(x[0], kAbsent, x[1]); });
}

// Turns a truth value into the other one, and an integer x into -x - 1.
LocalResult run_bitwise_not(const LocalCall& local, const OpKernel& kernel) {
  if (local.inputs.empty()) throw InputError(local.call.op + ": takes 1 tensor, found none");
  if (local.inputs[0].dtype() != DType::kB8) return run_pointwise(local, kernel, kernel.element);
  return run_pointwise(local, kernel, [](Operands x) { return 1.0 - x[0]; });
}

// Replaces infinity, by default with the largest number of f32.
double finite(double x, double high, double low) {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (!std::isinf(x)) return x;
  return x > 0.0 ? number_or(high, kMost) : number_or(low, -kMost);
}

// The mantissa, in [1/2, 1), and the exponent.
LocalResult run_frexp(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 3);
  const HostTensor& input = local.inputs[0];
  std::vector<double> mantissas;
  std::vector<double> exponents;
  for (const double x : as_doubles(input)) {
    int exponent = 0;
    mantissas.push_back(std::frexp(x, &exponent));
    exponents.push_back(exponent);
  }
  return {{from_doubles(local.memory, input.dtype(), input.shape(), mantissas),
           from_doubles(local.memory, DType::kI32, input.shape(), exponents)},
          {}};
}

constexpr OpKernel divide_kernel(std::string_view name) {
  OpKernel kernel = pointwise_kernel(name, 2, [](Operands x) { return x[0] / x[1]; });
  kernel.run = run_divide;
  return kernel;
}
constexpr OpKernel clamp_kernel(std::string_view name) {
  OpKernel kernel = pointwise_kernel(
      name, 3, [](Operands x) { return limited(x[0], x[1], x[2]); }, OpKernel::Result::kAsFirst, 2);
  kernel.run = run_clamp;
  return kernel;
}

double both(double a, double b) { return static_cast<double>(whole(a) & whole(b)); }
double either(double a, double b) { return static_cast<double>(whole(a) | whole(b)); }
double one_of(double a, double b) { return static_cast<double>(whole(a) ^ whole(b)); }

constexpr OpKernel kKernels[] = {
    integer_kernel("__ilshift__", 2, [](Operands x) { return shifted(x[0], x[1]); }),
    integer_kernel("__irshift__", 2, [](Operands x) { return shifted(x[0], -x[1]); }),
    integer_kernel("__ixor__", 2, [](Operands x) { return one_of(x[0], x[1]); }),
    integer_kernel("__lshift__", 2, [](Operands x) { return shifted(x[0], x[1]); }),
    integer_kernel("__rshift__", 2, [](Operands x) { return shifted(x[0], -x[1]); }),
    integer_kernel("__xor__", 2, [](Operands x) { return one_of(x[0], x[1]); }),
    pointwise_kernel("_conj", 1, [](Operands x) { return x[0]; }),
    pointwise_kernel("abs", 1, [](Operands x) { return std::abs(x[0]); }),
    floating_kernel("acos", 1, [](Operands x) { return std::acos(x[0]); }),
    floating_kernel("acosh", 1, [](Operands x) { return std::acosh(x[0]); }),
    pointwise_kernel("add", 3, [](Operands x) { return x[0] + x[1] * number_or(x[2], 1.0); }, OpKernel::Result::kAsFirst, 1),
    floating_kernel("addcdiv", 4, [](Operands x) { return x[0] + number_or(x[3], 1.0) * (x[1] / x[2]); }, 1),
    pointwise_kernel("addcmul", 4, [](Operands x) { return x[0] + number_or(x[3], 1.0) * x[1] * x[2]; }, OpKernel::Result::kAsFirst, 1),
    floating_kernel("angle", 1, [](Operands x) { return std::isnan(x[0]) ? x[0] : x[0] < 0.0 ? std::numbers::pi : 0.0; }),
    floating_kernel("asin", 1, [](Operands x) { return std::asin(x[0]); }),
    floating_kernel("asinh", 1, [](Operands x) { return std::asinh(x[0]); }),
    floating_kernel("atan", 1, [](Operands x) { return std::atan(x[0]); }),
    floating_kernel("atan2", 2, [](Operands x) { return std::atan2(x[0], x[1]); }),
    floating_kernel("atanh", 1, [](Operands x) { return std::atanh(x[0]); }),
    integer_kernel("bitwise_and", 2, [](Operands x) { return both(x[0], x[1]); }),
    integer_kernel("bitwise_left_shift", 2, [](Operands x) { return shifted(x[0], x[1]); }),
    {.name = "bitwise_not",
     .run = run_bitwise_not,
     .element = [](Operands x) { return -x[0] - 1.0; },
     .operands = 1,
     .result = OpKernel::Result::kInteger},
    integer_kernel("bitwise_or", 2, [](Operands x) { return either(x[0], x[1]); }),
    integer_kernel("bitwise_right_shift", 2, [](Operands x) { return shifted(x[0], -x[1]); }),
    integer_kernel("bitwise_xor", 2, [](Operands x) { return one_of(x[0], x[1]); }),
    pointwise_kernel("ceil", 1, [](Operands x) { return std::ceil(x[0]); }),
    floating_kernel("celu", 2, [](Operands x) { return x[0] > 0.0 ? x[0] : number_or(x[1], 1.0) * std::expm1(x[0] / number_or(x[1], 1.0)); }, 1),
    clamp_kernel("clamp"),
    pointwise_kernel("clamp_max", 2, [](Operands x) { return smaller(x[0], x[1]); }),
    pointwise_kernel("clamp_min", 2, [](Operands x) { return larger(x[0], x[1]); }),
    clamp_kernel("clip"),
    pointwise_kernel("clone", 1, [](Operands x) { return x[0]; }),
    pointwise_kernel("conj_physical", 1, [](Operands x) { return x[0]; }),
    {.name = "copy", .run = run_copy, .element = [](Operands x) { return x[1]; }, .operands = 2},
    floating_kernel("copysign", 2, [](Operands x) { return std::copysign(x[0], x[1]); }),
    floating_kernel("cos", 1, [](Operands x) { return std::cos(x[0]); }),
    floating_kernel("cosh", 1, [](Operands x) { return std::cosh(x[0]); }),
    floating_kernel("deg2rad", 1, [](Operands x) { return x[0] * (std::numbers::pi / 180.0); }),
    floating_kernel("div", 2, [](Operands x) { return x[0] / x[1]; }),
    divide_kernel("div.Scalar_mode"),
    divide_kernel("div.Scalar_mode_out"),
    divide_kernel("div.Tensor_mode"),
    divide_kernel("div.out_mode"),
    floating_kernel("elu", 4, [](Operands x) { return number_or(x[2], 1.0) * (x[0] > 0.0 ? x[0] : number_or(x[1], 1.0) * std::expm1(x[0] * number_or(x[3], 1.0))); }, 3),
    truth_kernel("eq", 2, [](Operands x) { return x[0] == x[1] ? 1.0 : 0.0; }),
    floating_kernel("exp", 1, [](Operands x) { return std::exp(x[0]); }),
    floating_kernel("exp2", 1, [](Operands x) { return std::exp2(x[0]); }),
    floating_kernel("expm1", 1, [](Operands x) { return std::expm1(x[0]); }),
    pointwise_kernel("float_power", 2, [](Operands x) { return std::pow(x[0], x[1]); }, OpKernel::Result::kDouble),
    pointwise_kernel("floor", 1, [](Operands x) { return std::floor(x[0]); }),
    pointwise_kernel("fmax", 2, [](Operands x) { return std::fmax(x[0], x[1]); }),
    pointwise_kernel("fmin", 2, [](Operands x) { return std::fmin(x[0], x[1]); }),
    pointwise_kernel("fmod", 2, [](Operands x) { return std::fmod(x[0], x[1]); }),
    pointwise_kernel("frac", 1, [](Operands x) { return x[0] - std::trunc(x[0]); }),
    {.name = "frexp", .run = run_frexp},
    integer_kernel("gcd", 2, [](Operands x) { return static_cast<double>(std::gcd(whole(x[0]), whole(x[1]))); }),
    truth_kernel("ge", 2, [](Operands x) { return x[0] >= x[1] ? 1.0 : 0.0; }),
    {.name = "gelu", .run = run_gelu, .element = [](Operands x) { return gelu(x[0]); }, .operands = 1, .result = OpKernel::Result::kFloatingPoint},
    floating_kernel("gelu_backward", 2,
             [](Operands x) {
               const double density = std::exp(-0.5 * x[1] * x[1]) / std::sqrt(2.0 * std::numbers::pi);
               return x[0] * (normal_cdf(x[1]) + x[1] * density);
             }),
    truth_kernel("gt", 2, [](Operands x) { return x[0] > x[1] ? 1.0 : 0.0; }),
    floating_kernel("hardshrink", 2, [](Operands x) { return std::abs(x[0]) <= number_or(x[1], 0.5) ? 0.0 : x[0]; }, 1),
    floating_kernel("hardsigmoid", 1, [](Operands x) { return limited(x[0] + 3.0, 0.0, 6.0) / 6.0; }),
    pointwise_kernel("hardtanh", 3, [](Operands x) { return limited(x[0], number_or(x[1], -1.0), number_or(x[2], 1.0)); }, OpKernel::Result::kAsFirst, 2),
    pointwise_kernel("heaviside", 2, [](Operands x) { return x[0] == 0.0 ? x[1] : x[0] > 0.0 ? 1.0 : 0.0; }),
    floating_kernel("hypot", 2, [](Operands x) { return std::hypot(x[0], x[1]); }),
    truth_kernel("isfinite", 1, [](Operands x) { return std::isfinite(x[0]) ? 1.0 : 0.0; }),
    truth_kernel("isinf", 1, [](Operands x) { return std::isinf(x[0]) ? 1.0 : 0.0; }),
    truth_kernel("isnan", 1, [](Operands x) { return std::isnan(x[0]) ? 1.0 : 0.0; }),
    truth_kernel("isneginf", 1, [](Operands x) { return x[0] == -kInfinity ? 1.0 : 0.0; }),
    truth_kernel("isposinf", 1, [](Operands x) { return x[0] == kInfinity ? 1.0 : 0.0; }),
    integer_kernel("lcm", 2, [](Operands x) { return static_cast<double>(std::lcm(whole(x[0]), whole(x[1]))); }),
    floating_kernel("ldexp", 2, [](Operands x) { return x[0] * std::exp2(x[1]); }),
    truth_kernel("le", 2, [](Operands x) { return x[0] <= x[1] ? 1.0 : 0.0; }),
    floating_kernel("leaky_relu", 2, [](Operands x) { return x[0] > 0.0 ? x[0] : x[0] * number_or(x[1], 0.01); }, 1),
    floating_kernel("lerp", 3, [](Operands x) { return x[0] + x[2] * (x[1] - x[0]); }),
    floating_kernel("log", 1, [](Operands x) { return std::log(x[0]); }),
    floating_kernel("log10", 1, [](Operands x) { return std::log10(x[0]); }),
    floating_kernel("log1p", 1, [](Operands x) { return std::log1p(x[0]); }),
    floating_kernel("log2", 1, [](Operands x) { return std::log2(x[0]); }),
    floating_kernel("logaddexp", 2, [](Operands x) { return log_sum(x[0], x[1], std::numbers::e); }),
    floating_kernel("logaddexp2", 2, [](Operands x) { return log_sum(x[0], x[1], 2.0); }),
    truth_kernel("logical_and", 2, [](Operands x) { return x[0] != 0.0 && x[1] != 0.0 ? 1.0 : 0.0; }),
    truth_kernel("logical_not", 1, [](Operands x) { return x[0] == 0.0 ? 1.0 : 0.0; }),
    truth_kernel("logical_or", 2, [](Operands x) { return x[0] != 0.0 || x[1] != 0.0 ? 1.0 : 0.0; }),
    truth_kernel("logical_xor", 2, [](Operands x) { return (x[0] != 0.0) != (x[1] != 0.0) ? 1.0 : 0.0; }),
    floating_kernel("logit", 2, [](Operands x) { return std::log(limited(x[0], x[1], 1.0 - x[1]) / (1.0 - limited(x[0], x[1], 1.0 - x[1]))); }, 1),
    floating_kernel("logit_backward", 2, [](Operands x) { return x[0] / (x[1] * (1.0 - x[1])); }),
    truth_kernel("lt", 2, [](Operands x) { return x[0] < x[1] ? 1.0 : 0.0; }),
    pointwise_kernel("masked_fill", 3, [](Operands x) { return x[1] != 0.0 ? x[2] : x[0]; }),
    pointwise_kernel("max.other", 2, [](Operands x) { return larger(x[0], x[1]); }),
    pointwise_kernel("max.out", 2, [](Operands x) { return larger(x[0], x[1]); }),
    pointwise_kernel("maximum", 2, [](Operands x) { return larger(x[0], x[1]); }),
    pointwise_kernel("min.other", 2, [](Operands x) { return smaller(x[0], x[1]); }),
    pointwise_kernel("min.out", 2, [](Operands x) { return smaller(x[0], x[1]); }),
    pointwise_kernel("minimum", 2, [](Operands x) { return smaller(x[0], x[1]); }),
    floating_kernel("mish", 1, [](Operands x) { return x[0] * std::tanh(std::log1p(std::exp(x[0]))); }),
    pointwise_kernel("mul", 2, [](Operands x) { return x[0] * x[1]; }),
    pointwise_kernel("nan_to_num", 4, [](Operands x) { return std::isnan(x[0]) ? number_or(x[1], 0.0) : finite(x[0], x[2], x[3]); }, OpKernel::Result::kAsFirst, 3),
    floating_kernel("native_dropout_backward", 3, [](Operands x) { return x[0] * x[1] * x[2]; }),
    truth_kernel("ne", 2, [](Operands x) { return x[0] != x[1] ? 1.0 : 0.0; }),
    pointwise_kernel("neg", 1, [](Operands x) { return -x[0]; }),
    {.name = "nextafter", .run = run_nextafter, .element = [](Operands x) { return x[0]; }, .operands = 2, .result = OpKernel::Result::kFloatingPoint},
    pointwise_kernel("positive", 1, [](Operands x) { return x[0]; }),
    pointwise_kernel("pow", 2, [](Operands x) { return std::pow(x[0], x[1]); }),
    floating_kernel("rad2deg", 1, [](Operands x) { return x[0] * (180.0 / std::numbers::pi); }),
    floating_kernel("reciprocal", 1, [](Operands x) { return 1.0 / x[0]; }),
    pointwise_kernel("relu", 1, [](Operands x) { return std::isnan(x[0]) ? x[0] : std::max(x[0], 0.0); }),
    pointwise_kernel("relu6", 1, [](Operands x) { return limited(x[0], 0.0, 6.0); }),
    pointwise_kernel("remainder", 2, [](Operands x) { return remainder_of(x[0], x[1]); }),
    pointwise_kernel("round", 1, [](Operands x) { return std::nearbyint(x[0]); }),
    pointwise_kernel("round.decimals", 2, [](Operands x) { return std::nearbyint(x[0] * std::pow(10.0, number_or(x[1], 0.0))) / std::pow(10.0, number_or(x[1], 0.0)); }, OpKernel::Result::kAsFirst, 1),
    pointwise_kernel("round.decimals_out", 2, [](Operands x) { return std::nearbyint(x[0] * std::pow(10.0, number_or(x[1], 0.0))) / std::pow(10.0, number_or(x[1], 0.0)); }, OpKernel::Result::kAsFirst, 1),
    floating_kernel("rrelu_with_noise", 4, [](Operands x) { return x[0] > 0.0 ? x[0] : x[0] * (number_or(x[2], 0.125) + number_or(x[3], 1.0 / 3)) / 2.0; }, 2),
    floating_kernel("rsqrt", 1, [](Operands x) { return 1.0 / std::sqrt(x[0]); }),
    pointwise_kernel("rsub", 3, [](Operands x) { return x[1] - x[0] * number_or(x[2], 1.0); }, OpKernel::Result::kAsFirst, 1),
    floating_kernel("selu", 1, [](Operands x) { return 1.0507009873554805 * (x[0] > 0.0 ? x[0] : 1.6732632423543772 * std::expm1(x[0])); }),
    pointwise_kernel("sgn", 1, [](Operands x) { return sign(x[0]); }),
    floating_kernel("sigmoid", 1, [](Operands x) { return sigmoid(x[0]); }),
    floating_kernel("sigmoid_backward", 2, [](Operands x) { return x[0] * (1.0 - x[1]) * x[1]; }),
    pointwise_kernel("sign", 1, [](Operands x) { return sign(x[0]); }),
    truth_kernel("signbit", 1, [](Operands x) { return std::signbit(x[0]) ? 1.0 : 0.0; }),
    floating_kernel("silu", 1, [](Operands x) { return x[0] * sigmoid(x[0]); }),
    floating_kernel("silu_backward", 2, [](Operands x) { return x[0] * sigmoid(x[1]) * (1.0 + x[1] * (1.0 - sigmoid(x[1]))); }),
    floating_kernel("sin", 1, [](Operands x) { return std::sin(x[0]); }),
    floating_kernel("sinc", 1, [](Operands x) { return x[0] == 0.0 ? 1.0 : std::sin(std::numbers::pi * x[0]) / (std::numbers::pi * x[0]); }),
    floating_kernel("sinh", 1, [](Operands x) { return std::sinh(x[0]); }),
    floating_kernel("softplus", 3, [](Operands x) { return x[0] * number_or(x[1], 1.0) > number_or(x[2], 20.0) ? x[0] : std::log1p(std::exp(x[0] * number_or(x[1], 1.0))) / number_or(x[1], 1.0); }, 2),
    floating_kernel("softshrink", 2, [](Operands x) { return x[0] > number_or(x[1], 0.5) ? x[0] - number_or(x[1], 0.5) : x[0] < -number_or(x[1], 0.5) ? x[0] + number_or(x[1], 0.5) : 0.0; }, 1),
    floating_kernel("sqrt", 1, [](Operands x) { return std::sqrt(x[0]); }),
    pointwise_kernel("square", 1, [](Operands x) { return x[0] * x[0]; }),
    pointwise_kernel("sub", 3, [](Operands x) { return x[0] - x[1] * number_or(x[2], 1.0); }, OpKernel::Result::kAsFirst, 1),
    floating_kernel("tan", 1, [](Operands x) { return std::tan(x[0]); }),
    floating_kernel("tanh", 1, [](Operands x) { return std::tanh(x[0]); }),
    floating_kernel("tanh_backward", 2, [](Operands x) { return x[0] * (1.0 - x[1] * x[1]); }),
    pointwise_kernel("threshold", 3, [](Operands x) { return x[0] > x[1] ? x[0] : x[2]; }),
    pointwise_kernel("threshold_backward", 3, [](Operands x) { return x[1] <= x[2] ? 0.0 : x[0]; }),
    floating_kernel("true_divide", 2, [](Operands x) { return x[0] / x[1]; }),
    pointwise_kernel("trunc", 1, [](Operands x) { return std::trunc(x[0]); }),
    pointwise_kernel("where", 3, [](Operands x) { return x[0] != 0.0 ? x[1] : x[2]; }, OpKernel::Result::kAsSecond),
    floating_kernel("xlogy", 2, [](Operands x) { return std::isnan(x[1]) ? kNan : x[0] == 0.0 ? 0.0 : x[0] * std::log(x[1]); }),
    pointwise_kernel("zero", 1, [](Operands) { return 0.0; }),
};

}  // namespace pointwise_kernels

OP_KERNELS(pointwise){pointwise_kernels::kKernels};

}  // namespace shardlab
