// Training steps of few and short extents, with the graphs of the real ones, and their solved plans.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "costmodel/topology.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/program_execution.h"
#include "strategies/programs/sharding_problem.h"

namespace shardlab::testing_support {

// One layer: 8 sequences of 8 tokens, 64 wide, 16 heads (8 of keys), 128 tokens. Divides by 8 wherever the
// model does.
[[nodiscard]] Program thin_llama(MatmulForm form);
// The model itself, one layer.
[[nodiscard]] Program whole_llama(MatmulForm form);

// What `solve` does: strategies, prices under ap-nccl on H100s, the optimum. Fails the test where there is
// none.
[[nodiscard]] std::vector<NodePlacements> solved_placements(const Program& program,
                                                            const DeviceMesh& mesh,
                                                            const ProblemOptions& options);
// The plans between these layouts under ap-nccl.
[[nodiscard]] std::vector<NodePlan> plans_of(const Program& program, const DeviceMesh& mesh,
                                             std::span<const NodePlacements> placements);

}  // namespace shardlab::testing_support
