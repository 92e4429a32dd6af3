// Scans and sorts along one dim.
#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/kernel_lanes.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/reduction_args.h"

namespace shardlab {
namespace scan_kernels {

// NaN counts as the largest number, as in PyTorch.
bool is_less(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

using Step = double (*)(double before, double value);

double add(double before, double value) { return before + value; }
double multiply(double before, double value) { return before * value; }
double add_logarithms(double before, double value) {
  const double most = std::max(before, value);
  if (std::isinf(most) || std::isnan(before) || std::isnan(value)) return before + value;
  return most + std::log1p(std::exp(std::min(before, value) - most));
}

template <Step kStep, bool kWidens>
LocalResult run_scan(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  const HostTensor& input = local.inputs[0];
  const Lanes lanes(input.shape(), dim_arg(local.call, 0, input.ndim()));
  std::vector<double> values = as_doubles(input);
  for (const std::size_t first : lanes.firsts) {
    for (std::int64_t i = 1; i < lanes.extent; ++i) {
      double& value = values[lanes.flat_index(first, i)];
      value = kStep(values[lanes.flat_index(first, i - 1)], value);
    }
  }
  const DType dtype = kWidens ? accumulated_dtype(local.call, 1, input.dtype()) : input.dtype();
  return {{from_doubles(local.memory, dtype, input.shape(), values)}, {}};
}

// Running extremes, with the index of the last element that is equal to the extreme.
template <bool kLargest>
LocalResult run_extremes(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  const HostTensor& input = local.inputs[0];
  const Lanes lanes(input.shape(), dim_arg(local.call, 0, input.ndim()));
  std::vector<double> values = as_doubles(input);
  std::vector<double> indices(values.size(), 0.0);
  for (const std::size_t first : lanes.firsts) {
    for (std::int64_t i = 1; i < lanes.extent; ++i) {
      const std::size_t now = lanes.flat_index(first, i);
      const std::size_t before = lanes.flat_index(first, i - 1);
      const bool keeps = std::isnan(values[before]) ? !std::isnan(values[now])
                                                    : (kLargest ? values[before] > values[now]
                                                                : values[before] < values[now]);
      indices[now] = keeps ? indices[before] : static_cast<double>(i);
      if (keeps) values[now] = values[before];
    }
  }
  return {{from_doubles(local.memory, input.dtype(), input.shape(), values),
           from_doubles(local.memory, DType::kI64, input.shape(), indices)},
          {}};
}

// The first `count` elements of each lane in sorted order. Equal elements keep the order that they
// had.
LocalResult sorted(const LocalCall& local, int dim, bool descending, std::int64_t count) {
  const HostTensor& input = local.inputs[0];
  const Lanes lanes(input.shape(), dim);
  if (count < 0 || count > lanes.extent) {
    throw InputError(local.call.op + ": found k " + std::to_string(count) + "; valid: 0 to " +
                     std::to_string(lanes.extent));
  }
  Shape shape = input.shape();
  if (!shape.empty()) shape[to_index(dim)] = count;
  const Lanes kept(shape, dim);
  const std::vector<double> from = as_doubles(input);
  std::vector<double> values(kept.firsts.size() * static_cast<std::size_t>(count));
  std::vector<double> indices(values.size());
  for (std::size_t lane = 0; lane < kept.firsts.size(); ++lane) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(lanes.extent));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
    const auto value = [&](std::int64_t i) {
      return from[lanes.flat_index(lanes.firsts[lane], i)];
    };
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return descending ? is_less(value(b), value(a)) : is_less(value(a), value(b));
    });
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index = order[to_index(i)];
      values[kept.flat_index(kept.firsts[lane], i)] = value(index);
      indices[kept.flat_index(kept.firsts[lane], i)] = static_cast<double>(index);
    }
  }
  return {{from_doubles(local.memory, input.dtype(), shape, values),
           from_doubles(local.memory, DType::kI64, shape, indices)},
          {}};
}

// The --args of sort.default are dim and descending; those of sort.stable are stable, dim and
// descending.
LocalResult run_sort(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  const HostTensor& input = local.inputs[0];
  const std::size_t first = local.call.op.ends_with(".stable") ? 1 : 0;
  const int dim = dim_arg(local.call, first, input.ndim(), -1);
  const std::int64_t extent = input.ndim() == 0 ? 1 : input.extent(dim);
  return sorted(local, dim, local.call.boolean_arg(first + 1, false), extent);
}

// The --args are k, dim and largest.
LocalResult run_topk(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  const int dim = dim_arg(local.call, 1, local.inputs[0].ndim(), -1);
  return sorted(local, dim, local.call.boolean_arg(2, true), local.call.integer_arg(0, -1));
}

constexpr OpKernel kKernels[] = {
    {.name = "cummax", .run = run_extremes<true>},
    {.name = "cummin", .run = run_extremes<false>},
    {.name = "cumprod", .run = run_scan<multiply, true>},
    {.name = "cumsum", .run = run_scan<add, true>},
    {.name = "logcumsumexp", .run = run_scan<add_logarithms, false>},
    {.name = "sort", .run = run_sort},
    {.name = "topk", .run = run_topk},
};

}  // namespace scan_kernels

OP_KERNELS(scan){scan_kernels::kKernels};

}  // namespace shardlab
