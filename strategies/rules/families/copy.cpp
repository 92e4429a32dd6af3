// Copies, casts and factories. Source: PyTorch 2.13.0, _ops/_tensor_ops.py
// (propagate_single_input_strategy, _to_copy_single_dim_strategy, equal_strategy,
// create_like_strategy, new_factory_strategy), and 2.14.1
// (propagate_single_input_single_dim_strategy, equal_single_dim_strategy,
// create_like_single_dim_strategy, new_factory_single_dim_strategy).
//
// In PyTorch 2.13 most of them take their one input in whatever layout it has. Since 2.14, and in
// the rule set shardlab, they have rows.
#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/pointwise.h"
#include "strategies/rules/pointwise_choices.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace copy_rules {

using namespace rows;

constexpr Placement kProduct = Placement::partial(ReduceOp::kProduct);

const TensorSpec& copied_tensor(const OpCall& call, std::size_t most = 1) {
  const std::size_t found = call.tensors().size();
  if (found >= 1 && found <= most && !call.inputs[0].tensors.empty()) {
    return *call.tensors()[0];
  }
  if (found >= 1 && found <= most) throw InputError(call.op + ": tensor argument 0 is missing");
  throw InputError(call.op + ": takes " +
                   (most == 1 ? "1 tensor" : "1 to " + std::to_string(most) + " tensors") +
                   ", found " + std::to_string(found));
}

// -- Copies of one tensor --------------------------------------------------------------------

std::vector<TensorMeta> same_outputs(const OpCall& call) {
  TensorMeta out = copied_tensor(call).meta;
  out.strides.clear();
  return {out};
}

// The argument at kDTypeArg may name the dtype of the result.
template <std::size_t kDTypeArg>
std::vector<TensorMeta> typed_outputs(const OpCall& call) {
  TensorMeta out = same_outputs(call)[0];
  out.dtype = named_dtype(call, kDTypeArg, out.dtype);
  return {out};
}

// view.dtype reads the bytes of the last dim as another dtype.
std::vector<TensorMeta> retyped_outputs(const OpCall& call) {
  TensorMeta out = same_outputs(call)[0];
  if (call.text_arg(0, "").empty()) {
    throw InputError(call.op +
                     ": argument 0 of --args is missing; valid: " + std::string(kDTypeNames));
  }
  const DType to = named_dtype(call, 0, out.dtype);
  const std::int64_t from_size = itemsize(out.dtype);
  out.dtype = to;
  if (from_size == itemsize(to)) return {out};
  const std::int64_t bytes = out.shape.empty() ? 0 : out.shape.back() * from_size;
  if (out.shape.empty() || bytes % itemsize(to) != 0) {
    throw InputError(call.op + ": " + copied_tensor(call).meta.text() + " can't be read as " +
                     std::string(to_string(to)) +
                     "; valid: a last dim whose bytes are a multiple of " +
                     std::to_string(itemsize(to)));
  }
  out.shape.back() = bytes / itemsize(to);
  return {out};
}

std::vector<FollowCandidate> follow_input(const OpCall& call, const DeviceMesh&) {
  const Placements& placements = copied_tensor(call).layout.placements;
  return {FollowCandidate{.outputs = {placements}, .inputs = {placements}, .keeps_order = true}};
}

Rows shard_rows(const OpCall& call) {
  Rows rows;
  for (int dim = 0; dim < copied_tensor(call, 2).meta.ndim(); ++dim) {
    rows.push_back(all_alike(1 + call.tensors().size(), RowEntry::any_shard(dim)));
  }
  return rows;
}

Rows kept_rows(const OpCall& call, const OpRule&) {
  Rows rows = shard_rows(call);
  add_pass_through(rows, 2);
  return rows;
}

// Zeros are right in every layout.
Rows zeroed_rows(const OpCall& call, const OpRule& rule) {
  Rows rows = kept_rows(call, rule);
  rows.push_back(all_alike(2, kProduct));
  return rows;
}

// Every rank writes the same number, which is the maximum, minimum and average of its copies.
Rows filled_rows(const OpCall& call, const OpRule&) {
  Rows rows = shard_rows(call);
  if (call.number_arg(0, 1.0) == 0.0) rows.push_back(all_alike(2, kSum));
  for (const Placement& p : {kAvg, kMin, kMax}) rows.push_back(all_alike(2, p));
  return rows;
}

// Each rank reads its own bytes as another dtype. A last dim whose extent changes is not sharded.
Rows retyped_rows(const OpCall& call, const OpRule&) {
  const TensorMeta in = copied_tensor(call).meta;
  const TensorMeta out = retyped_outputs(call)[0];
  Rows rows;
  for (int dim = 0; dim < in.ndim(); ++dim) {
    if (in.shape[to_index(dim)] != out.shape[to_index(dim)]) continue;
    rows.push_back(all_alike(2, RowEntry::any_shard(dim)));
  }
  if (in.dtype == out.dtype) add_pass_through(rows, 2);
  return rows;
}

// -- Comparisons of whole tensors ------------------------------------------------------------

std::vector<TensorMeta> comparison_outputs(const OpCall& call) {
  expect_tensors(call, 2);
  TensorMeta out = call.tensors()[0]->meta;
  out.shape.clear();
  out.strides.clear();
  out.dtype = DType::kB8;
  return {out};
}

// Both tensors get the layout of the one with more shards, and partials are reduced. The answer is
// true if it is true on all ranks.
std::vector<FollowCandidate> follow_comparison(const OpCall& call, const DeviceMesh& mesh) {
  static_cast<void>(comparison_outputs(call));
  const auto tensors = call.tensors();
  const auto shards = [&](std::size_t i) {
    return num_shards(tensors[i]->layout.placements, mesh, true);
  };
  Placements placements = tensors[shards(0) >= shards(1) ? 0 : 1]->layout.placements;
  const bool whole = tensors[0]->meta.ndim() == 0 || tensors[1]->meta.ndim() == 0;
  for (Placement& p : placements) {
    if (whole || !p.is_shard_like()) p = kR;
  }
  Placements answer = placements;
  for (Placement& p : answer) {
    if (p.is_shard_like()) p = kMin;
  }
  return {FollowCandidate{.outputs = {answer}, .inputs = {placements, placements}}};
}

Rows comparison_rows(const OpCall& call, const OpRule&) {
  static_cast<void>(comparison_outputs(call));
  Rows rows;
  if (call.tensors()[0]->meta.shape != call.tensors()[1]->meta.shape) return rows;
  for (int dim = 0; dim < call.tensors()[0]->meta.ndim(); ++dim) {
    rows.push_back({kMin, RowEntry::any_shard(dim), RowEntry::any_shard(dim)});
  }
  return rows;
}

// PyTorch's rows since 2.14. The comparison returns no tensor, so they have entries for the inputs
// alone.
Rows compared_rows(const OpCall& call, const OpRule&) {
  const auto tensors = call.tensors();
  Rows rows;
  for (int dim = 0; dim < std::min(tensors[0]->meta.ndim(), tensors[1]->meta.ndim()); ++dim) {
    rows.push_back({kMin, RowEntry::any_shard(dim), RowEntry::any_shard(dim)});
  }
  return rows;
}

// -- Tensors like another --------------------------------------------------------------------

// The result does not depend on the input's values, so a partial input need not be reduced; the
// result is then replicated.
std::vector<FollowCandidate> follow_likeness(const OpCall& call, const DeviceMesh&) {
  FollowCandidate candidate{.keeps_order = true};
  for (const TensorSpec* tensor : call.tensors()) {
    candidate.inputs.push_back(tensor->layout.placements);
  }
  Placements output = copied_tensor(call, 2).layout.placements;
  for (Placement& p : output) {
    if (!p.is_shard_like()) p = kR;
  }
  candidate.outputs.push_back(output);
  return {candidate};
}

Rows likeness_rows(const OpCall& call, const OpRule&) {
  Rows rows = shard_rows(call);
  for (const Placement& p : {kSum, kAvg, kMin, kMax, kProduct}) {
    Row row(1 + call.tensors().size(), RowEntry(kR));
    row[1] = RowEntry(p);
    rows.push_back(row);
  }
  return rows;
}

template <std::size_t kDTypeArg>
std::vector<TensorMeta> like_outputs(const OpCall& call) {
  TensorMeta out = copied_tensor(call, call.op.ends_with("out") ? 2 : 1).meta;
  out.strides.clear();
  out.dtype = named_dtype(call, kDTypeArg, out.dtype);
  if (call.op.ends_with("out")) out.dtype = call.tensors().back()->meta.dtype;
  return {out};
}

// -- New tensors -----------------------------------------------------------------------------

template <std::size_t kDTypeArg>
std::vector<TensorMeta> new_outputs(const OpCall& call) {
  TensorMeta out = copied_tensor(call).meta;
  const auto shape = call.integers_arg(0);
  const auto bad = [](std::int64_t extent) {
    return extent < 0 || extent > (std::int64_t{1} << 40);
  };
  if (!shape || shape->size() > kMaxTensorDims || std::any_of(shape->begin(), shape->end(), bad)) {
    throw InputError(call.op + ": --args must begin with the shape, such as [[8, 8]]");
  }
  out.shape.assign(shape->begin(), shape->end());
  out.strides.clear();
  out.dtype = named_dtype(call, kDTypeArg, out.dtype);
  if (out.bytes() > kMaxTensorBytes) {
    throw InputError(call.op + ": the result would be " + out.text() +
                     "; valid: a tensor of at most 2^53 bytes");
  }
  return {out};
}

bool is_uninitialized(const OpCall& call) { return call.op.find("new_empty") != std::string::npos; }
bool has_same_shape(const OpCall& call) {
  return new_outputs<99>(call)[0].shape == copied_tensor(call).meta.shape;
}

// The result may be replicated. If it has the input's shape and the input is sharded, it may also
// have the input's layout. An uninitialised result of the input's shape may have the input's layout
// in any case, even a partial one.
std::vector<FollowCandidate> follow_or_replicate(const OpCall& call, const DeviceMesh& mesh) {
  const Placements& placements = copied_tensor(call).layout.placements;
  const Placements whole(static_cast<std::size_t>(mesh.ndim()), kR);
  std::vector<FollowCandidate> candidates = {
      {.outputs = {whole}, .inputs = {placements}, .keeps_order = true}};
  const bool sharded = std::any_of(placements.begin(), placements.end(),
                                   [](const Placement& p) { return p.is_shard_like(); });
  if (has_same_shape(call) && (sharded || is_uninitialized(call))) {
    candidates.push_back({.outputs = {placements}, .inputs = {placements}, .keeps_order = true});
  }
  return candidates;
}

// PyTorch's rows since 2.14. A result of another shape is replicated.
Rows factory_rows(const OpCall& call, const OpRule&) {
  Rows rows;
  const bool same = has_same_shape(call);
  const auto add = [&](const RowEntry& input, bool keeps) {
    rows.push_back({keeps ? input : RowEntry(kR), input});
  };
  for (int dim = 0; dim < copied_tensor(call).meta.ndim(); ++dim) {
    add(RowEntry::any_shard(dim), same);
  }
  for (const Placement& p : kPassThrough) add(p, same && is_uninitialized(call));
  return rows;
}

Rows new_rows(const OpCall& call, const OpRule&) {
  Rows rows;
  const bool same = has_same_shape(call);
  for (int dim = 0; dim < copied_tensor(call).meta.ndim(); ++dim) {
    if (same) rows.push_back(all_alike(2, RowEntry::any_shard(dim)));
    rows.push_back({kR, RowEntry::any_shard(dim)});
  }
  if (same && is_uninitialized(call)) add_pass_through(rows, 2);
  for (const Placement& p : {kSum, kAvg, kMin, kMax, kProduct}) rows.push_back({kR, RowEntry(p)});
  return rows;
}

// -- Known omissions -------------------------------------------------------------------------

std::string_view excuse_copy(const OpCall& call, const Row&) {
  if (call.op.find("empty") != std::string::npos)
    return "the op leaves its result uninitialized, so no layout of it is wrong";
  if (call.op.find("is_same_size") != std::string::npos)
    return "the op reads only shapes, which are known without the data";
  if (call.op.find("equal") != std::string::npos) {
    return "in other layouts, too, tensors that differ do so on at least one rank";
  }
  if (call.op.find("view") != std::string::npos) {
    return "the row holds only if the bytes of every rank make up whole elements";
  }
  if (call.op.find("new_") != std::string::npos || call.op.find("_like") != std::string::npos) {
    return "a tensor that is filled with one number is right in many layouts";
  }
  return {};
}

// -- Casts -----------------------------------------------------------------------------------

// PyTorch since 2.14 leaves out the partial product.
Rows cast_rows_without_products(const OpCall& call, const OpRule& rule) {
  Rows rows = cast_rows(call, rule);
  const auto has_product = [](const Row& row) { return row[0] == RowEntry(kProduct); };
  rows.erase(std::remove_if(rows.begin(), rows.end(), has_product), rows.end());
  return rows;
}

constexpr OpRule cast(RuleSets sets, RowsOf rows) {
  return {.op = "aten._to_copy.default",
          .sets = sets,
          .outputs = typed_outputs<0>,
          .rows = rows,
          .uneven_in = kEveryRuleSet,
          .kernel = Kernel::kCopy};
}

// -- The table -------------------------------------------------------------------------------

struct Copied {
  std::string_view op;
  OutputsOf outputs;
  std::vector<FollowCandidate> (*follow)(const OpCall&, const DeviceMesh&);  // until 2.13
  RowsOf pytorch;                                                            // since 2.14
  RowsOf shardlab;
};
constexpr Copied kCopied[] = {
    {"aten.alias.default", same_outputs, follow_input, kept_rows, kept_rows},
    {"aten.contiguous.default", same_outputs, follow_input, kept_rows, kept_rows},
    {"aten.detach.default", same_outputs, follow_input, kept_rows, kept_rows},
    {"aten.detach_.default", same_outputs, follow_input, kept_rows, kept_rows},
    {"aten.empty_like.default", typed_outputs<0>, follow_input, kept_rows, kept_rows},
    {"aten.equal.default", comparison_outputs, follow_comparison, compared_rows, comparison_rows},
    {"aten.fill_.Scalar", same_outputs, follow_input, kept_rows, filled_rows},
    {"aten.full_like.default", like_outputs<1>, follow_likeness, likeness_rows, likeness_rows},
    {"aten.is_same_size.default", comparison_outputs, follow_comparison, compared_rows,
     comparison_rows},
    {"aten.new_empty.default", new_outputs<1>, follow_or_replicate, factory_rows, new_rows},
    {"aten.new_empty_strided.default", new_outputs<2>, follow_or_replicate, factory_rows, new_rows},
    {"aten.new_full.default", new_outputs<2>, follow_or_replicate, factory_rows, new_rows},
    {"aten.new_ones.default", new_outputs<1>, follow_or_replicate, factory_rows, new_rows},
    {"aten.new_zeros.default", new_outputs<1>, follow_or_replicate, factory_rows, new_rows},
    {"aten.ones_like.default", like_outputs<0>, follow_likeness, likeness_rows, likeness_rows},
    {"aten.rand_like.default", like_outputs<0>, follow_likeness, likeness_rows, likeness_rows},
    {"aten.randint_like.default", like_outputs<1>, follow_likeness, likeness_rows, likeness_rows},
    {"aten.randint_like.low_dtype", like_outputs<2>, follow_likeness, likeness_rows, likeness_rows},
    {"aten.randint_like.low_dtype_out", like_outputs<2>, follow_likeness, likeness_rows,
     likeness_rows},
    {"aten.randn_like.default", like_outputs<0>, follow_likeness, likeness_rows, likeness_rows},
    {"aten.view.dtype", retyped_outputs, follow_input, kept_rows, retyped_rows},
    {"aten.zero_.default", same_outputs, follow_input, kept_rows, zeroed_rows},
    {"aten.zeros_like.default", like_outputs<0>, follow_likeness, likeness_rows, likeness_rows},
    {"prims.view_of.default", same_outputs, follow_input, kept_rows, kept_rows},
};

constexpr std::size_t kCount = std::size(kCopied);
constexpr std::array<OpRule, 3 * kCount + 2> all_rules() {
  std::array<OpRule, 3 * kCount + 2> rules{};
  std::size_t next = 0;
  rules[next++] = cast(kBeforeRows | kShardlab, cast_rows);
  rules[next++] = cast(kSinceRows, cast_rows_without_products);
  for (const Copied& copied : kCopied) {
    OpRule rule{
        .op = copied.op, .outputs = copied.outputs, .kernel = rows::moving_kernel(copied.op)};
    rule.sets = kBeforeRows;
    rule.follow = copied.follow;
    rules[next++] = rule;
    rule.sets = kSinceRows;
    rule.follow = nullptr;
    rule.rows = copied.pytorch;
    rule.uneven_in = kEveryRuleSet;
    rules[next++] = rule;
    rule.sets = kShardlab;
    rule.rows = copied.shardlab;
    rule.excuse = excuse_copy;
    rules[next++] = rule;
  }
  return rules;
}
constexpr auto kRules = all_rules();

}  // namespace copy_rules

OP_RULES(copy){copy_rules::kRules};

}  // namespace shardlab
