// Ops that PyTorch runs by a handler of its own. DTensor selects a strategy for them like for any
// op, and takes the output's placements from it; but then the handler runs, and not the moves that
// the strategy asks for.
//
//   dispatch_note("aten.argmax.default", true)   // "PyTorch dispatches aten.argmax.default to ..."
//
// Source: OpDispatcher._custom_op_handlers in torch/distributed/tensor/_dispatch.py, the same in
// PyTorch 2.13.0, 2.14.1 and 2.15.0; _tp_conv.py and _nonlinear_redux.py beside it.
#pragma once

#include <string>
#include <string_view>

namespace shardlab {

// What runs in place of the strategy's moves; `moves` says whether it asks for any. Empty where
// PyTorch runs what the strategy says.
[[nodiscard]] std::string dispatch_note(std::string_view op, bool moves);

}  // namespace shardlab
