#include "strategies/steps/flatten_advice.h"

#include <algorithm>
#include <utility>

#include "costmodel/base/index.h"
#include "sim/placement.h"

namespace shardlab {
namespace {

// Steps that differ by less than this part of them are the same, added up in another way.
constexpr double kSameStep = 1e-9;

// Sets of two and more mesh dims of more than one rank that no flattened mesh has yet.
std::vector<FlattenedMeshGain> sets_of_axes(const DeviceMesh& mesh) {
  std::vector<FlattenedMeshGain> sets;
  std::vector<int> dims;
  for (int m = 0; m < mesh.ndim(); ++m) {
    if (mesh.size(m) > 1) dims.push_back(m);
  }
  for (std::uint64_t chosen = 1; chosen < std::uint64_t{1} << dims.size(); ++chosen) {
    std::vector<int> some;
    FlattenedMeshGain set;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if ((chosen >> i & 1U) == 0) continue;
      some.push_back(dims[i]);
      if (!mesh.names().empty()) set.axes.push_back(mesh.names()[to_index(dims[i])]);
      set.ranks *= mesh.size(dims[i]);
    }
    if (some.size() > 1 && !mesh.find_flattened(some)) sets.push_back(std::move(set));
  }
  return sets;
}

}  // namespace

double FlattenAdvice::saved_us() const {
  double sum = 0.0;
  for (const FlattenedMeshGain& gain : worth) sum += gain.saved_us;
  return sum;
}

FlattenAdvice advise_flattening(const DeviceMesh& mesh,
                                const std::function<double(const DeviceMesh&)>& step_us) {
  std::vector<FlattenedMeshGain> sets = sets_of_axes(mesh);
  FlattenAdvice advice{
      .step_us = step_us(mesh), .tried = static_cast<std::int64_t>(sets.size()), .worth = {}};
  DeviceMesh now = mesh;
  double now_us = advice.step_us;
  while (!sets.empty()) {
    for (FlattenedMeshGain& set : sets) set.saved_us = now_us - step_us(now.flatten(set.axes));
    // What saves nothing here is not tried again: a run of steps is merged onto one flattened mesh,
    // so that others save no more for the one that was kept.
    std::erase_if(sets, [&](const auto& set) { return set.saved_us <= kSameStep * now_us; });
    const auto best = std::ranges::max_element(sets, {}, &FlattenedMeshGain::saved_us);
    if (best == sets.end()) break;
    now = now.flatten(best->axes);
    now_us -= best->saved_us;
    advice.worth.push_back(*best);
    sets.erase(best);
  }
  return advice;
}

}  // namespace shardlab
