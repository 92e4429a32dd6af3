// Kernels that draw numbers. Each is drawn by the element's index in the whole tensor, so that the
// numbers are the same in every layout.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/pointwise.h"

namespace shardlab {
namespace random_kernels {

double uniform(std::uint64_t index, std::uint64_t draw) { return drawn_number(index, draw); }
double standard_normal(std::uint64_t index) {
  return std::sqrt(-2.0 * std::log(uniform(index, 1))) *
         std::cos(2.0 * std::numbers::pi * uniform(index, 2));
}

const HostTensor& drawn_input(const LocalCall& local) {
  if (local.inputs.empty() || local.inputs.size() != local.call.tensors().size() ||
      local.inputs[0].ndim() != local.call.tensors()[0]->meta.ndim()) {
    throw InputError(local.call.op + ": takes at least one tensor");
  }
  return local.inputs[0];
}

double number(const LocalCall& local, std::size_t i, double fallback) {
  return local.call.number_arg(i, fallback);
}

// Draws one number per element, from its index, its value and the numbers among the arguments.
template <double (*kDraw)(const LocalCall&, std::uint64_t, double)>
LocalResult run_drawn(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = drawn_input(local);
  std::vector<double> values = as_doubles(input);
  const std::vector<std::uint64_t> indices = global_indices(local, 0);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = kDraw(local, indices[i], values[i]);
  const DType dtype =
      out_tensors_of(local.call.op) > 0 ? local.inputs.back().dtype() : input.dtype();
  return {{from_doubles(local.memory, dtype, input.shape(), values)}, {}};
}

double draw_bernoulli(const LocalCall& local, std::uint64_t index, double chance) {
  // Some forms take the chance as a number, and the others read it from the tensor.
  const std::string_view op = local.call.op;
  const bool is_number = op.find(".float") != std::string_view::npos || op.ends_with(".p");
  if (is_number) chance = number(local, 0, 0.5);
  return uniform(index, 1) < chance ? 1.0 : 0.0;
}
double draw_exponential(const LocalCall& local, std::uint64_t index, double) {
  return -std::log(uniform(index, 1)) / number(local, 0, 1.0);
}
double draw_geometric(const LocalCall& local, std::uint64_t index, double) {
  return std::ceil(std::log(uniform(index, 1)) / std::log1p(-number(local, 0, 0.5)));
}
double draw_log_normal(const LocalCall& local, std::uint64_t index, double) {
  return std::exp(number(local, 0, 1.0) + number(local, 1, 2.0) * standard_normal(index));
}
double draw_normal(const LocalCall& local, std::uint64_t index, double) {
  return number(local, 0, 0.0) + number(local, 1, 1.0) * standard_normal(index);
}
double draw_standard_normal(const LocalCall&, std::uint64_t index, double) {
  return standard_normal(index);
}
double draw_uniform(const LocalCall& local, std::uint64_t index, double) {
  const double from = number(local, 0, 0.0);
  return from + (number(local, 1, 1.0) - from) * uniform(index, 1);
}
double draw_integer(const LocalCall& local, std::uint64_t index, double) {
  const bool has_low = local.call.op.find(".low") != std::string::npos;
  const double low = has_low ? number(local, 0, 0.0) : 0.0;
  const double high = number(local, has_low ? 1 : 0, 1.0);
  if (!(high > low)) {
    throw InputError(local.call.op + ": found the range from " + format_double(low) + " to " +
                     format_double(high) + "; valid: an end above the start");
  }
  return low + std::floor((high - low) * uniform(index, 1));
}

// Makes a tensor of numbers, each of which is drawn from its index in the whole tensor. The --args
// begin with the shape of the whole tensor.
template <double (*kDraw)(const LocalCall&, std::uint64_t, double)>
LocalResult run_made(const LocalCall& local, const OpKernel&) {
  const Shape shape = made_shape(local);
  const auto given = local.call.integers_arg(0);
  const Shape strides = row_major_strides(given ? Shape(given->begin(), given->end()) : shape);
  if (strides.size() != shape.size()) {
    throw InputError(local.call.op + ": found a shape of " + std::to_string(strides.size()) +
                     " dims in --args; valid: the " + std::to_string(shape.size()) +
                     " dims of the result");
  }
  std::vector<double> values = filled(local, shape, 0.0);
  for_each_element(shape, [&](const Shape& index, std::int64_t i) {
    std::int64_t global = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const std::int64_t row =
          local.output_rows.empty() ? index[d] : local.output_rows[0][d].at(to_index(index[d]));
      global += strides[d] * row;
    }
    values[to_index(i)] = kDraw(local, static_cast<std::uint64_t>(global), 0.0);
  });
  return {{from_doubles(local.memory, DType::kF32, shape, values)}, {}};
}
double draw_unit(const LocalCall&, std::uint64_t index, double) { return uniform(index, 1); }

// Scales up the elements that are kept, and returns the mask of them.
LocalResult run_dropout(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = drawn_input(local);
  const double chance = number(local, 0, 0.5);
  if (!(chance >= 0.0 && chance < 1.0)) {
    throw InputError(local.call.op + ": found the probability " + format_double(chance) +
                     "; valid: from 0 to below 1");
  }
  const bool trains = local.call.boolean_arg(1, true);
  std::vector<double> values = as_doubles(input);
  std::vector<double> mask(values.size(), 1.0);
  const std::vector<std::uint64_t> indices = global_indices(local, 0);
  for (std::size_t i = 0; trains && i < values.size(); ++i) {
    mask[i] = uniform(indices[i], 1) < chance ? 0.0 : 1.0;
    values[i] *= mask[i] / (1.0 - chance);
  }
  return {{from_doubles(local.memory, input.dtype(), input.shape(), values),
           from_doubles(local.memory, DType::kB8, input.shape(), mask)},
          {}};
}

// Draws samples with replacement by the weights of each row. A weight below 0 counts as 0.
LocalResult run_multinomial(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = drawn_input(local);
  const std::int64_t samples = local.call.integer_arg(0, 0);
  if (input.ndim() < 1 || input.ndim() > 2) {
    throw InputError(local.call.op + ": found weights " + tensor_text(input) +
                     "; valid: weights of 1 or 2 dims");
  }
  if (samples < 1 || samples > (1 << 20)) {
    throw InputError(local.call.op + ": found " + std::to_string(samples) +
                     " samples; valid: 1 to 1048576");
  }
  if (!local.call.boolean_arg(1, false)) {
    throw InputError(local.call.op +
                     ": found samples without replacement; valid: samples with replacement, "
                     "because the reference kernel draws no others");
  }
  std::vector<double> weights = as_doubles(input);
  for (double& weight : weights) weight = weight > 0.0 ? weight : 0.0;
  const std::vector<std::uint64_t> indices = global_indices(local, 0);
  const auto categories = static_cast<std::size_t>(input.extent(input.ndim() - 1));
  const auto count = static_cast<std::size_t>(samples);
  if (categories == 0) {
    throw InputError(local.call.op + ": found weights " + tensor_text(input) +
                     "; valid: at least one weight in each row");
  }
  std::vector<double> drawn;
  for (std::size_t begin = 0; begin < weights.size(); begin += categories) {
    const auto row = std::span(weights).subspan(begin, categories);
    const double total = std::accumulate(row.begin(), row.end(), 0.0);
    for (std::size_t s = 0; s < count; ++s) {
      double left = uniform(indices[begin], 1 + s) * total;
      std::size_t category = 0;
      while (category + 1 < categories && left >= row[category]) left -= row[category++];
      drawn.push_back(static_cast<double>(category));
    }
  }
  Shape shape = input.shape();
  shape.back() = samples;
  return {{from_doubles(local.memory, DType::kI64, shape, drawn)}, {}};
}

// Multiplies negative elements by slopes between lower and upper. The noise is the slope of each
// element.
LocalResult run_noisy(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = drawn_input(local);
  expect_inputs(local, 2, 2);
  if (local.inputs[1].shape() != input.shape()) {
    throw InputError(local.call.op + ": found noise " + tensor_text(local.inputs[1]) +
                     "; valid: the shape of the input, " + tensor_text(input));
  }
  const double lower = number(local, 0, 0.125);
  const double upper = number(local, 1, 1.0 / 3);
  const bool trains = local.call.boolean_arg(2, false);
  std::vector<double> values = as_doubles(input);
  std::vector<double> noise = as_doubles(local.inputs[1]);
  const std::vector<std::uint64_t> indices = global_indices(local, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double slope = (lower + upper) / 2.0;
    if (trains) slope = lower + (upper - lower) * uniform(indices[i], 1);
    if (values[i] > 0.0) slope = 1.0;
    if (trains) noise[i] = slope;
    values[i] *= slope;
  }
  return {{from_doubles(local.memory, input.dtype(), input.shape(), values),
           from_doubles(local.memory, local.inputs[1].dtype(), input.shape(), noise)},
          {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "bernoulli", .run = run_drawn<draw_bernoulli>},
    {.name = "exponential", .run = run_drawn<draw_exponential>},
    {.name = "geometric", .run = run_drawn<draw_geometric>},
    {.name = "log_normal", .run = run_drawn<draw_log_normal>},
    {.name = "multinomial", .run = run_multinomial},
    {.name = "native_dropout", .run = run_dropout},
    {.name = "normal", .run = run_drawn<draw_normal>},
    {.name = "normal_functional", .run = run_drawn<draw_normal>},
    {.name = "rand", .run = run_made<draw_unit>, .needs_output_shapes = true},
    {.name = "randint_like", .run = run_drawn<draw_integer>},
    {.name = "randn", .run = run_made<draw_standard_normal>, .needs_output_shapes = true},
    {.name = "randn_like", .run = run_drawn<draw_standard_normal>},
    {.name = "rrelu_with_noise_functional", .run = run_noisy},
    {.name = "uniform", .run = run_drawn<draw_uniform>},
};

}  // namespace random_kernels

OP_KERNELS(random){random_kernels::kKernels};

}  // namespace shardlab
