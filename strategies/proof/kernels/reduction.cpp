// Reductions of whole tensors or of some dims, with and without the indices of what they find.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "costmodel/base/units.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/reduction_args.h"

namespace shardlab {
namespace reduction_kernels {

void expect_floating(const LocalCall& local) {
  if (is_floating_point(local.inputs[0].dtype())) return;
  throw InputError(local.call.op + ": found " + tensor_text(local.inputs[0]) +
                   "; valid: a floating point tensor, because the result is floating point");
}

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
  const std::int64_t count = elements_of(kept);
  expect_room(local.call.op, saturating_product(count, 4), local.memory);
  folds.elements.resize(static_cast<std::size_t>(count));
  const std::vector<double> values = as_doubles(input);
  for_each_element(input.shape(), [&](const Shape& index, std::int64_t i) {
    std::int64_t output = 0;
    for (std::size_t d = 0; d < kept.size(); ++d) {
      if (!dims.reduced[d]) output += index[d] * strides[d];
    }
    folds.elements[to_index(output)].push_back(values[to_index(i)]);
  });
  return folds;
}

[[noreturn]] void fail_empty(const LocalCall& local) {
  throw InputError(local.call.op + " of an empty tensor has no result");
}

enum class Result : std::uint8_t { kAsInput, kAccumulated, kTruth, kFloating, kIndex };

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
    case Result::kIndex:
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

// Folds the elements of each output into one number. kRefusesNothing says that PyTorch refuses to
// fold an empty list of elements.
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
// NaN counts as the largest number, and in the order of is_greater_or_nan as the smallest, as in
// PyTorch.
bool is_less(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
bool is_greater_or_nan(double a, double b) { return a > b || (std::isnan(b) && !std::isnan(a)); }
std::ptrdiff_t index_of_largest(Elements x) {
  return std::max_element(x.begin(), x.end(), is_less) - x.begin();
}
std::ptrdiff_t index_of_smallest(Elements x) {
  return std::max_element(x.begin(), x.end(), is_greater_or_nan) - x.begin();
}
double element(Elements x, std::ptrdiff_t index) { return x[to_index(index)]; }
double largest(Elements x, const LocalCall&) { return element(x, index_of_largest(x)); }
double smallest(Elements x, const LocalCall&) { return element(x, index_of_smallest(x)); }
double argmax(Elements x, const LocalCall&) { return static_cast<double>(index_of_largest(x)); }
double argmin(Elements x, const LocalCall&) { return static_cast<double>(index_of_smallest(x)); }
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
// The second of --args (1 if it is absent) is subtracted from the number of elements.
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

// Indices in ascending order of their values. NaN comes last, and equal values keep the order of
// their indices.
std::vector<std::ptrdiff_t> indices_by_value(Elements x) {
  std::vector<std::ptrdiff_t> indices(x.size());
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::ptrdiff_t>(i);
  std::stable_sort(indices.begin(), indices.end(), [&](std::ptrdiff_t a, std::ptrdiff_t b) {
    return is_less(element(x, a), element(x, b));
  });
  return indices;
}
// The index of the lower one of the two values in the middle, or of a NaN if there is one.
std::ptrdiff_t index_of_median(Elements x, const LocalCall&) {
  const auto indices = indices_by_value(x);
  if (std::isnan(element(x, indices.back()))) return index_of_largest(x);
  return indices[(indices.size() - 1) / 2];
}
std::ptrdiff_t index_of_nanmedian(Elements x, const LocalCall&) {
  const auto indices = indices_by_value(x);
  const auto numbers = static_cast<std::size_t>(
      std::count_if(x.begin(), x.end(), [](double v) { return !std::isnan(v); }));
  return numbers == 0 ? indices.front() : indices[(numbers - 1) / 2];
}
double median(Elements x, const LocalCall& local) {
  return x.empty() ? kNothing : element(x, index_of_median(x, local));
}
double nanmedian(Elements x, const LocalCall& local) {
  return x.empty() ? kNothing : element(x, index_of_nanmedian(x, local));
}
// The last index of the most frequent value. Of several such values the smallest counts.
std::ptrdiff_t index_of_mode(Elements x, const LocalCall&) {
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
// The first of --args is k, counted from 1.
std::ptrdiff_t index_of_kth(Elements x, const LocalCall& local) {
  const std::int64_t k = local.call.integer_arg(0, 0);
  if (k < 1 || k > std::ssize(x)) {
    throw InputError(local.call.op + ": found k " + std::to_string(k) + "; valid: 1 to " +
                     std::to_string(x.size()));
  }
  return indices_by_value(x)[to_index(k - 1)];
}
std::ptrdiff_t first_largest(Elements x, const LocalCall&) { return index_of_largest(x); }
std::ptrdiff_t first_smallest(Elements x, const LocalCall&) { return index_of_smallest(x); }

// Finds values, with their indices along the one dim that is reduced.
template <std::ptrdiff_t (*kIndex)(Elements, const LocalCall&)>
LocalResult run_indexed(const LocalCall& local, const OpKernel&) {
  const Folds folds = folds_of(local);
  std::vector<double> values;
  std::vector<double> indices;
  for (const std::vector<double>& elements : folds.elements) {
    if (elements.empty()) fail_empty(local);
    const std::ptrdiff_t index = kIndex(elements, local);
    values.push_back(element(elements, index));
    indices.push_back(static_cast<double>(index));
  }
  return {{from_doubles(local.memory, local.inputs[0].dtype(), folds.output, values),
           from_doubles(local.memory, DType::kI64, folds.output, indices)},
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

// The --args are bins, min and max. If min equals max, the smallest and the largest element are
// used instead. The last bin includes its upper bound.
LocalResult run_histc(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  expect_floating(local);
  const std::int64_t bins = local.call.integer_arg(0, 100);
  if (bins < 1 || bins > 1 << 20) {
    throw InputError(local.call.op + ": found " + std::to_string(bins) +
                     " bins; valid: 1 to 1048576");
  }
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
    throw InputError(local.call.op + ": found the bounds " + format_double(min) + " and " +
                     format_double(max) + "; valid: finite numbers in ascending order");
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
    {.name = "argmax", .run = run_fold<argmax, Result::kIndex, true>},
    {.name = "argmin", .run = run_fold<argmin, Result::kIndex, true>},
    {.name = "histc", .run = run_histc},
    {.name = "kthvalue", .run = run_indexed<index_of_kth>},
    {.name = "linalg__powsum", .run = run_fold<power_sum, Result::kFloating>},
    {.name = "linalg_vector_norm", .run = run_fold<norm, Result::kFloating>},
    {.name = "logsumexp", .run = run_fold<logsumexp, Result::kFloating>},
    {.name = "max", .run = run_fold<largest, Result::kAsInput, true>},
    {.name = "max.dim", .run = run_indexed<first_largest>},
    {.name = "mean", .run = run_fold<mean, Result::kFloating>},
    {.name = "median", .run = run_fold<median, Result::kAsInput>},
    {.name = "median.dim", .run = run_indexed<index_of_median>},
    {.name = "min", .run = run_fold<smallest, Result::kAsInput, true>},
    {.name = "min.dim", .run = run_indexed<first_smallest>},
    {.name = "mode", .run = run_indexed<index_of_mode>},
    {.name = "nanmedian", .run = run_fold<nanmedian, Result::kAsInput>},
    {.name = "nanmedian.dim", .run = run_indexed<index_of_nanmedian>},
    {.name = "nansum", .run = run_fold<nansum, Result::kAccumulated>},
    {.name = "norm", .run = run_fold<norm, Result::kFloating>},
    {.name = "powsum", .run = run_fold<power_sum, Result::kFloating>},
    {.name = "prod", .run = run_fold<product, Result::kAccumulated>},
    {.name = "std", .run = run_fold<deviation, Result::kFloating>},
    {.name = "sum", .run = run_fold<sum, Result::kAccumulated>},
    {.name = "var", .run = run_fold<variance, Result::kFloating>},
    {.name = "var_mean", .run = run_var_mean},
};

}  // namespace reduction_kernels

OP_KERNELS(reduction){reduction_kernels::kKernels};

}  // namespace shardlab
