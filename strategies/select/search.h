// The priority-queue search: finds the cheapest input layouts that some row accepts on every mesh
// dim, without enumerating all combinations of rows.
//
// This is Dijkstra's algorithm over the layouts of all inputs, where one edge changes one placement
// of one input on one mesh dim. With `nesting_guard`, a step may touch a shard of tensor dim d on
// mesh dim i only if no mesh dim to the right of i shards d; without it, layouts that one step
// cannot produce are priced too low. Source: PyTorch 2.13.0,
// _dijkstra_expand_single_dim_strategy_to_mesh (where only tests use it); pull requests #169438,
// #175313, #177167.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/transition.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

struct SearchOptions {
  bool nesting_guard = true;
  // Whether to collect every accepted state that can be reached, not only the first.
  bool exhaustive = false;
};

struct SearchResult {
  std::vector<Placements> inputs;
  std::vector<Placements> outputs;
  std::vector<double>
      input_us;  // by input: the price of its redistribution, as the search found it
  double total_us = 0.0;
  std::size_t states_visited = 0;
  // How often the price of one change along one mesh dim was asked for.
  std::size_t prices_asked = 0;
  // The inputs of every accepted state, when the search is exhaustive.
  std::vector<std::vector<Placements>> all_matches;
};

struct SearchOutcome {
  std::optional<SearchResult> result;
  std::string fallback;  // why there is no result, so that full enumeration must be used
};

[[nodiscard]] SearchOutcome search_rows(const OpRule& rule, const OpCall& call,
                                        const DeviceMesh& mesh, const TransitionPricer& pricer,
                                        SearchOptions options = {});

}  // namespace shardlab
