#include "costmodel/kernel_work.h"

#include <algorithm>
#include <cmath>

namespace shardlab {
namespace {

// The sum of min(v, cap) for v = 1 to n.
double capped_sum(double n, double cap) {
  const double rising = std::min(n, cap);
  return rising * (rising + 1.0) / 2.0 + (n - rising) * cap;
}

}  // namespace

double gemm_flops(const GemmShape& shape) {
  return 2.0 * shape.batch * shape.m * shape.n * shape.k;
}

double real_operations(const KernelQuery& query) {
  const bool is_product = query.kind == Kernel::kGemm || query.kind == Kernel::kAttention;
  return is_product && query.dtype == DType::kC64 ? 4.0 : 1.0;
}

double row_multiple(std::span<const double> lengths) {
  double multiple = static_cast<double>(kMostRowMultiple);
  for (const double length : lengths) {
    if (length <= 0.0 || length != std::floor(length)) return 0.0;
    while (length > 1.0 && std::fmod(length, multiple) != 0.0) multiple /= 2.0;
  }
  return multiple;
}

double attention_pairs(const AttentionShape& shape) {
  const double seen = shape.window > 0.0 ? std::min(shape.window, shape.keys) : shape.keys;
  if (!shape.causal) return shape.queries * seen;
  // Query i of q sees min(i + 1 + k - q, window) keys, and none if that is negative.
  const double before_first = std::max(0.0, shape.keys - shape.queries);
  return capped_sum(shape.keys, seen) - capped_sum(before_first, seen);
}

double attention_flops(const AttentionShape& shape) {
  const double forward =
      2.0 * shape.batch * shape.heads * attention_pairs(shape) * (shape.key_dim + shape.value_dim);
  return shape.backward ? 2.5 * forward : forward;
}

}  // namespace shardlab
