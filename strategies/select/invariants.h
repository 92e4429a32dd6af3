// Checks of properties that a cost of redistribution should have, on seeded random layouts.
//
//   triangle             cost(A,C) <= cost(A,B) + cost(B,C)
//   monotone             twice the tensor costs no less
//   monotone_bandwidth   twice the bandwidth of every link costs no more
//   zero_same_layout     cost(A,A) == 0
//   reduce_scatter_le_all_reduce   P->S(d) costs no more than P->R on one mesh dim
// Comparisons allow 1e-9 relative, for sums in another order. Source: pytorch/pytorch#169439 (the
// triangle); docs/semantics.md, "What a cost should satisfy".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strategies/select/stack.h"

namespace shardlab {

struct InvariantCheck {
  std::string name;
  std::int64_t checked = 0;
  std::int64_t violated = 0;
  // The largest violation relative to the fair price (absolute where that is 0).
  std::string witness;
  double amount_us = 0.0;
  std::optional<double> amount_percent;
};

// `samples` per invariant. Impossible prices are skipped, not counted.
[[nodiscard]] std::vector<InvariantCheck> check_invariants(const Stack& stack,
                                                           const Topology& topology,
                                                           std::uint64_t seed, int samples);

}  // namespace shardlab
