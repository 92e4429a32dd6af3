// Lookups and writes by index. Indices count global positions, so a dim that is indexed is not
// sharded, except where each rank looks up what it has and masks the rest. Source: PyTorch 2.13.0,
// _ops/_tensor_ops.py (gather_strategy, scatter_strategy, scatter_add_strategy and the single-dim
// strategies of index_select, index, index_put, index_fill, index_reduce); pull request #172350
// (index_put).
#include "costmodel/base/index.h"

#include <algorithm>

#include "costmodel/base/enum_names.h"
#include "costmodel/base/error.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {

// How index_reduce joins the elements that go to one row.
enum class IndexReduction : std::uint8_t { kProduct, kMean, kMax, kMin };

template <>
struct EnumNames<IndexReduction> {
  static constexpr std::string_view kKind = "reduction";
  static constexpr std::array kNames = {
      Named{IndexReduction::kProduct, "prod"}, Named{IndexReduction::kMean, "mean"},
      Named{IndexReduction::kMax, "amax"}, Named{IndexReduction::kMin, "amin"}};
};

namespace index_rules {

using rows::copy_out_rule;
using rows::copy_rule;
using rows::kAllPartials;
using rows::kAvg;
using rows::kMax;
using rows::kMin;
using rows::kPassThrough;
using rows::kR;
using rows::kSum;

constexpr Placement kProduct = Placement::partial(ReduceOp::kProduct);
constexpr std::array<Placement, 2> kLinear = {kSum, kAvg};

TensorMeta like(const TensorSpec& input, const Shape& shape) {
  return {.dtype = input.meta.dtype, .shape = shape, .strides = {}};
}

void expect_index(const OpCall& call, const TensorSpec& index, bool also_i32 = true) {
  const DType dtype = index.meta.dtype;
  if (dtype == DType::kI64 || (also_i32 && dtype == DType::kI32)) return;
  throw InputError(call.op + ": found an index " + index.meta.text() + "; valid: an index of i64" +
                   (also_i32 ? " or i32" : ""));
}

void expect_dtype_of(const OpCall& call, const TensorSpec& self, const TensorSpec& other) {
  if (self.meta.dtype == other.meta.dtype) return;
  throw InputError(call.op + ": found " + self.meta.text() + " and " + other.meta.text() +
                   "; valid: tensors of one dtype");
}

// -- gather, scatter, scatter_add: one index for each element ----------------------------------

// The arguments: self, dim, index, and for some of the ops a source.
struct ByElement {
  const TensorSpec& self;
  const TensorSpec& index;
  const TensorSpec* source;  // null if the op takes none
  int dim;

  static ByElement of(const OpCall& call, bool has_source) {
    expect_tensors(call, has_source ? 3 : 2);
    ByElement by{call.required_tensor(0), call.required_tensor(1),
                 has_source ? &call.required_tensor(2) : nullptr, 0};
    by.dim = dim_of(call, 0, 0, by.self.meta.ndim());
    expect_index(call, by.index, false);
    bool fits = by.index.meta.ndim() == by.self.meta.ndim() &&
                (!has_source || by.source->meta.ndim() == by.self.meta.ndim());
    for (int d = 0; fits && d < by.self.meta.ndim(); ++d) {
      fits = (d == by.dim || by.extent(by.index, d) <= by.extent(by.self, d)) &&
             (!has_source || by.extent(by.index, d) <= by.extent(*by.source, d));
    }
    if (!fits) {
      throw InputError(
          call.op + ": found an index " + by.index.meta.text() + " for " + by.self.meta.text() +
          (has_source ? " and a source " + by.source->meta.text() : "") +
          "; valid: " + (has_source ? "an index and a source" : "an index") +
          " with as many dims, where the index is no longer than the tensor in any dim but dim " +
          std::to_string(by.dim) + (has_source ? " and no longer than the source in any dim" : ""));
    }
    if (has_source) expect_dtype_of(call, by.self, *by.source);
    return by;
  }

  [[nodiscard]] std::int64_t extent(const TensorSpec& tensor, int d) const {
    return tensor.meta.shape[to_index(d)];
  }
  // Whether shards of dim d hold the same positions in all tensors.
  [[nodiscard]] bool aligned(int d, bool with_source) const {
    return extent(self, d) == extent(index, d) &&
           (!with_source || source == nullptr || extent(*source, d) == extent(index, d));
  }
};

std::vector<TensorMeta> gather_outputs(const OpCall& call) {
  const ByElement by = ByElement::of(call, false);
  return {like(by.self, by.index.meta.shape)};
}

// The entry that PyTorch proposes for a shard. 2.13 proposes plain shards whatever layouts the
// inputs have.
RowEntry proposed_shard(const OpRule& rule, int dim) {
  return rule.sets.contains(Release::k2_13) ? RowEntry(Placement::shard(dim))
                                            : RowEntry::any_shard(dim);
}

// PyTorch does not compare extents.
Rows gather_rows_of_dtensor(const OpCall& call, const OpRule& rule) {
  const ByElement by = ByElement::of(call, false);
  const Placement along = Placement::shard(by.dim);
  Rows rows = {{kR, kR, kR}};
  if (by.extent(by.index, by.dim) == 1) {
    const Placement mask = Placement::mask_partial(by.dim, by.extent(by.self, by.dim));
    rows.push_back({mask, along, mask});
  }
  rows.push_back({along, kR, along});
  for (int d = 0; d < by.self.meta.ndim(); ++d) {
    if (d != by.dim) rows.push_back(rows::all_alike(3, proposed_shard(rule, d)));
  }
  return rows;
}

Rows gather_rows(const OpCall& call, const OpRule&) {
  const ByElement by = ByElement::of(call, false);
  const RowEntry along = RowEntry::any_shard(by.dim);
  const Placement mask = Placement::mask_partial(by.dim, by.extent(by.self, by.dim));
  Rows rows = {{mask, along, kR}, {along, kR, along}};
  for (int d = 0; d < by.self.meta.ndim(); ++d) {
    if (d != by.dim && by.aligned(d, false)) {
      rows.push_back(rows::all_alike(3, RowEntry::any_shard(d)));
    }
  }
  for (const Placement& partial : kPassThrough) rows.push_back({partial, partial, kR});
  return rows;
}

// Why a shard of a dim may be missing from the rules: where the tensors differ in its extent, the
// row is right only on meshes that put equal indices on the same rank.
std::string_view excuse_cut_alike(const OpCall& call, const Row& row) {
  const Placement& p = row.back().placement();
  const ByElement by = ByElement::of(call, call.tensors().size() == 3);
  const bool unequal = p.is_shard_like() && p.dim() != by.dim && !by.aligned(p.dim(), true);
  return unequal
             ? "the tensors have different extents in this dim, and only some meshes cut them alike"
             : "";
}

bool has_source(const OpCall& call) { return call.op.find(".value") == std::string::npos; }

std::vector<TensorMeta> scatter_outputs(const OpCall& call) {
  const ByElement by = ByElement::of(call, has_source(call));
  if (!has_source(call)) static_cast<void>(call.number_arg(1, 0.0));
  return {like(by.self, by.self.meta.shape)};
}

Rows scatter_rows_of_dtensor(const OpCall& call, const OpRule& rule) {
  const bool adds = rule.op == "aten.scatter_add.default";
  const ByElement by = ByElement::of(call, has_source(call));
  const std::size_t tensors = 1 + call.tensors().size();
  Rows rows = {rows::all_alike(tensors, kR)};
  for (int d = 0; d < by.self.meta.ndim(); ++d) {
    // For scatter_add PyTorch does not look at the source's extents.
    if (d == by.dim || !by.aligned(d, !adds)) continue;
    rows.push_back(rows::all_alike(tensors, proposed_shard(rule, d)));
  }
  return rows;
}

Rows scatter_rows(const OpCall& call, const OpRule&) {
  const ByElement by = ByElement::of(call, has_source(call));
  const std::size_t tensors = 1 + call.tensors().size();
  Rows rows;
  for (int d = 0; d < by.self.meta.ndim(); ++d) {
    if (d != by.dim && by.aligned(d, true)) {
      rows.push_back(rows::all_alike(tensors, RowEntry::any_shard(d)));
    }
  }
  if (by.source == nullptr) {
    for (const Placement& partial : rows::partials_keeping(call.number_arg(1, 0.0))) {
      rows.push_back({partial, partial, kR});
    }
    return rows;
  }
  for (const Placement& partial : kPassThrough) rows.push_back({partial, partial, kR, partial});
  return rows;
}

// The op is linear in self and source together. If the index and the source are sharded on the
// indexed dim, each rank adds the elements of the source that it has.
Rows scatter_add_rows(const OpCall& call, const OpRule&) {
  const ByElement by = ByElement::of(call, true);
  Rows rows;
  for (int d = 0; d < by.self.meta.ndim(); ++d) {
    if (d != by.dim && by.aligned(d, true)) {
      rows.push_back(rows::all_alike(4, RowEntry::any_shard(d)));
    }
  }
  if (by.extent(by.index, by.dim) == by.extent(*by.source, by.dim)) {
    rows.push_back({kSum, kSum, RowEntry::any_shard(by.dim), RowEntry::any_shard(by.dim)});
  }
  rows.push_back({kSum, kSum, kR, kSum});
  rows.push_back({kAvg, kAvg, kR, kAvg});
  rows.push_back({kMax, kMax, kR, kR});
  rows.push_back({kMin, kMin, kR, kR});
  return rows;
}

// -- index_select, index_fill, index_reduce: one index for each row ----------------------------

// The arguments: self, dim, index, and for some of the ops a source.
struct ByRow {
  const TensorSpec& self;
  const TensorSpec& index;
  int dim;

  static ByRow of(const OpCall& call) {
    ByRow by{call.required_tensor(0), call.required_tensor(1), 0};
    by.dim = dim_of(call, 0, 0, by.self.meta.ndim());
    expect_index(call, by.index);
    if (by.index.meta.ndim() > 1) {
      throw InputError(call.op + ": found an index " + by.index.meta.text() +
                       "; valid: an index of at most one dim");
    }
    return by;
  }
  [[nodiscard]] std::int64_t count() const {
    return index.meta.ndim() == 0 ? 1 : index.meta.shape[0];
  }
};

std::vector<TensorMeta> index_select_outputs(const OpCall& call) {
  expect_tensors(call, 2);
  const ByRow by = ByRow::of(call);
  Shape shape = by.self.meta.shape;
  shape[to_index(by.dim)] = by.count();
  return {like(by.self, shape)};
}

// The partials that pass through a row-wise op. PyTorch since 2.14 leaves out products.
std::span<const Placement> passing_partials(const OpRule& rule) {
  if (rule.sets.contains(kShardlab)) return kAllPartials;
  return kPassThrough;
}

Rows index_select_rows(const OpCall& call, const OpRule& rule) {
  const ByRow by = ByRow::of(call);
  Rows rows;
  for (int d = 0; d < by.self.meta.ndim(); ++d) {
    if (d != by.dim) rows.push_back({RowEntry::any_shard(d), RowEntry::any_shard(d), kR});
  }
  rows.push_back({RowEntry::any_shard(by.dim), kR, RowEntry::any_shard(0)});
  for (const Placement& partial : passing_partials(rule)) rows.push_back({partial, partial, kR});
  return rows;
}

bool fills_with_tensor(const OpCall& call) {
  return call.op.find("int_Tensor") != std::string::npos;
}

std::vector<TensorMeta> index_fill_outputs(const OpCall& call) {
  expect_tensors(call, fills_with_tensor(call) ? 3 : 2);
  const ByRow by = ByRow::of(call);
  if (!fills_with_tensor(call)) {
    static_cast<void>(call.number_arg(1, 0.0));
  } else if (call.required_tensor(2).meta.ndim() != 0) {
    throw InputError(call.op + ": found a value " + call.required_tensor(2).meta.text() +
                     "; valid: a tensor without dims");
  }
  return {like(by.self, by.self.meta.shape)};
}

Rows index_fill_rows(const OpCall& call, const OpRule& rule) {
  const ByRow by = ByRow::of(call);
  const bool with_tensor = fills_with_tensor(call);
  Rows rows;
  for (int d = 0; d < by.self.meta.ndim(); ++d) {
    if (d == by.dim) continue;
    rows.push_back({RowEntry::any_shard(d), RowEntry::any_shard(d), kR});
    if (with_tensor) rows.back().push_back(kR);
  }
  if (with_tensor) {
    for (const Placement& partial : passing_partials(rule)) {
      rows.push_back({partial, partial, kR, partial});
    }
    return rows;
  }
  constexpr std::array<Placement, 3> kKept = {kAvg, kMax, kMin};
  const std::span<const Placement> partials =
      rule.sets.contains(kShardlab) ? rows::partials_keeping(call.number_arg(1, 0.0)) : kKept;
  for (const Placement& partial : partials) rows.push_back({partial, partial, kR});
  return rows;
}

IndexReduction reduction_of(const OpCall& call) {
  const std::string name = call.text_arg(1, "");
  const std::optional<IndexReduction> reduction = from_name<IndexReduction>(name);
  if (reduction) return *reduction;
  throw InputError(call.op + ": found the reduction \"" + name +
                   "\"; valid: " + valid_names<IndexReduction>());
}

// Arguments: index_reduce(self, dim, index, source, reduce, include_self).
std::vector<TensorMeta> index_reduce_outputs(const OpCall& call) {
  expect_tensors(call, 3);
  const ByRow by = ByRow::of(call);
  const TensorSpec& source = call.required_tensor(2);
  static_cast<void>(reduction_of(call));
  static_cast<void>(call.boolean_arg(2, true));
  Shape shape = by.self.meta.shape;
  shape[to_index(by.dim)] = by.count();
  if (source.meta.shape != shape) {
    throw InputError(call.op + ": found a source " + source.meta.text() +
                     "; valid: " + like(by.self, shape).text());
  }
  expect_dtype_of(call, by.self, source);
  return {like(by.self, by.self.meta.shape)};
}

Rows index_reduce_rows(const OpCall& call, const OpRule& rule) {
  const ByRow by = ByRow::of(call);
  Rows rows;
  for (int d = 0; d < by.self.meta.ndim(); ++d) {
    if (d == by.dim) continue;
    const RowEntry shard = RowEntry::any_shard(d);
    rows.push_back({shard, shard, kR, shard});
  }
  if (!rule.sets.contains(kShardlab)) return rows;
  const bool with_self = call.boolean_arg(2, true);
  const RowEntry each = RowEntry::any_shard(0);
  const RowEntry part = RowEntry::any_shard(by.dim);
  // Each rank reduces the rows of the source that it has into its own part.
  const auto fold = [&](const Placement& p) {
    rows.push_back({p, p, kR, p});
    if (with_self && by.index.meta.ndim() == 1) rows.push_back({p, p, each, part});
  };
  const auto of_self = [&](const Placement& p) { rows.push_back({p, p, kR, kR}); };
  switch (reduction_of(call)) {
    case IndexReduction::kProduct:
      fold(kProduct);
      if (with_self) of_self(kSum);
      of_self(kAvg);
      if (!with_self) of_self(kMax);
      if (!with_self) of_self(kMin);
      break;
    case IndexReduction::kMean:
      rows.push_back({kSum, kSum, kR, kSum});
      rows.push_back({kAvg, kAvg, kR, kAvg});
      of_self(kMax);
      of_self(kMin);
      break;
    case IndexReduction::kMax:
      fold(kMax);
      of_self(kMin);
      if (!with_self) of_self(kAvg);
      break;
    case IndexReduction::kMin:
      fold(kMin);
      of_self(kMax);
      if (!with_self) of_self(kAvg);
      break;
  }
  return rows;
}

// -- index, index_put --------------------------------------------------------------------------

// The index tensors. Masks are refused, because the shape of their result depends on the data.
std::vector<const TensorSpec*> indices_of(const OpCall& call) {
  std::vector<const TensorSpec*> indices;
  if (call.inputs.size() > 1) {
    for (const TensorSpec& index : call.inputs[1].tensors) {
      if (index.meta.dtype == DType::kB8 || index.meta.dtype == DType::kU8) {
        throw InputError(call.op + ": no sharding strategy for a mask as an index (" +
                         index.meta.text() +
                         "): the shape of what it selects depends on the data; valid: indices of "
                         "i64 or i32");
      }
      expect_index(call, index);
      indices.push_back(&index);
    }
  }
  return indices;
}

IndexedDims indexed_dims(const OpCall& call, const TensorSpec& self) {
  std::vector<Shape> shapes;
  for (const TensorSpec* index : indices_of(call)) shapes.push_back(index->meta.shape);
  return IndexedDims::of(call, self.meta.shape, shapes);
}

std::vector<TensorMeta> index_outputs(const OpCall& call) {
  const TensorSpec& self = call.required_tensor(0);
  const IndexedDims indexed = indexed_dims(call, self);
  expect_tensors(call, 1 + indexed.dims.size());
  return {like(self, indexed.result)};
}

// The entry of an index tensor in a row that shards dim `dim` of the indices' common shape: R if
// the tensor lacks that dim or broadcasts it.
RowEntry broadcast_entry(const Shape& shape, std::size_t common_ndim, int dim) {
  const int own = dim - static_cast<int>(common_ndim - shape.size());
  const bool has = own >= 0 && shape[to_index(own)] != 1;
  return has ? RowEntry::any_shard(own) : RowEntry(kR);
}

Rows index_rows(const OpCall& call, const OpRule& rule) {
  const TensorSpec& self = call.required_tensor(0);
  const IndexedDims indexed = indexed_dims(call, self);
  const std::vector<const TensorSpec*> indices = indices_of(call);
  Rows rows;
  for (const int d : indexed.kept) {
    Row row(2 + indices.size(), kR);
    row[0] = RowEntry::any_shard(indexed.result_dim(d));
    row[1] = RowEntry::any_shard(d);
    rows.push_back(row);
  }
  for (int b = 0; b < static_cast<int>(indexed.broadcast.size()); ++b) {
    if (indexed.broadcast[to_index(b)] == 1) continue;
    Row row = {RowEntry::any_shard(indexed.insert + b), kR};
    for (const TensorSpec* index : indices) {
      row.push_back(broadcast_entry(index->meta.shape, indexed.broadcast.size(), b));
    }
    rows.push_back(row);
  }
  const std::span<const Placement> partials =
      rule.sets.contains(kShardlab) ? std::span<const Placement>(kPassThrough) : kLinear;
  for (const Placement& partial : partials) {
    Row row(2 + indices.size(), kR);
    row[0] = row[1] = partial;
    rows.push_back(row);
  }
  return rows;
}

// Arguments: index_put(self, indices, values, accumulate).
std::vector<TensorMeta> index_put_outputs(const OpCall& call) {
  const TensorSpec& self = call.required_tensor(0);
  const IndexedDims indexed = indexed_dims(call, self);
  expect_tensors(call, 2 + indexed.dims.size());
  const TensorSpec& values = call.required_tensor(2);
  static_cast<void>(call.boolean_arg(0, false));
  expect_dtype_of(call, self, values);
  const TensorSpec result{like(self, indexed.result), Layout()};
  const std::array<const TensorSpec*, 2> both = {&result, &values};
  if (values.meta.ndim() > result.meta.ndim() ||
      broadcast_shape(both, call.op) != result.meta.shape) {
    throw InputError(call.op + ": values " + values.meta.text() + " do not broadcast to " +
                     result.meta.text());
  }
  return {like(self, self.meta.shape)};
}

Rows index_put_rows(const OpCall& call, const OpRule& rule) {
  const TensorSpec& self = call.required_tensor(0);
  const IndexedDims indexed = indexed_dims(call, self);
  const std::vector<const TensorSpec*> indices = indices_of(call);
  const Shape& values = call.required_tensor(2).meta.shape;
  Rows rows;
  const auto add = [&](const RowEntry& of_self, const RowEntry& of_values) {
    Row row(3 + indices.size(), kR);
    row[0] = row[1] = of_self;
    row.back() = of_values;
    rows.push_back(row);
  };
  for (const int d : indexed.kept) {
    add(RowEntry::any_shard(d),
        broadcast_entry(values, indexed.result.size(), indexed.result_dim(d)));
  }
  if (!rule.sets.contains(kShardlab)) {
    add(kSum, kSum);
    return rows;
  }
  if (!call.boolean_arg(0, false)) {
    for (const Placement& partial : kPassThrough) add(partial, partial);
    return rows;
  }
  // With `accumulate` the values of all ranks add up, so each rank may add its own.
  add(kSum, kSum);
  add(kAvg, kAvg);
  add(kMax, kR);
  add(kMin, kR);
  for (int b = 0; b < static_cast<int>(indexed.broadcast.size()); ++b) {
    if (indexed.broadcast[to_index(b)] == 1) continue;
    Row row = {kSum, kSum};
    for (const TensorSpec* index : indices) {
      row.push_back(broadcast_entry(index->meta.shape, indexed.broadcast.size(), b));
    }
    row.push_back(broadcast_entry(values, indexed.result.size(), indexed.insert + b));
    rows.push_back(row);
  }
  return rows;
}

constexpr OpRule kRules[] = {
    copy_rule("aten._index_put_impl_.default", kDTensor, index_put_outputs, index_put_rows),
    copy_rule("aten._index_put_impl_.default", kShardlab, index_put_outputs, index_put_rows),
    copy_rule("aten.gather.default", rows::kBeforeRows, gather_outputs, gather_rows_of_dtensor),
    copy_rule("aten.gather.default", rows::kSinceRows, gather_outputs, gather_rows_of_dtensor),
    copy_rule("aten.gather.default", kShardlab, gather_outputs, gather_rows, excuse_cut_alike),
    copy_rule("aten.index.Tensor", kDTensor, index_outputs, index_rows),
    copy_rule("aten.index.Tensor", kShardlab, index_outputs, index_rows),
    copy_rule("aten.index_fill.int_Scalar", kDTensor, index_fill_outputs, index_fill_rows),
    copy_rule("aten.index_fill.int_Scalar", kShardlab, index_fill_outputs, index_fill_rows),
    copy_rule("aten.index_fill.int_Tensor", rows::kBeforeRows | kShardlab, index_fill_outputs,
              index_fill_rows),
    copy_rule("aten.index_fill.int_Tensor", rows::kSinceRows, index_fill_outputs, index_fill_rows),
    copy_rule("aten.index_fill_.int_Scalar", kDTensor, index_fill_outputs, index_fill_rows),
    copy_rule("aten.index_fill_.int_Scalar", kShardlab, index_fill_outputs, index_fill_rows),
    copy_rule("aten.index_fill_.int_Tensor", rows::kBeforeRows | kShardlab, index_fill_outputs,
              index_fill_rows),
    copy_rule("aten.index_fill_.int_Tensor", rows::kSinceRows, index_fill_outputs, index_fill_rows),
    copy_rule("aten.index_put.default", kDTensor, index_put_outputs, index_put_rows),
    copy_rule("aten.index_put.default", kShardlab, index_put_outputs, index_put_rows),
    copy_rule("aten.index_put_.default", kDTensor, index_put_outputs, index_put_rows),
    copy_rule("aten.index_put_.default", kShardlab, index_put_outputs, index_put_rows),
    copy_rule("aten.index_reduce.default", kDTensor, index_reduce_outputs, index_reduce_rows),
    copy_rule("aten.index_reduce.default", kShardlab, index_reduce_outputs, index_reduce_rows),
    copy_rule("aten.index_reduce_.default", kDTensor, index_reduce_outputs, index_reduce_rows),
    copy_rule("aten.index_reduce_.default", kShardlab, index_reduce_outputs, index_reduce_rows),
    copy_rule("aten.index_select.default", rows::kBeforeRows | kShardlab, index_select_outputs,
              index_select_rows),
    copy_rule("aten.index_select.default", rows::kSinceRows, index_select_outputs,
              index_select_rows),
    copy_rule("aten.scatter.src", rows::kBeforeRows, scatter_outputs, scatter_rows_of_dtensor),
    copy_rule("aten.scatter.src", rows::kSinceRows, scatter_outputs, scatter_rows_of_dtensor),
    copy_rule("aten.scatter.src", kShardlab, scatter_outputs, scatter_rows, excuse_cut_alike),
    copy_rule("aten.scatter.value", rows::kBeforeRows, scatter_outputs, scatter_rows_of_dtensor),
    copy_rule("aten.scatter.value", rows::kSinceRows, scatter_outputs, scatter_rows_of_dtensor),
    copy_rule("aten.scatter.value", kShardlab, scatter_outputs, scatter_rows, excuse_cut_alike),
    copy_rule("aten.scatter_.src", rows::kBeforeRows, scatter_outputs, scatter_rows_of_dtensor),
    copy_rule("aten.scatter_.src", rows::kSinceRows, scatter_outputs, scatter_rows_of_dtensor),
    copy_rule("aten.scatter_.src", kShardlab, scatter_outputs, scatter_rows, excuse_cut_alike),
    copy_rule("aten.scatter_.value", rows::kBeforeRows, scatter_outputs, scatter_rows_of_dtensor),
    copy_rule("aten.scatter_.value", rows::kSinceRows, scatter_outputs, scatter_rows_of_dtensor),
    copy_rule("aten.scatter_.value", kShardlab, scatter_outputs, scatter_rows, excuse_cut_alike),
    copy_rule("aten.scatter_add.default", rows::kBeforeRows, scatter_outputs,
              scatter_rows_of_dtensor),
    copy_rule("aten.scatter_add.default", rows::kSinceRows, scatter_outputs,
              scatter_rows_of_dtensor),
    copy_rule("aten.scatter_add.default", kShardlab, scatter_outputs, scatter_add_rows,
              excuse_cut_alike),
    copy_out_rule<index_fill_outputs, index_fill_rows>("aten.index_fill.int_Tensor_out",
                                                       rows::kBeforeRows | kShardlab),
    copy_out_rule<index_fill_outputs, index_fill_rows>("aten.index_fill.int_Tensor_out",
                                                       rows::kSinceRows),
    copy_out_rule<index_select_outputs, index_select_rows>("aten.index_select.out",
                                                           rows::kBeforeRows | kShardlab),
    copy_out_rule<index_select_outputs, index_select_rows>("aten.index_select.out",
                                                           rows::kSinceRows),
    copy_out_rule<index_put_outputs, index_put_rows>("aten._index_put_impl.out", kDTensor),
    copy_out_rule<index_put_outputs, index_put_rows>("aten._index_put_impl.out", kShardlab),
    copy_out_rule<index_outputs, index_rows>("aten.index.Tensor_out", kDTensor),
    copy_out_rule<index_outputs, index_rows>("aten.index.Tensor_out", kShardlab),
    copy_out_rule<index_fill_outputs, index_fill_rows>("aten.index_fill.int_Scalar_out", kDTensor),
    copy_out_rule<index_fill_outputs, index_fill_rows>("aten.index_fill.int_Scalar_out", kShardlab),
    copy_out_rule<index_put_outputs, index_put_rows>("aten.index_put.out", kDTensor),
    copy_out_rule<index_put_outputs, index_put_rows>("aten.index_put.out", kShardlab),
    copy_out_rule<index_reduce_outputs, index_reduce_rows>("aten.index_reduce.out", kDTensor),
    copy_out_rule<index_reduce_outputs, index_reduce_rows>("aten.index_reduce.out", kShardlab),
};

}  // namespace index_rules

OP_RULES(index){index_rules::kRules};

}  // namespace shardlab
