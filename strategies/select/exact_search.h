// Finds the cheapest candidates of an op's rows without enumerating all combinations of rows.
//
// A candidate picks a row on every mesh dim. Its price is the sum of its inputs' prices (and its
// kernel's), and an input's price depends only on its layout. If rows are picked for the first mesh
// dims, take for each input the least price of all layouts that begin with these rows' placements:
// the sum over the inputs is a lower bound for every candidate that begins with these rows. Two
// searches use this bound: depth first with pruning (the search "exact" of a stack), and best first
// from a priority queue (its search "dijkstra" under the graph planner). Both find every candidate
// at the minimum, and the best total that differs from it, with the same prices as full
// enumeration.
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
  // For each input and code: the price in microseconds; infinity where it is impossible.
  const std::vector<std::vector<double>>& by_code;
  // What the kernel of a candidate takes, in microseconds; empty where kernels are free.
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
  std::vector<Found> tied;  // in the order of a full enumeration; empty where there is no candidate
  // The distance from the minimum to the best total that differs from it. Nothing when there is no
  // other finite total.
  std::optional<double> margin_us;
  std::size_t states = 0;  // how many partial and whole candidates were examined
};

enum class ExactSearchOrder : std::uint8_t { kDepthFirst, kBestFirst };

[[nodiscard]] ExactSearchResult exact_search(const ExactSearchInput& input, ExactSearchOrder order);

}  // namespace shardlab
