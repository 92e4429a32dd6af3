// The table of flattened meshes that are worth registering, as `solve` and `compare` show it.
#pragma once

#include "reports/records/flattened_meshes.h"
#include "reports/section.h"

namespace shardlab::reports {

[[nodiscard]] Table flattened_table(const FlattenedMeshes& advice);
// "No flattened mesh of 4 shortens the step." or "2 flattened meshes shorten the step by 31.2 us (1.2 %);
// each has paid for its process group after 77,000 steps at most."
[[nodiscard]] std::string flattened_sentence(const FlattenedMeshes& advice);

}  // namespace shardlab::reports
