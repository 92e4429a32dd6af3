// The table of flattened meshes that are worth registering, as `solve` and `compare` show it.
#pragma once

#include "reports/records/flattened_meshes.h"
#include "reports/section.h"

namespace shardlab::reports {

[[nodiscard]] Table flattened_table(const FlattenedMeshes& advice);
// "1 flattened mesh shortens the step under `dtensor-2.15` by 25.20 ms of 569.0 ms, and has paid
// for its process group after 97 steps, if it takes 2.439 s to make."
[[nodiscard]] std::string flattened_sentence(const FlattenedMeshes& advice);

}  // namespace shardlab::reports
