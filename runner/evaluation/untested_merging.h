// Whether the questions of a comparison test how its stacks merge collectives.
//
//   const std::string text = untested_merging_text(stacks, suites);
//   // "how merging merges collectives is not tested here, since only flattened
//   meshes merge, ..."
#pragma once

#include <span>
#include <string>

#include "strategies/select/stack.h"
#include "strategies/select/suite.h"

namespace shardlab {

// A sentence that names the candidates which differ from the baseline only by
// how they merge collectives, where no question has a flattened mesh, without
// which nothing is merged; "" if there are none. `stacks` are the baseline and
// the candidates.
[[nodiscard]] std::string untested_merging_text(std::span<const Stack> stacks,
                                                std::span<const Suite> suites);

}  // namespace shardlab
