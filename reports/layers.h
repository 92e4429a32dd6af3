// The layers of a program, found where its ops repeat: exported graphs number their nodes and name
// no layers.
//
//   layers_of({"x", "a", "b", "c", "d", "a", "b", "c", "d", "y"})
//       -> before, 1, 1, 1, 1, 2, 2, 2, 2, after
//
// The layers are the longest stretch of a phase's ops that repeats one sequence of at least four
// ops at least twice, where that stretch is at least half of the ops. Of several sequences that
// cover as much, the shortest is taken. Cost: quadratic in the number of ops, some 10 ms for 4,000.
// Tested by tests/unit/reports/layers_test.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shardlab::reports {

struct Layers {
  std::size_t first = 0;    // index of the first op that repeats
  std::size_t length = 0;   // ops of a layer; 0 if nothing repeats
  std::size_t repeats = 0;  // number of layers

  // The layer of an op: 0 before the layers, 1 and up within them, repeats + 1 after them.
  [[nodiscard]] std::size_t of(std::size_t op) const {
    if (length == 0 || op < first) return 0;
    const std::size_t layer = (op - first) / length;
    return layer < repeats ? layer + 1 : repeats + 1;
  }
};

[[nodiscard]] Layers layers_of(const std::vector<std::string>& ops);

}  // namespace shardlab::reports
