// Prices of one call's local kernels, candidate by candidate, for the rank with the largest shards.
//
//   KernelPrices prices(rule, call, mesh, expansion, kernels);
//   prices.price(candidate)                     // microseconds
//
// The shape that a rank holds of a tensor depends only on the tensor's code
// (strategies/rules/expansion.h), so it is computed once for each code, however many candidates
// share the code.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/compute_model.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/kernel_traffic.h"
#include "strategies/rules/op_rule.h"
#include "strategies/select/stack.h"

namespace shardlab {

class KernelPrices {
 public:
  // Keeps references to all arguments. Assumes that the expansion is of this call under this rule.
  KernelPrices(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh,
               const Expansion& expansion, const ComputeModel& kernels,
               StridedKernels strided = StridedKernels::kLocal);

  [[nodiscard]] double price(std::size_t candidate);

 private:
  struct Held {
    Shape shape;
    Bytes bytes = 0.0;
    Bytes stored = 0.0;  // stored_bytes()
  };
  struct Tensor {
    TensorMeta meta;
    Expansion::CodesOf codes;
    std::vector<std::uint32_t>
        where;  // code -> 1 + position in `held`; 0 where it is not found yet
    std::vector<Held> held;
  };

  void add(const TensorMeta& meta);
  const Held& held_by(std::size_t t, std::size_t candidate);

  const OpRule& rule_;
  const OpCall& call_;
  const DeviceMesh& mesh_;
  const Expansion& expansion_;
  const ComputeModel& kernels_;
  StridedKernels strided_;
  KernelTraffic traffic_;
  bool reads_shapes_;            // whether the price depends on the inputs' shapes beside the bytes
  std::vector<Tensor> tensors_;  // outputs, then inputs
  std::vector<Shape> input_shapes_;
  // What a rank holds of each tensor under the candidate that price() was last asked for, and what
  // that takes in memory: outputs, then inputs.
  std::vector<Bytes> bytes_;
  std::vector<Bytes> stored_;
};

}  // namespace shardlab
