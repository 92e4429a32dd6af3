// Finds messages from which a dual ascent can start, for networks with repeated parts, such as the
// layers of a model.
//
// Only a few of the many equal layers are kept and joined, and this small network is swept until
// its bound is tight. Its messages are then copied to every layer of the whole network. Any
// messages are valid, so mistakes here are harmless: parts that do not repeat exactly cost more
// sweeps, but the proof stays correct.
//
//   dual.set_messages(repeated_layer_messages(cut));   // when not empty
//
// Layers are found by colour refinement: nodes are in one class if they and all nodes within a few
// steps of them look alike. The nodes of a class are counterparts of each other in the layers, in
// the order of the network or, as in a backward pass, in reverse. This takes a few passes over all
// edges, and some ten to two hundred sweeps over a network of 4 layers.
//
// Source: colour refinement: Weisfeiler and Leman, 1968; messages shared by nodes that look alike:
// "lifted" belief propagation, Kersting, Ahmadi, Natarajan, "Counting belief propagation", UAI
// 2009.
#pragma once

#include <vector>

#include "strategies/solvers/cut_network.h"

namespace shardlab {

// The layer that each node belongs to. Nodes with the same key are counterparts in different
// layers.
struct RepeatedLayers {
  static constexpr int kNone = -1;
  std::vector<int> layer;  // by node: its layer; kNone outside all layers
  std::vector<int> key;    // by node: its key
  int keys = 0;
  int layers = 0;  // how many layers there are, numbered from 0; 0 if nothing repeats
};
[[nodiscard]] RepeatedLayers find_repeated_layers(const CutNetwork& cut);

// A message for each value at each end of each edge, in the order of DualAscent. Empty if too few
// layers repeat.
[[nodiscard]] std::vector<double> repeated_layer_messages(const CutNetwork& cut);

}  // namespace shardlab
