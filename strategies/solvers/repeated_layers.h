// Messages to start a dual ascent from, for networks whose parts repeat, as a model's layers do.
//
// Of L equal layers only a few are kept, the gap between them is closed, and the small network is swept
// until its bound is tight; its messages then stand in every layer of the whole one. Any messages are
// valid, so nothing here needs to be right: what does not repeat exactly costs sweeps, not the proof.
//
//   dual.set_messages(repeated_layer_messages(cut));   // when not empty
//
// Layers are found by colour refinement: nodes that look alike with all that surrounds them within a
// few steps are of one class, and the nodes of a class are counterparts in the layers, in the order of
// the network or, as a backward pass has them, in reverse. Costs kRounds looks at every edge, and what
// the small network's sweeps take: a hundred or two, of 6 layers.
//
// Source: colour refinement: Weisfeiler and Leman, 1968; messages shared by alike nodes: "lifted" belief
// propagation, Kersting, Ahmadi, Natarajan, "Counting belief propagation", UAI 2009.
#pragma once

#include <vector>

#include "strategies/solvers/cut_network.h"

namespace shardlab {

// Where each node stands among the layers; counterparts have the same key.
struct LayerPlaces {
  static constexpr int kNone = -1;
  std::vector<int> layer;  // by node; kNone: outside
  std::vector<int> key;
  int keys = 0;
  int layers = 0;  // complete ones are 0 .. layers - 1; 0: nothing repeats
};
[[nodiscard]] LayerPlaces find_layers(const CutNetwork& cut);

// A message per value and end of each edge, as DualAscent has them. Empty where too little repeats.
[[nodiscard]] std::vector<double> repeated_layer_messages(const CutNetwork& cut);

}  // namespace shardlab
