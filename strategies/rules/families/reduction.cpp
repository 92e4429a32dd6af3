// Reductions. In PyTorch 2.13 most of them follow their input's layout, by rules that have some
// faults; since 2.14, and in the rule set shardlab, they have rows. Source: PyTorch 2.13.0,
// _ops/_math_ops.py (common_reduction_strategy and its callers, max_min_dim_single_dim_strategy,
// dim_reduction_with_indices_strategy, kthvalue_strategy, histc_strategy), and 2.14.1
// (_reduction_single_dim_strategy and its callers, mean_single_dim_strategy,
// argmax_argmin_single_dim_strategy); pull request #162692 (mean of uneven shards).
#include <algorithm>
#include <cmath>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/reduction_args.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace reduction_rules {

using namespace rows;

constexpr Placement kProductOfAll = Placement::partial(ReduceOp::kProduct);

// How the results of ranks that hold shards of a reduced dim, or partials, are joined.
enum class Joins : std::uint8_t {
  kSum,
  kNanSum,
  kAvg,
  kMax,
  kMin,
  kProduct,
  kAll,
  kAny,
  kPowSum,
  kNorm,
  kNothing,  // results on shards can't be joined
};

struct Reduction {
  std::string_view op;
  Joins joins;
};
constexpr std::array<Reduction, 43> kReductions = {{
    {"aten._foreach_max.default", Joins::kMax},
    {"aten._foreach_norm.Scalar", Joins::kNorm},
    {"aten._foreach_powsum.Scalar", Joins::kPowSum},
    {"aten.all.default", Joins::kAll},
    {"aten.all.dim", Joins::kAll},
    {"aten.amax.default", Joins::kMax},
    {"aten.amax.out", Joins::kMax},
    {"aten.amin.default", Joins::kMin},
    {"aten.amin.out", Joins::kMin},
    {"aten.any.default", Joins::kAny},
    {"aten.any.dim", Joins::kAny},
    {"aten.any.dims", Joins::kAny},
    {"aten.any.out", Joins::kAny},
    {"aten.argmax.default", Joins::kNothing},
    {"aten.argmin.default", Joins::kNothing},
    {"aten.linalg__powsum.default", Joins::kPowSum},
    {"aten.linalg_vector_norm.default", Joins::kNorm},
    {"aten.logsumexp.default", Joins::kNothing},
    {"aten.max.default", Joins::kMax},
    {"aten.mean.default", Joins::kAvg},
    {"aten.mean.dim", Joins::kAvg},
    {"aten.mean.out", Joins::kAvg},
    {"aten.median.default", Joins::kNothing},
    {"aten.min.default", Joins::kMin},
    {"aten.nanmedian.default", Joins::kNothing},
    {"aten.nansum.default", Joins::kNanSum},
    {"aten.norm.Scalar", Joins::kNorm},
    {"aten.prod.default", Joins::kProduct},
    {"aten.prod.dim_int", Joins::kProduct},
    {"aten.prod.int_out", Joins::kProduct},
    {"aten.std.correction", Joins::kNothing},
    {"aten.std.correction_out", Joins::kNothing},
    {"aten.sum.default", Joins::kSum},
    {"aten.sum.dim_IntList", Joins::kSum},
    {"aten.var.correction", Joins::kNothing},
    {"aten.var.correction_out", Joins::kNothing},
    {"aten.var_mean.correction", Joins::kNothing},
    {"aten.var_mean.correction_out", Joins::kNothing},
    {"prims.amax.default", Joins::kMax},
    {"prims.amin.default", Joins::kMin},
    {"prims.prod.default", Joins::kProduct},
    {"prims.sum.default", Joins::kSum},
    {"prims.var.default", Joins::kNothing},
}};

Joins joins_of(std::string_view op) {
  for (const Reduction& each : kReductions) {
    if (each.op == op) return each.joins;
  }
  SHARDLAB_CHECK(false, "no reduction is listed for ", op);
}

bool has_two_results(std::string_view op) { return op.find("var_mean") != std::string_view::npos; }

std::size_t outputs_of(const OpCall& call) { return has_two_results(call.op) ? 2 : 1; }

// The tensor that is reduced. In an out variant, a tensor for each result comes after it.
const TensorSpec& reduced_tensor(const OpCall& call) {
  const auto tensors = call.tensors();
  const std::size_t outs = call.op.ends_with("out") ? outputs_of(call) : 0;
  if (tensors.size() != 1 + outs) {
    throw InputError(call.op + ": takes " + std::to_string(1 + outs) +
                     (outs == 0 ? " tensor" : " tensors, out last") + ", found " +
                     std::to_string(tensors.size()));
  }
  return *tensors[0];
}

bool is_prim(const OpCall& call) { return call.op.starts_with("prims."); }

// Prims take a list of dims, none of which may be counted from the end.
void expect_dims_of_prim(const OpCall& call) {
  const auto dims = call.integers_arg(0);
  if (dims && std::all_of(dims->begin(), dims->end(), [](std::int64_t dim) { return dim >= 0; })) {
    return;
  }
  throw InputError(call.op + ": found the dims " +
                   (call.args.empty() ? std::string("null") : call.args[0].dump()) +
                   "; valid: a list of dims, each counted from 0");
}

ReducedDims reduction_of(const OpCall& call) {
  return reduced_dims(call, reduced_tensor(call).meta.ndim());
}

void expect_floating(const OpCall& call, DType dtype) {
  if (is_floating_point(dtype)) return;
  throw InputError(call.op + ": found " + std::string(to_string(dtype)) +
                   "; valid: floating point tensors");
}

DType result_dtype(const OpCall& call) {
  const DType in = reduced_tensor(call).meta.dtype;
  const int position = reduction_args(call.op).dtype;
  if (is_prim(call)) return dtype_arg(call, static_cast<std::size_t>(position)).value_or(in);
  const auto asked =
      position < 0 ? std::nullopt : dtype_arg(call, static_cast<std::size_t>(position));
  switch (joins_of(call.op)) {
    case Joins::kSum:
    case Joins::kNanSum:
    case Joins::kProduct:
      return accumulated_dtype(call, position, in);
    case Joins::kAll:
    case Joins::kAny:
      return in == DType::kU8 ? in : DType::kB8;
    case Joins::kAvg:
    case Joins::kNorm:
    case Joins::kPowSum: {
      const DType out = asked.value_or(in);
      const bool is_complex_mean = joins_of(call.op) == Joins::kAvg && out == DType::kC64;
      if (!is_complex_mean) expect_floating(call, out);
      return out;
    }
    case Joins::kMax:
    case Joins::kMin:
      return in;
    case Joins::kNothing:
      break;
  }
  if (call.op.starts_with("aten.arg")) return DType::kI64;
  if (call.op == "aten.logsumexp.default") return is_floating_point(in) ? in : DType::kF32;
  if (call.op.find("median") == std::string::npos) expect_floating(call, in);
  return in;
}

std::vector<TensorMeta> reduction_outputs(const OpCall& call) {
  const TensorMeta& in = reduced_tensor(call).meta;
  if (is_prim(call)) expect_dims_of_prim(call);
  const TensorMeta out{.dtype = result_dtype(call),
                       .shape = reduction_of(call).output_shape(in.shape),
                       .strides = {}};
  if (joins_of(call.op) == Joins::kNorm || joins_of(call.op) == Joins::kPowSum) {
    static_cast<void>(norm_order(call, 0));
  }
  const auto tensors = call.tensors();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i]->meta.shape != out.shape) {
      throw InputError(call.op + ": out " + tensors[i]->meta.text() +
                       " does not have the result's shape, " + out.text());
    }
  }
  return std::vector<TensorMeta>(outputs_of(call), out);
}

// -- PyTorch --------------------------------------------------------------------------------------

// What PyTorch knows about a reduction of shards and of partials.
struct Linear {
  bool linear;                     // whether the results on shards can be joined
  Placement partial;               // what a shard of a reduced dim becomes
  std::optional<ReduceOp> passes;  // partials of this op need not be reduced first
};

Linear pytorch_linear(const OpCall& call) {
  const auto of = [](ReduceOp op) { return Linear{true, Placement::partial(op), op}; };
  switch (joins_of(call.op)) {
    case Joins::kSum:
    case Joins::kNanSum:
    case Joins::kAny:
    case Joins::kPowSum:
      return of(ReduceOp::kSum);
    case Joins::kAvg:
      return of(ReduceOp::kAvg);
    case Joins::kMax:
      return of(ReduceOp::kMax);
    case Joins::kMin:
      return of(ReduceOp::kMin);
    case Joins::kProduct:
    case Joins::kAll:
      return of(ReduceOp::kProduct);
    case Joins::kNorm: {
      const double order = norm_order(call, 0);
      if (std::isinf(order)) return of(order > 0 ? ReduceOp::kMax : ReduceOp::kMin);
      return {true, order == 0.0 ? kSum : Placement::norm_partial(order), std::nullopt};
    }
    case Joins::kNothing:
      break;
  }
  return {false, kSum, std::nullopt};
}

// Which dims PyTorch's strategies believe to be reduced. They read an empty list of dims as "none",
// although the kernels read it as "all". They do not see an empty list that is the default, because
// the dispatcher leaves out defaults. They overlook the keepdim of logsumexp, because it is not a
// keyword argument.
ReducedDims reduction_as_followed(const OpCall& call) {
  ReducedDims reduction = reduction_of(call);
  const int dims = reduction_args(call.op).dims;
  const bool by_default = call.op.starts_with("aten.am") && !reduction.keepdim;
  if (dims >= 0 && !by_default) {
    const auto listed = call.integers_arg(static_cast<std::size_t>(dims));
    if (listed && listed->empty()) reduction.reduced.assign(reduction.reduced.size(), false);
  }
  if (call.op == "aten.logsumexp.default") reduction.keepdim = false;
  return reduction;
}

// In 2.13, unless the reduction is linear on the input's shards and partials, shards of reduced
// dims are gathered and partials are reduced first.
std::vector<FollowCandidate> follow_reduction(const OpCall& call, const DeviceMesh& mesh) {
  const ReducedDims reduction = reduction_as_followed(call);
  const TensorSpec& in = reduced_tensor(call);
  const Linear rule = pytorch_linear(call);
  bool linear = rule.linear;
  const auto is_reduced = [&](int d) { return reduction.reduced[to_index(d)]; };
  if (joins_of(call.op) == Joins::kAvg) {
    for (int d = 0; d < in.meta.ndim(); ++d) {
      if (is_reduced(d) &&
          !is_evenly_shardable_on_dim(in.meta.shape, in.layout.placements, mesh, d)) {
        linear = false;
      }
    }
  }
  for (const Placement& p : in.layout.placements) {
    if (p.is_partial() && rule.passes != p.reduce_op()) linear = false;
  }
  const Placements input =
      linear ? in.layout.placements : replicated_where(in.layout.placements, is_reduced);
  const int out_ndim = reduction_outputs(call)[0].ndim();
  Placements output;
  for (const Placement& p : input) {
    if (!p.is_shard_like()) {
      output.push_back(p);
    } else if (is_reduced(p.dim())) {
      output.push_back(rule.partial);
    } else {
      output.push_back(p.with_dim(reduction.output_dim(p.dim())));
      if (output.back().dim() >= out_ndim) {
        throw InputError(call.op + ": if the list of dims is empty, PyTorch 2.13.0 keeps " +
                         p.text() +
                         " on a result that lacks this dim; valid: null, which means all dims");
      }
    }
  }
  FollowCandidate candidate{.outputs = std::vector<Placements>(outputs_of(call), output),
                            .inputs = {input}};
  // PyTorch does not move an `out` tensor, but gives it the result's layout.
  const auto tensors = call.tensors();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    candidate.inputs.push_back(tensors[i]->layout.placements);
  }
  return {candidate};
}

// The rows since 2.14, which reduce no sharded dim of bools (all and any).
Rows pytorch_rows(const OpCall& call, const OpRule&) {
  const ReducedDims reduction = reduction_as_followed(call);
  const Linear rule = pytorch_linear(call);
  const Joins joins = joins_of(call.op);
  const bool linear = rule.linear && joins != Joins::kAll && joins != Joins::kAny;
  const std::size_t outs = call.tensors().size() - 1;
  Rows rows;
  const auto add = [&](const RowEntry& output, const RowEntry& input) {
    // Only the rows of standard deviations and variances have an entry for `out`.
    if (outs > 0 && !call.op.ends_with(".correction_out")) {
      throw InputError(call.op +
                       ": PyTorch since 2.14 refuses the op, whose rows lack an entry for `out`");
    }
    Row row = all_alike(outputs_of(call), output);
    row.push_back(input);
    for (std::size_t i = 0; i < outs; ++i) row.push_back(output);
    rows.push_back(std::move(row));
  };
  for (int d = 0; d < reduced_tensor(call).meta.ndim(); ++d) {
    const RowEntry shard = RowEntry::any_shard(d);
    if (!reduction.reduced[to_index(d)]) {
      add(RowEntry::any_shard(reduction.output_dim(d)), shard);
    } else if (linear) {
      add(rule.partial, shard);
    }
  }
  if (linear && rule.passes) add(rule.partial, Placement::partial(*rule.passes));
  return rows;
}

// Since 2.14: the average of local averages is the global average only where all shards have the
// same size.
bool averages_even_shards(const OpCall& call, std::span<const Placements> inputs,
                          const DeviceMesh& mesh) {
  const ReducedDims reduction = reduction_as_followed(call);
  const Shape& shape = reduced_tensor(call).meta.shape;
  Shape shards(shape.size(), 1);
  for (int m = 0; m < mesh.ndim(); ++m) {
    const Placement& p = inputs[0][to_index(m)];
    if (!p.is_shard_like()) continue;
    std::int64_t& count = shards[to_index(p.dim())];
    count = saturating_product(count, mesh.size(m));
    if (p.is_strided()) count = saturating_product(count, p.split_factor());
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (reduction.reduced[d] && shape[d] % shards[d] != 0) return false;
  }
  return true;
}

// Since 2.14 the positions of extremes are computed by code of their own, which replicates partials
// and shards of reduced dims but does not shard what it has replicated.
bool replicates_what_moves(const OpCall& call, std::span<const Placements> inputs,
                           const DeviceMesh& mesh) {
  const ReducedDims reduction = reduction_of(call);
  const Placements& now = reduced_tensor(call).layout.placements;
  for (int m = 0; m < mesh.ndim(); ++m) {
    const Placement& p = now[to_index(m)];
    const bool moves =
        p.is_partial() || (p.is_shard_like() && reduction.reduced[to_index(p.dim())]);
    if (moves && !inputs[0][to_index(m)].is_replicate()) return false;
  }
  return true;
}

// -- The rule set shardlab: rows ------------------------------------------------------------------

// The partials that a shard of a reduced dim may become.
boost::container::small_vector<Placement, 2> partials_of_shards(const OpCall& call) {
  switch (joins_of(call.op)) {
    case Joins::kSum:
    case Joins::kNanSum:
    case Joins::kPowSum:
      return {kSum};
    case Joins::kAvg:
      return {kAvg};
    case Joins::kMax:
      return {kMax};
    case Joins::kMin:
      return {kMin};
    case Joins::kProduct:
      return {kProductOfAll};
    case Joins::kAll:
      return {kMin};
    case Joins::kAny:
      return {kMax};
    case Joins::kNorm: {
      const double order = norm_order(call, 0);
      if (std::isinf(order)) return {order > 0 ? kMax : kMin};
      if (order == 0.0) return {kSum};
      if (order == 1.0) return {Placement::norm_partial(1.0), kSum};
      return {Placement::norm_partial(order)};
    }
    case Joins::kNothing:
      break;
  }
  return {};
}

struct PassingPartial {
  Placement out;
  Placement in;
};

boost::container::small_vector<PassingPartial, 4> passing_partials(const OpCall& call) {
  const DType dtype = reduced_tensor(call).meta.dtype;
  const bool of_truth = dtype == DType::kB8;
  switch (joins_of(call.op)) {
    case Joins::kSum:
      return {{kSum, kSum}, {kAvg, kAvg}};
    case Joins::kAvg:
      return {{kAvg, kAvg}, {kSum, kSum}};
    case Joins::kMax:
      return {{kMax, kMax}};
    case Joins::kMin:
      return {{kMin, kMin}};
    case Joins::kProduct:
      return {{kProductOfAll, kProductOfAll}};
    case Joins::kAll:
      if (of_truth || dtype == DType::kU8) return {{kMin, kMin}};
      return {};
    case Joins::kAny:
      if (of_truth) return {{kMax, kMax}};
      return {};
    default:
      return {};
  }
}

Rows reduction_rows(const OpCall& call, const OpRule&) {
  const ReducedDims reduction = reduction_of(call);
  const TensorSpec& in = reduced_tensor(call);
  const std::size_t outs = call.tensors().size() - 1;
  Rows rows;
  const auto add = [&](const RowEntry& output, const RowEntry& input) {
    Row row = all_alike(outputs_of(call), output);
    row.push_back(input);
    for (std::size_t i = 0; i < outs; ++i) row.push_back(output);
    rows.push_back(std::move(row));
  };
  for (int d = 0; d < in.meta.ndim(); ++d) {
    if (reduction.reduced[to_index(d)]) {
      for (const Placement& partial : partials_of_shards(call))
        add(partial, RowEntry::any_shard(d));
    } else {
      add(RowEntry::any_shard(reduction.output_dim(d)), RowEntry::any_shard(d));
    }
  }
  for (const PassingPartial& passing : passing_partials(call)) add(passing.out, passing.in);
  return rows;
}

// The average of local averages is the global average only where all shards have the same size. An
// empty shard has no maximum: PyTorch's kernels refuse to reduce an empty dim.
bool shards_are_joinable(const OpCall& call, std::span<const Placements> inputs,
                         const DeviceMesh& mesh) {
  const Joins joins = joins_of(call.op);
  const bool extreme = joins == Joins::kMax || joins == Joins::kMin ||
                       (joins == Joins::kNorm && std::isinf(norm_order(call, 0)));
  const ReducedDims reduction = reduction_of(call);
  const Shape& shape = reduced_tensor(call).meta.shape;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (!reduction.reduced[to_index(d)]) continue;
    if (joins == Joins::kAvg && !is_evenly_shardable_on_dim(shape, inputs[0], mesh, d)) {
      return false;
    }
    if (extreme && local_extents(shape, d, Layout(inputs[0]), mesh).front() == 0) return false;
  }
  // `out` tensors are not moved.
  const auto tensors = call.tensors();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (inputs[i] != tensors[i]->layout.placements) return false;
  }
  return true;
}

std::string_view excuse(const OpCall& call, const Row& row) {
  if (joins_of(call.op) == Joins::kNanSum && row[1].placement().is_partial()) {
    return "a NaN in one rank's contribution would be skipped, but not the other contributions";
  }
  const std::size_t outputs = outputs_of(call);
  for (std::size_t i = outputs + 1; i < row.size(); ++i) {
    if (row[i] != row[i - outputs - 1]) return "an out tensor has the layout of its result";
  }
  return "";
}

// -- Values with their positions ------------------------------------------------------------------

// The reduced dim is neither sharded nor joined from partials.

std::vector<TensorMeta> indexed_outputs(const OpCall& call) {
  const TensorMeta& in = reduced_tensor(call).meta;
  const ReducedDims reduction = reduction_of(call);
  const bool is_kth = call.op == "aten.kthvalue.default";
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    if (!reduction.reduced[d]) continue;
    const std::int64_t k = is_kth ? required_integer(call, 0) : 1;
    if (in.shape[d] == 0) {
      throw InputError(call.op + ": dim " + std::to_string(d) + " of " + in.text() +
                       " is empty; valid: a dim of 1 or more elements");
    }
    if (k < 1 || k > in.shape[d]) {
      throw InputError(call.op + ": found a k of " + std::to_string(k) + " for a dim of " +
                       std::to_string(in.shape[d]) + " elements; valid: 1 to " +
                       std::to_string(in.shape[d]));
    }
  }
  const Shape shape = reduction.output_shape(in.shape);
  return {TensorMeta{.dtype = in.dtype, .shape = shape, .strides = {}},
          TensorMeta{.dtype = DType::kI64, .shape = shape, .strides = {}}};
}

Rows indexed_rows(const OpCall& call, const OpRule&) {
  const ReducedDims reduction = reduction_of(call);
  Rows rows;
  for (int d = 0; d < reduced_tensor(call).meta.ndim(); ++d) {
    if (reduction.reduced[to_index(d)]) continue;
    Row row = all_alike(2, RowEntry::any_shard(reduction.output_dim(d)));
    row.push_back(RowEntry::any_shard(d));
    rows.push_back(std::move(row));
  }
  return rows;
}

// -- Histograms -----------------------------------------------------------------------------------

// The --args are the number of bins, the smallest and the largest value.

std::vector<TensorMeta> histc_outputs(const OpCall& call) {
  const TensorMeta& in = reduced_tensor(call).meta;
  expect_floating(call, in.dtype);
  const std::int64_t bins = call.integer_arg(0, 100);
  constexpr std::int64_t kMostBins = 1 << 20;
  if (bins < 1 || bins > kMostBins) {
    throw InputError(call.op + ": found " + std::to_string(bins) + " bins; valid: 1 to " +
                     std::to_string(kMostBins));
  }
  if (call.number_arg(1, 0.0) > call.number_arg(2, 0.0)) {
    throw InputError(call.op + ": min is above max");
  }
  return {TensorMeta{.dtype = in.dtype, .shape = {bins}, .strides = {}}};
}

// If both bounds are equal, histc takes the bounds of the data, which differ from shard to shard,
// so nothing may be sharded. PyTorch checks only whether a maximum is given, and 2.13 proposes
// plain shards alone.
Rows histc_rows(const OpCall& call, const OpRule& rule) {
  static_cast<void>(histc_outputs(call));
  const double min = call.number_arg(1, 0.0);
  const double max = call.number_arg(2, 0.0);
  const bool bounded = rule.sets.intersects(kDTensor) ? max != 0.0 : min != max;
  Rows rows;
  if (!bounded) return rows;
  for (int d = 0; d < reduced_tensor(call).meta.ndim(); ++d) {
    Row row = all_alike(1, kSum);
    row.push_back(rule.sets.contains(Release::k2_13) ? RowEntry(Placement::shard(d))
                                                     : RowEntry::any_shard(d));
    rows.push_back(std::move(row));
  }
  return rows;
}

constexpr std::size_t out_tensors_of(std::string_view op) {
  return op == "aten.var_mean.correction_out" ? 2 : 0;
}
constexpr OpRule followed(std::string_view op, RuleSets sets = kBeforeRows) {
  return {.op = op,
          .sets = sets,
          .outputs = reduction_outputs,
          .follow = follow_reduction,
          .out_tensors = out_tensors_of(op),
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}
constexpr OpRule pytorch(std::string_view op) {
  const bool averages = op.starts_with("aten.mean");
  return {.op = op,
          .sets = kSinceRows,
          .outputs = reduction_outputs,
          .rows = pytorch_rows,
          .filter = averages                     ? averages_even_shards
                    : op.starts_with("aten.arg") ? replicates_what_moves
                                                 : nullptr,
          .uneven_in = averages ? kNoRuleSet : kEveryRuleSet,
          .out_tensors = out_tensors_of(op),
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}
constexpr OpRule as_rows(std::string_view op) {
  return {.op = op,
          .sets = kShardlab,
          .outputs = reduction_outputs,
          .rows = reduction_rows,
          .filter = shards_are_joinable,
          .excuse = excuse,
          .out_tensors = out_tensors_of(op),
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}
constexpr OpRule with_indices(std::string_view op) {
  return {.op = op,
          .outputs = indexed_outputs,
          .rows = indexed_rows,
          .uneven_in = kSinceRows,
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}
constexpr OpRule histogram(RuleSets sets) {
  return {.op = "aten.histc.default",
          .sets = sets,
          .outputs = histc_outputs,
          .rows = histc_rows,
          .uneven_in = kSinceRows,
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}

constexpr RuleSets kFollow = kBeforeRows | kDTensorLegacy;

constexpr OpRule kRules[] = {
    followed("aten._foreach_max.default"),
    pytorch("aten._foreach_max.default"),
    as_rows("aten._foreach_max.default"),
    followed("aten._foreach_norm.Scalar"),
    pytorch("aten._foreach_norm.Scalar"),
    as_rows("aten._foreach_norm.Scalar"),
    followed("aten._foreach_powsum.Scalar"),
    pytorch("aten._foreach_powsum.Scalar"),
    as_rows("aten._foreach_powsum.Scalar"),
    followed("aten.all.default"),
    pytorch("aten.all.default"),
    as_rows("aten.all.default"),
    followed("aten.all.dim"),
    pytorch("aten.all.dim"),
    as_rows("aten.all.dim"),
    followed("aten.amax.default", kFollow),
    pytorch("aten.amax.default"),
    as_rows("aten.amax.default"),
    followed("aten.amax.out"),
    pytorch("aten.amax.out"),
    as_rows("aten.amax.out"),
    followed("aten.amin.default", kFollow),
    pytorch("aten.amin.default"),
    as_rows("aten.amin.default"),
    followed("aten.amin.out"),
    pytorch("aten.amin.out"),
    as_rows("aten.amin.out"),
    followed("aten.any.default"),
    pytorch("aten.any.default"),
    as_rows("aten.any.default"),
    followed("aten.any.dim"),
    pytorch("aten.any.dim"),
    as_rows("aten.any.dim"),
    followed("aten.any.dims"),
    pytorch("aten.any.dims"),
    as_rows("aten.any.dims"),
    followed("aten.any.out"),
    pytorch("aten.any.out"),
    as_rows("aten.any.out"),
    followed("aten.argmax.default"),
    pytorch("aten.argmax.default"),
    as_rows("aten.argmax.default"),
    followed("aten.argmin.default"),
    pytorch("aten.argmin.default"),
    as_rows("aten.argmin.default"),
    histogram(kBeforeRows),
    histogram(kSinceRows),
    histogram(kShardlab),
    with_indices("aten.kthvalue.default"),
    followed("aten.linalg__powsum.default"),
    pytorch("aten.linalg__powsum.default"),
    as_rows("aten.linalg__powsum.default"),
    followed("aten.linalg_vector_norm.default"),
    pytorch("aten.linalg_vector_norm.default"),
    as_rows("aten.linalg_vector_norm.default"),
    followed("aten.logsumexp.default"),
    pytorch("aten.logsumexp.default"),
    as_rows("aten.logsumexp.default"),
    followed("aten.max.default", kFollow),
    pytorch("aten.max.default"),
    as_rows("aten.max.default"),
    with_indices("aten.max.dim"),
    followed("aten.mean.default", kFollow),
    pytorch("aten.mean.default"),
    as_rows("aten.mean.default"),
    followed("aten.mean.dim", kFollow),
    pytorch("aten.mean.dim"),
    as_rows("aten.mean.dim"),
    followed("aten.mean.out"),
    pytorch("aten.mean.out"),
    as_rows("aten.mean.out"),
    followed("aten.median.default"),
    pytorch("aten.median.default"),
    as_rows("aten.median.default"),
    with_indices("aten.median.dim"),
    followed("aten.min.default", kFollow),
    pytorch("aten.min.default"),
    as_rows("aten.min.default"),
    with_indices("aten.min.dim"),
    with_indices("aten.mode.default"),
    followed("aten.nanmedian.default"),
    pytorch("aten.nanmedian.default"),
    as_rows("aten.nanmedian.default"),
    with_indices("aten.nanmedian.dim"),
    followed("aten.nansum.default", kFollow),
    pytorch("aten.nansum.default"),
    as_rows("aten.nansum.default"),
    followed("aten.norm.Scalar"),
    pytorch("aten.norm.Scalar"),
    as_rows("aten.norm.Scalar"),
    followed("aten.prod.default", kFollow),
    pytorch("aten.prod.default"),
    as_rows("aten.prod.default"),
    followed("aten.prod.dim_int"),
    pytorch("aten.prod.dim_int"),
    as_rows("aten.prod.dim_int"),
    followed("aten.prod.int_out"),
    pytorch("aten.prod.int_out"),
    as_rows("aten.prod.int_out"),
    followed("aten.std.correction"),
    pytorch("aten.std.correction"),
    as_rows("aten.std.correction"),
    followed("aten.std.correction_out"),
    pytorch("aten.std.correction_out"),
    as_rows("aten.std.correction_out"),
    followed("aten.sum.default", kFollow),
    pytorch("aten.sum.default"),
    as_rows("aten.sum.default"),
    followed("aten.sum.dim_IntList", kFollow),
    pytorch("aten.sum.dim_IntList"),
    as_rows("aten.sum.dim_IntList"),
    followed("aten.var.correction"),
    pytorch("aten.var.correction"),
    as_rows("aten.var.correction"),
    followed("aten.var.correction_out"),
    pytorch("aten.var.correction_out"),
    as_rows("aten.var.correction_out"),
    followed("aten.var_mean.correction"),
    pytorch("aten.var_mean.correction"),
    as_rows("aten.var_mean.correction"),
    followed("aten.var_mean.correction_out"),
    pytorch("aten.var_mean.correction_out"),
    as_rows("aten.var_mean.correction_out"),
    pytorch("prims.amax.default"),
    as_rows("prims.amax.default"),
    pytorch("prims.amin.default"),
    as_rows("prims.amin.default"),
    followed("prims.prod.default"),
    pytorch("prims.prod.default"),
    as_rows("prims.prod.default"),
    followed("prims.sum.default"),
    pytorch("prims.sum.default"),
    as_rows("prims.sum.default"),
    followed("prims.var.default"),
    pytorch("prims.var.default"),
    as_rows("prims.var.default"),
};

}  // namespace reduction_rules

OP_RULES(reduction){reduction_rules::kRules};

}  // namespace shardlab
