// Which nodes of a program AutoParallel ties, by its default repeated_subgraphs=True: nodes at the
// same place of repeated layers, which then have to take the same strategy.
//
//   const std::vector<std::uint32_t> root = repeated_regions(program, strategies);
//   root[n] == n        // the node decides for itself; otherwise it does as the node root[n]
//
// Nodes are alike if they have the same op, phase, trace and arguments that are integers, read
// tensors of equal dtypes, shapes and strides, and have, as their producers have, equal lists of
// strategies; a source counts as one that reads what it makes. Groups of alike nodes are taken from
// the last to the first. Each node of a group begins a region, and all regions of a group grow
// backwards together, breadth first, by the next node that is alike in all of them, belongs to the
// phase in which they began, belongs to no other region yet, and does not close a cycle. Regions of
// one node are dropped. The first region of a group in program order decides for all of them.
//
// A program without traces repeats more than one that has them, since nodes of different lines of
// the model's code may be alike. Memory: a bit for each pair of nodes. Source:
// meta-pytorch/autoparallel at a54c252 (graph_passes/graph_clustering.py), and PyTorch 2.15.0,
// torch/_dynamo/graph_region_tracker.py.
#pragma once

#include <cstdint>
#include <vector>

#include "strategies/programs/program.h"
#include "strategies/programs/program_strategies.h"

namespace shardlab {

// For each node the node that decides for it. Throws LimitError for more than kMostRegionNodes
// nodes.
[[nodiscard]] std::vector<std::uint32_t> repeated_regions(const Program& program,
                                                          const ProgramStrategies& strategies);

inline constexpr std::size_t kMostRegionNodes = 60000;

}  // namespace shardlab
