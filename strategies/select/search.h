// The priority-queue search: the cheapest input layouts that some row accepts on every mesh dim,
// without enumerating all combinations of rows.
//
// Dijkstra over the layouts of all inputs, one changed placement of one input on one mesh dim an
// edge. Source: PyTorch 2.13.0, _dijkstra_expand_single_dim_strategy_to_mesh (tests only there);
// pull requests #169438, #175313, #177167. `nesting_guard`: a step may touch a shard of tensor dim
// d on mesh dim i only if no mesh dim right of i shards d; without it layouts that one step can't
// produce are priced too low.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/transition.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

struct SearchOptions {
  bool nesting_guard = true;
  // Collect every accepted state that can be reached, not only the first.
  bool exhaustive = false;
};

struct SearchResult {
  std::vector<Placements> inputs;
  std::vector<Placements> outputs;
  std::vector<double> input_us;  // redistribution of each input, as the search priced it
  double total_us = 0.0;
  std::size_t states_visited = 0;
  std::vector<std::vector<Placements>>
      all_matches;  // inputs of every accepted state, if exhaustive
};

struct SearchOutcome {
  std::optional<SearchResult> result;
  std::string fallback;  // why there is none: full enumeration must be used
};

[[nodiscard]] SearchOutcome search_rows(const OpRule& rule, const OpCall& call,
                                        const DeviceMesh& mesh, const TransitionPricer& pricer,
                                        SearchOptions options = {});

}  // namespace shardlab
