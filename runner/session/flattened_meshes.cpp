#include "runner/session/flattened_meshes.h"

#include <algorithm>

#include "runner/session/command.h"
#include "runner/session/session.h"

namespace shardlab {

void FlattenedMeshes::add(const Command& command) {
  command
      .option("--flatten", axes,
              "axes of a registered flattened mesh, e.g. \"dp,tp\"; once per mesh")
      .repeatable();
}

DeviceMesh FlattenedMeshes::read(const std::string& mesh) const {
  DeviceMesh flattened = parse_option("--mesh", [&] { return DeviceMesh::parse(mesh); });
  return parse_option("--flatten", [&] {
    for (const std::string& one : axes) {
      std::vector<std::string> names;
      for (std::size_t start = 0; start <= one.size();) {
        const std::size_t comma = std::min(one.find(',', start), one.size());
        names.push_back(one.substr(start, comma - start));
        start = comma + 1;
      }
      flattened = flattened.flatten(names);
    }
    return flattened;
  });
}

void expect_names_to_flatten(const DeviceMesh& mesh) {
  if (mesh.ndim() == 1 || !mesh.names().empty()) return;
  throw InputError(
      "--advise-flattened: found the mesh " + mesh.text() +
      ", whose dims have no names; valid: a mesh such as dp=2,tp=4, since mesh dims are "
      "flattened by name");
}

}  // namespace shardlab
