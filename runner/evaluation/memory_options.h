// What may make a training step fit that needs more memory than a device has.
//
//   memory_options(Recomputation())   // "--recompute selective --reshard-after-forward"
#pragma once

#include <string>

#include "strategies/steps/recomputation.h"

namespace shardlab {

// The options that are not in use yet and keep less, as a command line has them; then stronger
// recomputation, and where that is in use too, "more ranks".
[[nodiscard]] std::string memory_options(const Recomputation& in_use);

}  // namespace shardlab
