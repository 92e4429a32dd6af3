// The rows of a call whose inputs have registered placements (sim/registered_placement.h).
//
//   Rows rows = rows_of_call(rule, call, outputs);     // what expand() combines on the mesh dims
//
// Rules know only the built-in placements. They are asked about the call with R in the place of
// every registered placement, so that each row of theirs stays right; an input that has a
// registered placement then is redistributed to what the row wants. A pointwise op gets one row
// more for each registered placement among its inputs whose entry says that it passes: every tensor
// has that placement, except those that are broadcast along the dims that it cuts, which are
// replicated. There is no such row where a tensor is broadcast in a way that local parts can't be.
#pragma once

#include "sim/mesh.h"
#include "strategies/rules/op_call.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

[[nodiscard]] bool has_registered(const OpCall& call);
// The call with R in the place of every registered placement.
[[nodiscard]] OpCall without_registered(const OpCall& call);
// Throws InputError for an input that can't have its registered placement on this mesh.
void expect_registered(const OpCall& call, const DeviceMesh& mesh);

// The rows that a placement of `call`'s inputs adds to the rule, in the order of the inputs.
[[nodiscard]] Rows registered_rows(const OpRule& rule, const OpCall& call);
// The rule's rows for the call, filled (fill_rows), and the registered ones after them.
[[nodiscard]] Rows rows_of_call(const OpRule& rule, const OpCall& call, std::size_t outputs);

}  // namespace shardlab
