// Which flattened meshes are worth registering for a program, in the records of `solve` and
// `compare`: strategies/steps/flatten_advice.h says how they are found, and
// costmodel/process_group.h what a process group costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/base/fields.h"

namespace shardlab {
namespace reports {

struct FromLeastToMost {
  double least = 0.0, median = 0.0, most = 0.0;
  friend bool operator==(const FromLeastToMost&, const FromLeastToMost&) = default;
};

struct FlattenedMesh {
  std::vector<std::string> axes;
  std::int64_t ranks = 1;
  double saved_us = 0.0;
  FromLeastToMost break_even_steps;
  friend bool operator==(const FlattenedMesh&, const FlattenedMesh&) = default;
};

struct FlattenedMeshes {
  std::string stack;
  double step_us = 0.0;
  std::int64_t tried = 0;
  std::vector<FlattenedMesh> worth;
  FromLeastToMost group_seconds;
  FromLeastToMost group_bytes;
  friend bool operator==(const FlattenedMeshes&, const FlattenedMeshes&) = default;
};

}  // namespace reports

template <>
struct Fields<reports::FromLeastToMost> {
  using Self = reports::FromLeastToMost;
  static constexpr std::string_view kName = "from_least_to_most";
  static constexpr auto kList = std::tuple(field("least", &Self::least, "", kAmount),
                                           field("median", &Self::median, "", kAmount),
                                           field("most", &Self::most, "", kAmount));
};

template <>
struct Fields<reports::FlattenedMesh> {
  using Self = reports::FlattenedMesh;
  static constexpr std::string_view kName = "flattened_mesh";
  static constexpr auto kList = std::tuple(
      field("axes", &Self::axes, "names of mesh dims"),
      field("ranks", &Self::ranks, "of each of its groups", {.min = 1}),
      field("saved_us", &Self::saved_us, "of a step, beside the flattened meshes before it"),
      field("break_even_steps", &Self::break_even_steps,
            "after so many steps the savings are what its process group took to make"));
};

template <>
struct Fields<reports::FlattenedMeshes> {
  using Self = reports::FlattenedMeshes;
  static constexpr std::string_view kName = "flattened_meshes";
  static constexpr std::string_view kMeaning =
      "the flattened meshes that are worth registering for a program";
  static constexpr auto kList = std::tuple(
      field("stack", &Self::stack, "whose plans are merged"),
      field("step_us", &Self::step_us, "with those that are registered already", kAmount),
      field("tried", &Self::tried, "how many more the mesh could have", {.min = 0}),
      field("worth", &Self::worth, "in the order in which they were kept"),
      field("group_seconds", &Self::group_seconds, "published times to make a process group"),
      field("group_bytes", &Self::group_bytes,
            "published memory that a process group keeps on each GPU"));
};

}  // namespace shardlab
