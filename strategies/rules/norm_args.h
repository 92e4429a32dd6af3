// Where the norm ops have their tensors and arguments. Rules and kernels both use it to read a
// call. Source: PyTorch 2.13.0, native_functions.yaml (native_layer_norm, _fused_rms_norm,
// native_batch_norm and its variants, native_group_norm, and their backwards).
#pragma once

#include <array>
#include <vector>

#include "strategies/rules/op_call.h"

namespace shardlab {

// Positions among the tensor arguments, or -1 where the op has no such tensor. Only backward ops
// have a gradient.
struct NormArgs {
  std::string_view op;
  enum class Kind : std::uint8_t { kLayer, kRms, kBatch, kGroup } kind;
  int input = 0;
  int gradient = -1;
  int mean = -1;  // saved by the forward
  int rstd = -1;  // saved by the forward
  int weight = -1;
  int bias = -1;
  int running_mean = -1;
  int running_var = -1;
  int tensors = 0;
  // Positions among --args, or -1 where the op has no such argument.
  int shape = -1;
  int training = -1;
  int eps = -1;
  int mask = -1;
  int outputs = 3;
  // Whether an op without a `training` argument trains.
  bool trains = true;

  // Whether the op returns new running statistics behind the output and the saved statistics.
  [[nodiscard]] constexpr bool returns_running() const { return outputs == 5; }
};

// Throws InputError if the op is not a norm op.
[[nodiscard]] const NormArgs& norm_args(std::string_view op);
// The tensor at a position of NormArgs, or null if the op has no such tensor or the call leaves it
// out.
[[nodiscard]] const TensorSpec* norm_tensor(const OpCall& call, int position);
[[nodiscard]] bool is_training(const OpCall& call);
// Which of its gradients a backward op is asked to return.
[[nodiscard]] std::vector<bool> output_mask(const OpCall& call);
// How many dims of a layer or rms norm's input come before those that are normalised. Throws
// InputError if the given shape is not the shape of the input's last dims.
[[nodiscard]] int normalized_axis(const OpCall& call);
// Throws InputError for tensors, shapes or numbers that the op does not take.
void check_norm(const OpCall& call);

}  // namespace shardlab
