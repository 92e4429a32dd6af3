// What the families of op rules share: entries of rows, rows that many ops have, and forms of
// rules.
#pragma once

#include <array>
#include <span>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

using OutputsOf = decltype(OpRule::outputs)::Own;
using RowsOf = decltype(OpRule::rows)::Own;
using FollowOf = decltype(OpRule::follow)::Own;
using ExcuseOf = decltype(OpRule::excuse);

}  // namespace shardlab

namespace shardlab::rows {

inline constexpr Placement kR = Placement::replicate();
inline constexpr Placement kSum = Placement::partial(ReduceOp::kSum);
inline constexpr Placement kAvg = Placement::partial(ReduceOp::kAvg);
inline constexpr Placement kMax = Placement::partial(ReduceOp::kMax);
inline constexpr Placement kMin = Placement::partial(ReduceOp::kMin);
// The partials that may pass through ops that only move elements, in PyTorch's order.
inline constexpr std::array<Placement, 4> kPassThrough = {kSum, kAvg, kMin, kMax};

// DTensor's rule sets before and since nearly all ops got rows, which was in PyTorch 2.14. Before,
// many rules derived whole layouts from those of the inputs, or proposed plain shards alone.
inline constexpr RuleSets kBeforeRows = until(Release::k2_13);
inline constexpr RuleSets kSinceRows = since(Release::k2_14);

// All partials that PyTorch has, in its order.
inline constexpr std::array<Placement, 5> kAllPartials = {kSum, kAvg, kMin, kMax,
                                                          Placement::partial(ReduceOp::kProduct)};

// The placeholder ?dim, or R for a dim below 0, which stands for a dim that the tensor lacks.
[[nodiscard]] constexpr RowEntry shard_or_replicate(int dim) {
  return dim < 0 ? RowEntry(kR) : RowEntry::any_shard(dim);
}

// A row in which every entry is the same.
[[nodiscard]] inline Row all_alike(std::size_t tensors, const RowEntry& entry) {
  return Row(tensors, entry);
}

// The rows of an op whose inputs are always replicated.
[[nodiscard]] inline Rows no_rows(const OpCall&, const OpRule&) { return {}; }

// For each partial of kPassThrough, adds a row in which every tensor has that partial.
inline void add_pass_through(Rows& rows, std::size_t tensors) {
  for (const Placement& partial : kPassThrough) rows.push_back(all_alike(tensors, partial));
}

// For each of `partials`, adds a row in which every tensor has that partial.
inline void add_alike(Rows& rows, std::size_t tensors, std::span<const Placement> partials) {
  for (const Placement& partial : partials) rows.push_back(all_alike(tensors, partial));
}

// The partials under which a tensor stays right if every rank writes this value into its part.
// P(sum) is one of them only if the value is 0, since the ranks' values are added up.
[[nodiscard]] inline std::span<const Placement> partials_keeping(double value) {
  const std::span<const Placement> all(kPassThrough);
  return value == 0.0 ? all : all.subspan(1);
}

// -- Variants with an `out` tensor ----------------------------------------------------------------

// Turns a call of an out variant into a call of the op itself: drops the `out` tensor, and changes
// "aten.flip.out" to "aten.flip.default".
[[nodiscard]] inline OpCall without_out(const OpCall& call) {
  OpCall base = call;
  if (call.inputs.empty() || call.inputs.back().is_list || call.inputs.back().is_absent()) {
    throw InputError(call.op + ": takes its operands and, as the last argument, the out tensor");
  }
  base.inputs.pop_back();
  base.op.resize(call.op.size() - 3);  // "out"
  if (base.op.ends_with('_')) base.op.pop_back();
  if (base.op.ends_with('.')) base.op += "default";
  return base;
}

template <auto kOutputs>
std::vector<TensorMeta> outputs_with_out(const OpCall& call) {
  std::vector<TensorMeta> outputs = kOutputs(without_out(call));
  const TensorMeta& out = call.inputs.back().tensors[0].meta;
  if (out.shape != outputs[0].shape) {
    throw InputError(call.op + ": out " + out.text() + " does not have the result's shape, " +
                     outputs[0].text());
  }
  return outputs;
}

template <auto kRowsOf>
Rows rows_with_out(const OpCall& call, const OpRule& rule) {
  Rows rows = kRowsOf(without_out(call), rule);
  for (Row& row : rows) row.push_back(RowEntry(row[0]));
  return rows;
}

// Adds rows for an op that works along dim `dim` of tensors of one shape: one row for each other
// dim, on which all tensors are sharded.
inline void add_shards_besides(Rows& rows, int ndim, int dim, std::size_t tensors) {
  for (int d = 0; d < ndim; ++d) {
    if (d != dim) rows.push_back(all_alike(tensors, RowEntry::any_shard(d)));
  }
}

// The placements after every partial is reduced, and every shard is gathered whose dim satisfies
// is_gathered(dim).
template <class IsGathered>
[[nodiscard]] Placements replicated_where(const Placements& placements, IsGathered&& is_gathered) {
  Placements result;
  for (const Placement& p : placements) {
    const bool lost = p.is_partial() || (p.is_shard_like() && is_gathered(p.dim()));
    result.push_back(lost ? kR : p);
  }
  return result;
}

// Whether a tensor is sharded, so that placeholders are filled.
[[nodiscard]] inline bool has_shards(const OpCall& call) {
  for (const TensorSpec* tensor : call.tensors()) {
    for (const Placement& p : tensor->layout.placements) {
      if (p.is_shard_like()) return true;
    }
  }
  return false;
}

// -- Rules ----------------------------------------------------------------------------------------

// One operation per element of the first tensor.
[[nodiscard]] inline double first_input_flops(std::span<const Shape> local, const OpCall&) {
  double elements = 1.0;
  for (const std::int64_t extent : local[0]) elements *= static_cast<double>(extent);
  return elements;
}

// Ops that PyTorch's schemas mark as views of their input (native_functions.yaml), and reshape,
// which is a view wherever strides allow it.
inline constexpr std::array<std::string_view, 20> kViewOps = {"aten.alias.default",
                                                              "aten.detach.default",
                                                              "aten.detach_.default",
                                                              "aten.diagonal.default",
                                                              "aten.expand.default",
                                                              "aten.permute.default",
                                                              "aten.reshape.default",
                                                              "aten.select.int",
                                                              "aten.slice.Tensor",
                                                              "aten.split.Tensor",
                                                              "aten.split_with_sizes.default",
                                                              "aten.squeeze.default",
                                                              "aten.squeeze.dim",
                                                              "aten.squeeze.dims",
                                                              "aten.t.default",
                                                              "aten.transpose.int",
                                                              "aten.unbind.int",
                                                              "aten.unsqueeze.default",
                                                              "aten.view.default",
                                                              "prims.view_of.default"};

// The kernel of an op that computes nothing.
[[nodiscard]] constexpr Kernel moving_kernel(std::string_view op) {
  for (const std::string_view view : kViewOps) {
    if (op == view) return Kernel::kView;
  }
  return Kernel::kCopy;
}

// The rule of an op that moves elements and computes nothing, and of its variant with an `out`
// tensor.
constexpr OpRule copy_rule(std::string_view op, RuleSets sets, OutputsOf outputs, RowsOf rows,
                           ExcuseOf excuse = nullptr) {
  return {.op = op,
          .sets = sets,
          .outputs = outputs,
          .rows = rows,
          .excuse = excuse,
          .kernel = moving_kernel(op)};
}
template <auto kOutputs, auto kRowsOf>
constexpr OpRule copy_out_rule(std::string_view op, RuleSets sets) {
  return copy_rule(op, sets, outputs_with_out<kOutputs>, rows_with_out<kRowsOf>);
}

}  // namespace shardlab::rows
