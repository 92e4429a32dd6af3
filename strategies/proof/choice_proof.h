// Proof of one choice of an op: whether its placements compute the op.
//
//   fault_of_choice(call, mesh, {inputs}, {outputs})
//       // "mesh dim 0, S(0) | P(sum), P(sum): aten.mm.default(f32[10,6], f32[6,12]) on 2 ..."
//
// On each mesh dim a choice is one row of the op's rule. Every row is run as `shardlab rules` runs
// it (sample_execution.h): on 2 ranks, with the call's own arguments, and with tensors that are as
// small as the row allows. Extents of up to 8 stay as they are; of the larger ones, equal extents
// stay equal, and those that the mesh dim divides evenly are even.
//
// Only what a proof shows to be wrong is called wrong. Nothing is said of a choice that cannot be
// proved in this way: of an op without a reference kernel, of strided shards, of partials of masks
// and norms, of arguments that name one of the larger extents, of tensors of indices, whose values
// depend on other extents, and of a dim of up to 8 rows that is cut unevenly on the mesh dim alone
// or on 2 ranks alone.
#pragma once

#include <string>
#include <vector>

#include "sim/mesh.h"
#include "sim/placement.h"
#include "strategies/rules/op_call.h"

namespace shardlab {

// The first row that computes something else, with the call that shows it; "" if none is known to.
// `inputs` has the placements of each of call.tensors(), `outputs` those of each output.
[[nodiscard]] std::string fault_of_choice(const OpCall& call, const DeviceMesh& mesh,
                                          const std::vector<Placements>& inputs,
                                          const std::vector<Placements>& outputs);

}  // namespace shardlab
