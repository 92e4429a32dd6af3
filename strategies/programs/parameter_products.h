// Which parameter a value holds, and which ops multiply an activation by a parameter.
//
//   const auto views = parameter_views(program);        // by node
//   views[permute]->parameter                           // the node of the weight
//   views[permute]->dims                                // {1, 0}: the value's dim 0 is the
//                                                       weight's dim 1
//   parameter_product(program, views, mm)->out_dim      // 0: nn.Linear stores [out, in]
//
// Only the graph is read, no label. A value holds a parameter if it is that parameter, cast,
// permuted, reshaped, cut, expanded or scaled by numbers. Two layers that compute the same store
// their weights differently: torch.nn.Linear stores [out, in] and multiplies by the transposed
// weight (PyTorch, torch/nn/modules/linear.py), GPT-2's Conv1D stores [in, out] and multiplies by
// the weight itself (transformers, pytorch_utils.py), and a mixture of experts has a weight of
// three dims, one of which counts the experts. So the dims are found by following them from the
// parameter to the product.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "strategies/programs/program.h"

namespace shardlab {

inline constexpr int kNoDim = -1;

// A value that holds one parameter.
struct ParameterView {
  std::size_t parameter = 0;  // its node
  // For each dim of the value, the dim of the parameter that it is or is a part of; kNoDim for a
  // dim of extent 1 and for one along which the parameter was repeated.
  std::vector<int> dims;
};

// A product of an activation with a parameter. A dim that there is not is kNoDim.
struct ParameterProduct {
  std::size_t parameter = 0;
  ValueRef weight;                    // the value that holds the parameter
  ValueRef activation;                // the value that it is multiplied by
  std::optional<ValueRef> bias = {};  // what the same op adds to the product
  int out_dim = kNoDim;               // the parameter's dim of output features
  int in_dim = kNoDim;                // the parameter's dim that is summed over
  int expert_dim = kNoDim;            // the parameter's dim that counts experts
  int feature_dim = kNoDim;           // the dim of output features in the op's own output
};

// Returns, for each node, the parameter that its outputs hold, if they hold exactly one.
[[nodiscard]] std::vector<std::optional<ParameterView>> parameter_views(const Program& program);

// Whether a node is a product of two matrices, or of two batches of matrices.
[[nodiscard]] bool is_product(const ProgramNode& node);

// The product of an activation with a parameter that the node computes. There is none if both
// factors hold parameters, or neither does.
[[nodiscard]] std::optional<ParameterProduct> parameter_product(
    const Program& program, std::span<const std::optional<ParameterView>> views, std::size_t node);

// The tensors between which a product multiplies. Nothing for a node that is no product.
[[nodiscard]] std::vector<ValueRef> factors_of(const ProgramNode& node);

// Whether an op only copies its one tensor or changes its dtype.
[[nodiscard]] bool only_copies(const ProgramNode& node);

// For an op that copies, casts, permutes, reshapes, cuts or expands its one tensor: what each dim
// of the output is, given what each dim of the tensor is. Nothing for any other op.
[[nodiscard]] std::optional<std::vector<int>> dims_after(const Program& program,
                                                         const ProgramNode& node,
                                                         std::span<const int> dims);

}  // namespace shardlab
