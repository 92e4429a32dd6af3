// TF32 in compute models: which products round their operands of f32 to it, at which rate.
//
//   const Tf32Settings tf32(input);
//   const std::optional<Tflops> rate = tf32.peak_of(query);   // nothing: the rate of the dtype holds
//
// Tensor cores multiply f32 only after rounding it to TF32, which has 10 bits of mantissa. PyTorch
// lets cuDNN do so by default (torch.backends.cudnn.allow_tf32), and matrix products and attention
// only where torch.backends.cuda.matmul.allow_tf32 or torch.set_float32_matmul_precision asks for it.
// Source: PyTorch 2.13.0, docs/source/notes/numerical_accuracy.rst and notes/cuda.rst.
// Status: ported defaults; rates from the topology.
#pragma once

#include <optional>

#include "costmodel/registry.h"

namespace shardlab {

inline constexpr ParamSpec kTf32Matmul = {
    "tf32_matmul", 0.0, 0.0, 1.0,
    "1: matrix products and attention of f32 round to TF32 where the topology states its rate, as "
    "with torch.set_float32_matmul_precision(\"high\"); 0: they do not"};
inline constexpr ParamSpec kTf32Convolution = {
    "tf32_convolution", 1.0, 0.0, 1.0,
    "the same of convolutions: torch.backends.cudnn.allow_tf32, which is on by default"};

class Tf32Settings {
 public:
  explicit Tf32Settings(const ModelInput& input)
      : peak_(input.topology.tf32_peak()),
        matmul_(input.params[kTf32Matmul.name] >= 0.5),
        convolution_(input.params[kTf32Convolution.name] >= 0.5) {}

  // The rate of a product that is rounded to TF32; nothing for other kernels.
  [[nodiscard]] std::optional<Tflops> peak_of(const KernelQuery& query) const {
    const bool multiplies = query.kind == Kernel::kGemm || query.kind == Kernel::kAttention;
    return multiplies && query.dtype == DType::kF32 && is_on(query.tf32) ? peak_ : std::nullopt;
  }

 private:
  [[nodiscard]] bool is_on(Tf32 setting) const {
    switch (setting) {
      case Tf32::kAsMatmul:
        return matmul_;
      case Tf32::kAsConvolution:
        return convolution_;
      case Tf32::kOn:
        return true;
      case Tf32::kOff:
        break;
    }
    return false;
  }

  std::optional<Tflops> peak_;
  bool matmul_;
  bool convolution_;
};

}  // namespace shardlab
