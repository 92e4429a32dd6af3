// Makes up values for the sources of a program: its parameters, buffers, inputs and tangents.
//
//   HostTensor tokens = source_value(memory, program, node, {.seed = 7});
//
// Values are in double precision (wide_program.h). DataValues::kWholeNumbers gives whole numbers
// from -3 to 3 divided by four, so that products of many of them are exact and stay within exp()'s
// range; uniform values are any numbers in (-1, 1). Integer tensors hold indices, each smaller than
// the number of rows that the ops look up with them. Indices are random, except in buffers
// (positions, for example), which hold 0, 1, 2, ...
#pragma once

#include "sim/host_tensor.h"
#include "sim/partial_values.h"
#include "strategies/programs/program.h"

namespace shardlab {

// Gives the same values for the same seed and node. Assumes that the node is a source. Throws
// LimitError.
[[nodiscard]] HostTensor source_value(HostMemory& memory, const Program& program, std::size_t node,
                                      const DataOptions& data);

}  // namespace shardlab
