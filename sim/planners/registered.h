// The planner of edges between layouts of which at least one has a registered placement.
//
//   for_each_registered_step(
//       from, to, sharded, [](int mesh_dim, const Placement& a, const Placement& b) {});
//
// Where one mesh dim alone changes and a single step makes the change, that step is the plan.
// Otherwise a registered placement that changes is gathered first, the greedy planner does the
// rest, and the target's registered placement is made last, of R or of the partial that is there.
// So no layout on the way has a registered placement beside a cut of the same tensor dims. Only
// default shard orders and no strided shards can be planned (why_unplanned).
#pragma once

#include <string>
#include <utility>

#include "costmodel/base/index.h"
#include "sim/planners/greedy.h"
#include "sim/registered_placement.h"

namespace shardlab {

[[nodiscard]] inline bool is_edge_of_registered(const Layout& from, const Layout& to) {
  return from.has_registered() || to.has_registered();
}

// Why an edge with a registered placement has no plan; empty when it has one.
[[nodiscard]] inline std::string why_unplanned(const Layout& from, const Layout& to) {
  for (const Layout* layout : {&from, &to}) {
    if (layout->has_strided() || !layout->has_default_order()) {
      return "the edge from " + from.text() + " to " + to.text() +
             " has a registered placement, and " + layout->text() +
             " has strided shards or another shard order; valid: R in between";
    }
  }
  return "";
}

// Whether the change of one mesh dim leaves every shard as it is, all others staying.
[[nodiscard]] inline bool changes_alone(const Placements& from, const Placements& to,
                                        std::size_t mesh_dim) {
  for (std::size_t m = 0; m < from.size(); ++m) {
    if (m == mesh_dim) continue;
    if (from[m] != to[m]) return false;
    // A shard of the same tensor dim on another mesh dim would come in another order.
    for (const Placement& changed : {from[mesh_dim], to[mesh_dim]}) {
      if (changed.is_shard() && to[m].is_shard() && changed.dim() == to[m].dim()) return false;
    }
  }
  return true;
}

// Calls emit(mesh dim, from, to) for each step. Assumes that why_unplanned() is empty.
template <class Emit>
void for_each_registered_step(const Placements& from, const Placements& to, bool source_is_sharded,
                              Emit&& emit) {
  const auto of_registered = [](const Placement& a, const Placement& b) {
    return a != b && (a.is_registered() || b.is_registered());
  };
  for (std::size_t m = 0; m < from.size(); ++m) {
    if (!of_registered(from[m], to[m]) || !changes_alone(from, to, m)) continue;
    if (!is_one_step(from[m], to[m])) continue;
    emit(static_cast<int>(m), from[m], to[m]);
    return;
  }
  Placements middle = from;
  Placements rest = to;
  for (std::size_t m = from.size(); m-- > 0;) {
    if (!of_registered(from[m], to[m])) continue;
    if (from[m].is_registered()) {
      middle[m] = Placement::replicate();
      emit(static_cast<int>(m), from[m], middle[m]);
    }
    if (!to[m].is_registered()) continue;
    const bool stays = middle[m].is_partial() && is_one_step(middle[m], to[m]);
    rest[m] = stays ? middle[m] : Placement::replicate();
  }
  if (middle != rest) for_each_greedy_step(middle, rest, source_is_sharded, emit);
  for (std::size_t m = 0; m < from.size(); ++m) {
    if (rest[m] != to[m]) emit(static_cast<int>(m), rest[m], to[m]);
  }
}

}  // namespace shardlab
