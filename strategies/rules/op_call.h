// One call of an op: which op, on which tensors in which layouts, and with which other arguments.
//
//   OpCall call{.op = "aten.sum.dim_IntList",
//               .inputs = {OpCall::parse_input("f32[8,8] S(0)R", 2)}, .args = args};
//
// The inputs are the op's tensor arguments in order. A tensor list counts as one argument, and an
// `out=` tensor comes last. An optional tensor that is not given is written "none", or left out at
// the end. `args` is a JSON array of the arguments that are not tensors, in the order of the op's
// schema (keyword-only ones come last); null stands for a default, and the last ones may be left
// out.
#pragma once

#include <boost/container/small_vector.hpp>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/tensor_spec.h"

namespace shardlab {

// The parts of an op's name: "aten::add_.Tensor" has the base "add_" and the overload "Tensor".
// Both "aten." and the overload may be left out.
struct OpName {
  std::string_view base;
  std::string_view overload;  // empty when left out
};
[[nodiscard]] OpName split_op_name(std::string_view op);

struct TensorArg {
  std::vector<TensorSpec> tensors;  // only those that are given
  bool is_list = false;
  // For each position in a list: whether that tensor is given. Empty when all are given.
  std::vector<bool> given = {};

  [[nodiscard]] bool is_absent() const { return !is_list && tensors.empty(); }
  [[nodiscard]] std::string text() const;
  friend bool operator==(const TensorArg&, const TensorArg&) = default;
};

struct OpCall {
  std::string op;  // "aten.mm.default"
  std::vector<TensorArg> inputs;
  nlohmann::json args = nlohmann::json::array();

  // Reads "f32[8,8] R", "[f32[8,8] R; f32[8,8] S(0)]" or "none". A list may contain "none" too.
  // Throws TextError.
  [[nodiscard]] static TensorArg parse_input(std::string_view text, int mesh_ndim);

  // All tensors, lists flattened.
  [[nodiscard]] boost::container::small_vector<const TensorSpec*, 4> tensors() const;
  // The i-th tensor argument, or null if it is missing. Throws InputError if it is a tensor list.
  [[nodiscard]] const TensorSpec* tensor(std::size_t i) const;
  // The i-th tensor argument. Throws InputError if it is missing or a tensor list.
  [[nodiscard]] const TensorSpec& required_tensor(std::size_t i) const;
  // The index in tensors() of the first tensor of the i-th argument.
  [[nodiscard]] std::size_t position(std::size_t i) const;
  [[nodiscard]] std::string text() const;  // for messages and ids
  friend bool operator==(const OpCall&, const OpCall&) = default;

  // The i-th of `args`, or the fallback if it is absent. Throws InputError if it has another type.
  [[nodiscard]] std::int64_t integer_arg(std::size_t i, std::int64_t fallback) const;
  [[nodiscard]] bool boolean_arg(std::size_t i, bool fallback) const;
  [[nodiscard]] double number_arg(std::size_t i, double fallback) const;
  [[nodiscard]] std::string text_arg(std::size_t i, std::string_view fallback) const;
  // The i-th of `args` as a list of integers, or as a list of one if it is a single integer.
  // Nothing if it is absent or null.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers_arg(std::size_t i) const;
};

// Makes a dim from -ndim to ndim - 1 non-negative. Throws InputError, which names the op, for any
// other dim.
[[nodiscard]] int normalize_dim(std::int64_t dim, int ndim, std::string_view op);

// Which dims a reduction reduces (reduction_args.h).
struct ReducedDims {
  std::vector<bool> reduced;  // for each input dim
  bool keepdim = false;

  // The output dim that an input dim becomes. Assumes that the input dim is not reduced.
  [[nodiscard]] int output_dim(int dim) const;
  [[nodiscard]] Shape output_shape(const Shape& input) const;
};

// The shape that the tensors broadcast to. Throws InputError if they do not broadcast.
[[nodiscard]] Shape broadcast_shape(std::span<const TensorSpec* const> tensors,
                                    std::string_view op);

}  // namespace shardlab
