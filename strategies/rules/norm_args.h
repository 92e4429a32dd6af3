// The tensors and arguments of the norm ops, by name: rules and kernels read a call here. Source:
// PyTorch 2.13.0, native_functions.yaml (native_layer_norm, _fused_rms_norm, native_batch_norm and
// its variants, native_group_norm, and their backwards).
#pragma once

#include <array>
#include <vector>

#include "strategies/rules/op_call.h"

namespace shardlab {

// Positions of tensor arguments; -1: the op has none of that kind. `gradient` is there in backwards.
struct NormArgs {
  std::string_view op;
  enum class Kind : std::uint8_t { kLayer, kRms, kBatch, kGroup } kind;
  int input = 0;
  int gradient = -1;
  int mean = -1;  // saved by the forward
  int rstd = -1;
  int weight = -1;
  int bias = -1;
  int running_mean = -1;
  int running_var = -1;
  int tensors = 0;
  // Positions among --args.
  int shape = -1;
  int training = -1;
  int eps = -1;
  int mask = -1;
  int outputs = 3;
  // Without a `training` argument: what it would be.
  bool trains = true;
};

// Throws InputError for another op.
[[nodiscard]] const NormArgs& norm_args(std::string_view op);
[[nodiscard]] bool is_training(const OpCall& call);
// Which gradients a backward is to return.
[[nodiscard]] std::vector<bool> output_mask(const OpCall& call);
// Dims before the normalised ones, of a layer or rms norm. Throws InputError: a shape that is not the
// input's last dims.
[[nodiscard]] int normalized_axis(const OpCall& call);
// Checks tensors, shapes and numbers. Throws InputError.
void check_norm(const OpCall& call);

}  // namespace shardlab
