#include "runner/config/placements.h"

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab {

std::vector<std::string_view> placement_names() {
  std::vector<std::string_view> names;
  for (const PlacementEntry* entry : registered_entries()) names.push_back(entry->name);
  return names;
}

const PlacementEntry& placement_entry(const std::string& name, std::string_view where) {
  const PlacementEntry* entry = find_placement_entry(name);
  if (entry != nullptr) return *entry;
  const std::vector<std::string_view> valid = placement_names();
  throw InputError(std::string(where) + ": found \"" + name + "\"" + did_you_mean(name, valid) +
                   "; valid: " + join(valid));
}

}  // namespace shardlab
