// The cheapest candidates of an op's rows without enumerating all combinations of rows.
//
// A candidate picks a row on every mesh dim; its price is the sum of its inputs' prices (and its
// kernel's), and an input's price depends on its layout alone. So the least price that any layout
// beginning with some placements has, summed over the inputs, bounds every candidate that begins
// with some rows from below. Two searches use that bound: depth first with pruning (exact), and best
// first from a priority queue (dijkstra). Both find every candidate at the minimum, and the best
// total that differs from it, under the prices that full enumeration gives the same candidates.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "strategies/rules/expansion.h"

namespace shardlab {

struct ExactSearchInput {
  const OpRule& rule;
  const OpCall& call;
  const DeviceMesh& mesh;
  const Expansion& space;  // prepare_expansion(): rows and codes, no candidates
  // Input -> code -> microseconds.
  const std::vector<std::vector<double>>& by_code;
  // The kernel of a candidate, or empty where kernels are free.
  std::function<double(std::span<const Placements> inputs, std::span<const Placements> outputs)>
      compute_us;
};

struct ExactSearchResult {
  struct Found {
    std::vector<Placements> inputs;
    std::vector<Placements> outputs;
    std::vector<double> redistribute_us;
    double compute_us = 0.0;
    double total_us = 0.0;
  };
  std::vector<Found> tied;  // in the order of a full enumeration; empty: no candidate
  std::optional<double>
      margin_us;           // to the best different total; none: there is none that is finite
  std::size_t states = 0;  // partial and whole candidates that were looked at
};

enum class ExactSearchOrder : std::uint8_t { kDepthFirst, kBestFirst };

[[nodiscard]] ExactSearchResult exact_search(const ExactSearchInput& input, ExactSearchOrder order);

}  // namespace shardlab
