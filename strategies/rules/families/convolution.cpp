// Convolutions, forward and backward. PyTorch 2.13 shards only the batch; its older rules for
// convolutions serve only its own handler for the last spatial dim. 2.14 adds that dim where
// windows touch without overlap. The rule set shardlab adds channels, partials, and every spatial
// dim whose windows lie within a shard. Source: PyTorch 2.13.0 and 2.14.1, _ops/_conv_ops.py
// (convolution_single_dim_strategy, convolution_backward_single_dim_strategy,
// _convolution_full_mesh_strategy_filter); #191926, #192147 (spatial dims).
#include <algorithm>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/output_mask.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"
#include "strategies/rules/window.h"

namespace shardlab {
namespace convolution_rules {

using rows::kAvg;
using rows::kMax;
using rows::kMin;
using rows::kR;
using rows::kSum;

// -- Forward: input, weight, bias or none ----------------------------------------------------

ConvolutionWindow forward_window(const OpCall& call) {
  if (call.inputs.size() < 2 || call.inputs.size() > 3) {
    throw InputError(call.op +
                     ": takes 2 or 3 tensors (an input, a weight and perhaps a bias), found " +
                     std::to_string(call.inputs.size()));
  }
  ConvolutionWindow window(call, call.required_tensor(0).meta, call.required_tensor(1).meta, 0);
  const TensorSpec* bias = call.tensor(2);
  if (bias != nullptr && (bias->meta.ndim() != 1 || bias->meta.shape[0] != window.output[1])) {
    throw InputError(call.op + ": found a bias " + bias->meta.text() +
                     "; valid: one number for each of " + std::to_string(window.output[1]) +
                     " output channels");
  }
  return window;
}

std::vector<TensorMeta> forward_outputs(const OpCall& call) {
  const Shape shape = forward_window(call).output;
  expect_one_dtype(call, 0, 2);  // on a CPU, PyTorch takes a bias of another dtype
  return {{.dtype = call.required_tensor(0).meta.dtype, .shape = shape, .strides = {}}};
}

bool has_bias(const OpCall& call) { return call.tensor(2) != nullptr; }

Rows batch_rows(const OpCall& call, const OpRule&) {
  static_cast<void>(forward_window(call));
  Row row = {RowEntry::any_shard(0), RowEntry::any_shard(0), kR};
  if (has_bias(call)) row.push_back(kR);
  return {row};
}

// Whether PyTorch since 2.14 shards the last spatial dim: only where its windows tile the input.
bool tiles_last_dim(const ConvolutionWindow& window) {
  const auto& last = window.windows.back();
  return !window.transposed && last.padding == 0 && last.dilation == 1 &&
         last.stride == last.kernel;
}

Rows pytorch_forward_rows(const OpCall& call, const OpRule& rule) {
  Rows rows = batch_rows(call, rule);
  const ConvolutionWindow window = forward_window(call);
  if (!tiles_last_dim(window)) return rows;
  const Placement last = Placement::shard(static_cast<int>(window.windows.size()) + 1);
  rows.push_back({last, last, kR});
  if (has_bias(call)) rows.back().push_back(kR);
  return rows;
}

// Whether the last spatial dim is sharded on one mesh dim at most, into equal shards of whole
// strides. PyTorch's handler of that dim can't express more than one mesh dim.
bool splits_last_dim_once(const ConvolutionWindow& window, const Shape& shape,
                          const Placements& placements, const DeviceMesh& mesh) {
  std::int64_t strides = 0;
  for (int m = 0; m < mesh.ndim(); ++m) {
    const Placement& p = placements[to_index(m)];
    if (!p.is_shard() || p.dim() + 1 != static_cast<int>(shape.size())) continue;
    if (strides != 0) return false;
    strides = saturating_product(window.windows.back().stride, mesh.size(m));
  }
  return strides == 0 || shape.back() % strides == 0;
}

bool pytorch_forward_filter(const OpCall& call, std::span<const Placements> inputs,
                            const DeviceMesh& mesh) {
  return splits_last_dim_once(forward_window(call), call.required_tensor(0).meta.shape, inputs[0],
                              mesh);
}

// Whether a spatial dim can be sharded without ranks exchanging the edges of their shards.
bool apart(const ConvolutionWindow& window, std::size_t i) {
  return !window.transposed && window.windows[i].lies_within_stride();
}

Rows forward_rows(const OpCall& call, const OpRule&) {
  const ConvolutionWindow window = forward_window(call);
  const bool bias = has_bias(call);
  Rows all;
  const auto add = [&](RowEntry out, RowEntry input, RowEntry weight, RowEntry of_bias) {
    Row row = {out, input, weight};
    if (bias) row.push_back(of_bias);
    all.push_back(row);
  };
  const auto shard = [](int dim) { return RowEntry::any_shard(dim); };
  add(shard(0), shard(0), kR, kR);
  if (window.groups == 1) {
    // The weight is [out, in, ...], or [in, out, ...] if the convolution is transposed.
    const int out = window.transposed ? 1 : 0;
    add(shard(1), kR, shard(out), shard(0));
    add(kSum, shard(1), shard(1 - out), kSum);
  }
  for (std::size_t i = 0; i < window.windows.size(); ++i) {
    const int dim = static_cast<int>(i) + 2;
    if (apart(window, i)) add(shard(dim), shard(dim), kR, kR);
  }
  for (const Placement& p : {kSum, kAvg}) {
    add(p, p, kR, p);
    add(p, kR, p, p);
  }
  if (bias) {
    add(kAvg, kAvg, kR, kR);
    add(kAvg, kR, kAvg, kR);
    for (const Placement& p : {kAvg, kMax, kMin}) add(p, kR, kR, p);
  }
  return all;
}

// Whether every shard of a spatial dim holds a whole number of strides, the same on each rank.
bool strides_are_whole(const ConvolutionWindow& window, const Shape& shape,
                       const Placements& placements, const DeviceMesh& mesh) {
  for (std::size_t i = 0; i < window.windows.size(); ++i) {
    const int dim = static_cast<int>(i) + 2;
    const bool is_sharded =
        std::any_of(placements.begin(), placements.end(),
                    [&](const Placement& p) { return p.is_shard_like() && p.dim() == dim; });
    if (!is_sharded || window.windows[i].stride == 1) continue;
    if (shape[i + 2] % window.windows[i].stride != 0) return false;
    Shape strides = shape;
    strides[i + 2] /= window.windows[i].stride;
    if (!is_evenly_shardable_on_dim(strides, placements, mesh, dim)) return false;
  }
  return true;
}

bool forward_filter(const OpCall& call, std::span<const Placements> inputs,
                    const DeviceMesh& mesh) {
  return strides_are_whole(forward_window(call), call.required_tensor(0).meta.shape, inputs[0],
                           mesh);
}

// The multiplications and additions of one pass over the local tensors.
double work(const ConvolutionWindow& window, const Shape& input, const Shape& weight,
            const Shape& global) {
  double flops = 2.0 * static_cast<double>(input[0]) * static_cast<double>(weight[0]) *
                 static_cast<double>(weight[1]);
  for (std::size_t i = 0; i < window.windows.size(); ++i) {
    flops *= static_cast<double>(window.windows[i].kernel) *
             static_cast<double>(window.transposed ? global[i + 2] : window.output[i + 2]) *
             static_cast<double>(input[i + 2]) /
             static_cast<double>(std::max<std::int64_t>(global[i + 2], 1));
  }
  return flops;
}

double forward_flops(std::span<const Shape> local, const OpCall& call) {
  return work(forward_window(call), local[0], local[1], call.required_tensor(0).meta.shape);
}

// -- Backward: gradient of the output, input, weight -----------------------------------------

// The --args are the extents of the bias, then the --args of the forward op, then which of the
// three gradients are asked for. Without a bias the extents are null or, where autograd calls the
// op, [0], the sizes of an undefined tensor (tools/autograd/derivatives.yaml, convolution).
struct Gradients {
  ConvolutionWindow window;
  std::vector<std::int64_t> bias;  // empty if there is none
  // Whether the extents are given, be they [0], but the mask leaves out the gradient of the bias.
  bool masks_bias;
  bool of_input;
  bool of_weight;
  bool of_bias;
};

Gradients gradients_of(const OpCall& call) {
  if (call.inputs.size() != 3) {
    throw InputError(call.op +
                     ": takes 3 tensors (the output's gradient, an input and a weight), found " +
                     std::to_string(call.inputs.size()));
  }
  const TensorMeta& gradient = call.required_tensor(0).meta;
  const TensorMeta& input = call.required_tensor(1).meta;
  Gradients asked{.window = ConvolutionWindow(call, input, call.required_tensor(2).meta, 1),
                  .bias = call.integers_arg(0).value_or(std::vector<std::int64_t>()),
                  .masks_bias = false,
                  .of_input = true,
                  .of_weight = true,
                  .of_bias = true};
  if (gradient.shape != asked.window.output) {
    throw InputError(
        call.op + ": found a gradient " + gradient.text() + "; valid: " +
        TensorMeta{.dtype = gradient.dtype, .shape = asked.window.output, .strides = {}}.text());
  }
  if (call.args.size() > 7 && !call.args[7].is_null()) {
    const nlohmann::json& mask = call.args[7];
    const bool three = mask.is_array() && mask.size() == 3 &&
                       std::all_of(mask.begin(), mask.end(),
                                   [](const nlohmann::json& m) { return m.is_boolean(); });
    if (!three) {
      throw InputError(call.op + ": found output_mask " + mask.dump() +
                       "; valid: three values, each true or false");
    }
    asked.of_input = mask[0].get<bool>();
    asked.of_weight = mask[1].get<bool>();
    asked.of_bias = mask[2].get<bool>();
  }
  const std::int64_t channels = asked.window.output[1];
  asked.masks_bias = call.integers_arg(0).has_value() && !asked.of_bias;
  if (asked.bias == std::vector<std::int64_t>{0}) asked.bias.clear();
  if (!asked.bias.empty() && (asked.bias.size() != 1 || asked.bias[0] != channels)) {
    throw InputError(call.op + ": found bias extents " + call.args[0].dump() + "; valid: [" +
                     std::to_string(channels) + "], or null or [0] without a bias");
  }
  if (asked.bias.empty()) asked.of_bias = false;
  if (!asked.of_input && !asked.of_weight && !asked.of_bias) {
    throw InputError(call.op + ": output_mask asks for no gradient; valid: at least one true");
  }
  return asked;
}

std::vector<TensorMeta> backward_outputs(const OpCall& call) {
  const Gradients asked = gradients_of(call);
  expect_one_dtype(call);
  std::vector<TensorMeta> outputs;
  const auto add = [&](bool is_asked, const TensorMeta& like, const Shape& shape) {
    if (is_asked) outputs.push_back({.dtype = like.dtype, .shape = shape, .strides = {}});
  };
  const TensorMeta& input = call.required_tensor(1).meta;
  const TensorMeta& weight = call.required_tensor(2).meta;
  add(asked.of_input, input, input.shape);
  add(asked.of_weight, weight, weight.shape);
  add(asked.of_bias, call.required_tensor(0).meta, Shape{asked.window.output[1]});
  return outputs;
}

// Collects rows. add() takes an entry for each of the three gradients and keeps those of the
// gradients that are asked for.
class GradientRows {
 public:
  explicit GradientRows(const Gradients& asked) : asked_(asked) {}
  void add(RowEntry of_input, RowEntry of_weight, RowEntry of_bias, RowEntry gradient,
           RowEntry input, RowEntry weight) {
    Row row;
    if (asked_.of_input) row.push_back(of_input);
    if (asked_.of_weight) row.push_back(of_weight);
    if (asked_.of_bias) row.push_back(of_bias);
    row.insert(row.end(), {gradient, input, weight});
    if (std::find(rows_.begin(), rows_.end(), row) == rows_.end()) rows_.push_back(row);
  }
  [[nodiscard]] Rows take() { return std::move(rows_); }

 private:
  const Gradients& asked_;
  Rows rows_;
};

RowEntry shard(int dim) { return RowEntry::any_shard(dim); }

Rows backward_batch_rows(const OpCall& call, const OpRule&) {
  const Gradients asked = gradients_of(call);
  GradientRows all(asked);
  all.add(shard(0), kSum, kSum, shard(0), shard(0), kR);
  return all.take();
}

Rows pytorch_backward_rows(const OpCall& call, const OpRule&) {
  const Gradients asked = gradients_of(call);
  GradientRows all(asked);
  all.add(shard(0), kSum, kSum, shard(0), shard(0), kR);
  if (tiles_last_dim(asked.window)) {
    const Placement last = Placement::shard(static_cast<int>(asked.window.windows.size()) + 1);
    all.add(last, kSum, kSum, last, last, kR);
  }
  return all.take();
}

// A gradient that is not asked for has no entry in the row that replicates everything, but one in
// PyTorch's other rows, which PyTorch since 2.14 refuses to combine.
bool pytorch_backward_filter(const OpCall& call, std::span<const Placements> inputs,
                             const DeviceMesh& mesh) {
  const Gradients asked = gradients_of(call);
  const bool has_rows = rows::has_shards(call) || tiles_last_dim(asked.window);
  const bool leaves_out = !asked.of_input || !asked.of_weight || asked.masks_bias;
  if (mesh.ndim() > 1 && has_rows && leaves_out) {
    const std::size_t first = !asked.of_input ? 0 : !asked.of_weight ? 1 : 2;
    refuse_mixed_none(call, mesh, first, "output_mask " + call.args[7].dump(),
                      "a mesh of one dim, or a mask of three gradients, each true");
  }
  return splits_last_dim_once(asked.window, call.required_tensor(1).meta.shape, inputs[1], mesh);
}

Rows backward_rows(const OpCall& call, const OpRule&) {
  const Gradients asked = gradients_of(call);
  const ConvolutionWindow& window = asked.window;
  GradientRows all(asked);
  all.add(shard(0), kSum, kSum, shard(0), shard(0), kR);
  if (window.groups == 1) {
    const int out = window.transposed ? 1 : 0;
    all.add(kSum, shard(out), shard(0), shard(1), kR, shard(out));
    all.add(shard(1), shard(1 - out), kR, kR, shard(1), shard(1 - out));
  }
  for (std::size_t i = 0; i < window.windows.size(); ++i) {
    const int dim = static_cast<int>(i) + 2;
    if (apart(window, i)) all.add(shard(dim), kSum, kSum, shard(dim), shard(dim), kR);
  }
  for (const Placement& p : {kSum, kAvg}) {
    all.add(p, p, p, p, kR, kR);
    all.add(kR, p, kR, kR, p, kR);
    all.add(p, kR, kR, kR, kR, p);
    for (const Placement& q : {kSum, kAvg}) all.add(q, p, kR, kR, p, q);
  }
  return all.take();
}

// The excuse for partials of a tensor that none of the gradients asked for depends on.
std::string_view unread_values(const OpCall& call, const Row& row) {
  const Gradients asked = gradients_of(call);
  const bool input = !asked.of_weight && row[row.size() - 2].placement().is_partial();
  const bool weight = !asked.of_input && row[row.size() - 1].placement().is_partial();
  return input || weight ? "none of the requested gradients depends on the values of this tensor"
                         : "";
}

bool backward_filter(const OpCall& call, std::span<const Placements> inputs,
                     const DeviceMesh& mesh) {
  return strides_are_whole(gradients_of(call).window, call.required_tensor(1).meta.shape, inputs[1],
                           mesh);
}

double backward_flops(std::span<const Shape> local, const OpCall& call) {
  const Gradients asked = gradients_of(call);
  const double once = work(asked.window, local[1], local[2], call.required_tensor(1).meta.shape);
  const double products = (asked.of_input ? 1.0 : 0.0) + (asked.of_weight ? 1.0 : 0.0);
  double sum = asked.of_bias ? 1.0 : 0.0;
  for (const std::int64_t extent : local[0]) sum *= static_cast<double>(extent);
  return products * once + sum;
}

// AutoParallel counts no operations for the gradient of the bias.
double products_flops(std::span<const Shape> local, const OpCall& call) {
  const Gradients asked = gradients_of(call);
  const double once = work(asked.window, local[1], local[2], call.required_tensor(1).meta.shape);
  return ((asked.of_input ? 1.0 : 0.0) + (asked.of_weight ? 1.0 : 0.0)) * once;
}

// cuDNN may round what it multiplies to TF32 where matrix products may not. A depthwise
// convolution, which has a group for each channel of the input, runs a kernel of PyTorch's own on
// the vector units; channels-last tensors go to cuDNN, and are assumed to take the rate of f32
// there, too.
// Source: PyTorch 2.13.0, aten/src/ATen/native/Convolution.cpp, is_depthwise and
// use_cudnn_depthwise.
Tf32 tf32_of(const ConvolutionWindow& window, const Shape& input, const Shape& weight) {
  const bool is_depthwise = !window.transposed && window.groups > 1 && input[1] == window.groups &&
                            weight[0] % input[1] == 0;
  return is_depthwise ? Tf32::kOff : Tf32::kAsConvolution;
}
void forward_shape(std::span<const Shape>, const OpCall& call, KernelQuery& query) {
  query.tf32 = tf32_of(forward_window(call), call.required_tensor(0).meta.shape,
                       call.required_tensor(1).meta.shape);
}
void backward_shape(std::span<const Shape>, const OpCall& call, KernelQuery& query) {
  query.tf32 = tf32_of(gradients_of(call).window, call.required_tensor(1).meta.shape,
                       call.required_tensor(2).meta.shape);
}

constexpr OpRule kRules[] = {
    {.op = "aten.convolution.default",
     .sets = rows::kBeforeRows,
     .outputs = forward_outputs,
     .rows = batch_rows,
     .kernel = Kernel::kGemm,
     .flops = forward_flops,
     .shape = forward_shape},
    {.op = "aten.convolution.default",
     .sets = rows::kSinceRows,
     .outputs = forward_outputs,
     .rows = pytorch_forward_rows,
     .filter = pytorch_forward_filter,
     .kernel = Kernel::kGemm,
     .flops = forward_flops,
     .shape = forward_shape},
    {.op = "aten.convolution.default",
     .sets = kShardlab,
     .outputs = forward_outputs,
     .rows = forward_rows,
     .filter = forward_filter,
     .kernel = Kernel::kGemm,
     .flops = forward_flops,
     .shape = forward_shape},
    {.op = "aten.convolution_backward.default",
     .sets = rows::kBeforeRows,
     .outputs = backward_outputs,
     .rows = backward_batch_rows,
     .kernel = Kernel::kGemm,
     .flops = backward_flops,
     .shape = backward_shape},
    {.op = "aten.convolution_backward.default",
     .sets = rows::kSinceRows,
     .outputs = backward_outputs,
     .rows = pytorch_backward_rows,
     .filter = pytorch_backward_filter,
     .kernel = Kernel::kGemm,
     .flops = backward_flops,
     .shape = backward_shape},
    {.op = "aten.convolution_backward.default",
     .sets = kAutoParallel,
     .outputs = backward_outputs,
     .rows = backward_batch_rows,
     .kernel = Kernel::kGemm,
     .flops = products_flops,
     .shape = backward_shape},
    {.op = "aten.convolution_backward.default",
     .sets = kAutoParallel2_15,
     .outputs = backward_outputs,
     .rows = pytorch_backward_rows,
     .filter = pytorch_backward_filter,
     .kernel = Kernel::kGemm,
     .flops = products_flops,
     .shape = backward_shape},
    {.op = "aten.convolution_backward.default",
     .sets = kShardlab,
     .outputs = backward_outputs,
     .rows = backward_rows,
     .filter = backward_filter,
     .excuse = unread_values,
     .kernel = Kernel::kGemm,
     .flops = backward_flops,
     .shape = backward_shape},
};

}  // namespace convolution_rules

OP_RULES(convolution){convolution_rules::kRules};

}  // namespace shardlab
