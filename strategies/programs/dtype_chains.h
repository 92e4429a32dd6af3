// Where mixed precision must not communicate: parameters are gathered after the cast that narrows
// them, and gradients are reduced after the cast that widens them.
//
//   const std::vector<bool> silent = silent_nodes(program, {});
//   silent[node]      // what the node reads must come as it is, or at no cost
//
// Each node of such a chain reads one tensor. From a parameter the chain goes through nodes that
// have one reader and read one tensor, up to the first cast; it is silent if that cast narrows.
// From a gradient it goes back through nodes that read one tensor; if the cast nearest to the
// gradient widens, that cast and what lies before it are silent. Source: meta-pytorch/autoparallel
// at a54c252 (its constraints fwd_param_dtype and grad_reduce_dtype).
#pragma once

#include <vector>

#include "strategies/programs/program.h"

namespace shardlab {

struct DTypeRules {
  bool forward = true;
  bool gradient = true;
};

// For each node: whether what it reads must come as it is, or at no cost.
[[nodiscard]] std::vector<bool> silent_nodes(const Program& program, const DTypeRules& rules);

}  // namespace shardlab
