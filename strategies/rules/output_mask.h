// The output mask of a backward op: one boolean for each of its results, which says whether that
// gradient is asked for. In place of the others PyTorch returns None, and likewise in place of the
// gradient of a tensor that the call does not have. The outputs of a rule, and of its rows and
// candidates, are the results that are returned.
//
//   returned_results(call, 2)   // {true, false, true}: [dX, None, db] of a layer norm's backward
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/mesh.h"
#include "strategies/rules/op_call.h"

namespace shardlab {

// Which results of the op are returned, if a rule gives the call `outputs` outputs. Empty if none
// is left out, if the op takes no mask, or if its mask does not tell which they are.
[[nodiscard]] std::vector<bool> returned_results(const OpCall& call, std::size_t outputs);

// Refuses the call as PyTorch does since 2.14 on meshes of several dims. Its row that replicates
// everything has no placement for a result that is left out; if its other rows have one, then it
// does not combine them, nor where it is the other way round. `position` is where in the row that
// is: outputs come before inputs, and results that are left out count. `found` and `valid` say what
// of the call leads there.
// Source: PyTorch 2.14.1 and 2.15.0, _insert_single_dim_replication_strategy in
// _ops/single_dim_strategy.py, and expand_to_full_mesh_op_strategy in _ops/utils.py.
[[noreturn]] void refuse_mixed_none(const OpCall& call, const DeviceMesh& mesh,
                                    std::size_t position, const std::string& found,
                                    const std::string& valid);

}  // namespace shardlab
