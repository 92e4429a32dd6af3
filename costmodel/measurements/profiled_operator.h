// The kernel that an operator of a profile runs, by the shapes of its arguments.
//
//   kernel_of({.name = "aten::mm", .arguments = {{a}, {b}}})   // gemm, m, n, k, bytes, flops
//
// An operator counts as one kernel, although it may launch several: a product that cuBLAS splits
// along k launches a second one for the sums. What counts as what:
//
//   gemm         mm, addmm, bmm, baddbmm, _scaled_mm
//   attention    the operators of FlashAttention-2, xFormers and cuDNN, forward and backward
//   copy         copy_ of one dtype and one order of elements
//   reshuffle    copy_ of one dtype into another order of elements
//   elementwise  pointwise operators, copy_ into another dtype, and TorchInductor's triton_poi_*
//   reduction    norms, softmax, sums and the like, and TorchInductor's triton_red_* and
//                triton_per_*
//
// Bytes are those that the operator must read and write if nothing is in a cache: each input once,
// without the elements that a stride of 0 repeats, and each output once. An argument that a kernel
// of TorchInductor reads and writes counts once, since its trace does not tell. The small outputs
// of sums and norms (statistics, masks of attention) are left out. The profiler records no dtype of
// a list of tensors, so that operators on lists (cat, _foreach_*, fused optimizers) have no row.
//
// Source: the operators' schemas in PyTorch 2.13.0 (aten/src/ATen/native/native_functions.yaml) and
// TorchInductor's names of kernels (torch/_inductor/codegen/triton.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/dtype.h"
#include "costmodel/measurements/measurement_set.h"

namespace shardlab {

struct ProfiledTensor {
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> strides;  // as many as dims, or empty if the trace has none
  DType dtype = DType::kF32;
};

// A tensor, or a value, which the profiler records as text ("True", "-1"). A list has neither.
struct ProfiledArgument {
  std::optional<ProfiledTensor> tensor = {};
  std::string value = {};
};

struct ProfiledOperator {
  std::string name;  // "aten::mm"
  std::vector<ProfiledArgument> arguments;
};

// The row of the operator's kernel, without a time. Returns nothing for operators that are none of
// the kinds above, and for arguments that lack a shape which is needed, or that have no elements.
// `launched` is the name of a kernel that the operator launched; it tells TF32 from f32.
[[nodiscard]] std::optional<MeasuredKernel> kernel_of(const ProfiledOperator& op,
                                                      std::string_view launched = {});

}  // namespace shardlab
