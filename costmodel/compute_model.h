// The interface of a compute model: what does one kernel on one device cost? Kernels are the ops
// themselves and the local work of a redistribution (chunk, partition, reshuffle copies).
//
//   model->price({.kind = Kernel::kGemm, .bytes = 1e8, .flops = 1e12, .dtype = DType::kBF16}).total
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "costmodel/base/dtype.h"
#include "costmodel/base/enum_names.h"
#include "costmodel/cost_model.h"

namespace shardlab {

enum class Kernel : std::uint8_t {
  kCopy,
  kView,  // another shape of the same memory; it moves nothing if strides allow it
  kElementwise,
  kReduction,
  kGemm,
  kAttention,
};

// A product of [batch, m, k] with [batch, k, n].
struct GemmShape {
  double batch = 1.0;
  double m = 0.0;
  double n = 0.0;
  double k = 0.0;
  // The greatest power of two that divides the length of every row in memory, of both operands and
  // of the result, in elements (see row_multiple() in kernel_work.h). 0: it is not known, and the
  // product is priced as an aligned one.
  double row_multiple = 0.0;

  friend bool operator==(const GemmShape&, const GemmShape&) = default;
};

// Which implementation of attention runs: PyTorch's flash operator runs FlashAttention-2 on every
// GPU, its efficient operator the kernel of xFormers, and its cuDNN operator (as FlashAttention-3)
// a kernel that is written for the GPU at hand.
enum class AttentionKernel : std::uint8_t { kFlash, kEfficient, kCudnn };

template <>
struct EnumNames<AttentionKernel> {
  static constexpr std::string_view kKind = "attention kernel";
  static constexpr std::array kNames = {Named{AttentionKernel::kFlash, "flash"},
                                        Named{AttentionKernel::kEfficient, "efficient"},
                                        Named{AttentionKernel::kCudnn, "cudnn"}};
};

// Scaled dot-product attention. Grouped queries share the heads of the keys.
struct AttentionShape {
  double batch = 1.0;
  double heads = 0.0;     // number of heads of the queries
  double kv_heads = 0.0;  // number of heads of the keys and values
  double queries = 0.0;   // length of the sequence of queries
  double keys = 0.0;      // length of the sequence of keys and values
  double key_dim = 0.0;   // width of one head of the queries and keys
  double value_dim = 0.0;
  double window = 0.0;  // how many keys a query sees at most, itself included; 0: all of them
  bool causal = false;  // whether a query sees only the keys up to its own place
  bool backward = false;
  AttentionKernel kernel = AttentionKernel::kFlash;

  friend auto operator<=>(const AttentionShape&, const AttentionShape&) = default;
};

// How to tell whether a product of f32 rounds its operands to TF32 (see models/tf32.h).
enum class Tf32 : std::uint8_t {
  kAsMatmul,       // the model's setting for matrix products and attention
  kAsConvolution,  // its setting for convolutions
  kOn,             // for a measured product that did
  kOff,            // for a measured product that did not
};

struct KernelQuery {
  Kernel kind = Kernel::kCopy;
  Bytes bytes = 0.0;   // read plus written
  double flops = 0.0;  // multiply and add count as two
  DType dtype = DType::kF32;
  bool strided = false;  // a strided copy, as in a reshuffle
  // The shapes of a GEMM and of attention, if the caller knows them. `flops` are theirs in any
  // case: attention counts all pairs of queries and keys there, causal or not.
  std::optional<GemmShape> gemm = {};
  std::optional<AttentionShape> attention = {};
  Tf32 tf32 = Tf32::kAsMatmul;
  // Bytes of its tensors that the kernel neither reads nor writes, and the part of `bytes` that is
  // written to inputs. AutoParallel counts each tensor once, so that its model, ap_roofline, adds
  // the former and subtracts the latter.
  Bytes unmoved_bytes = 0.0;
  Bytes overwritten_bytes = 0.0;
};

class ComputeModel {
 public:
  ComputeModel() = default;
  ComputeModel(const ComputeModel&) = delete;
  ComputeModel& operator=(const ComputeModel&) = delete;
  virtual ~ComputeModel() = default;

  // Finite and not negative, with all of it in Price::compute. Never throws.
  [[nodiscard]] virtual Price price(const KernelQuery& query) const = 0;
};

}  // namespace shardlab
