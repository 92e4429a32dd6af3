// Ops that join, cut and move elements. In PyTorch 2.13 most of them derive one layout from those
// of their inputs. Since 2.14 (unbind since 2.15) they have rows, with the partials that pass
// through, except stack, for which the rule set shardlab alone has rows. chunk is missing because
// DTensor sees it as split. Source: PyTorch 2.13.0, _ops/_tensor_ops.py (cat_strategy,
// stack_strategy, split_strategy, gen_unbind_strategy, gen_slice_strategy, slice_backward_rules,
// gen_slice_scatter_strategy, select_int_strategy, select_backward_strategy and the single-dim
// strategies of roll, flip, bucketize, select_scatter, diagonal_scatter), _ops/_matrix_ops.py
// (constant_pad_nd_single_dim_strategy), _ops/_math_ops.py (linalg_replicate_strategy); PyTorch
// 2.14.1, _ops/_tensor_ops.py (cat_single_dim_strategy, split_single_dim_strategy,
// slice_single_dim_strategy, select_int_single_dim_strategy and their neighbours); PyTorch 2.15.0
// (unbind_single_dim_strategy).
#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace tensor_rules {

using rows::copy_out_rule;
using rows::copy_rule;
using rows::kPassThrough;
using rows::kR;

// The tensors of the list, and the dim, which is the first of --args and 0 by default. It is a dim
// of a tensor with `extra` more dims than those of the list.
struct Joined {
  boost::container::small_vector<const TensorSpec*, 4> tensors;
  int ndim;
  int dim;
};

Joined joined(const OpCall& call, int extra) {
  Joined join{call.tensors(), 0, 0};
  if (join.tensors.empty() || call.inputs.size() != 1 || !call.inputs[0].is_list) {
    throw InputError(call.op + ": takes one tensor list, such as \"[f32[8,8] R; f32[8,8] S(0)]\"");
  }
  join.ndim = join.tensors[0]->meta.ndim();
  for (const TensorSpec* tensor : join.tensors) {
    if (tensor->meta.ndim() != join.ndim) {
      throw InputError(call.op + ": found " + join.tensors[0]->meta.text() + " and " +
                       tensor->meta.text() + "; valid: tensors with the same number of dims");
    }
  }
  join.dim = normalize_dim(call.integer_arg(0, 0), join.ndim + extra, call.op);
  return join;
}

void expect_equal_besides(const Joined& join, int dim, const OpCall& call) {
  for (const TensorSpec* tensor : join.tensors) {
    for (int d = 0; d < join.ndim; ++d) {
      const auto i = static_cast<std::size_t>(d);
      if (d != dim && tensor->meta.shape[i] != join.tensors[0]->meta.shape[i]) {
        throw InputError(call.op + ": shapes differ" +
                         (dim < 0 ? "" : " outside dim " + std::to_string(dim)) + ": " +
                         join.tensors[0]->meta.text() + " and " + tensor->meta.text());
      }
    }
  }
}

std::vector<TensorMeta> cat_outputs(const OpCall& call) {
  const Joined join = joined(call, 0);
  expect_equal_besides(join, join.dim, call);
  TensorMeta out = join.tensors[0]->meta;
  if (join.ndim == 0) throw InputError(call.op + ": takes tensors of at least one dim");
  for (std::size_t i = 1; i < join.tensors.size(); ++i) {
    out.shape[to_index(join.dim)] += join.tensors[i]->meta.shape[to_index(join.dim)];
  }
  return {out};
}

// The layout of each input, without shards of the joined dim, is a candidate for all inputs.
// Duplicates are listed once.
std::vector<FollowCandidate> follow_cat(const OpCall& call, const DeviceMesh&) {
  const Joined join = joined(call, 0);
  std::vector<FollowCandidate> candidates;
  for (const TensorSpec* exemplar : join.tensors) {
    Placements placements = exemplar->layout.placements;
    for (Placement& p : placements) {
      if (p.is_shard_like() && p.dim() == join.dim) p = Placement::replicate();
    }
    const bool known =
        std::any_of(candidates.begin(), candidates.end(),
                    [&](const FollowCandidate& c) { return c.outputs[0] == placements; });
    if (known) continue;
    candidates.push_back({.outputs = {placements},
                          .inputs = std::vector<Placements>(join.tensors.size(), placements)});
  }
  return candidates;
}

Rows cat_rows(const OpCall& call, const OpRule& rule) {
  const Joined join = joined(call, 0);
  Rows rows;
  for (int d = 0; d < join.ndim; ++d) {
    if (d != join.dim) rows.emplace_back(1 + join.tensors.size(), RowEntry::any_shard(d));
  }
  rows::add_alike(rows, 1 + join.tensors.size(), kPassThrough);
  if (rule.sets.contains(kShardlab)) return rows;
  // PyTorch replicates vectors without elements, which may stand beside tensors of any shape.
  for (Row& row : rows) {
    for (std::size_t i = 0; i < join.tensors.size(); ++i) {
      if (join.tensors[i]->meta.shape == Shape{0}) row[1 + i] = kR;
    }
  }
  return rows;
}

std::vector<TensorMeta> stack_outputs(const OpCall& call) {
  const Joined join = joined(call, 1);
  expect_equal_besides(join, -1, call);
  if (join.ndim == kMaxTensorDims)
    throw InputError(call.op + ": the result would have " + std::to_string(join.ndim + 1) +
                     " dims; valid: at most " + std::to_string(kMaxTensorDims));
  TensorMeta out = join.tensors[0]->meta;
  out.shape.insert(out.shape.begin() + join.dim, static_cast<std::int64_t>(join.tensors.size()));
  out.strides.clear();
  return {out};
}

// A shard takes precedence over a partial, and a partial over R. Two different shards, or two
// different partials, make R.
Placement merged(const Placement& a, const Placement& b) {
  if (a == b || b.is_replicate()) return a;
  if (a.is_replicate()) return b;
  if (a.is_partial()) return b.is_shard_like() ? b : Placement::replicate();
  return b.is_shard_like() ? Placement::replicate() : a;
}

std::vector<FollowCandidate> follow_stack(const OpCall& call, const DeviceMesh& mesh) {
  const Joined join = joined(call, 1);
  Placements input = join.tensors[0]->layout.placements;
  for (const TensorSpec* tensor : join.tensors) {
    for (int m = 0; m < mesh.ndim(); ++m) {
      auto& p = input[to_index(m)];
      p = merged(p, tensor->layout[m]);
    }
  }
  Placements output = input;
  for (Placement& p : output) {
    if (p.is_shard_like() && p.dim() >= join.dim) p = p.with_dim(p.dim() + 1);
  }
  return {FollowCandidate{.outputs = {output},
                          .inputs = std::vector<Placements>(join.tensors.size(), input)}};
}

Rows stack_rows(const OpCall& call, const OpRule&) {
  const Joined join = joined(call, 1);
  Rows rows;
  for (int d = 0; d < join.ndim; ++d) {
    Row row(1 + join.tensors.size(), RowEntry::any_shard(d));
    row[0] = RowEntry::any_shard(d >= join.dim ? d + 1 : d);
    rows.push_back(row);
  }
  rows::add_alike(rows, 1 + join.tensors.size(), kPassThrough);
  return rows;
}

// -- Shared by the ops below -------------------------------------------------------------------

TensorMeta like(const OpCall& call, const TensorSpec& input, const Shape& shape) {
  std::int64_t capacity = 1;
  for (const std::int64_t extent : shape) {
    capacity = saturating_product(capacity, std::max<std::int64_t>(extent, 1));
  }
  if (capacity > (std::int64_t{1} << 50U))
    throw InputError(call.op + ": the result would have more than 2^50 elements");
  return {.dtype = input.meta.dtype, .shape = shape, .strides = {}};
}

// One candidate, which gives `inputs` to every input and `output` to every output.
std::vector<FollowCandidate> followed(const OpCall& call, const Placements& inputs,
                                      std::size_t outputs, const Placements& output) {
  FollowCandidate candidate;
  candidate.outputs.assign(outputs, output);
  candidate.inputs.assign(call.tensors().size(), inputs);
  return {candidate};
}

Placements without_shards_of(Placements placements, std::int64_t dim) {
  for (Placement& p : placements) {
    if (p.is_shard_like() && p.dim() == dim) p = kR;
  }
  return placements;
}

// The placements after a dim is removed, or inserted: shards of later dims are renumbered.
Placements after_removal(Placements placements, int dim) {
  for (Placement& p : placements) {
    if (p.is_shard_like() && p.dim() > dim) p = p.with_dim(p.dim() - 1);
  }
  return placements;
}
Placements after_insertion(Placements placements, std::int64_t dim) {
  for (Placement& p : placements) {
    if (p.is_shard_like() && p.dim() >= dim) p = p.with_dim(p.dim() + 1);
  }
  return placements;
}

// The rows of an op on one tensor. A dim d may be sharded if output_dim(d), the output dim that it
// becomes, is not -1. After these rows come the partials.
template <class OutputDim>
Rows moving_rows(int ndim, std::size_t outputs, OutputDim&& output_dim,
                 std::span<const Placement> partials) {
  Rows rows;
  for (int d = 0; d < ndim; ++d) {
    const int out = output_dim(d);
    if (out < 0) continue;
    Row row(outputs, RowEntry::any_shard(out));
    row.push_back(RowEntry::any_shard(d));
    rows.push_back(row);
  }
  rows::add_alike(rows, outputs + 1, partials);
  return rows;
}

// The rows of an op that writes a source into part of a tensor. A dim d may be sharded if
// source_dim(d), the dim of the source that belongs to it, is not -1.
template <class SourceDim>
Rows writing_rows(int ndim, SourceDim&& source_dim, std::span<const Placement> partials) {
  Rows rows;
  for (int d = 0; d < ndim; ++d) {
    const int source = source_dim(d);
    if (source < 0) continue;
    rows.push_back({RowEntry::any_shard(d), RowEntry::any_shard(d), RowEntry::any_shard(source)});
  }
  rows::add_alike(rows, 3, partials);
  return rows;
}

void expect_source(const OpCall& call, const Shape& wanted) {
  expect_tensors(call, 2);
  const TensorSpec& source = call.required_tensor(1);
  if (source.meta.shape == wanted && source.meta.dtype == call.required_tensor(0).meta.dtype)
    return;
  throw InputError(call.op + ": found a source " + source.meta.text() +
                   "; valid: " + like(call, call.required_tensor(0), wanted).text());
}

// -- split, unbind -----------------------------------------------------------------------------

int split_dim(const OpCall& call) { return dim_of(call, 1, 0, only_tensor(call).meta.ndim()); }

std::vector<TensorMeta> split_outputs(const OpCall& call) {
  const TensorSpec& in = only_tensor(call);
  const int dim = split_dim(call);
  const std::int64_t extent = in.meta.shape[to_index(dim)];
  std::vector<TensorMeta> outputs;
  for (const std::int64_t size : split_sizes(call, extent)) {
    Shape shape = in.meta.shape;
    shape[to_index(dim)] = size;
    outputs.push_back(like(call, in, shape));
  }
  return outputs;
}

std::vector<FollowCandidate> follow_split(const OpCall& call, const DeviceMesh&) {
  const Placements kept = without_shards_of(only_tensor(call).layout.placements, split_dim(call));
  return followed(call, kept, split_outputs(call).size(), kept);
}

Rows split_rows(const OpCall& call, const OpRule& rule) {
  const int dim = split_dim(call);
  const std::size_t parts = split_outputs(call).size();
  // If split makes a single part, that part is all that a rank has. PyTorch gathers it all the
  // same.
  const bool whole = parts == 1 && call.op == "aten.split.Tensor" && rule.sets.contains(kShardlab);
  return moving_rows(
      only_tensor(call).meta.ndim(), parts, [&](int d) { return d == dim && !whole ? -1 : d; },
      kPassThrough);
}

int unbind_dim(const OpCall& call) { return dim_of(call, 0, 0, only_tensor(call).meta.ndim()); }

std::vector<TensorMeta> unbind_outputs(const OpCall& call) {
  const TensorSpec& in = only_tensor(call);
  const int dim = unbind_dim(call);
  Shape shape = in.meta.shape;
  const std::int64_t parts = shape[to_index(dim)];
  shape.erase(shape.begin() + dim);
  if (parts == 0 || parts > kMostParts) {
    throw InputError(call.op + ": found an extent of " + std::to_string(parts) + " in dim " +
                     std::to_string(dim) + "; valid: 1 to " + std::to_string(kMostParts));
  }
  return std::vector<TensorMeta>(static_cast<std::size_t>(parts), like(call, in, shape));
}

void expect_whole_dim(const OpCall& call, int dim) {
  const Placements& placements = only_tensor(call).layout.placements;
  if (without_shards_of(placements, dim) == placements) return;
  throw InputError(call.op + ": dim " + std::to_string(dim) + " of " + only_tensor(call).text() +
                   " is sharded; valid: a dim that is not sharded");
}

std::vector<FollowCandidate> follow_unbind(const OpCall& call, const DeviceMesh&) {
  const int dim = unbind_dim(call);
  const Placements& placements = only_tensor(call).layout.placements;
  expect_whole_dim(call, dim);
  return followed(call, placements, unbind_outputs(call).size(), after_removal(placements, dim));
}

// The number of a dim after another one is removed; -1 for the removed one.
int dim_after_removal(int dim, int removed) {
  if (dim == removed) return -1;
  return dim > removed ? dim - 1 : dim;
}

Rows unbind_rows(const OpCall& call, const OpRule&) {
  const int dim = unbind_dim(call);
  return moving_rows(
      only_tensor(call).meta.ndim(), unbind_outputs(call).size(),
      [&](int d) { return dim_after_removal(d, dim); }, kPassThrough);
}

// Since unbind returns views, PyTorch 2.15 does not move its input.
bool keeps_input(const OpCall& call, std::span<const Placements> inputs, const DeviceMesh&) {
  const int dim = unbind_dim(call);
  const Placements& now = only_tensor(call).layout.placements;
  expect_whole_dim(call, dim);
  return inputs[0] == now;
}

// -- slice, slice_backward, slice_scatter ------------------------------------------------------

std::int64_t extent_of(const TensorSpec& tensor, int dim) {
  return tensor.meta.shape[to_index(dim)];
}

std::vector<TensorMeta> slice_outputs(const OpCall& call) {
  const TensorSpec& in = only_tensor(call);
  const int dim = dim_of(call, 0, 0, in.meta.ndim());
  Shape shape = in.meta.shape;
  shape[to_index(dim)] = SliceRange::of(call, 1, extent_of(in, dim)).count;
  return {like(call, in, shape)};
}

// Whether PyTorch sees that a slice is the whole dim. It adds the extent once to a negative start
// or end and does not clamp it to the dim, so it overlooks a whole slice whose start lies before
// the first row. For slice_backward and slice_scatter PyTorch does not ask this.
bool follows_whole_slice(const OpCall& call, std::int64_t extent) {
  const auto from_end = [&](std::int64_t bound) { return bound < 0 ? bound + extent : bound; };
  const std::int64_t end = std::min(call.integer_arg(2, extent), extent);
  return from_end(call.integer_arg(1, 0)) == 0 && from_end(end) == extent &&
         call.integer_arg(3, 1) == 1;
}

std::vector<FollowCandidate> follow_slice(const OpCall& call, const DeviceMesh&) {
  const TensorSpec& in = only_tensor(call);
  const int dim = dim_of(call, 0, 0, in.meta.ndim());
  const Placements kept = follows_whole_slice(call, extent_of(in, dim))
                              ? in.layout.placements
                              : without_shards_of(in.layout.placements, dim);
  return followed(call, kept, 1, kept);
}

Rows slice_rows(const OpCall& call, const OpRule& rule) {
  const TensorSpec& in = only_tensor(call);
  const int dim = dim_of(call, 0, 0, in.meta.ndim());
  const std::int64_t extent = extent_of(in, dim);
  const bool whole = rule.sets.contains(kShardlab)
                         ? SliceRange::of(call, 1, extent).is_whole(extent)
                         : follows_whole_slice(call, extent);
  return moving_rows(
      in.meta.ndim(), 1, [&](int d) { return d == dim && !whole ? -1 : d; }, kPassThrough);
}

// The dim of the slice is the argument at `dim_arg`; its bounds are the next ones.
std::string_view excuse_slice_of(const OpCall& call, const Row& row, std::size_t dim_arg) {
  const Placement& p = row.back().placement();
  const int ndim = call.required_tensor(0).meta.ndim();
  const bool sliced = p.is_shard_like() && p.dim() == dim_of(call, dim_arg, 0, ndim);
  const bool steps = call.integer_arg(dim_arg + 3, 1) > 1;
  return sliced && steps
             ? "the row holds only on meshes that cut the dim into chunks divisible by the step"
             : "";
}

std::string_view excuse_slice(const OpCall& call, const Row& row) {
  return excuse_slice_of(call, row, 0);
}

std::string_view excuse_slice_backward(const OpCall& call, const Row& row) {
  return excuse_slice_of(call, row, 1);
}

// slice_backward(grad, input_sizes, dim, start, end, step) puts zeros around the gradient.
int slice_backward_dim(const OpCall& call) {
  return dim_of(call, 1, 0, only_tensor(call).meta.ndim());
}

std::vector<TensorMeta> slice_backward_outputs(const OpCall& call) {
  const TensorSpec& in = only_tensor(call);
  const int dim = slice_backward_dim(call);
  const Shape shape = required_shape(call, 0);
  Shape sliced = shape;
  if (shape.size() == in.meta.shape.size()) {
    std::int64_t& extent = sliced[to_index(dim)];
    extent = SliceRange::of(call, 2, extent).count;
  }
  if (sliced != in.meta.shape) {
    throw InputError(call.op + ": found a gradient " + in.meta.text() +
                     "; valid: " + like(call, in, sliced).text());
  }
  return {like(call, in, shape)};
}

// PyTorch compares shards with the dim as it was given, so it finds no shard of a dim that is
// counted from the end.
std::vector<FollowCandidate> follow_slice_backward(const OpCall& call, const DeviceMesh&) {
  const Placements kept =
      without_shards_of(only_tensor(call).layout.placements, call.integer_arg(1, 0));
  return followed(call, kept, 1, kept);
}

Rows slice_backward_rows(const OpCall& call, const OpRule& rule) {
  const TensorSpec& in = only_tensor(call);
  const int dim = slice_backward_dim(call);
  const std::int64_t extent = required_shape(call, 0)[to_index(dim)];
  const bool whole =
      rule.sets.contains(kShardlab) && SliceRange::of(call, 2, extent).is_whole(extent);
  return moving_rows(
      in.meta.ndim(), 1, [&](int d) { return d == dim && !whole ? -1 : d; }, kPassThrough);
}

// Arguments: slice_scatter(self, src, dim, start, end, step).
int slice_scatter_dim(const OpCall& call) {
  expect_tensors(call, 2);
  return dim_of(call, 0, 0, call.required_tensor(0).meta.ndim());
}

std::vector<TensorMeta> slice_scatter_outputs(const OpCall& call) {
  const int dim = slice_scatter_dim(call);
  const TensorSpec& self = call.required_tensor(0);
  Shape sliced = self.meta.shape;
  sliced[to_index(dim)] = SliceRange::of(call, 1, extent_of(self, dim)).count;
  expect_source(call, sliced);
  return {like(call, self, self.meta.shape)};
}

// Both tensors follow self. Where self is partial, or sharded on the slice's dim, it is replicated
// first.
std::vector<FollowCandidate> follow_slice_scatter(const OpCall& call, const DeviceMesh&) {
  Placements kept =
      without_shards_of(call.required_tensor(0).layout.placements, slice_scatter_dim(call));
  for (Placement& p : kept) {
    if (p.is_partial()) p = kR;
  }
  return followed(call, kept, 1, kept);
}

Rows slice_scatter_rows(const OpCall& call, const OpRule& rule) {
  const int dim = slice_scatter_dim(call);
  const TensorSpec& self = call.required_tensor(0);
  const std::int64_t extent = extent_of(self, dim);
  const bool whole =
      rule.sets.contains(kShardlab) && SliceRange::of(call, 1, extent).is_whole(extent);
  return writing_rows(
      self.meta.ndim(), [&](int d) { return d == dim && !whole ? -1 : d; }, kPassThrough);
}

// -- select, select_backward, select_scatter ---------------------------------------------------

int select_dim(const OpCall& call) { return dim_of(call, 0, 0, only_tensor(call).meta.ndim()); }

std::vector<TensorMeta> select_outputs(const OpCall& call) {
  const TensorSpec& in = only_tensor(call);
  const int dim = select_dim(call);
  static_cast<void>(index_in(call.integer_arg(1, 0), extent_of(in, dim), call.op));
  Shape shape = in.meta.shape;
  shape.erase(shape.begin() + dim);
  return {like(call, in, shape)};
}

std::vector<FollowCandidate> follow_select(const OpCall& call, const DeviceMesh&) {
  const int dim = select_dim(call);
  const Placements kept = without_shards_of(only_tensor(call).layout.placements, dim);
  return followed(call, kept, 1, after_removal(kept, dim));
}

Rows select_rows(const OpCall& call, const OpRule&) {
  const int dim = select_dim(call);
  return moving_rows(
      only_tensor(call).meta.ndim(), 1, [&](int d) { return dim_after_removal(d, dim); },
      kPassThrough);
}

// Arguments: select_backward(grad, input_sizes, dim, index).
struct SelectBackward {
  Shape shape;
  int dim = 0;

  static SelectBackward of(const OpCall& call) {
    const TensorSpec& in = only_tensor(call);
    SelectBackward backward;
    backward.shape = required_shape(call, 0);
    backward.dim = dim_of(call, 1, 0, static_cast<int>(backward.shape.size()));
    Shape selected = backward.shape;
    selected.erase(selected.begin() + backward.dim);
    if (selected != in.meta.shape) {
      throw InputError(call.op + ": found a gradient " + in.meta.text() +
                       "; valid: " + like(call, in, selected).text());
    }
    static_cast<void>(
        index_in(call.integer_arg(2, 0), backward.shape[to_index(backward.dim)], call.op));
    return backward;
  }
};

std::vector<TensorMeta> select_backward_outputs(const OpCall& call) {
  return {like(call, only_tensor(call), SelectBackward::of(call).shape)};
}

// PyTorch takes the dim as it was given. One that is counted from the end is negative, so the
// shards of all dims are renumbered.
std::vector<FollowCandidate> follow_select_backward(const OpCall& call, const DeviceMesh&) {
  const Placements& placements = only_tensor(call).layout.placements;
  return followed(call, placements, 1, after_insertion(placements, call.integer_arg(1, 0)));
}

Rows select_backward_rows(const OpCall& call, const OpRule&) {
  const int dim = SelectBackward::of(call).dim;
  return moving_rows(
      only_tensor(call).meta.ndim(), 1, [&](int d) { return d >= dim ? d + 1 : d; }, kPassThrough);
}

// Arguments: select_scatter(self, src, dim, index).
int select_scatter_dim(const OpCall& call) {
  return dim_of(call, 0, 0, call.required_tensor(0).meta.ndim());
}

std::vector<TensorMeta> select_scatter_outputs(const OpCall& call) {
  const TensorSpec& self = call.required_tensor(0);
  const int dim = select_scatter_dim(call);
  static_cast<void>(index_in(call.integer_arg(1, 0), extent_of(self, dim), call.op));
  Shape selected = self.meta.shape;
  selected.erase(selected.begin() + dim);
  expect_source(call, selected);
  return {like(call, self, self.meta.shape)};
}

Rows select_scatter_rows(const OpCall& call, const OpRule& rule) {
  const int dim = select_scatter_dim(call);
  return writing_rows(
      call.required_tensor(0).meta.ndim(), [&](int d) { return dim_after_removal(d, dim); },
      rule.sets.contains(kShardlab) ? std::span<const Placement>(kPassThrough)
                                    : std::span<const Placement>());
}

// -- Diagonals and triangles -------------------------------------------------------------------

// Arguments: diagonal_scatter(self, src, offset, dim1, dim2).
std::vector<TensorMeta> diagonal_scatter_outputs(const OpCall& call) {
  const TensorSpec& self = call.required_tensor(0);
  const Diagonal diagonal = Diagonal::of(call, self.meta.ndim());
  expect_source(call, diagonal_shape(diagonal, self.meta.shape));
  return {like(call, self, self.meta.shape)};
}

Rows diagonal_scatter_rows(const OpCall& call, const OpRule& rule) {
  const TensorSpec& self = call.required_tensor(0);
  const Diagonal diagonal = Diagonal::of(call, self.meta.ndim());
  return writing_rows(
      self.meta.ndim(), [&](int d) { return diagonal.dim_without(d); },
      rule.sets.contains(kShardlab) ? std::span<const Placement>(kPassThrough)
                                    : std::span<const Placement>());
}

std::vector<TensorMeta> diagonal_outputs(const OpCall& call) {
  const TensorSpec& in = only_tensor(call);
  return {like(call, in, diagonal_shape(Diagonal::of(call, in.meta.ndim()), in.meta.shape))};
}

Rows diagonal_rows(const OpCall& call, const OpRule&) {
  const TensorSpec& in = only_tensor(call);
  const Diagonal diagonal = Diagonal::of(call, in.meta.ndim());
  return moving_rows(
      in.meta.ndim(), 1, [&](int d) { return diagonal.dim_without(d); }, kPassThrough);
}

// Arguments: diag_embed(self, offset, dim1, dim2), where both dims are dims of the output.
std::vector<TensorMeta> diag_embed_outputs(const OpCall& call) {
  const TensorSpec& in = only_tensor(call);
  return {like(call, in, embedded_shape(embedded_diagonal(call, in.meta.ndim()), in.meta.shape))};
}

Rows diag_embed_rows(const OpCall& call, const OpRule&) {
  const int ndim = only_tensor(call).meta.ndim();
  const Diagonal diagonal = embedded_diagonal(call, ndim);
  const auto output_dim = [&](int d) {
    for (int out = 0; out < ndim + 1; ++out) {
      if (d < ndim - 1 && diagonal.dim_without(out) == d) return out;
    }
    return -1;
  };
  return moving_rows(ndim, 1, output_dim, kPassThrough);
}

// diag(self, diagonal) makes a vector from a matrix's diagonal, or a matrix with a vector as
// diagonal.
std::vector<TensorMeta> diag_outputs(const OpCall& call) {
  const TensorSpec& in = only_tensor(call);
  return {like(call, in, diag_shape(call, in.meta.shape))};
}

Rows diag_rows(const OpCall& call, const OpRule&) {
  static_cast<void>(diag_outputs(call));
  return moving_rows(
      0, 1, [](int) { return -1; }, kPassThrough);
}

std::vector<TensorMeta> triangle_outputs(const OpCall& call) {
  const TensorSpec& in = only_tensor(call);
  if (in.meta.ndim() < 2) {
    throw InputError(call.op + ": takes a tensor of at least two dims, found " + in.meta.text());
  }
  static_cast<void>(call.integer_arg(0, 0));
  return {like(call, in, in.meta.shape)};
}

Rows triangle_rows(const OpCall& call, const OpRule&) {
  const int ndim = only_tensor(call).meta.ndim();
  return moving_rows(
      ndim, 1, [&](int d) { return d < ndim - 2 ? d : -1; }, kPassThrough);
}

// -- Padding, rolling, flipping, buckets -------------------------------------------------------

// The partials that pass through the ops below, in PyTorch's order.
constexpr std::array<Placement, 4> kMovedPartials = {rows::kSum, rows::kAvg, rows::kMax,
                                                     rows::kMin};

std::vector<TensorMeta> pad_outputs(const OpCall& call) {
  const TensorSpec& in = only_tensor(call);
  static_cast<void>(call.number_arg(1, 0.0));
  Shape shape = in.meta.shape;
  const std::vector<Padding> paddings = paddings_of(call, shape);
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] += paddings[d].before + paddings[d].after;
  return {like(call, in, shape)};
}

Rows pad_rows(const OpCall& call, const OpRule& rule) {
  const TensorSpec& in = only_tensor(call);
  const std::vector<Padding> paddings = paddings_of(call, in.meta.shape);
  const auto is_padded = [](const Padding& p) { return p.before != 0 || p.after != 0; };
  // A sum passes only if no value is written or the value is 0, since the values of all ranks would
  // be added up. PyTorch does not distinguish cutting from padding.
  const bool writes = std::any_of(paddings.begin(), paddings.end(), [&](const Padding& p) {
    return rule.sets.contains(kShardlab) ? p.before > 0 || p.after > 0 : is_padded(p);
  });
  const bool keeps_sum = !writes || call.number_arg(1, 0.0) == 0.0;
  const std::span<const Placement> partials(kMovedPartials);
  return moving_rows(
      in.meta.ndim(), 1, [&](int d) { return is_padded(paddings[to_index(d)]) ? -1 : d; },
      keeps_sum ? partials : partials.subspan(1));
}

// roll(self, shifts, dims) without dims rolls all elements as one row.
std::vector<TensorMeta> roll_outputs(const OpCall& call) {
  const TensorSpec& in = only_tensor(call);
  static_cast<void>(roll_shifts(call, in.meta.shape));
  return {like(call, in, in.meta.shape)};
}

Rows roll_rows(const OpCall& call, const OpRule&) {
  const TensorSpec& in = only_tensor(call);
  const RollShifts roll = roll_shifts(call, in.meta.shape);
  std::vector<bool> active(in.meta.shape.size(), roll.flat);
  for (const auto& [dim, shift] : roll.shifts) active[to_index(dim)] = true;
  return moving_rows(
      in.meta.ndim(), 1, [&](int d) { return active[to_index(d)] ? -1 : d; }, kMovedPartials);
}

std::vector<bool> flipped_dims(const OpCall& call) {
  const int ndim = only_tensor(call).meta.ndim();
  std::vector<bool> flipped(static_cast<std::size_t>(ndim), false);
  for (const std::int64_t dim : required_integers(call, 0)) {
    const int d = normalize_dim(dim, ndim, call.op);
    if (ndim == 0) continue;
    if (flipped[to_index(d)]) {
      throw InputError(call.op + ": dim " + std::to_string(d) + " occurs twice");
    }
    flipped[to_index(d)] = true;
  }
  return flipped;
}

std::vector<TensorMeta> flip_outputs(const OpCall& call) {
  static_cast<void>(flipped_dims(call));
  return {like(call, only_tensor(call), only_tensor(call).meta.shape)};
}

Rows flip_rows(const OpCall& call, const OpRule&) {
  const std::vector<bool> flipped = flipped_dims(call);
  return moving_rows(
      only_tensor(call).meta.ndim(), 1, [&](int d) { return flipped[to_index(d)] ? -1 : d; },
      kMovedPartials);
}

// bucketize(self, boundaries, out_int32, right) counts the boundaries below each element.
std::vector<TensorMeta> bucketize_outputs(const OpCall& call) {
  expect_tensors(call, 2);
  if (call.required_tensor(1).meta.ndim() != 1) {
    throw InputError(call.op + ": found boundaries " + call.required_tensor(1).meta.text() +
                     "; valid: boundaries of one dim");
  }
  static_cast<void>(call.boolean_arg(1, false));
  TensorMeta out = like(call, call.required_tensor(0), call.required_tensor(0).meta.shape);
  out.dtype = call.boolean_arg(0, false) ? DType::kI32 : DType::kI64;
  return {out};
}

Rows bucketize_rows(const OpCall& call, const OpRule&) {
  Rows rows;
  for (int d = 0; d < call.required_tensor(0).meta.ndim(); ++d) {
    rows.push_back({RowEntry::any_shard(d), RowEntry::any_shard(d), kR});
  }
  rows.push_back({rows::kSum, kR, RowEntry::any_shard(0)});
  rows.push_back({rows::kMax, rows::kMax, kR});
  rows.push_back({rows::kMin, rows::kMin, kR});
  return rows;
}

constexpr RuleSets kFollow = rows::kBeforeRows | kDTensorLegacy;

constexpr OpRule followed_by(std::string_view op, OutputsOf outputs, FollowOf follow,
                             RuleSets sets = rows::kBeforeRows) {
  return {.op = op,
          .sets = sets,
          .outputs = outputs,
          .follow = follow,
          .kernel = rows::moving_kernel(op)};
}
constexpr OpRule pytorch(std::string_view op, OutputsOf outputs, RowsOf rows,
                         RuleSets uneven_in = kNoRuleSet) {
  OpRule rule = copy_rule(op, rows::kSinceRows, outputs, rows);
  rule.uneven_in = uneven_in;
  return rule;
}
constexpr OpRule kept_apart(std::string_view op, OutputsOf outputs, RowsOf rows) {
  OpRule rule = pytorch(op, outputs, rows, kEveryRuleSet).in(since(Release::k2_15));
  rule.filter = keeps_input;
  return rule;
}

constexpr OpRule kRules[] = {
    copy_rule("aten.bucketize.Tensor", kDTensor | kShardlab, bucketize_outputs, bucketize_rows),
    followed_by("aten.cat.default", cat_outputs, follow_cat, kFollow),
    pytorch("aten.cat.default", cat_outputs, cat_rows),
    copy_rule("aten.cat.default", kShardlab, cat_outputs, cat_rows),
    copy_rule("aten.constant_pad_nd.default", kDTensor, pad_outputs, pad_rows),
    copy_rule("aten.constant_pad_nd.default", kShardlab, pad_outputs, pad_rows),
    copy_rule("aten.diag.default", kDTensor, diag_outputs, rows::no_rows),
    copy_rule("aten.diag.default", kShardlab, diag_outputs, diag_rows),
    copy_rule("aten.diag_embed.default", kDTensor, diag_embed_outputs, rows::no_rows),
    copy_rule("aten.diag_embed.default", kShardlab, diag_embed_outputs, diag_embed_rows),
    copy_rule("aten.diagonal.default", kDTensor, diagonal_outputs, rows::no_rows),
    copy_rule("aten.diagonal.default", kShardlab, diagonal_outputs, diagonal_rows),
    copy_rule("aten.diagonal_copy.default", kDTensor, diagonal_outputs, rows::no_rows),
    copy_rule("aten.diagonal_copy.default", kShardlab, diagonal_outputs, diagonal_rows),
    copy_rule("aten.diagonal_scatter.default", kDTensor, diagonal_scatter_outputs,
              diagonal_scatter_rows),
    copy_rule("aten.diagonal_scatter.default", kShardlab, diagonal_scatter_outputs,
              diagonal_scatter_rows),
    copy_rule("aten.flip.default", kDTensor | kShardlab, flip_outputs, flip_rows),
    copy_rule("aten.roll.default", kDTensor | kShardlab, roll_outputs, roll_rows),
    followed_by("aten.select.int", select_outputs, follow_select),
    pytorch("aten.select.int", select_outputs, select_rows, kEveryRuleSet),
    copy_rule("aten.select.int", kShardlab, select_outputs, select_rows),
    followed_by("aten.select_backward.default", select_backward_outputs, follow_select_backward),
    pytorch("aten.select_backward.default", select_backward_outputs, select_backward_rows,
            kEveryRuleSet),
    copy_rule("aten.select_backward.default", kShardlab, select_backward_outputs,
              select_backward_rows),
    copy_rule("aten.select_scatter.default", kDTensor, select_scatter_outputs, select_scatter_rows),
    copy_rule("aten.select_scatter.default", kShardlab, select_scatter_outputs,
              select_scatter_rows),
    followed_by("aten.slice.Tensor", slice_outputs, follow_slice),
    pytorch("aten.slice.Tensor", slice_outputs, slice_rows, kEveryRuleSet),
    copy_rule("aten.slice.Tensor", kShardlab, slice_outputs, slice_rows, excuse_slice),
    followed_by("aten.slice_backward.default", slice_backward_outputs, follow_slice_backward),
    pytorch("aten.slice_backward.default", slice_backward_outputs, slice_backward_rows,
            kEveryRuleSet),
    copy_rule("aten.slice_backward.default", kShardlab, slice_backward_outputs, slice_backward_rows,
              excuse_slice_backward),
    followed_by("aten.slice_scatter.default", slice_scatter_outputs, follow_slice_scatter),
    pytorch("aten.slice_scatter.default", slice_scatter_outputs, slice_scatter_rows, kEveryRuleSet),
    copy_rule("aten.slice_scatter.default", kShardlab, slice_scatter_outputs, slice_scatter_rows,
              excuse_slice),
    followed_by("aten.split.Tensor", split_outputs, follow_split),
    pytorch("aten.split.Tensor", split_outputs, split_rows),
    copy_rule("aten.split.Tensor", kShardlab, split_outputs, split_rows),
    followed_by("aten.split_with_sizes.default", split_outputs, follow_split),
    pytorch("aten.split_with_sizes.default", split_outputs, split_rows),
    copy_rule("aten.split_with_sizes.default", kShardlab, split_outputs, split_rows),
    followed_by("aten.split_with_sizes_copy.default", split_outputs, follow_split),
    pytorch("aten.split_with_sizes_copy.default", split_outputs, split_rows),
    copy_rule("aten.split_with_sizes_copy.default", kShardlab, split_outputs, split_rows),
    followed_by("aten.stack.default", stack_outputs, follow_stack, kDTensor | kDTensorLegacy),
    copy_rule("aten.stack.default", kShardlab, stack_outputs, stack_rows),
    copy_rule("aten.tril.default", kDTensor, triangle_outputs, rows::no_rows),
    copy_rule("aten.tril.default", kShardlab, triangle_outputs, triangle_rows),
    copy_rule("aten.triu.default", kDTensor, triangle_outputs, rows::no_rows),
    copy_rule("aten.triu.default", kShardlab, triangle_outputs, triangle_rows),
    followed_by("aten.unbind.int", unbind_outputs, follow_unbind, until(Release::k2_14)),
    kept_apart("aten.unbind.int", unbind_outputs, unbind_rows),
    copy_rule("aten.unbind.int", kShardlab, unbind_outputs, unbind_rows),
    copy_out_rule<bucketize_outputs, bucketize_rows>("aten.bucketize.Tensor_out",
                                                     kDTensor | kShardlab),
    copy_out_rule<flip_outputs, flip_rows>("aten.flip.out", kDTensor | kShardlab),
    copy_out_rule<roll_outputs, roll_rows>("aten.roll.out", kDTensor | kShardlab),
    copy_out_rule<pad_outputs, pad_rows>("aten.constant_pad_nd.out", kDTensor),
    copy_out_rule<pad_outputs, pad_rows>("aten.constant_pad_nd.out", kShardlab),
    copy_out_rule<diagonal_scatter_outputs, diagonal_scatter_rows>("aten.diagonal_scatter.out",
                                                                   kDTensor),
    copy_out_rule<diagonal_scatter_outputs, diagonal_scatter_rows>("aten.diagonal_scatter.out",
                                                                   kShardlab),
    copy_out_rule<select_scatter_outputs, select_scatter_rows>("aten.select_scatter.out", kDTensor),
    copy_out_rule<select_scatter_outputs, select_scatter_rows>("aten.select_scatter.out",
                                                               kShardlab),
};

}  // namespace tensor_rules

OP_RULES(tensor){tensor_rules::kRules};

}  // namespace shardlab
