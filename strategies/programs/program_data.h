// Made-up values of what a program is given: parameters, buffers, inputs and tangents.
//
//   HostTensor tokens = source_value(memory, program, node, {.seed = 7});
//
// In double precision (wide_program.h). Whole numbers from -3 to 3 become quarters, so that products of
// many of them stay within exp()'s range, and exact; uniform ones are any in (-1, 1). Whole numbers of the
// program itself are indices, below what the ops that they reach can look up: random ones, of buffers
// (positions, say) 0, 1, 2, ...
#pragma once

#include "sim/host_tensor.h"
#include "sim/partial_values.h"
#include "strategies/programs/program.h"

namespace shardlab {

// The same for the same seed and node. Assumes a source. Throws LimitError.
[[nodiscard]] HostTensor source_value(HostMemory& memory, const Program& program, std::size_t node,
                                      const DataOptions& data);

}  // namespace shardlab
