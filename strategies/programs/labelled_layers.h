// Finds the layer of the model that each node of a program belongs to, from the labels of the
// nodes.
//
//   labelled_layers(program)[node]      // 3 where the label is "layers.3.attention.wq"
//
// A label names its layer by "layers.N", at its start or after a dot. A node without a label
// belongs to layer N where the labelled nodes that its value reaches next, in its phase, all belong
// to N; where no labelled node reads it, it belongs to N where all nodes that it reads do. Inputs
// and buffers outside the layers say nothing about what reads them. Source of the names: Meta's
// model (llama3/llama/model.py).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "strategies/programs/program.h"

namespace shardlab {

// The layer of each node; nothing for a node outside all layers.
[[nodiscard]] std::vector<std::optional<std::int64_t>> labelled_layers(const Program& program);

}  // namespace shardlab
