// Pointwise kernels: operands are broadcast, numbers follow the tensors.
//
// Special functions are those of <cmath>, or a textbook's series (DLMF, dlmf.nist.gov, by section).
#include "strategies/rules/pointwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/json_reader.h"
#include "costmodel/base/text.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {
namespace {

using Operands = std::span<const double>;
using Result = OpKernel::Result;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // a number that is absent

// Overloads whose number comes before their tensor: pow.Scalar is 2 ** x, but pow_.Scalar x ** 2.
bool has_number_first(std::string_view op) {
  for (const std::string_view part :
       {".Scalar_Tensor", ".x_scalar", ".self_scalar", "Scalar_Self", "pow.Scalar", "power.Scalar",
        "ScalarAndTensor", ".polygamma"}) {
    if (op.find(part) == std::string_view::npos) continue;
    return op.find("_foreach_pow.Scalar") == std::string_view::npos ||
           op.ends_with("ScalarAndTensor");
  }
  return false;
}

// The numbers among the operands.
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

// An op that writes to a tensor keeps its dtype. __lshift__ writes to none, __ilshift__ does.
std::optional<DType> written_dtype(const LocalCall& local) {
  if (out_tensors_of(local.call.op) > 0) return local.inputs.back().dtype();
  const std::string_view op = local.call.op;
  const std::string_view base = op.substr(0, op.rfind('.'));
  const bool operator_name = base.find(".__") != std::string_view::npos;
  const bool writes =
      base.ends_with('_') && (!operator_name || base.find(".__i") != std::string_view::npos);
  if (writes) return local.inputs[0].dtype();
  return std::nullopt;
}

DType dtype_of(const OpKernel& kernel, std::span<const HostTensor> tensors, const OpCall& call) {
  switch (kernel.result) {
    case Result::kAsSecond:
      return tensors[std::min<std::size_t>(1, tensors.size() - 1)].dtype();
    case Result::kTruth:
      return DType::kB8;
    case Result::kFloatingPoint:
      if (!is_floating_point(tensors[0].dtype())) return DType::kF32;
      break;
    case Result::kDouble:
      return DType::kF64;
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

LocalResult run_elements(const LocalCall& local, const OpKernel& kernel,
                         double (*element)(std::span<const double>)) {
  std::span<const HostTensor> tensors = local.inputs;
  tensors = tensors.first(tensors.size() - std::min(tensors.size(), out_tensors_of(local.call.op)));
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
  const DType dtype = written_dtype(local).value_or(dtype_of(kernel, tensors, local.call));
  std::vector<double> operands(kernel.operands);
  const std::size_t first =
      has_number_first(local.call.op) && tensors.size() < kernel.operands ? 1 : 0;
  std::copy(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(first),
            operands.begin());
  std::copy(numbers.begin() + static_cast<std::ptrdiff_t>(first), numbers.end(),
            operands.begin() + static_cast<std::ptrdiff_t>(first + tensors.size()));
  std::vector<double> results(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      std::int64_t rest = i;
      std::int64_t place = 0;
      for (std::size_t d = shape.size(); d-- > 0;) {
        place += rest % shape[d] * strides[t][d];
        rest /= shape[d];
      }
      operands[first + t] = values[t][to_index(place)];
    }
    results[to_index(i)] = element(operands);
  }
  return {{from_doubles(local.memory, dtype, shape, results)}, {}};
}

LocalResult run_pointwise(const LocalCall& local, const OpKernel& kernel) {
  return run_elements(local, kernel, kernel.element);
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

double given(double number, double fallback) { return std::isnan(number) ? fallback : number; }
std::int64_t whole(double x) {
  if (!(std::abs(x) <= 0x1p53)) throw InputError("whole numbers up to 2^53");
  return static_cast<std::int64_t>(x);
}
// x * 2 ** n and x / 2 ** n of integers.
double shifted(double x, double n) {
  constexpr double kMost = 4096.0;  // past any exponent
  return std::floor(
      std::ldexp(x, std::isnan(n) ? 0 : static_cast<int>(std::clamp(n, -kMost, kMost))));
}
// With the sign of b, as Python has it.
double remainder_of(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

// -- Special functions -----------------------------------------------------------------------

constexpr double kPi = std::numbers::pi;

// Hurwitz zeta, s > 1, by Euler-Maclaurin summation (DLMF 25.11.28).
double zeta(double s, double q) {
  if (!(s > 1.0)) return s == 1.0 ? std::numeric_limits<double>::infinity() : kNone;
  if (q <= 0.0 && q == std::floor(q)) return std::numeric_limits<double>::infinity();
  if (q < 0.0 && s != std::floor(s)) return kNone;
  constexpr std::array<double, 6> kBernoulli = {1.0 / 6,   -1.0 / 30, 1.0 / 42,
                                                -1.0 / 30, 5.0 / 66,  -691.0 / 2730};
  if (q < -1e6) throw InputError("zeta takes numbers from -1000000, found " + format_double(q));
  double sum = 0.0;
  for (; q < 12.0; q += 1.0) sum += std::pow(q, -s);
  sum += std::pow(q, 1.0 - s) / (s - 1.0) + 0.5 * std::pow(q, -s);
  double term = s * std::pow(q, -s - 1.0) / 2.0;
  for (std::size_t k = 0; k < kBernoulli.size(); ++k) {
    sum += kBernoulli[k] * term;
    const auto n = static_cast<double>(2 * k + 1);
    term *= (s + n) * (s + n + 1.0) / ((n + 2.0) * (n + 3.0) * q * q);
  }
  return sum;
}

double digamma(double x) {
  if (x == 0.0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0.0) return x == std::floor(x) ? kNone : digamma(1.0 - x) - kPi / std::tan(kPi * x);
  double sum = 0.0;
  for (; x < 12.0; x += 1.0) sum -= 1.0 / x;
  const double y = 1.0 / (x * x);  // DLMF 5.11.2
  return sum + std::log(x) - 0.5 / x -
         y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y / 132))));
}

double polygamma(double n, double x) {
  if (n == 0.0) return digamma(x);
  return (std::fmod(n, 2.0) == 0.0 ? -1.0 : 1.0) * std::tgamma(n + 1.0) * zeta(n + 1.0, x);
}

// Lower incomplete gamma, regularised: series below, continued fraction above (DLMF 8.11.4, 8.9.2).
double lower_gamma(double a, double x) {
  if (!(a > 0.0) || !(x >= 0.0)) return kNone;
  if (x == 0.0) return 0.0;
  const double scale = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (x < a + 1.0) {
    double term = 1.0 / a;
    double sum = term;
    for (int n = 1; n < 500; ++n) sum += term *= x / (a + n);
    return sum * scale;
  }
  double fraction = 0.0;
  for (int n = 300; n > 0; --n) fraction = n * (n - a) / (x + 2.0 * n + 1.0 - a - fraction);
  return 1.0 - scale / (x + 1.0 - a - fraction);
}

// Newton's steps on erf, from a rough start.
double erf_inverse(double y) {
  if (!(std::abs(y) < 1.0)) {
    return std::abs(y) == 1.0 ? std::copysign(std::numeric_limits<double>::infinity(), y) : kNone;
  }
  const double l = std::log1p(-y * y);
  const double a = 2.0 / (kPi * 0.147) + l / 2.0;
  double x = std::copysign(std::sqrt(std::sqrt(a * a - l / 0.147) - a), y);
  for (int i = 0; i < 4; ++i) x -= (std::erf(x) - y) * std::sqrt(kPi) / 2.0 * std::exp(x * x);
  return x;
}

// exp(x * x) * erfc(x), far out by its asymptotic series (DLMF 7.12.1).
double scaled_erfc(double x) {
  if (x < 25.0) return std::exp(x * x) * std::erfc(x);
  const double y = 1.0 / (2.0 * x * x);
  return (1.0 - y * (1.0 - 3.0 * y * (1.0 - 5.0 * y))) / (x * std::sqrt(kPi));
}

double log_normal_cdf(double x) {
  if (x > -5.0) return std::log(normal_cdf(x));
  return std::log(scaled_erfc(-x / std::numbers::sqrt2) / 2.0) - 0.5 * x * x;
}

// DLMF 9.6.2, 9.6.6.
double airy(double x) {
  if (x == 0.0) return std::pow(3.0, -2.0 / 3) / std::tgamma(2.0 / 3);
  const double z = 2.0 / 3 * std::pow(std::abs(x), 1.5);
  if (x > 0.0) return std::sqrt(x / 3.0) / kPi * std::cyl_bessel_k(1.0 / 3, z);
  const double j = std::cyl_bessel_j(1.0 / 3, z);
  const double minus = std::cos(kPi / 3) * j - std::sin(kPi / 3) * std::cyl_neumann(1.0 / 3, z);
  return std::sqrt(-x) / 3.0 * (j + minus);
}

double bessel_j(int n, double x) {
  const double value = std::cyl_bessel_j(n, std::abs(x));
  return n == 1 && x < 0.0 ? -value : value;
}
double bessel_y(int n, double x) {
  if (x == 0.0) return -std::numeric_limits<double>::infinity();
  return x < 0.0 ? kNone : std::cyl_neumann(n, x);
}
double bessel_i(int n, double x) {
  const double value = std::cyl_bessel_i(n, std::abs(x));
  return n == 1 && x < 0.0 ? -value : value;
}
double bessel_k(int n, double x) {
  if (x == 0.0) return std::numeric_limits<double>::infinity();
  return x < 0.0 ? kNone : std::cyl_bessel_k(n, x);
}

// Orthogonal polynomials p(n + 1) = (a x + b) p(n) - c p(n - 1), from p(0) = 1 and p(1).
template <class Step>
double polynomial(double n, double first, Step&& step) {
  if (!(n >= 0.0) || n > 1000.0) return n >= 0.0 ? kNone : 0.0;
  double before = 1.0;
  double now = first;
  if (n < 1.0) return before;
  for (int k = 1; k < static_cast<int>(n); ++k) {
    const double next = step(static_cast<double>(k), now, before);
    before = now;
    now = next;
  }
  return now;
}
// All four kinds differ in p(1) alone.
double chebyshev(double x, double n, double first) {
  return polynomial(n, first,
                    [x](double, double now, double before) { return 2.0 * x * now - before; });
}
double hermite(double x, double n, double factor) {
  return polynomial(n, factor * x, [=](double k, double now, double before) {
    return factor * (x * now - k * before);
  });
}
double laguerre(double x, double n) {
  return polynomial(n, 1.0 - x, [x](double k, double now, double before) {
    return ((2.0 * k + 1.0 - x) * now - k * before) / (k + 1.0);
  });
}
double legendre(double x, double n) {
  return polynomial(n, x, [x](double k, double now, double before) {
    return ((2.0 * k + 1.0) * x * now - k * before) / (k + 1.0);
  });
}

double multivariate_lgamma(double x, double p) {
  double sum = p * (p - 1.0) / 4.0 * std::log(kPi);
  for (double j = 0.0; j < p && j < 100.0; ++j) sum += std::lgamma(x - j / 2.0);
  return sum;
}

// -- Ops of more than one form ---------------------------------------------------------------

// div with a rounding mode, which follows the number, if any.
LocalResult run_divide(const LocalCall& local, const OpKernel& kernel) {
  const std::size_t tensors =
      local.inputs.size() - std::min(local.inputs.size(), out_tensors_of(local.call.op));
  const std::size_t place = tensors > 1 ? 0 : 1;
  const std::string mode = local.call.text_arg(place, "");
  OpCall plain = local.call;
  if (plain.args.size() > place)
    plain.args.erase(plain.args.begin() + static_cast<std::ptrdiff_t>(place));
  LocalCall call{.call = plain, .memory = local.memory, .inputs = local.inputs};
  if (mode.empty()) return run_elements(call, kernel, [](Operands x) { return x[0] / x[1]; });
  if (mode == "floor") {
    return run_elements(call, kernel, [](Operands x) { return std::floor(x[0] / x[1]); });
  }
  if (mode == "trunc") {
    return run_elements(call, kernel, [](Operands x) { return std::trunc(x[0] / x[1]); });
  }
  throw InputError(local.call.op + ": rounding mode \"" + mode + "\"; valid: floor, trunc, none");
}

double gelu(double x) { return x * normal_cdf(x); }
double gelu_by_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / kPi) * (x + 0.044715 * x * x * x)));
}
// The approximation is the only argument that is no number.
LocalResult run_gelu(const LocalCall& local, const OpKernel& kernel) {
  const bool by_tanh = local.call.text_arg(0, "none") == "tanh";
  OpCall plain = local.call;
  plain.args = nlohmann::json::array();
  LocalCall call{.call = plain, .memory = local.memory, .inputs = local.inputs};
  if (by_tanh) return run_elements(call, kernel, [](Operands x) { return gelu_by_tanh(x[0]); });
  return run_elements(call, kernel, [](Operands x) { return gelu(x[0]); });
}

// The next number of the tensors' own dtype.
LocalResult run_nextafter(const LocalCall& local, const OpKernel& kernel) {
  if (local.inputs.empty()) throw InputError(local.call.op + ": takes 2 tensors, found none");
  switch (local.inputs[0].dtype()) {
    case DType::kF64:
      return run_elements(local, kernel, [](Operands x) { return std::nextafter(x[0], x[1]); });
    case DType::kF32:
      return run_elements(local, kernel, [](Operands x) {
        return static_cast<double>(
            std::nextafter(static_cast<float>(x[0]), static_cast<float>(x[1])));
      });
    default:
      throw InputError(local.call.op + ": valid: f32 and f64");
  }
}

// Two tensors are the values and a lower limit, unless that is left out.
LocalResult run_clamp(const LocalCall& local, const OpKernel& kernel) {
  const bool above = local.call.inputs.size() > 2 && local.call.inputs[1].is_absent();
  if (!above) return run_elements(local, kernel, kernel.element);
  return run_elements(local, kernel, [](Operands x) { return limited(x[0], kNone, x[1]); });
}

// Of truth values it is the other one, of integers -x - 1.
LocalResult run_bitwise_not(const LocalCall& local, const OpKernel& kernel) {
  if (local.inputs.empty()) throw InputError(local.call.op + ": takes 1 tensor, found none");
  if (local.inputs[0].dtype() != DType::kB8) return run_elements(local, kernel, kernel.element);
  return run_elements(local, kernel, [](Operands x) { return 1.0 - x[0]; });
}

// The largest number of f32 stands for infinity where no other is given.
double finite(double x, double high, double low) {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (!std::isinf(x)) return x;
  return x > 0.0 ? given(high, kMost) : given(low, -kMost);
}

// Mantissa in [1/2, 1) and exponent.
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

constexpr OpKernel row(std::string_view name, std::size_t operands, double (*element)(Operands),
                       Result result = Result::kAsFirst, std::size_t optional = 0) {
  return {.name = name,
          .run = run_pointwise,
          .element = element,
          .operands = operands,
          .optional = optional,
          .result = result};
}
constexpr OpKernel floating(std::string_view name, std::size_t operands,
                            double (*element)(Operands), std::size_t optional = 0) {
  return row(name, operands, element, Result::kFloatingPoint, optional);
}
constexpr OpKernel truth(std::string_view name, double (*element)(Operands)) {
  return row(name, 2, element, Result::kTruth);
}
constexpr OpKernel property(std::string_view name, double (*element)(Operands)) {
  return row(name, 1, element, Result::kTruth);
}
constexpr OpKernel integer(std::string_view name, std::size_t operands,
                           double (*element)(Operands)) {
  return row(name, operands, element, Result::kInteger);
}
constexpr OpKernel divide(std::string_view name) {
  OpKernel kernel = row(name, 2, [](Operands x) { return x[0] / x[1]; });
  kernel.run = run_divide;
  return kernel;
}

constexpr OpKernel clamp(std::string_view name) {
  OpKernel kernel = row(
      name, 3, [](Operands x) { return limited(x[0], x[1], x[2]); }, Result::kAsFirst, 2);
  kernel.run = run_clamp;
  return kernel;
}

double both(double a, double b) { return static_cast<double>(whole(a) & whole(b)); }
double either(double a, double b) { return static_cast<double>(whole(a) | whole(b)); }
double one_of(double a, double b) { return static_cast<double>(whole(a) ^ whole(b)); }

constexpr OpKernel kKernels[] = {
    integer("__ilshift__", 2, [](Operands x) { return shifted(x[0], x[1]); }),
    integer("__irshift__", 2, [](Operands x) { return shifted(x[0], -x[1]); }),
    integer("__ixor__", 2, [](Operands x) { return one_of(x[0], x[1]); }),
    integer("__lshift__", 2, [](Operands x) { return shifted(x[0], x[1]); }),
    integer("__rshift__", 2, [](Operands x) { return shifted(x[0], -x[1]); }),
    integer("__xor__", 2, [](Operands x) { return one_of(x[0], x[1]); }),
    row("_conj", 1, [](Operands x) { return x[0]; }),
    row("abs", 1, [](Operands x) { return std::abs(x[0]); }),
    floating("acos", 1, [](Operands x) { return std::acos(x[0]); }),
    floating("acosh", 1, [](Operands x) { return std::acosh(x[0]); }),
    row("add", 3, [](Operands x) { return x[0] + x[1] * given(x[2], 1.0); }, Result::kAsFirst, 1),
    floating("addcdiv", 4, [](Operands x) { return x[0] + given(x[3], 1.0) * (x[1] / x[2]); }, 1),
    row("addcmul", 4, [](Operands x) { return x[0] + given(x[3], 1.0) * x[1] * x[2]; }, Result::kAsFirst, 1),
    floating("angle", 1, [](Operands x) { return std::isnan(x[0]) ? x[0] : x[0] < 0.0 ? kPi : 0.0; }),
    floating("asin", 1, [](Operands x) { return std::asin(x[0]); }),
    floating("asinh", 1, [](Operands x) { return std::asinh(x[0]); }),
    floating("atan", 1, [](Operands x) { return std::atan(x[0]); }),
    floating("atan2", 2, [](Operands x) { return std::atan2(x[0], x[1]); }),
    floating("atanh", 1, [](Operands x) { return std::atanh(x[0]); }),
    integer("bitwise_and", 2, [](Operands x) { return both(x[0], x[1]); }),
    integer("bitwise_left_shift", 2, [](Operands x) { return shifted(x[0], x[1]); }),
    {.name = "bitwise_not",
     .run = run_bitwise_not,
     .element = [](Operands x) { return -x[0] - 1.0; },
     .operands = 1,
     .result = Result::kInteger},
    integer("bitwise_or", 2, [](Operands x) { return either(x[0], x[1]); }),
    integer("bitwise_right_shift", 2, [](Operands x) { return shifted(x[0], -x[1]); }),
    integer("bitwise_xor", 2, [](Operands x) { return one_of(x[0], x[1]); }),
    row("ceil", 1, [](Operands x) { return std::ceil(x[0]); }),
    floating("celu", 2, [](Operands x) { return x[0] > 0.0 ? x[0] : given(x[1], 1.0) * std::expm1(x[0] / given(x[1], 1.0)); }, 1),
    clamp("clamp"),
    row("clamp_max", 2, [](Operands x) { return smaller(x[0], x[1]); }),
    row("clamp_min", 2, [](Operands x) { return larger(x[0], x[1]); }),
    clamp("clip"),
    row("clone", 1, [](Operands x) { return x[0]; }),
    row("conj_physical", 1, [](Operands x) { return x[0]; }),
    row("copy", 2, [](Operands x) { return x[1]; }),
    floating("copysign", 2, [](Operands x) { return std::copysign(x[0], x[1]); }),
    floating("cos", 1, [](Operands x) { return std::cos(x[0]); }),
    floating("cosh", 1, [](Operands x) { return std::cosh(x[0]); }),
    floating("deg2rad", 1, [](Operands x) { return x[0] * (kPi / 180.0); }),
    floating("digamma", 1, [](Operands x) { return digamma(x[0]); }),
    floating("div", 2, [](Operands x) { return x[0] / x[1]; }),
    divide("div.Scalar_mode"),
    divide("div.Scalar_mode_out"),
    divide("div.Tensor_mode"),
    divide("div.out_mode"),
    floating("elu", 4, [](Operands x) { return given(x[2], 1.0) * (x[0] > 0.0 ? x[0] : given(x[1], 1.0) * std::expm1(x[0] * given(x[3], 1.0))); }, 3),
    truth("eq", [](Operands x) { return x[0] == x[1] ? 1.0 : 0.0; }),
    floating("erf", 1, [](Operands x) { return std::erf(x[0]); }),
    floating("erfc", 1, [](Operands x) { return std::erfc(x[0]); }),
    floating("erfinv", 1, [](Operands x) { return erf_inverse(x[0]); }),
    floating("exp", 1, [](Operands x) { return std::exp(x[0]); }),
    floating("exp2", 1, [](Operands x) { return std::exp2(x[0]); }),
    floating("expm1", 1, [](Operands x) { return std::expm1(x[0]); }),
    row("float_power", 2, [](Operands x) { return std::pow(x[0], x[1]); }, Result::kDouble),
    row("floor", 1, [](Operands x) { return std::floor(x[0]); }),
    row("fmax", 2, [](Operands x) { return std::fmax(x[0], x[1]); }),
    row("fmin", 2, [](Operands x) { return std::fmin(x[0], x[1]); }),
    row("fmod", 2, [](Operands x) { return std::fmod(x[0], x[1]); }),
    row("frac", 1, [](Operands x) { return x[0] - std::trunc(x[0]); }),
    {.name = "frexp", .run = run_frexp},
    integer("gcd", 2, [](Operands x) { return static_cast<double>(std::gcd(whole(x[0]), whole(x[1]))); }),
    truth("ge", [](Operands x) { return x[0] >= x[1] ? 1.0 : 0.0; }),
    {.name = "gelu", .run = run_gelu, .element = [](Operands x) { return gelu(x[0]); }, .operands = 1, .result = Result::kFloatingPoint},
    floating("gelu_backward", 2,
             [](Operands x) {
               const double density = std::exp(-0.5 * x[1] * x[1]) / std::sqrt(2.0 * kPi);
               return x[0] * (normal_cdf(x[1]) + x[1] * density);
             }),
    truth("gt", [](Operands x) { return x[0] > x[1] ? 1.0 : 0.0; }),
    floating("hardshrink", 2, [](Operands x) { return std::abs(x[0]) <= given(x[1], 0.5) ? 0.0 : x[0]; }, 1),
    floating("hardsigmoid", 1, [](Operands x) { return limited(x[0] + 3.0, 0.0, 6.0) / 6.0; }),
    row("hardtanh", 3, [](Operands x) { return limited(x[0], given(x[1], -1.0), given(x[2], 1.0)); }, Result::kAsFirst, 2),
    row("heaviside", 2, [](Operands x) { return x[0] == 0.0 ? x[1] : x[0] > 0.0 ? 1.0 : 0.0; }),
    floating("hypot", 2, [](Operands x) { return std::hypot(x[0], x[1]); }),
    floating("i0", 1, [](Operands x) { return bessel_i(0, x[0]); }),
    floating("igamma", 2, [](Operands x) { return lower_gamma(x[0], x[1]); }),
    floating("igammac", 2, [](Operands x) { return 1.0 - lower_gamma(x[0], x[1]); }),
    property("isfinite", [](Operands x) { return std::isfinite(x[0]) ? 1.0 : 0.0; }),
    property("isinf", [](Operands x) { return std::isinf(x[0]) ? 1.0 : 0.0; }),
    property("isnan", [](Operands x) { return std::isnan(x[0]) ? 1.0 : 0.0; }),
    property("isneginf", [](Operands x) { return x[0] == -std::numeric_limits<double>::infinity() ? 1.0 : 0.0; }),
    property("isposinf", [](Operands x) { return x[0] == std::numeric_limits<double>::infinity() ? 1.0 : 0.0; }),
    integer("lcm", 2, [](Operands x) { return static_cast<double>(std::lcm(whole(x[0]), whole(x[1]))); }),
    floating("ldexp", 2, [](Operands x) { return x[0] * std::exp2(x[1]); }),
    truth("le", [](Operands x) { return x[0] <= x[1] ? 1.0 : 0.0; }),
    floating("leaky_relu", 2, [](Operands x) { return x[0] > 0.0 ? x[0] : x[0] * given(x[1], 0.01); }, 1),
    floating("lerp", 3, [](Operands x) { return x[0] + x[2] * (x[1] - x[0]); }),
    floating("lgamma", 1, [](Operands x) { return std::lgamma(x[0]); }),
    floating("log", 1, [](Operands x) { return std::log(x[0]); }),
    floating("log10", 1, [](Operands x) { return std::log10(x[0]); }),
    floating("log1p", 1, [](Operands x) { return std::log1p(x[0]); }),
    floating("log2", 1, [](Operands x) { return std::log2(x[0]); }),
    floating("logaddexp", 2, [](Operands x) { return log_sum(x[0], x[1], std::numbers::e); }),
    floating("logaddexp2", 2, [](Operands x) { return log_sum(x[0], x[1], 2.0); }),
    truth("logical_and", [](Operands x) { return x[0] != 0.0 && x[1] != 0.0 ? 1.0 : 0.0; }),
    property("logical_not", [](Operands x) { return x[0] == 0.0 ? 1.0 : 0.0; }),
    truth("logical_or", [](Operands x) { return x[0] != 0.0 || x[1] != 0.0 ? 1.0 : 0.0; }),
    truth("logical_xor", [](Operands x) { return (x[0] != 0.0) != (x[1] != 0.0) ? 1.0 : 0.0; }),
    floating("logit", 2, [](Operands x) { return std::log(limited(x[0], x[1], 1.0 - x[1]) / (1.0 - limited(x[0], x[1], 1.0 - x[1]))); }, 1),
    floating("logit_backward", 2, [](Operands x) { return x[0] / (x[1] * (1.0 - x[1])); }),
    truth("lt", [](Operands x) { return x[0] < x[1] ? 1.0 : 0.0; }),
    row("masked_fill", 3, [](Operands x) { return x[1] != 0.0 ? x[2] : x[0]; }),
    row("max.other", 2, [](Operands x) { return larger(x[0], x[1]); }),
    row("max.out", 2, [](Operands x) { return larger(x[0], x[1]); }),
    row("maximum", 2, [](Operands x) { return larger(x[0], x[1]); }),
    row("min.other", 2, [](Operands x) { return smaller(x[0], x[1]); }),
    row("min.out", 2, [](Operands x) { return smaller(x[0], x[1]); }),
    row("minimum", 2, [](Operands x) { return smaller(x[0], x[1]); }),
    floating("mish", 1, [](Operands x) { return x[0] * std::tanh(std::log1p(std::exp(x[0]))); }),
    row("mul", 2, [](Operands x) { return x[0] * x[1]; }),
    floating("mvlgamma", 2, [](Operands x) { return multivariate_lgamma(x[0], x[1]); }),
    row("nan_to_num", 4, [](Operands x) { return std::isnan(x[0]) ? given(x[1], 0.0) : finite(x[0], x[2], x[3]); }, Result::kAsFirst, 3),
    floating("native_dropout_backward", 3, [](Operands x) { return x[0] * x[1] * x[2]; }),
    truth("ne", [](Operands x) { return x[0] != x[1] ? 1.0 : 0.0; }),
    row("neg", 1, [](Operands x) { return -x[0]; }),
    {.name = "nextafter", .run = run_nextafter, .element = [](Operands x) { return x[0]; }, .operands = 2, .result = Result::kFloatingPoint},
    floating("polygamma", 2, [](Operands x) { return polygamma(x[0], x[1]); }),
    row("positive", 1, [](Operands x) { return x[0]; }),
    row("pow", 2, [](Operands x) { return std::pow(x[0], x[1]); }),
    floating("rad2deg", 1, [](Operands x) { return x[0] * (180.0 / kPi); }),
    floating("reciprocal", 1, [](Operands x) { return 1.0 / x[0]; }),
    row("relu", 1, [](Operands x) { return std::isnan(x[0]) ? x[0] : std::max(x[0], 0.0); }),
    row("relu6", 1, [](Operands x) { return limited(x[0], 0.0, 6.0); }),
    row("remainder", 2, [](Operands x) { return remainder_of(x[0], x[1]); }),
    row("round", 1, [](Operands x) { return std::nearbyint(x[0]); }),
    row("round.decimals", 2, [](Operands x) { return std::nearbyint(x[0] * std::pow(10.0, given(x[1], 0.0))) / std::pow(10.0, given(x[1], 0.0)); }, Result::kAsFirst, 1),
    row("round.decimals_out", 2, [](Operands x) { return std::nearbyint(x[0] * std::pow(10.0, given(x[1], 0.0))) / std::pow(10.0, given(x[1], 0.0)); }, Result::kAsFirst, 1),
    floating("rrelu_with_noise", 4, [](Operands x) { return x[0] > 0.0 ? x[0] : x[0] * (given(x[2], 0.125) + given(x[3], 1.0 / 3)) / 2.0; }, 2),
    floating("rsqrt", 1, [](Operands x) { return 1.0 / std::sqrt(x[0]); }),
    row("rsub", 3, [](Operands x) { return x[1] - x[0] * given(x[2], 1.0); }, Result::kAsFirst, 1),
    floating("selu", 1, [](Operands x) { return 1.0507009873554805 * (x[0] > 0.0 ? x[0] : 1.6732632423543772 * std::expm1(x[0])); }),
    row("sgn", 1, [](Operands x) { return sign(x[0]); }),
    floating("sigmoid", 1, [](Operands x) { return sigmoid(x[0]); }),
    floating("sigmoid_backward", 2, [](Operands x) { return x[0] * (1.0 - x[1]) * x[1]; }),
    row("sign", 1, [](Operands x) { return sign(x[0]); }),
    property("signbit", [](Operands x) { return std::signbit(x[0]) ? 1.0 : 0.0; }),
    floating("silu", 1, [](Operands x) { return x[0] * sigmoid(x[0]); }),
    floating("silu_backward", 2, [](Operands x) { return x[0] * sigmoid(x[1]) * (1.0 + x[1] * (1.0 - sigmoid(x[1]))); }),
    floating("sin", 1, [](Operands x) { return std::sin(x[0]); }),
    floating("sinc", 1, [](Operands x) { return x[0] == 0.0 ? 1.0 : std::sin(kPi * x[0]) / (kPi * x[0]); }),
    floating("sinh", 1, [](Operands x) { return std::sinh(x[0]); }),
    floating("softplus", 3, [](Operands x) { return x[0] * given(x[1], 1.0) > given(x[2], 20.0) ? x[0] : std::log1p(std::exp(x[0] * given(x[1], 1.0))) / given(x[1], 1.0); }, 2),
    floating("softshrink", 2, [](Operands x) { return x[0] > given(x[1], 0.5) ? x[0] - given(x[1], 0.5) : x[0] < -given(x[1], 0.5) ? x[0] + given(x[1], 0.5) : 0.0; }, 1),
    floating("special_airy_ai", 1, [](Operands x) { return airy(x[0]); }),
    floating("special_bessel_j0", 1, [](Operands x) { return bessel_j(0, x[0]); }),
    floating("special_bessel_j1", 1, [](Operands x) { return bessel_j(1, x[0]); }),
    floating("special_bessel_y0", 1, [](Operands x) { return bessel_y(0, x[0]); }),
    floating("special_bessel_y1", 1, [](Operands x) { return bessel_y(1, x[0]); }),
    floating("special_chebyshev_polynomial_t", 2, [](Operands x) { return chebyshev(x[0], x[1], x[0]); }),
    floating("special_chebyshev_polynomial_u", 2, [](Operands x) { return chebyshev(x[0], x[1], 2.0 * x[0]); }),
    floating("special_chebyshev_polynomial_v", 2, [](Operands x) { return chebyshev(x[0], x[1], 2.0 * x[0] - 1.0); }),
    floating("special_chebyshev_polynomial_w", 2, [](Operands x) { return chebyshev(x[0], x[1], 2.0 * x[0] + 1.0); }),
    floating("special_entr", 1, [](Operands x) { return x[0] > 0.0 ? -x[0] * std::log(x[0]) : x[0] == 0.0 ? 0.0 : -std::numeric_limits<double>::infinity(); }),
    floating("special_erfcx", 1, [](Operands x) { return scaled_erfc(x[0]); }),
    floating("special_hermite_polynomial_h", 2, [](Operands x) { return hermite(x[0], x[1], 2.0); }),
    floating("special_hermite_polynomial_he", 2, [](Operands x) { return hermite(x[0], x[1], 1.0); }),
    floating("special_i0e", 1, [](Operands x) { return std::exp(-std::abs(x[0])) * bessel_i(0, x[0]); }),
    floating("special_i1", 1, [](Operands x) { return bessel_i(1, x[0]); }),
    floating("special_i1e", 1, [](Operands x) { return std::exp(-std::abs(x[0])) * bessel_i(1, x[0]); }),
    floating("special_laguerre_polynomial_l", 2, [](Operands x) { return laguerre(x[0], x[1]); }),
    floating("special_legendre_polynomial_p", 2, [](Operands x) { return legendre(x[0], x[1]); }),
    floating("special_log_ndtr", 1, [](Operands x) { return log_normal_cdf(x[0]); }),
    floating("special_modified_bessel_i0", 1, [](Operands x) { return bessel_i(0, x[0]); }),
    floating("special_modified_bessel_i1", 1, [](Operands x) { return bessel_i(1, x[0]); }),
    floating("special_modified_bessel_k0", 1, [](Operands x) { return bessel_k(0, x[0]); }),
    floating("special_modified_bessel_k1", 1, [](Operands x) { return bessel_k(1, x[0]); }),
    floating("special_ndtri", 1, [](Operands x) { return std::numbers::sqrt2 * erf_inverse(2.0 * x[0] - 1.0); }),
    floating("special_scaled_modified_bessel_k0", 1, [](Operands x) { return std::exp(x[0]) * bessel_k(0, x[0]); }),
    floating("special_scaled_modified_bessel_k1", 1, [](Operands x) { return std::exp(x[0]) * bessel_k(1, x[0]); }),
    floating("special_shifted_chebyshev_polynomial_t", 2, [](Operands x) { return chebyshev(2.0 * x[0] - 1.0, x[1], (2.0 * x[0] - 1.0)); }),
    floating("special_shifted_chebyshev_polynomial_u", 2, [](Operands x) { return chebyshev(2.0 * x[0] - 1.0, x[1], 2.0 * (2.0 * x[0] - 1.0)); }),
    floating("special_shifted_chebyshev_polynomial_v", 2, [](Operands x) { return chebyshev(2.0 * x[0] - 1.0, x[1], 2.0 * (2.0 * x[0] - 1.0) - 1.0); }),
    floating("special_shifted_chebyshev_polynomial_w", 2, [](Operands x) { return chebyshev(2.0 * x[0] - 1.0, x[1], 2.0 * (2.0 * x[0] - 1.0) + 1.0); }),
    floating("special_spherical_bessel_j0", 1, [](Operands x) { return x[0] == 0.0 ? 1.0 : std::sin(x[0]) / x[0]; }),
    floating("special_xlog1py", 2, [](Operands x) { return std::isnan(x[1]) ? kNone : x[0] == 0.0 ? 0.0 : x[0] * std::log1p(x[1]); }),
    floating("special_zeta", 2, [](Operands x) { return zeta(x[0], x[1]); }),
    floating("sqrt", 1, [](Operands x) { return std::sqrt(x[0]); }),
    row("square", 1, [](Operands x) { return x[0] * x[0]; }),
    row("sub", 3, [](Operands x) { return x[0] - x[1] * given(x[2], 1.0); }, Result::kAsFirst, 1),
    floating("tan", 1, [](Operands x) { return std::tan(x[0]); }),
    floating("tanh", 1, [](Operands x) { return std::tanh(x[0]); }),
    floating("tanh_backward", 2, [](Operands x) { return x[0] * (1.0 - x[1] * x[1]); }),
    row("threshold", 3, [](Operands x) { return x[0] > x[1] ? x[0] : x[2]; }),
    row("threshold_backward", 3, [](Operands x) { return x[1] <= x[2] ? 0.0 : x[0]; }),
    floating("true_divide", 2, [](Operands x) { return x[0] / x[1]; }),
    row("trunc", 1, [](Operands x) { return std::trunc(x[0]); }),
    row("where", 3, [](Operands x) { return x[0] != 0.0 ? x[1] : x[2]; }, Result::kAsSecond),
    floating("xlogy", 2, [](Operands x) { return std::isnan(x[1]) ? kNone : x[0] == 0.0 ? 0.0 : x[0] * std::log(x[1]); }),
    row("zero", 1, [](Operands) { return 0.0; }),
};

}  // namespace

OP_KERNELS(pointwise){kKernels};

}  // namespace shardlab
