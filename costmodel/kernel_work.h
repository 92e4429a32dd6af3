// The work of GEMMs and of attention, counted from their shapes.
//
//   attention_pairs({.queries = 4, .keys = 4, .causal = true})   // 10: 1 + 2 + 3 + 4
//   attention_flops({.batch = 1, .heads = 32, .queries = 8192, .keys = 8192, .key_dim = 128,
//                    .value_dim = 128, .causal = true})          // 5.5e11, half of all pairs' work
//
// A multiplication and an addition count as two operations. Any extents are valid; a shape without
// elements has no work.
#pragma once

#include <cstdint>
#include <span>

#include "costmodel/compute_model.h"

namespace shardlab {

// 2 batch m n k.
[[nodiscard]] double gemm_flops(const GemmShape& shape);

// How many operations on real numbers one of KernelQuery::flops takes: four in products of complex
// numbers, each of which multiplies two pairs, and one otherwise.
[[nodiscard]] double real_operations(const KernelQuery& query);

inline constexpr std::int64_t kMostRowMultiple = 64;
// The greatest power of two, up to kMostRowMultiple, that divides all `lengths`: those of the rows
// of a product's operands and of its result in memory, in elements. Rows of one element may have
// any length, since a matrix of one column is one row as well. 0 if a length is 0 or no whole
// number, as where it is not known.
[[nodiscard]] double row_multiple(std::span<const double> lengths);

// The pairs of a query and a key of one head that the mask lets see each other. The last query of a
// causal mask stands at the last key, as a piece at the end of a longer sequence does: among q
// queries and k >= q keys there are q k - q (q - 1) / 2 pairs. With a window of w keys each query
// sees the last w of them.
[[nodiscard]] double attention_pairs(const AttentionShape& shape);

// The forward pass computes two products (queries with keys, scores with values) for every pair:
// 2 batch heads pairs (key_dim + value_dim) operations. The backward pass counts 2.5 times that: it
// computes five products, since it computes the scores again. Source: Dao 2023, "FlashAttention-2",
// section 4.1.
[[nodiscard]] double attention_flops(const AttentionShape& shape);

}  // namespace shardlab
