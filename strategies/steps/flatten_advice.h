// Which flattened meshes are worth registering for a program. DTensor merges neighbouring steps of
// a plan into one collective where a flattened mesh has their ranks (sim/planners/merge.h), and
// registers none by itself.
//
//   const FlattenAdvice advice = advise_flattening(mesh, [&](const DeviceMesh& flattened) {
//     return EagerStep(program, flattened, sources, reference, topology, {}).run(stack).step_us;
//   });
//   for (const FlattenedMeshGain& gain : advice.worth) gain.axes, gain.saved_us
//
// Every set of two and more mesh dims of more than one rank is tried alone. Of those that shorten
// the step, the best is kept, then the one that saves most beside it, and so on. What the process
// groups cost is in costmodel/process_group.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/mesh.h"

namespace shardlab {

struct FlattenedMeshGain {
  std::vector<std::string> axes;
  std::int64_t ranks = 1;  // how many ranks each of its groups has
  double saved_us = 0.0;   // what it saves a step that already has those before it
};

struct FlattenAdvice {
  // Time of a step with the flattened meshes that are registered.
  double step_us = 0.0;
  // How many flattened meshes were tried that are not registered.
  std::int64_t tried = 0;
  std::vector<FlattenedMeshGain> worth;  // in the order in which they were kept

  [[nodiscard]] double saved_us() const;  // what all of them together save a step
};

// `step_us` says how long a step takes on the mesh with further flattened meshes. Throws TextError
// for a mesh of several dims without names, which can't be flattened.
[[nodiscard]] FlattenAdvice advise_flattening(
    const DeviceMesh& mesh, const std::function<double(const DeviceMesh&)>& step_us);

}  // namespace shardlab
