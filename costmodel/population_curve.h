// One row of the model `population`: how the times of one collective and group depart from the
// curve that its links allow (physical_curve.h), and how sure that is.
//
//   {"collective": "all_reduce", "ranks": 16, "domains": 2, "measured": [2, 1024, 1073741824],
//    "points": [[-12.0, 1.31, 0.22], ...], "by_launch": [0.0, 0.2]}
//
// A point holds a bend of the physical curve, the ratio of the time to that curve there, and the
// standard deviation of ln t of a cluster's times about the product. Between points, ln of the
// ratio and the variance are linear, as they are for a random walk; beyond the outermost points
// they are level. `measured` holds the hosts, the smallest and the largest bytes of the rows of the
// same collective and group that the row was fitted to; it is absent if there were none.
// `network_delay` says for which network the row is: how many times as long as on InfiniBand one
// step takes there (physical_curve.h). A row without it is for every network. One collective and
// group may have several rows, for different networks. `by_launch` says how the floor changes where
// a process drives several GPUs: the launch_of for which the points are, and how fast ln of the
// floor rises with it. It is absent if it does not.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "costmodel/base/json_reader.h"
#include "costmodel/collective.h"
#include "costmodel/measured_ranges.h"

namespace shardlab {

// How the calls of a group are launched: ln of the GPUs that one process drives. 0, as in PyTorch,
// if that is not known.
[[nodiscard]] double launch_of(const CollectiveQuery& query);

struct PopulationPoint {
  double bend = 0.0;
  double factor = 1.0;
  double log_error = 0.0;
};

struct PopulationCurve {
  Collective kind = Collective::kLocal;
  std::int64_t ranks = 2;
  std::int64_t domains = 1;
  std::vector<PopulationPoint> points;  // by rising bend, at least one
  std::optional<MeasuredRange> measured;
  std::optional<double> network_delay;
  double launch = 0.0;           // for which the points are
  double floor_by_launch = 0.0;  // derivative of ln of the floor by the launch

  // Throws ConfigError.
  [[nodiscard]] static PopulationCurve from_json(const nlohmann::json& json,
                                                 const JsonPlace& place);
  [[nodiscard]] nlohmann::json to_json() const;

  // What to add to ln t at a bend for calls that are launched in another way.
  [[nodiscard]] double log_launched(double asked_launch, double bend) const;

  // Interpolated between the points.
  [[nodiscard]] double log_factor(double bend) const;
  [[nodiscard]] double log_error(double bend) const;
};

}  // namespace shardlab
