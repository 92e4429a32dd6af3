// Which measurement sets a fitted stack has seen, as its source tells.
//
//   stack.source == fitted_source(sets)                "fitted:day1#0f3a..., day2#77c1..."
//   fitted_warning(stack, sets, store)                 "mine was fitted to this set, day1: ..."
//
// Sets are told apart by the digest of their times (MeasurementSet::digest), so that a copy under
// another name is known, and another run under the same name is not. Sources of older stacks have
// names alone, which are compared then. The population's stacks have also seen the shipped logs, of
// which their prior is made.
#pragma once

#include <span>
#include <string>

#include "costmodel/measurements/measurement_set.h"
#include "runner/config/configs.h"
#include "strategies/select/stack.h"

namespace shardlab {

[[nodiscard]] std::string fitted_source(std::span<const MeasurementSet> sets);
// The names alone, for shipped sets, which keep their names.
[[nodiscard]] std::string shipped_source(std::span<const MeasurementSet> sets);

// Which of the sets the stack has seen; "" if none.
[[nodiscard]] std::string fitted_warning(const Stack& stack, std::span<const MeasurementSet> sets,
                                         const ConfigStore& store);

// Whether two sets hold the same times, or have one name.
[[nodiscard]] bool is_same_run(const MeasurementSet& a, const MeasurementSet& b);

}  // namespace shardlab
