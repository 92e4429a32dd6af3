// What the report of a simulated run draws: what ranks do when, and how the mesh lies on its hosts.
//
//   const std::vector<PicturedRank> ranks = ranks_to_draw(result.waits);
//   timeline_json(ranks, schedule, labels, timeline, mesh, topology)  // SimulationRecord::timeline
//   hosts_json(mesh, topology)                                        // SimulationRecord::hosts
//
// Two ranks are drawn: the one for which the others wait longest, and one that waits as long as
// half of the others do. Where all ranks run alike, one rank is drawn. A stream waits in two ways:
// as the member of a collective whose last member has not arrived, and because a task of another
// stream has to end first. Both are bars of their own. Tasks that are too short for a picture share
// a bar.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/simulator.h"

namespace shardlab {

struct PicturedRank {
  std::int64_t index = 0;  // into the mesh
  std::string_view role;   // reports::kRoleUsual and others
  RankWaits waits;
};

// The ranks to draw, ascending. `waits` is SimulationResult::waits.
[[nodiscard]] std::vector<PicturedRank> ranks_to_draw(std::span<const RankWaits> waits);

// `labels` has what each kernel of the schedule is called in the picture.
[[nodiscard]] nlohmann::json timeline_json(std::span<const PicturedRank> ranks,
                                           const Schedule& schedule,
                                           std::span<const std::string> labels,
                                           const Timeline& timeline, const DeviceMesh& mesh,
                                           const Topology& topology);

[[nodiscard]] nlohmann::json hosts_json(const DeviceMesh& mesh, const Topology& topology);

}  // namespace shardlab
