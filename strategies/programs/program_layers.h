// The layer of the model that each node of a program belongs to, from the labels of its nodes.
//
//   layers_of_nodes(program)      // by node: 3 for what is labelled "layers.3.attention.wq", nothing outside
//
// A label names its layer: "layers.N", at its start or after a dot. A node without a label belongs to N
// where all labelled nodes that next read what becomes of it, in its phase, are of N; where nothing that
// is labelled reads it, where all nodes that it reads are. Inputs and buffers outside the layers
// say nothing about what reads them. Source: the names of Meta's model (llama3/llama/model.py). Tested by
// tests/unit/strategies/programs/program_layers_test.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "strategies/programs/program.h"

namespace shardlab {

[[nodiscard]] std::vector<std::optional<std::int64_t>> layers_of_nodes(const Program& program);

}  // namespace shardlab
