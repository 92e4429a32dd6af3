// Finds the layer of the model that each node of a program belongs to, from the labels of the
// nodes.
//
//   labelled_layers(program)[node]      // 3 if the label is "layers.3.attention.wq"
//
// A label names its layer by "layers.N", at its start or after a dot. A node without a label
// belongs to layer N if the first labelled nodes that its value reaches, in its own phase, all
// belong to N. If it reaches no labelled node, it belongs to N if all nodes that it reads do.
// Inputs and buffers outside the layers do not count among these. Source of the names: Meta's model
// (llama3/llama/model.py).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "strategies/programs/program.h"

namespace shardlab {

// The layer of each node; nothing for a node outside all layers.
[[nodiscard]] std::vector<std::optional<std::int64_t>> labelled_layers(const Program& program);

}  // namespace shardlab
