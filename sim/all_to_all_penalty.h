// Semantics with another penalty on an all-to-all, the microseconds that a version of DTensor's
// cost function adds to the price of S->S': 1 before v4, 0 since.
//
//   auto semantics = with_all_to_all_penalty(edge_semantics("v3"), Micros(0.0));  // prices as v4
//   all_to_all_penalty_given(*semantics)   // 0; nothing for the semantics of edge_semantics()
//
// Tested by tests/unit/sim/transition_test.cpp.
#pragma once

#include <memory>
#include <optional>

#include "sim/edge_semantics.h"

namespace shardlab {

[[nodiscard]] std::shared_ptr<const EdgeSemantics> with_all_to_all_penalty(
    const std::shared_ptr<const EdgeSemantics>& base, Micros penalty);
// The penalty that was given to with_all_to_all_penalty(). Nothing if none was.
[[nodiscard]] std::optional<Micros> all_to_all_penalty_given(const EdgeSemantics& semantics);

}  // namespace shardlab
