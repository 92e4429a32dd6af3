// The interface of a compute model: what does one kernel on one device cost? Kernels are the ops
// themselves and the local work of a redistribution (chunk, partition, reshuffle copies).
//
//   model->price({.kind = Kernel::kGemm, .bytes = 1e8, .flops = 1e12, .dtype = DType::kBF16}).total
#pragma once

#include "costmodel/base/dtype.h"
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

struct KernelQuery {
  Kernel kind = Kernel::kCopy;
  Bytes bytes = 0.0;   // read plus written
  double flops = 0.0;  // multiply and add count as two
  DType dtype = DType::kF32;
  bool strided = false;  // a strided copy, as in a reshuffle
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
