// Reductions: of whole tensors or of some dims, with and without the places of what they find.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/reduction_args.h"

namespace shardlab {
namespace {

void expect_floating(const LocalCall& local) {
  const DType dtype = local.inputs[0].dtype();
  if (is_floating_point(dtype)) return;
  throw InputError(local.call.op + " of " + std::string(to_string(dtype)) +
                   " would be floating point; valid: floating point tensors");
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// The elements that each output element reduces, in row-major order of the reduced dims.
struct Folds {
  Shape output;
  std::vector<std::vector<double>> elements;
};

Folds folds_of(const LocalCall& local) {
  expect_inputs(local, 1, local.call.op.ends_with("out") ? 3 : 1);
  const HostTensor& input = local.inputs[0];
  const ReducedDims dims = reduced_dims(local.call, input.ndim());
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
    folds.elements[to_index(place)].push_back(values[i]);
  }
  return folds;
}

[[noreturn]] void fail_empty(const LocalCall& local) {
  throw InputError(local.call.op + " of an empty tensor has no result");
}

enum class Result : std::uint8_t { kAsInput, kAccumulated, kTruth, kFloating, kPlace };

DType result_dtype(const LocalCall& local, Result result) {
  const DType in = local.inputs[0].dtype();
  const int position = reduction_args(local.call.op).dtype;
  switch (result) {
    case Result::kAsInput:
      return in;
    case Result::kAccumulated:
      return accumulated_dtype(local.call, position, in);
    case Result::kTruth:
      return in == DType::kU8 ? in : DType::kB8;
    case Result::kPlace:
      return DType::kI64;
    case Result::kFloating:
      break;
  }
  const auto asked =
      position < 0 ? std::nullopt : dtype_arg(local.call, static_cast<std::size_t>(position));
  if (!asked) expect_floating(local);
  return asked.value_or(in);
}

using Fold = double (*)(std::span<const double>, const LocalCall&);

// What of nothing? NaN here means that PyTorch refuses it.
template <Fold kFold, Result kResult, bool kRefusesNothing = false>
LocalResult run_fold(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 3);
  const DType dtype = result_dtype(local, kResult);
  const Folds folds = folds_of(local);
  std::vector<double> results;
  for (const std::vector<double>& elements : folds.elements) {
    if (kRefusesNothing && elements.empty()) fail_empty(local);
    results.push_back(kFold(elements, local));
  }
  return {{from_doubles(local.memory, dtype, folds.output, results)}, {}};
}

using Elements = std::span<const double>;

double sum(Elements x, const LocalCall&) {
  double total = 0.0;
  for (const double v : x) total += v;
  return total;
}
double nansum(Elements x, const LocalCall&) {
  double total = 0.0;
  for (const double v : x) total += std::isnan(v) ? 0.0 : v;
  return total;
}
double mean(Elements x, const LocalCall& local) {
  return sum(x, local) / static_cast<double>(x.size());
}
double product(Elements x, const LocalCall&) {
  double total = 1.0;
  for (const double v : x) total *= v;
  return total;
}
// NaN is above and below all numbers, as in PyTorch.
bool is_less(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
// The order in which the smallest, or NaN, is the last.
bool is_greater_or_nan(double a, double b) { return a > b || (std::isnan(b) && !std::isnan(a)); }
std::ptrdiff_t place_of_largest(Elements x) {
  return std::max_element(x.begin(), x.end(), is_less) - x.begin();
}
std::ptrdiff_t place_of_smallest(Elements x) {
  return std::max_element(x.begin(), x.end(), is_greater_or_nan) - x.begin();
}
double at(Elements x, std::ptrdiff_t place) { return x[to_index(place)]; }
double largest(Elements x, const LocalCall&) { return at(x, place_of_largest(x)); }
double smallest(Elements x, const LocalCall&) { return at(x, place_of_smallest(x)); }
double argmax(Elements x, const LocalCall&) { return static_cast<double>(place_of_largest(x)); }
double argmin(Elements x, const LocalCall&) { return static_cast<double>(place_of_smallest(x)); }
double all(Elements x, const LocalCall&) {
  return std::all_of(x.begin(), x.end(), [](double v) { return v != 0.0; }) ? 1.0 : 0.0;
}
double any(Elements x, const LocalCall&) {
  return std::any_of(x.begin(), x.end(), [](double v) { return v != 0.0; }) ? 1.0 : 0.0;
}
double logsumexp(Elements x, const LocalCall& local) {
  if (x.empty()) return -kInfinity;
  const double most = largest(x, local);
  if (std::isinf(most)) return most;
  double total = 0.0;
  for (const double v : x) total += std::exp(v - most);
  return most + std::log(total);
}
// The second of --args is what to take from the number of elements; 1 where it is absent.
double variance(Elements x, const LocalCall& local) {
  const double middle = mean(x, local);
  double total = 0.0;
  for (const double v : x) total += (v - middle) * (v - middle);
  return total / std::max(0.0, static_cast<double>(x.size()) - local.call.number_arg(1, 1.0));
}
double deviation(Elements x, const LocalCall& local) { return std::sqrt(variance(x, local)); }
double power_sum(Elements x, const LocalCall& local) {
  const double order = norm_order(local.call, 0);
  double total = 0.0;
  for (const double v : x) {
    total += order == 0.0 ? (v != 0.0 ? 1.0 : 0.0) : std::pow(std::abs(v), order);
  }
  return total;
}
double norm(Elements x, const LocalCall& local) {
  const double order = norm_order(local.call, 0);
  if (order == 0.0) return power_sum(x, local);
  if (!std::isinf(order)) return std::pow(power_sum(x, local), 1.0 / order);
  if (x.empty()) fail_empty(local);
  std::vector<double> magnitudes;
  for (const double v : x) magnitudes.push_back(std::abs(v));
  return order > 0 ? largest(magnitudes, local) : smallest(magnitudes, local);
}

// Places in ascending order of their values, NaN last, equal ones in their own order.
std::vector<std::ptrdiff_t> places_by_value(Elements x) {
  std::vector<std::ptrdiff_t> places(x.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::ptrdiff_t>(i);
  std::stable_sort(places.begin(), places.end(),
                   [&](std::ptrdiff_t a, std::ptrdiff_t b) { return is_less(at(x, a), at(x, b)); });
  return places;
}
// The lower of the two in the middle; any NaN is the median.
std::ptrdiff_t place_of_median(Elements x, const LocalCall&) {
  const auto places = places_by_value(x);
  if (std::isnan(at(x, places.back()))) return place_of_largest(x);
  return places[(places.size() - 1) / 2];
}
std::ptrdiff_t place_of_nanmedian(Elements x, const LocalCall&) {
  const auto places = places_by_value(x);
  const auto numbers = static_cast<std::size_t>(
      std::count_if(x.begin(), x.end(), [](double v) { return !std::isnan(v); }));
  return numbers == 0 ? places.front() : places[(numbers - 1) / 2];
}
double median(Elements x, const LocalCall& local) {
  return x.empty() ? kNothing : at(x, place_of_median(x, local));
}
double nanmedian(Elements x, const LocalCall& local) {
  return x.empty() ? kNothing : at(x, place_of_nanmedian(x, local));
}
// The smallest of the most frequent values, where it was last.
std::ptrdiff_t place_of_mode(Elements x, const LocalCall&) {
  std::map<double, std::pair<int, std::ptrdiff_t>> seen;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto& [count, last] = seen[x[i]];
    ++count;
    last = static_cast<std::ptrdiff_t>(i);
  }
  const auto most = std::max_element(seen.begin(), seen.end(), [](const auto& a, const auto& b) {
    return a.second.first < b.second.first;
  });
  return most->second.second;
}
// The first of --args is k, from 1.
std::ptrdiff_t place_of_kth(Elements x, const LocalCall& local) {
  const std::int64_t k = local.call.integer_arg(0, 0);
  if (k < 1 || k > std::ssize(x)) {
    throw InputError(local.call.op + ": k " + std::to_string(k) + " of " +
                     std::to_string(x.size()) + " elements");
  }
  return places_by_value(x)[to_index(k - 1)];
}
std::ptrdiff_t first_largest(Elements x, const LocalCall&) { return place_of_largest(x); }
std::ptrdiff_t first_smallest(Elements x, const LocalCall&) { return place_of_smallest(x); }

// Values and their places along the one dim that is reduced.
template <std::ptrdiff_t (*kPlace)(Elements, const LocalCall&)>
LocalResult run_indexed(const LocalCall& local, const OpKernel&) {
  const Folds folds = folds_of(local);
  std::vector<double> values;
  std::vector<double> places;
  for (const std::vector<double>& elements : folds.elements) {
    if (elements.empty()) fail_empty(local);
    const std::ptrdiff_t place = kPlace(elements, local);
    values.push_back(at(elements, place));
    places.push_back(static_cast<double>(place));
  }
  return {{from_doubles(local.memory, local.inputs[0].dtype(), folds.output, values),
           from_doubles(local.memory, DType::kI64, folds.output, places)},
          {}};
}

LocalResult run_var_mean(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 3);
  expect_floating(local);
  const Folds folds = folds_of(local);
  std::vector<double> variances;
  std::vector<double> means;
  for (const std::vector<double>& elements : folds.elements) {
    variances.push_back(variance(elements, local));
    means.push_back(mean(elements, local));
  }
  const DType dtype = local.inputs[0].dtype();
  return {{from_doubles(local.memory, dtype, folds.output, variances),
           from_doubles(local.memory, dtype, folds.output, means)},
          {}};
}

// --args: bins, min, max; equal bounds are the data's own. The last bin has its upper bound.
LocalResult run_histc(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  expect_floating(local);
  const std::int64_t bins = local.call.integer_arg(0, 100);
  if (bins < 1 || bins > 1 << 20) throw InputError(local.call.op + ": no such number of bins");
  double min = local.call.number_arg(1, 0.0);
  double max = local.call.number_arg(2, 0.0);
  const std::vector<double> values = as_doubles(local.inputs[0]);
  if (min == max && !values.empty()) {
    min = *std::min_element(values.begin(), values.end());
    max = *std::max_element(values.begin(), values.end());
  }
  if (min == max) {
    min -= 1.0;
    max += 1.0;
  }
  if (!std::isfinite(min) || !std::isfinite(max) || min > max) {
    throw InputError(local.call.op + ": bounds are finite and ascending");
  }
  std::vector<double> counts(static_cast<std::size_t>(bins), 0.0);
  for (const double v : values) {
    if (!(v >= min && v <= max)) continue;
    const auto bin = static_cast<std::int64_t>((v - min) / (max - min) * static_cast<double>(bins));
    counts[to_index(std::min(bin, bins - 1))] += 1.0;
  }
  return {{from_doubles(local.memory, local.inputs[0].dtype(), {bins}, counts)}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "all", .run = run_fold<all, Result::kTruth>},
    {.name = "amax", .run = run_fold<largest, Result::kAsInput, true>},
    {.name = "amin", .run = run_fold<smallest, Result::kAsInput, true>},
    {.name = "any", .run = run_fold<any, Result::kTruth>},
    {.name = "any.dims", .run = run_fold<any, Result::kTruth>},
    {.name = "argmax", .run = run_fold<argmax, Result::kPlace, true>},
    {.name = "argmin", .run = run_fold<argmin, Result::kPlace, true>},
    {.name = "histc", .run = run_histc},
    {.name = "kthvalue", .run = run_indexed<place_of_kth>},
    {.name = "linalg__powsum", .run = run_fold<power_sum, Result::kFloating>},
    {.name = "linalg_vector_norm", .run = run_fold<norm, Result::kFloating>},
    {.name = "logsumexp", .run = run_fold<logsumexp, Result::kFloating>},
    {.name = "max", .run = run_fold<largest, Result::kAsInput, true>},
    {.name = "max.dim", .run = run_indexed<first_largest>},
    {.name = "mean", .run = run_fold<mean, Result::kFloating>},
    {.name = "median", .run = run_fold<median, Result::kAsInput>},
    {.name = "median.dim", .run = run_indexed<place_of_median>},
    {.name = "min", .run = run_fold<smallest, Result::kAsInput, true>},
    {.name = "min.dim", .run = run_indexed<first_smallest>},
    {.name = "mode", .run = run_indexed<place_of_mode>},
    {.name = "nanmedian", .run = run_fold<nanmedian, Result::kAsInput>},
    {.name = "nanmedian.dim", .run = run_indexed<place_of_nanmedian>},
    {.name = "nansum", .run = run_fold<nansum, Result::kAccumulated>},
    {.name = "norm", .run = run_fold<norm, Result::kFloating>},
    {.name = "powsum", .run = run_fold<power_sum, Result::kFloating>},
    {.name = "prod", .run = run_fold<product, Result::kAccumulated>},
    {.name = "std", .run = run_fold<deviation, Result::kFloating>},
    {.name = "sum", .run = run_fold<sum, Result::kAccumulated>},
    {.name = "var", .run = run_fold<variance, Result::kFloating>},
    {.name = "var_mean", .run = run_var_mean},
};

}  // namespace

OP_KERNELS(reduction){kKernels};

}  // namespace shardlab
