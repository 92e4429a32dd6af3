// The custom ops of Hugging Face's transformers: products of groups of rows, the experts' tokens,
// with one matrix for each group. The offsets say where each group ends, so rows are not sharded.
// Source: transformers 5.23.0, integrations/moe.py (_grouped_mm_fallback,
// _grouped_mm_fallback_bwd).
#include "costmodel/base/error.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace transformers_rules {

using rows::kAvg;
using rows::kR;
using rows::kSum;

RowEntry shard(int dim) { return RowEntry::any_shard(dim); }

// The tensors are rows [rows, in], matrices [groups, in, out], offsets, and for the backward op the
// gradient of the output.
TensorMeta product_of(const OpCall& call) {
  const TensorMeta& input = call.required_tensor(0).meta;
  const TensorMeta& weight = call.required_tensor(1).meta;
  const TensorMeta& offsets = call.required_tensor(2).meta;
  const bool whole = offsets.dtype == DType::kI32 || offsets.dtype == DType::kI64;
  if (input.ndim() != 2 || weight.ndim() != 3 || input.shape[1] != weight.shape[1] ||
      offsets.shape != Shape{weight.shape[0]} || !whole) {
    throw InputError(
        call.op + ": found " + input.text() + ", " + weight.text() + " and offsets " +
        offsets.text() +
        "; valid: rows [rows, in], matrices [groups, in, out] and an i32 or i64 offset "
        "for each group");
  }
  return {.dtype = input.dtype, .shape = {input.shape[0], weight.shape[2]}, .strides = {}};
}

std::vector<TensorMeta> outputs(const OpCall& call) {
  expect_tensors(call, 3);
  return {product_of(call)};
}

Rows product_rows(const OpCall&, const OpRule&) {
  Rows all = {{shard(1), kR, shard(2), kR}, {kSum, shard(1), shard(1), kR}};
  for (const Placement& p : {kSum, kAvg}) {
    all.push_back({p, p, kR, kR});
    all.push_back({p, kR, p, kR});
  }
  return all;
}

std::vector<TensorMeta> backward_outputs(const OpCall& call) {
  expect_tensors(call, 4);
  const TensorMeta product = product_of(call);
  const TensorMeta& gradient = call.required_tensor(3).meta;
  if (gradient.shape != product.shape) {
    throw InputError(call.op + ": found a gradient " + gradient.text() +
                     "; valid: " + product.text());
  }
  std::vector<TensorMeta> all = {call.required_tensor(0).meta, call.required_tensor(1).meta};
  for (TensorMeta& meta : all) meta.strides.clear();
  return all;
}

Rows backward_rows(const OpCall&, const OpRule&) {
  Rows all = {{kSum, shard(2), kR, shard(2), kR, shard(1)},
              {shard(1), shard(1), shard(1), shard(1), kR, kR}};
  for (const Placement& p : {kSum, kAvg}) {
    all.push_back({p, p, kR, kR, kR, p});
    all.push_back({kR, p, p, kR, kR, kR});
    all.push_back({p, kR, kR, p, kR, kR});
    for (const Placement& q : {kSum, kAvg}) all.push_back({q, p, p, q, kR, kR});
  }
  return all;
}

double product_flops(std::span<const Shape> local, const OpCall&) {
  double flops = 2.0 * static_cast<double>(local[1].back());
  for (const std::int64_t extent : local[0]) flops *= static_cast<double>(extent);
  return flops;
}
double backward_flops(std::span<const Shape> local, const OpCall& call) {
  return 2.0 * product_flops(local, call);
}

// The groups are assumed to have the same number of rows. The backward pass computes two products
// as large as the forward one, which are priced as one of twice as many rows.
void grouped_shape(std::span<const Shape> local, double products, KernelQuery& query) {
  if (local.size() < 2 || local[0].size() != 2 || local[1].size() != 3) return;
  const double groups = std::max(1.0, static_cast<double>(local[1][0]));
  query.gemm = {.batch = groups,
                .m = products * static_cast<double>(local[0][0]) / groups,
                .n = static_cast<double>(local[1][2]),
                .k = static_cast<double>(local[0][1])};
}
void product_shape(std::span<const Shape> local, const OpCall&, KernelQuery& query) {
  grouped_shape(local, 1.0, query);
}
void backward_shape(std::span<const Shape> local, const OpCall&, KernelQuery& query) {
  grouped_shape(local, 2.0, query);
}

constexpr OpRule kRules[] = {
    {.op = "transformers.grouped_mm_fallback.default",
     .sets = kShardlab,
     .outputs = outputs,
     .rows = product_rows,
     .kernel = Kernel::kGemm,
     .flops = product_flops,
     .shape = product_shape},
    {.op = "transformers.grouped_mm_fallback_backward.default",
     .sets = kShardlab,
     .outputs = backward_outputs,
     .rows = backward_rows,
     .kernel = Kernel::kGemm,
     .flops = backward_flops,
     .shape = backward_shape},
};

}  // namespace transformers_rules

OP_RULES(transformers){transformers_rules::kRules};

}  // namespace shardlab
