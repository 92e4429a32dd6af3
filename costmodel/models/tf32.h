// TF32 in compute models: which products round their operands of f32 to it, at which rate.
//
//   const Tf32Settings tf32(input);
//   const std::optional<Tflops> rate = tf32.peak_of(query);   // nothing: its dtype's rate holds
//
// Tensor cores multiply f32 only after rounding it to TF32, which has 10 bits of mantissa; products
// of complex numbers of f32 are rounded, too. PyTorch lets cuDNN do so in convolutions by default
// (torch.backends.cudnn.allow_tf32), and matrix products and FlexAttention only where
// torch.backends.cuda.matmul.allow_tf32 or torch.set_float32_matmul_precision asks for it. Its
// efficient attention always multiplies f32 in three products of TF32 (OpMultiplyAddFastF32),
// whatever the settings are. A topology that states no rate of TF32 has no such products: all take
// the rate of the dtype.
//
// Source: PyTorch 2.13.0, docs/source/notes/numerical_accuracy.rst; the same release,
// ATen/native/transformers/cuda/mem_eff_attention/gemm_kernel_utils.h. Status: ported defaults;
// rates from the topology.
#pragma once

#include <optional>

#include "costmodel/registry.h"

namespace shardlab {

inline constexpr ParamSpec kTf32Matmul = switch_spec(
    "tf32_matmul", 0.0,
    "1: matrix products and FlexAttention of f32 take the rate of TF32, if the topology states "
    "it, as with torch.set_float32_matmul_precision(\"high\"); 0: they take the rate of f32");
inline constexpr ParamSpec kTf32Convolution = switch_spec(
    "tf32_convolution", 1.0,
    "1: convolutions of f32 take the rate of TF32, if the topology states it; 0: they take the "
    "rate of f32, as with torch.backends.cudnn.allow_tf32 = False");

class Tf32Settings {
 public:
  explicit Tf32Settings(const ModelInput& input)
      : peak_(input.topology.tf32_peak()),
        matmul_(input.params[kTf32Matmul.name] != 0.0),
        convolution_(input.params[kTf32Convolution.name] != 0.0) {}

  // The rate of a product that is rounded to TF32; nothing for other kernels.
  [[nodiscard]] std::optional<Tflops> peak_of(const KernelQuery& query) const {
    if (!peak_ || (query.dtype != DType::kF32 && query.dtype != DType::kC64)) return std::nullopt;
    if (query.kind == Kernel::kAttention && query.attention &&
        query.attention->kernel == AttentionKernel::kEfficient) {
      constexpr double kProducts = 3.0;
      return (1.0 / kProducts) * *peak_;
    }
    const bool multiplies = query.kind == Kernel::kGemm || query.kind == Kernel::kAttention;
    return multiplies && is_on(query.tf32) ? peak_ : std::nullopt;
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
