// Scans and sorts. Any dim may be sharded except the one that they run along. In PyTorch 2.13 the
// sums and products follow their input's layout. Source: PyTorch 2.13.0, _ops/_math_ops.py
// (scan_strategy, sort_strategy and its callers), and 2.14.1 (scan_single_dim_strategy,
// cummax_cummin_single_dim_strategy, sort_default_single_dim_strategy and their neighbours).
#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/reduction_args.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace scan_rules {

using namespace rows;

// The position of the dim among --args, and whether it may be left out.
struct ScanArgs {
  std::string_view op;
  std::size_t dim;
  bool has_default;
};
constexpr std::array<ScanArgs, 8> kScans = {{
    {"aten.cummax.default", 0, false},
    {"aten.cummin.default", 0, false},
    {"aten.cumprod.default", 0, false},
    {"aten.cumsum.default", 0, false},
    {"aten.logcumsumexp.default", 0, false},
    {"aten.sort.default", 0, true},
    {"aten.sort.stable", 1, true},
    {"aten.topk.default", 1, true},
}};

std::size_t position_of_dim(const OpCall& call, bool& has_default) {
  for (const ScanArgs& each : kScans) {
    if (each.op != call.op) continue;
    has_default = each.has_default;
    return each.dim;
  }
  SHARDLAB_CHECK(false, "no scan is listed for ", call.op);
}

int scan_dim(const OpCall& call) {
  bool has_default = false;
  const std::size_t position = position_of_dim(call, has_default);
  const int ndim = only_tensor(call).meta.ndim();
  return has_default ? dim_arg(call, position, ndim, -1) : dim_arg(call, position, ndim);
}

std::vector<TensorMeta> scan_outputs(const OpCall& call) {
  TensorMeta out = only_tensor(call).meta;
  static_cast<void>(scan_dim(call));
  out.strides.clear();
  if (call.op != "aten.logcumsumexp.default") out.dtype = accumulated_dtype(call, 1, out.dtype);
  return {out};
}

// The outputs are the values, and the positions that they had.
std::vector<TensorMeta> indexed_outputs(const OpCall& call) {
  TensorMeta values = only_tensor(call).meta;
  const int dim = scan_dim(call);
  values.strides.clear();
  if (call.op == "aten.topk.default") {
    const std::int64_t k = required_integer(call, 0);
    const std::int64_t extent = values.shape.empty() ? 1 : values.shape[to_index(dim)];
    if (k < 0 || k > extent) {
      throw InputError(call.op + ": found a k of " + std::to_string(k) + " for a dim of " +
                       std::to_string(extent) + " elements; valid: 0 to " + std::to_string(extent));
    }
    if (!values.shape.empty()) values.shape[to_index(dim)] = k;
  }
  TensorMeta indices = values;
  indices.dtype = DType::kI64;
  return {values, indices};
}

// A fault of PyTorch 2.13.0: a shard of the dim is gathered only if the dim is not counted from the
// end.
std::vector<FollowCandidate> follow_scan(const OpCall& call, const DeviceMesh&) {
  static_cast<void>(scan_dim(call));
  const std::int64_t dim = call.integer_arg(0, 0);
  const Placements kept =
      replicated_where(only_tensor(call).layout.placements, [dim](int d) { return d == dim; });
  return {FollowCandidate{.outputs = {kept}, .inputs = {kept}}};
}

Rows scan_rows(const OpCall& call, const OpRule&) {
  Rows rows;
  add_shards_besides(rows, only_tensor(call).meta.ndim(), scan_dim(call), 2);
  if (call.op == "aten.cumsum.default") {
    rows.push_back({kSum, kSum});
    rows.push_back({kAvg, kAvg});
  }
  return rows;
}

Rows sort_rows(const OpCall& call, const OpRule&) {
  Rows rows;
  add_shards_besides(rows, only_tensor(call).meta.ndim(), scan_dim(call), 3);
  return rows;
}

// PyTorch 2.13 proposes plain shards whatever layout the input has.
Rows plain_sort_rows(const OpCall& call, const OpRule&) {
  const int dim = scan_dim(call);
  Rows rows;
  for (int d = 0; d < only_tensor(call).meta.ndim(); ++d) {
    if (d != dim) rows.push_back(all_alike(3, Placement::shard(d)));
  }
  return rows;
}

constexpr OpRule followed(std::string_view op) {
  return {.op = op,
          .sets = kBeforeRows,
          .outputs = scan_outputs,
          .follow = follow_scan,
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}
constexpr OpRule as_rows(std::string_view op) {
  return {.op = op,
          .sets = kSinceRows | kShardlab,
          .outputs = scan_outputs,
          .rows = scan_rows,
          .uneven_in = kSinceRows,
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}
constexpr OpRule sorted(std::string_view op, RuleSets sets, RowsOf rows) {
  return {.op = op,
          .sets = sets,
          .outputs = indexed_outputs,
          .rows = rows,
          .uneven_in = kSinceRows,
          .kernel = Kernel::kReduction,
          .flops = first_input_flops};
}

constexpr OpRule plainly_sorted(std::string_view op) {
  return sorted(op, kBeforeRows, plain_sort_rows);
}
constexpr OpRule sorted(std::string_view op) {
  return sorted(op, kSinceRows | kShardlab, sort_rows);
}

constexpr OpRule kRules[] = {
    plainly_sorted("aten.cummax.default"), sorted("aten.cummax.default"),
    plainly_sorted("aten.cummin.default"), sorted("aten.cummin.default"),
    followed("aten.cumprod.default"),      as_rows("aten.cumprod.default"),
    followed("aten.cumsum.default"),       as_rows("aten.cumsum.default"),
    followed("aten.logcumsumexp.default"), as_rows("aten.logcumsumexp.default"),
    plainly_sorted("aten.sort.default"),   sorted("aten.sort.default"),
    plainly_sorted("aten.sort.stable"),    sorted("aten.sort.stable"),
    plainly_sorted("aten.topk.default"),   sorted("aten.topk.default"),
};

}  // namespace scan_rules

OP_RULES(scan){scan_rules::kRules};

}  // namespace shardlab
