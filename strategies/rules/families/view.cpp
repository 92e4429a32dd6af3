// Views, which show the same elements in another shape, and ops that repeat elements. PyTorch
// 2.13.0 derives one layout from that of the input (view_rule.h): view, _unsafe_view and squeeze
// refuse what they can't show without communication, and the other ops gather it. The rule set
// shardlab has rows for ops that keep dims whole, and its reshapes keep whatever is exactly a
// layout of the result. flatten, unflatten, movedim and view_as are missing because DTensor sees
// them as view, reshape or permute. Source: PyTorch 2.13.0, _ops/_view_ops.py (dim_maps,
// register_op_strategy_map), _ops/_matrix_ops.py (transpose_strategy).
#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"
#include "strategies/rules/view_rule.h"

namespace shardlab {
namespace view_rules {

constexpr std::int64_t kMostExtent = std::int64_t{1} << 53U;

const TensorMeta& only_input(const OpCall& call) { return only_tensor(call).meta; }

// Where each output dim comes from, and its extent.
struct Viewed {
  ViewRule rule;
  Shape shape;

  void add(ViewDim dim, std::int64_t extent) {
    rule.push_back(std::move(dim));
    shape.push_back(extent);
  }
};

// The list of integers that is the first of --args.
std::vector<std::int64_t> integers(const OpCall& call, const char* what) {
  const auto found = call.integers_arg(0);
  if (!found) throw InputError(call.op + ": --args must begin with the " + what);
  if (found->size() > static_cast<std::size_t>(kMaxTensorDims)) {
    throw InputError(call.op + ": argument 0 of --args: found " + std::to_string(found->size()) +
                     " numbers; valid: the " + what + ", at most " +
                     std::to_string(kMaxTensorDims) + " numbers");
  }
  return *found;
}

void expect_capacity(const OpCall& call, const Shape& shape) {
  std::int64_t capacity = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || extent > kMostExtent) {
      throw InputError(call.op + ": found an extent of " + std::to_string(extent) +
                       "; valid: 0 to 2^53");
    }
    capacity = saturating_product(capacity, std::max<std::int64_t>(extent, 1));
  }
  if (capacity > kMostExtent)
    throw InputError(call.op + ": the result would have more than 2^53 elements");
}

// -- Reshapes --------------------------------------------------------------------------------

Shape target_shape(const OpCall& call) {
  const TensorMeta& in = only_input(call);
  const std::vector<std::int64_t> extents = integers(call, "shape");
  Shape shape(extents.begin(), extents.end());
  std::int64_t elements = 1;
  for (const std::int64_t extent : in.shape) {
    elements = extent == 0 || elements == 0 ? 0 : saturating_product(elements, extent);
  }
  // One extent may be -1, which stands for the number of elements that the others leave.
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open != shape.end()) *open = 1;
  expect_capacity(call, shape);
  std::int64_t others = 1;
  for (const std::int64_t extent : shape) others *= extent;
  const bool fits = open == shape.end() ? others == elements : others > 0 && elements % others == 0;
  if (!fits) {
    throw InputError(call.op + ": " + in.text() + " has " + std::to_string(elements) +
                     " elements, which do not fit the shape " + call.args[0].dump() + " of --args");
  }
  if (open != shape.end()) *open = elements / others;
  return shape;
}

Viewed reshape(const OpCall& call) {
  Viewed viewed{{}, target_shape(call)};
  viewed.rule = reshape_rule(call.op, only_input(call).shape, viewed.shape);
  return viewed;
}

std::vector<FollowCandidate> follow_exactly(const OpCall& call, const DeviceMesh& mesh) {
  const TensorSpec& in = call.required_tensor(0);
  const ViewLayouts layouts =
      exact_view(in.meta.shape, target_shape(call), in.layout.placements, mesh);
  return {{.outputs = {layouts.output}, .inputs = {layouts.input}}};
}

// -- Dims that stay whole ------------------------------------------------------------

Viewed picked(const TensorMeta& in, std::span<const int> dims) {
  Viewed viewed;
  for (const int d : dims) viewed.add(ViewDim::input(d), in.shape[to_index(d)]);
  return viewed;
}

Viewed permute(const OpCall& call) {
  const TensorMeta& in = only_input(call);
  std::vector<int> dims;
  for (const std::int64_t dim : integers(call, "dims")) {
    const int d = normalize_dim(dim, in.ndim(), call.op);
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) {
      throw InputError(call.op + ": dim " + std::to_string(d) + " occurs twice");
    }
    dims.push_back(d);
  }
  if (static_cast<int>(dims.size()) != in.ndim()) {
    throw InputError(call.op + ": found " + std::to_string(dims.size()) + " dims for " + in.text() +
                     "; valid: each dim once");
  }
  return picked(in, dims);
}

Viewed exchanged(const TensorMeta& in, int a, int b) {
  std::vector<int> dims;
  for (int d = 0; d < in.ndim(); ++d) dims.push_back(d == a ? b : d == b ? a : d);
  return picked(in, dims);
}

Viewed transpose(const OpCall& call) {
  const TensorMeta& in = only_input(call);
  if (call.args.size() < 2) throw InputError(call.op + ": --args must begin with the two dims");
  return exchanged(in, normalize_dim(call.integer_arg(0, 0), in.ndim(), call.op),
                   normalize_dim(call.integer_arg(1, 0), in.ndim(), call.op));
}

Viewed t(const OpCall& call) {
  const TensorMeta& in = only_input(call);
  if (in.ndim() > 2)
    throw InputError(call.op + ": takes a tensor of at most 2 dims, found " + in.text());
  return exchanged(in, 0, in.ndim() - 1);
}

Viewed unsqueeze(const OpCall& call) {
  const TensorMeta& in = only_input(call);
  if (call.args.empty()) throw InputError(call.op + ": --args must begin with the dim");
  if (in.ndim() == kMaxTensorDims)
    throw InputError(call.op + ": the result would have " + std::to_string(in.ndim() + 1) +
                     " dims; valid: at most " + std::to_string(kMaxTensorDims));
  const int dim = normalize_dim(call.integer_arg(0, 0), in.ndim() + 1, call.op);
  Viewed viewed;
  for (int d = 0; d <= in.ndim(); ++d) {
    if (d == dim) viewed.add({}, 1);
    if (d < in.ndim()) viewed.add(ViewDim::input(d), in.shape[to_index(d)]);
  }
  return viewed;
}

// Removes the dims of extent 1 among those that the first of --args lists, or among all dims.
Viewed squeeze(const OpCall& call) {
  const TensorMeta& in = only_input(call);
  const auto listed = call.integers_arg(0);
  std::vector<bool> asked(static_cast<std::size_t>(in.ndim()), !listed);
  for (const std::int64_t dim : listed.value_or(std::vector<std::int64_t>())) {
    const int d = normalize_dim(dim, in.ndim(), call.op);
    if (in.ndim() > 0) asked[to_index(d)] = true;
  }
  std::vector<int> kept;
  for (int d = 0; d < in.ndim(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (!asked[i] || in.shape[i] != 1) kept.push_back(d);
  }
  return picked(in, kept);
}

// -- Dims that are repeated ----------------------------------------------------------

Viewed expand(const OpCall& call) {
  const TensorMeta& in = only_input(call);
  const std::vector<std::int64_t> extents = integers(call, "shape");
  const int added = static_cast<int>(extents.size()) - in.ndim();
  if (added < 0) {
    throw InputError(call.op + ": " + in.text() + " has more dims than the shape " +
                     call.args[0].dump() + " of --args");
  }
  Viewed viewed;
  for (int out = 0; out < static_cast<int>(extents.size()); ++out) {
    const std::int64_t want = extents[to_index(out)];
    const int d = out - added;
    const std::int64_t have = d < 0 ? 1 : in.shape[to_index(d)];
    if (d >= 0 && (want == -1 || want == have)) {
      viewed.add(ViewDim::input(d), have);
    } else if (have == 1) {
      ViewDim copies{.kind = d < 0 ? ViewDim::Kind::kNew : ViewDim::Kind::kBroadcast};
      if (d >= 0) copies.inputs = {d};
      viewed.add(copies, want);
    } else {
      throw InputError(call.op + ": " + in.text() + " can't be expanded to " + call.args[0].dump());
    }
  }
  expect_capacity(call, viewed.shape);
  return viewed;
}

Viewed repeat(const OpCall& call) {
  const TensorMeta& in = only_input(call);
  const std::vector<std::int64_t> repeats = integers(call, "repeats");
  const int added = static_cast<int>(repeats.size()) - in.ndim();
  if (added < 0) {
    throw InputError(call.op + ": " + in.text() + " has more dims than the repeats " +
                     call.args[0].dump() + " of --args");
  }
  Viewed viewed;
  for (int out = 0; out < static_cast<int>(repeats.size()); ++out) {
    const std::int64_t times = repeats[to_index(out)];
    const int d = out - added;
    if (times < 0 || times > kMostExtent) {
      throw InputError(call.op + ": found a repeat of " + std::to_string(times) +
                       "; valid: 0 to 2^53");
    }
    if (d < 0) {
      viewed.add({}, times);
      continue;
    }
    const std::int64_t have = in.shape[to_index(d)];
    ViewDim copies = ViewDim::input(d);
    if (times != 1) copies.kind = ViewDim::Kind::kRepeat;
    viewed.add(copies, have == 0 || times == 0 ? 0 : saturating_product(have, times));
  }
  expect_capacity(call, viewed.shape);
  return viewed;
}

// -- Rules -----------------------------------------------------------------------------------

using View = Viewed (*)(const OpCall&);

template <View view>
std::vector<TensorMeta> view_outputs(const OpCall& call) {
  const Viewed viewed = view(call);
  return {TensorMeta{.dtype = only_input(call).dtype, .shape = viewed.shape, .strides = {}}};
}

template <View view, bool strict>
std::vector<FollowCandidate> follow_view(const OpCall& call, const DeviceMesh& mesh) {
  const Viewed viewed = view(call);
  const TensorSpec& in = call.required_tensor(0);
  const ViewLayouts layouts =
      dtensor_view(call.op, viewed.rule, in.meta.shape, in.layout.placements, mesh, strict);
  return {{.outputs = {layouts.output}, .inputs = {layouts.input}}};
}

// AutoParallel gathers a shard that would become a strided one.
template <View view>
std::vector<FollowCandidate> follow_without_strides(const OpCall& call, const DeviceMesh& mesh) {
  const Viewed viewed = view(call);
  const TensorSpec& in = call.required_tensor(0);
  Placements wanted = in.layout.placements;
  for (;;) {
    const ViewLayouts layouts =
        dtensor_view(call.op, viewed.rule, in.meta.shape, wanted, mesh, false);
    const auto strided = std::find_if(layouts.output.begin(), layouts.output.end(),
                                      [](const Placement& p) { return p.is_strided(); });
    if (strided == layouts.output.end()) {
      return {{.outputs = {layouts.output}, .inputs = {layouts.input}}};
    }
    wanted = layouts.input;
    wanted[to_index(strided - layouts.output.begin())] = Placement::replicate();
  }
}

template <View view>
Rows view_rows(const OpCall& call, const OpRule&) {
  const Viewed viewed = view(call);
  Rows all;
  for (std::size_t out = 0; out < viewed.rule.size(); ++out) {
    const ViewDim& dim = viewed.rule[out];
    if (dim.kind != ViewDim::Kind::kInput) continue;
    all.push_back(
        {RowEntry::any_shard(static_cast<int>(out)), RowEntry::any_shard(dim.inputs.front())});
  }
  rows::add_pass_through(all, 2);
  return all;
}

// PyTorch's rows for t since 2.14.
Rows t_rows(const OpCall& call, const OpRule&) {
  const int ndim = only_tensor(call).meta.ndim();
  Rows all;
  for (int d = 0; d < ndim; ++d) {
    all.push_back({RowEntry::any_shard(ndim - 1 - d), RowEntry::any_shard(d)});
  }
  for (const Placement& p : {rows::kSum, rows::kAvg, rows::kMax, rows::kMin}) {
    all.push_back(rows::all_alike(2, p));
  }
  return all;
}

template <View view, bool strict>
constexpr OpRule followed(std::string_view op, RuleSets sets = kDTensor) {
  return {.op = op,
          .sets = sets,
          .outputs = view_outputs<view>,
          .follow = follow_view<view, strict>,
          .kernel = rows::moving_kernel(op)};
}

template <View view>
constexpr OpRule as_rows(std::string_view op) {
  return {.op = op,
          .sets = kShardlab,
          .outputs = view_outputs<view>,
          .rows = view_rows<view>,
          .kernel = rows::moving_kernel(op)};
}

template <View view>
constexpr OpRule without_strides(std::string_view op) {
  return {.op = op,
          .sets = kAutoParallels,
          .outputs = view_outputs<view>,
          .follow = follow_without_strides<view>,
          .kernel = rows::moving_kernel(op)};
}

constexpr OpRule exact_reshape(std::string_view op) {
  return {.op = op,
          .sets = kShardlab,
          .outputs = view_outputs<reshape>,
          .follow = follow_exactly,
          .kernel = rows::moving_kernel(op)};
}

constexpr OpRule kRules[] = {
    followed<reshape, true>("aten._unsafe_view.default"),
    exact_reshape("aten._unsafe_view.default"),
    without_strides<reshape>("aten._unsafe_view.default"),
    followed<expand, false>("aten.expand.default"),
    without_strides<expand>("aten.expand.default"),
    as_rows<expand>("aten.expand.default"),
    followed<expand, false>("aten.expand_copy.default"),
    as_rows<expand>("aten.expand_copy.default"),
    followed<permute, false>("aten.permute.default"),
    without_strides<permute>("aten.permute.default"),
    as_rows<permute>("aten.permute.default"),
    followed<repeat, false>("aten.repeat.default"),
    as_rows<repeat>("aten.repeat.default"),
    followed<reshape, false>("aten.reshape.default"),
    without_strides<reshape>("aten.reshape.default"),
    exact_reshape("aten.reshape.default"),
    followed<squeeze, true>("aten.squeeze.default"),
    without_strides<squeeze>("aten.squeeze.default"),
    as_rows<squeeze>("aten.squeeze.default"),
    followed<squeeze, true>("aten.squeeze.dim"),
    without_strides<squeeze>("aten.squeeze.dim"),
    as_rows<squeeze>("aten.squeeze.dim"),
    followed<squeeze, true>("aten.squeeze.dims"),
    without_strides<squeeze>("aten.squeeze.dims"),
    as_rows<squeeze>("aten.squeeze.dims"),
    // In place, squeeze renumbers the dims of its own tensor, which rows of an in-place op can't
    // express.
    followed<squeeze, true>("aten.squeeze_.default", kDTensor | kShardlab),
    followed<squeeze, true>("aten.squeeze_.dim", kDTensor | kShardlab),
    followed<squeeze, true>("aten.squeeze_.dims", kDTensor | kShardlab),
    followed<t, false>("aten.t.default", rows::kBeforeRows),
    rows::copy_rule("aten.t.default", rows::kSinceRows, view_outputs<t>, t_rows),
    without_strides<t>("aten.t.default"),
    as_rows<t>("aten.t.default"),
    followed<transpose, false>("aten.transpose.int"),
    without_strides<transpose>("aten.transpose.int"),
    as_rows<transpose>("aten.transpose.int"),
    followed<unsqueeze, false>("aten.unsqueeze.default"),
    without_strides<unsqueeze>("aten.unsqueeze.default"),
    as_rows<unsqueeze>("aten.unsqueeze.default"),
    followed<reshape, true>("aten.view.default"),
    without_strides<reshape>("aten.view.default"),
    exact_reshape("aten.view.default"),
    followed<reshape, false>("aten.view_copy.default"),
    exact_reshape("aten.view_copy.default"),
};

}  // namespace view_rules

OP_RULES(view){view_rules::kRules};

}  // namespace shardlab
