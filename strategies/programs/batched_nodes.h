// Which of a program's values are batched, that is, have the rows of the batch in their first dim:
// activations, their gradients, tokens and logits are batched; weights and their gradients are not.
//
//   const std::vector<bool> batched = batched_nodes(program);  // by node
//
// A value is batched if all of this holds: it stems from an input or a tangent; it has at least two
// dims; its first dim has as many rows as the program's first input has sequences (or, for a
// matrix, tokens); no permutation has put another dim first; and it does not lie between the op
// that makes a weight's gradient and the point where that gradient leaves the program, since a
// width may happen to have as many rows as the batch has tokens. The tensors that experts work on
// count as batched where there are as many experts as sequences.
#pragma once

#include <vector>

#include "strategies/programs/program.h"

namespace shardlab {

// For each node: whether its first output is batched.
[[nodiscard]] std::vector<bool> batched_nodes(const Program& program);

}  // namespace shardlab
