// `shardlab solve PROGRAM --advise-flattened`: which flattened meshes would shorten the step of the
// plan.
#pragma once

#include <optional>

#include "runner/solve/plan_search.h"
#include "runner/solve/solution.h"

namespace shardlab {

// Assumes that the plan can run. The step is the simulated one, with the layouts of the plan. With
// a stack that merges neither when it prices nor when it runs (its key "merge"), nothing is found.
[[nodiscard]] SolveAnswer flattening_answer(const PricedProgram& priced, const FoundPlan& found,
                                            const TextStyle& style);

}  // namespace shardlab
