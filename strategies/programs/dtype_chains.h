// Where mixed precision must not communicate: parameters are gathered after the cast that narrows
// them, and gradients are reduced after the cast that widens them.
//
//   const std::vector<bool> silent = silent_nodes(program, {});
//   silent[node]      // true: the node must read its input without communication
//
// The chain of a parameter leads forwards from reader to reader, up to the first cast, as long as
// each value has one reader and each reader reads one tensor. All nodes of the chain are silent if
// that cast narrows. The chain of a gradient leads backwards through nodes that read one tensor. If
// the cast nearest to the gradient widens, that cast and the part of the chain before the cast, in
// program order, are silent. Source: meta-pytorch/autoparallel at a54c252 (its constraints
// fwd_param_dtype and grad_reduce_dtype).
#pragma once

#include <vector>

#include "strategies/programs/program.h"

namespace shardlab {

struct DTypeRules {
  bool forward = true;
  bool gradient = true;
};

// For each node: whether it must read its input without communication. Changes of layout that cost
// nothing are allowed.
[[nodiscard]] std::vector<bool> silent_nodes(const Program& program, const DTypeRules& rules);

}  // namespace shardlab
