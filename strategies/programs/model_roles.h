// What the nodes of a program are for in the model: which are linear layers, norms, embeddings,
// attention, the residual stream. Recipes place nodes by these roles (recipe.h).
//
//   const std::vector<NodeRoles> roles = model_roles(program);   // by node
//   roles[weight].has(ModelRole::kColumnLinear)
//   roles[weight].dim(RoleDim::kOut)                             // 0 if it is stored as [out, in]
//
// Roles are read from the graph alone, never from labels or names, so that they hold for any
// exported model. The pass forward is walked once. Each value is one of four:
//
//   stream    the residual stream and all that is computed from it element by element or by a norm:
//             inputs, rows of embeddings, sums of a layer's result with the stream, norms
//   inner     what a column-wise linear layer makes, and all that is computed from it: activation
//             functions, attention, reshapes, softmax
//   partial   what a row-wise layer makes, until it is added to the stream: a sum that is still
//             spread over ranks
//   none      what no input decides: parameters, positions, masks
//
// A linear layer is a product of an activation with a value that holds a parameter
// (parameter_products.h). It is column-wise in Megatron's sense if its activation is stream, and
// its result is inner; it is row-wise if its activation is inner, and its result is partial. So the
// projections of queries, keys and values, the first layers of an MLP and the head are column-wise,
// and the layers that return to the stream are row-wise. A norm over all features of an inner value
// returns to the stream too, since it needs all of them; a norm inside each head does not. Backward
// it is the reverse: the gradient of a column-wise layer's input is partial, that of a row-wise
// layer's input is inner.
//
// Queries, keys and values in one weight (GPT-2's c_attn, MultiheadAttention's in_proj_weight) are
// one column-wise layer. A cut of its output features is no cut of heads, as it is with three
// weights: the ranks hold pieces of [q k v] in this order, so the split into the three moves data,
// and the solver pays for it. Megatron avoids that by interleaving the three, which is another
// weight.
//
// A layer whose result decides which experts a token goes to (through topk or argmax) is a router
// and neither column-wise nor row-wise. Weights of experts have both roles: expert, and column-wise
// or row-wise. If a parameter is used twice, its first product decides. Convolutions have no role;
// what they make is stream.
//
// Sources: column and row, Shoeybi et al. 2019 (Megatron-LM, section 3); the stream cut along the
// sequence, Korthikanti et al. 2022 (section 4.2.2); ColwiseParallel, RowwiseParallel and
// SequenceParallel of torch.distributed.tensor.parallel (PyTorch 2.13).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "strategies/programs/program.h"

namespace shardlab {

enum class ModelRole : std::uint8_t {
  kColumnLinear,  // weights, products; copies and reshapes of the product, with its bias added
  kRowLinear,     // weights, products; copies and reshapes of the product
  kColumnBias,    // parameters
  kRowBias,       // parameters
  kRouter,        // weights and products
  kExpert,        // weights of experts and their products
  kNorm,          // parameters, ops that normalize
  kEmbedding,     // tables, ops that look up
  kAttention,     // fused attention; forward, products of two inner values
  kStream,        // floating point values of the stream and their gradients
  kInner,         // floating point values inside a layer and their gradients
  // The op that computes the gradient of a parameter of two or more dims, except experts'.
  kWeightGradient
};
template <>
struct EnumNames<ModelRole> {
  static constexpr std::string_view kKind = "role";
  static constexpr std::array kNames = {Named{ModelRole::kColumnLinear, "column_linear"},
                                        Named{ModelRole::kRowLinear, "row_linear"},
                                        Named{ModelRole::kColumnBias, "column_bias"},
                                        Named{ModelRole::kRowBias, "row_bias"},
                                        Named{ModelRole::kRouter, "router"},
                                        Named{ModelRole::kExpert, "expert"},
                                        Named{ModelRole::kNorm, "norm"},
                                        Named{ModelRole::kEmbedding, "embedding"},
                                        Named{ModelRole::kAttention, "attention"},
                                        Named{ModelRole::kStream, "stream"},
                                        Named{ModelRole::kInner, "inner"},
                                        Named{ModelRole::kWeightGradient, "weight_gradient"}};
};
[[nodiscard]] constexpr std::string_view to_string(ModelRole role) { return name_of(role); }

// A dim that a role gives a meaning to.
enum class RoleDim : std::uint8_t {
  kOut,     // output features of a weight, bias or product; the features of an embedding's table
  kIn,      // input features of a weight; the rows of an embedding's table
  kExpert,  // the experts of an experts' weight
  // The sequence of a batched value of the stream. It is dim 1 of [batch, sequence, features]; in
  // a program whose stream is matrices alone, it is dim 0, since each row is a token. A matrix of
  // tokens in a program with sequences has none: batch and sequence are merged there.
  kSequence
};
template <>
struct EnumNames<RoleDim> {
  static constexpr std::string_view kKind = "dim";
  static constexpr std::array kNames = {Named{RoleDim::kOut, "out"}, Named{RoleDim::kIn, "in"},
                                        Named{RoleDim::kExpert, "expert"},
                                        Named{RoleDim::kSequence, "sequence"}};
};
[[nodiscard]] constexpr std::string_view to_string(RoleDim dim) { return name_of(dim); }

class NodeRoles {
 public:
  [[nodiscard]] bool has(ModelRole role) const { return (roles_ & bit(role)) != 0; }
  [[nodiscard]] bool empty() const { return roles_ == 0; }
  [[nodiscard]] std::optional<int> dim(RoleDim dim) const {
    const int found = dims_[static_cast<std::size_t>(dim)];
    return found < 0 ? std::nullopt : std::optional(found);
  }
  void add(ModelRole role) { roles_ |= bit(role); }
  // Keeps the dim that was set first. A negative one is ignored.
  void set(RoleDim dim, int value) {
    std::int8_t& known = dims_[static_cast<std::size_t>(dim)];
    if (known < 0 && value >= 0) known = static_cast<std::int8_t>(value);
  }

 private:
  static constexpr std::uint32_t bit(ModelRole role) {
    return std::uint32_t{1} << static_cast<unsigned>(role);
  }
  std::uint32_t roles_ = 0;
  std::array<std::int8_t, EnumNames<RoleDim>::kNames.size()> dims_ = {-1, -1, -1, -1};
};

// For each node: its roles. A node that leaves the program has the roles of the value that it
// names. Takes time in proportion to the program.
[[nodiscard]] std::vector<NodeRoles> model_roles(const Program& program);

}  // namespace shardlab
