// Whether the reference of a comparison looks at prices as one side does. Such a reference finds
// what that side changed right, because it counts the same, so a verdict on it is no evidence of
// its own.
//
//   record.reference.doubtful = reference_sides(reference, stacks);
//   // "shares the transitions (v-compute) of dtensor-v-compute, but not of dtensor-v3 (v3): ..."
#pragma once

#include <span>
#include <string>
#include <vector>

#include "strategies/select/stack.h"

namespace shardlab {

// A line for each candidate that differs from the baseline in its transitions, collective model,
// compute model or straggler, if the reference has what one of the two has. `stacks` are the
// baseline and the candidates. No line where the baseline or the candidate is the reference, or
// where code prices or decides for one of the three.
[[nodiscard]] std::vector<std::string> reference_sides(const Stack& reference,
                                                       std::span<const Stack> stacks);

}  // namespace shardlab
