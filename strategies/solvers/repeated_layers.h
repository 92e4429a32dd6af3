// Messages to start a dual ascent from, for networks whose parts repeat as the layers of a model
// do.
//
// Only a few of the many equal layers are kept. The gap between them is closed, and the small
// network is swept until its bound is tight. Its messages are then copied to every layer of the
// whole network. Any messages are valid, so nothing here needs to be right: parts that do not
// repeat exactly cost more sweeps, but they never harm the proof.
//
//   dual.set_messages(repeated_layer_messages(cut));   // when not empty
//
// Layers are found by colour refinement: nodes that look alike, together with all that surrounds
// them within a few steps, are of one class. The nodes of a class are counterparts of each other in
// the layers, in the order of the network or, as in a backward pass, in reverse. This looks at
// every edge a few times; the sweeps of the small network are a hundred or two, over 6 layers.
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
  int layers = 0;  // how many layers there are, numbered from 0; 0 where nothing repeats
};
[[nodiscard]] RepeatedLayers find_repeated_layers(const CutNetwork& cut);

// A message for each value at each end of each edge, in the order of DualAscent. Empty where too
// little repeats.
[[nodiscard]] std::vector<double> repeated_layer_messages(const CutNetwork& cut);

}  // namespace shardlab
