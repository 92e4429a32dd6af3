// Which of a program's values are batched, that is, have the batch as their first dim: activations,
// their gradients, tokens and logits are batched; weights and their gradients are not.
//
//   const std::vector<bool> batched = batched_nodes(program);  // by node
//
// A value is batched if all of this holds: it is computed from an input or a tangent; it has at
// least two dims; the extent of its first dim is the number of sequences in the program's first
// input (or, if it is a matrix, the number of tokens); no permutation has put another dim first;
// and it is not a weight's gradient, whose first dim may happen to be as long as the batch has
// tokens. The tensors that experts work on count as batched if there are as many experts as
// sequences.
#pragma once

#include <vector>

#include "strategies/programs/program.h"

namespace shardlab {

// For each node: whether its first output is batched.
[[nodiscard]] std::vector<bool> batched_nodes(const Program& program);

}  // namespace shardlab
