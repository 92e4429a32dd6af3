// The registered placements by name, for commands that take one.
//
//   const PlacementEntry& entry = placement_entry("ragged_shard", "--placement");
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/registered_placement.h"

namespace shardlab {

[[nodiscard]] std::vector<std::string_view> placement_names();
// Throws InputError, which begins with `where`, for an unknown name.
[[nodiscard]] const PlacementEntry& placement_entry(const std::string& name,
                                                    std::string_view where);

}  // namespace shardlab
