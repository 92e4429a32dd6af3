// --flatten: the flattened meshes that a program has registered, as `mesh["dp", "tp"]._flatten()`
// does in PyTorch. Plans can merge their steps onto them (sim/planners/merge.h).
#pragma once

#include <string>
#include <vector>

#include "sim/mesh.h"

namespace shardlab {

class Command;

struct FlattenedMeshes {
  std::vector<std::string> axes;  // "dp,tp" for each

  // Adds --flatten. The command keeps a reference to this.
  void add(const Command& command);
  // The mesh that --mesh names, with these registered. Throws InputError, which names the option.
  [[nodiscard]] DeviceMesh read(const std::string& mesh) const;
};

// Throws InputError, which names --advise-flattened, for a mesh of several dims without names:
// PyTorch flattens mesh dims by their names.
void expect_names_to_flatten(const DeviceMesh& mesh);

}  // namespace shardlab
