// Operators that have no sharding rule, because PyTorch runs others in their place
// (CompositeImplicitAutograd): before it dispatches to DTensor, or in DTensor's dispatch under
// torch.inference_mode().
//
//   ops_in_place_of("chunk")   // "aten.split.Tensor"
//
// Source: PyTorch 2.13.0, the operators that a TorchDispatchMode sees; those of the fused operators
// for CUDA, which have no CPU kernel, from aten/src/ATen/native (transformers/attention.cpp,
// Dropout.cpp, layer_norm.cpp). tests/scripts/composite_ops_test.py compares them with the PyTorch
// that is installed.
#pragma once

#include <string_view>
#include <vector>

namespace shardlab {

// The operators that run in place of one, in words: "aten.mm.default, aten.bmm.default". `op` may
// begin with "aten." and end with any overload but those that write to an `out` tensor. Empty for
// an operator that is not listed.
[[nodiscard]] std::string_view ops_in_place_of(std::string_view op);
// The operators that are listed, without "aten." and overload. Names are sorted.
[[nodiscard]] std::vector<std::string_view> composite_op_names();

}  // namespace shardlab
