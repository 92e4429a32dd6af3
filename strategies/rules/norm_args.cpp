#include "strategies/rules/norm_args.h"

#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

using Kind = NormArgs::Kind;

constexpr std::array<NormArgs, 12> kNorms = {{
    {.op = "aten._batch_norm_with_update.default",
     .kind = Kind::kBatch,
     .weight = 1,
     .bias = 2,
     .running_mean = 3,
     .running_var = 4,
     .tensors = 5,
     .eps = 1,
     .outputs = 4},
    {.op = "aten._fused_rms_norm.default",
     .kind = Kind::kRms,
     .weight = 1,
     .tensors = 2,
     .shape = 0,
     .eps = 1,
     .outputs = 2},
    {.op = "aten._fused_rms_norm_backward.default",
     .kind = Kind::kRms,
     .input = 1,
     .gradient = 0,
     .rstd = 2,
     .weight = 3,
     .tensors = 4,
     .shape = 0,
     .mask = 1,
     .outputs = 2},
    {.op = "aten._native_batch_norm_legit.default",
     .kind = Kind::kBatch,
     .weight = 1,
     .bias = 2,
     .running_mean = 3,
     .running_var = 4,
     .tensors = 5,
     .training = 0,
     .eps = 2},
    {.op = "aten._native_batch_norm_legit.no_stats",
     .kind = Kind::kBatch,
     .weight = 1,
     .bias = 2,
     .tensors = 3,
     .training = 0,
     .eps = 2},
    {.op = "aten._native_batch_norm_legit_functional.default",
     .kind = Kind::kBatch,
     .weight = 1,
     .bias = 2,
     .running_mean = 3,
     .running_var = 4,
     .tensors = 5,
     .training = 0,
     .eps = 2,
     .outputs = 5},
    {.op = "aten._native_batch_norm_legit_no_training.default",
     .kind = Kind::kBatch,
     .weight = 1,
     .bias = 2,
     .running_mean = 3,
     .running_var = 4,
     .tensors = 5,
     .eps = 1,
     .trains = false},
    {.op = "aten.native_batch_norm.default",
     .kind = Kind::kBatch,
     .weight = 1,
     .bias = 2,
     .running_mean = 3,
     .running_var = 4,
     .tensors = 5,
     .training = 0,
     .eps = 2},
    {.op = "aten.native_batch_norm_backward.default",
     .kind = Kind::kBatch,
     .input = 1,
     .gradient = 0,
     .mean = 5,
     .rstd = 6,
     .weight = 2,
     .running_mean = 3,
     .running_var = 4,
     .tensors = 7,
     .training = 0,
     .eps = 1,
     .mask = 2},
    {.op = "aten.native_group_norm.default",
     .kind = Kind::kGroup,
     .weight = 1,
     .bias = 2,
     .tensors = 3,
     .eps = 4},
    {.op = "aten.native_layer_norm.default",
     .kind = Kind::kLayer,
     .weight = 1,
     .bias = 2,
     .tensors = 3,
     .shape = 0,
     .eps = 1},
    {.op = "aten.native_layer_norm_backward.default",
     .kind = Kind::kLayer,
     .input = 1,
     .gradient = 0,
     .mean = 2,
     .rstd = 3,
     .weight = 4,
     .bias = 5,
     .tensors = 6,
     .shape = 0,
     .mask = 1},
}};

[[noreturn]] void fail(const OpCall& call, std::string_view what, const TensorMeta& found,
                       std::string_view valid) {
  throw InputError(call.op + ": found " + std::string(what) + " " + found.text() +
                   "; valid: " + std::string(valid));
}

void expect_shape(const OpCall& call, int position, const Shape& shape, std::string_view what) {
  const TensorSpec* tensor = norm_tensor(call, position);
  if (tensor == nullptr || tensor->meta.shape == shape) return;
  const TensorMeta wanted{.dtype = tensor->meta.dtype, .shape = shape, .strides = {}};
  fail(call, what, tensor->meta, wanted.text());
}

// The --args of a group norm begin with N, C, HxW and the number of groups.
void check_groups(const OpCall& call, const Shape& shape) {
  std::int64_t rest = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) rest *= shape[d];
  const std::array<std::int64_t, 3> wanted = {shape[0], shape[1], rest};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::int64_t found = call.integer_arg(i, wanted[i]);
    if (found != wanted[i]) {
      throw InputError(call.op + ": argument " + std::to_string(i) + " of --args: found " +
                       std::to_string(found) + "; valid: " + std::to_string(wanted[i]));
    }
  }
  const std::int64_t groups = call.integer_arg(3, 1);
  if (groups < 1 || shape[1] % groups != 0) {
    throw InputError(call.op + ": found " + std::to_string(groups) + " groups of " +
                     std::to_string(shape[1]) +
                     " channels; valid: a number of groups that divides the channels");
  }
}

}  // namespace

const NormArgs& norm_args(std::string_view op) {
  for (const NormArgs& each : kNorms) {
    if (each.op == op) return each;
  }
  throw InputError(std::string(op) + ": this overload is not a known norm op");
}

const TensorSpec* norm_tensor(const OpCall& call, int position) {
  return position < 0 ? nullptr : call.tensor(to_index(position));
}

bool is_training(const OpCall& call) {
  const NormArgs& args = norm_args(call.op);
  if (args.training < 0) return args.trains;
  return call.boolean_arg(static_cast<std::size_t>(args.training), true);
}

std::vector<bool> output_mask(const OpCall& call) {
  const NormArgs& args = norm_args(call.op);
  const auto count = static_cast<std::size_t>(args.outputs);
  std::vector<bool> mask(count, true);
  const auto position = static_cast<std::size_t>(args.mask);
  if (args.mask < 0 || position >= call.args.size() || call.args[position].is_null()) return mask;
  const nlohmann::json& given = call.args[position];
  const bool fits = given.is_array() && given.size() == count &&
                    std::all_of(given.begin(), given.end(),
                                [](const nlohmann::json& value) { return value.is_boolean(); });
  if (!fits) {
    throw InputError(call.op + ": argument " + std::to_string(position) + " of --args: found " +
                     given.dump() + "; valid: an output mask of " + std::to_string(count) +
                     " values, each true or false");
  }
  for (std::size_t i = 0; i < count; ++i) mask[i] = given[i].get<bool>();
  return mask;
}

int normalized_axis(const OpCall& call) {
  const NormArgs& args = norm_args(call.op);
  const TensorMeta& input = call.required_tensor(static_cast<std::size_t>(args.input)).meta;
  const Shape& shape = input.shape;
  const auto listed = call.integers_arg(static_cast<std::size_t>(args.shape));
  const bool fits = listed && !listed->empty() && listed->size() <= shape.size() &&
                    std::equal(listed->rbegin(), listed->rend(), shape.rbegin());
  if (!fits) {
    throw InputError(call.op + ": argument " + std::to_string(args.shape) + " of --args: found " +
                     (listed ? call.args[to_index(args.shape)].dump() : "none") +
                     "; valid: the last dims of " + input.text() + ", which are normalized");
  }
  return static_cast<int>(shape.size() - listed->size());
}

void check_norm(const OpCall& call) {
  const NormArgs& args = norm_args(call.op);
  if (call.inputs.size() > static_cast<std::size_t>(args.tensors)) {
    throw InputError(call.op + ": takes at most " + std::to_string(args.tensors) +
                     " tensor arguments, found " + std::to_string(call.inputs.size()));
  }
  for (std::size_t i = 0; i < call.inputs.size(); ++i) static_cast<void>(call.tensor(i));
  const TensorMeta& input = call.required_tensor(static_cast<std::size_t>(args.input)).meta;
  if (!is_floating_point(input.dtype)) fail(call, "an input", input, "a floating point tensor");
  expect_shape(call, args.gradient, input.shape, "a gradient");
  if (args.gradient >= 0) static_cast<void>(call.required_tensor(0));
  if (args.eps >= 0) static_cast<void>(call.number_arg(static_cast<std::size_t>(args.eps), 1e-5));
  static_cast<void>(output_mask(call));
  if (args.kind == Kind::kLayer || args.kind == Kind::kRms) {
    const int axis = normalized_axis(call);
    const Shape affine(input.shape.begin() + axis, input.shape.end());
    Shape kept(input.shape.begin(), input.shape.begin() + axis);
    kept.resize(input.shape.size(), 1);
    expect_shape(call, args.weight, affine, "a weight");
    expect_shape(call, args.bias, affine, "a bias");
    for (const int position : {args.mean, args.rstd}) {
      if (position >= 0)
        static_cast<void>(call.required_tensor(static_cast<std::size_t>(position)));
      expect_shape(call, position, kept, "a saved statistic");
    }
    return;
  }
  if (input.ndim() < 2) fail(call, "an input", input, "a tensor [N,C,...]");
  const Shape channels = {input.shape[1]};
  expect_shape(call, args.weight, channels, "a weight");
  expect_shape(call, args.bias, channels, "a bias");
  expect_shape(call, args.running_mean, channels, "a running mean");
  expect_shape(call, args.running_var, channels, "a running variance");
  for (const int position : {args.mean, args.rstd}) {
    expect_shape(call, position, channels, "a saved statistic");
  }
  if (args.kind == Kind::kGroup) {
    check_groups(call, input.shape);
    return;
  }
  const bool saved = is_training(call) && !args.returns_running();
  const int mean = saved ? args.mean : args.running_mean;
  const int var = saved ? args.rstd : args.running_var;
  const bool reads_statistics = !saved || args.gradient >= 0;
  if (reads_statistics &&
      (norm_tensor(call, mean) == nullptr || norm_tensor(call, var) == nullptr)) {
    throw InputError(call.op + ": takes " +
                     (saved ? "the saved mean and invstd"
                      : args.returns_running()
                          ? "a running mean and variance"
                          : "a running mean and variance when it does not train"));
  }
}

}  // namespace shardlab
