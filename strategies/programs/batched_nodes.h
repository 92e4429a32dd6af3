// Which of a program's values are batched: activations, their gradients, tokens and logits, with the
// batch's rows in their first dim; weights and their gradients are not.
//
//   const std::vector<bool> batched = batched_nodes(program);  // by node
//
// A value is batched if it stems from an input or tangent, has at least two dims, its first dim has as
// many rows as the program's first input has sequences (or, of matrices, tokens), no permutation has put
// another dim first, and it is not on the way from the op that makes a weight's gradient to where that
// leaves the program: a width may have as many rows as the batch has tokens. What experts work on counts
// as batched where there are as many experts as sequences.
#pragma once

#include <vector>

#include "strategies/programs/program.h"

namespace shardlab {

[[nodiscard]] std::vector<bool> batched_nodes(const Program& program);

}  // namespace shardlab
