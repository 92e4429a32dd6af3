// Training steps with the graphs of real models but small extents, and their solved plans.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "costmodel/topology.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/program_execution.h"
#include "strategies/programs/sharding_problem.h"

namespace shardlab::testing_support {

// One layer with 8 sequences of 8 tokens, width 64, 16 heads (8 of them for keys) and a vocabulary
// of 128. Every extent is divisible by 8 where the model's is.
[[nodiscard]] Program thin_llama(MatmulForm form);
// One layer of the model itself.
[[nodiscard]] Program whole_llama(MatmulForm form);

// Does what `solve` does: lists the strategies, prices them under ap-nccl on H100s, and finds the
// optimum. Fails the test if there is none.
[[nodiscard]] std::vector<NodePlacements> solved_placements(const Program& program,
                                                            const DeviceMesh& mesh,
                                                            const ProblemOptions& options);
// The plans that move tensors between these layouts under ap-nccl.
[[nodiscard]] std::vector<NodePlan> plans_of(const Program& program, const DeviceMesh& mesh,
                                             std::span<const NodePlacements> placements);

}  // namespace shardlab::testing_support
