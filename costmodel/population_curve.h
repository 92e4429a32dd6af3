// One row of the model `population`: how the times of one collective and group depart from the
// curve that its links allow (physical_curve.h), and how sure that is.
//
//   {"collective": "all_reduce", "ranks": 16, "domains": 2, "measured": [2, 1024, 1073741824],
//    "points": [[-12.0, 1.31, 0.22], ...]}
//
// A point holds a bend of the physical curve, the ratio of the time to that curve there, and the
// standard deviation of ln t of a cluster's times about the product. Between points, ln of the
// ratio and the variance are linear, as they are for a random walk; beyond the outermost points they
// are level. `measured` holds
// the hosts, the smallest and the largest bytes of the rows of the same collective and group that
// the row was fitted to; it is absent if there were none.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "costmodel/base/json_reader.h"
#include "costmodel/collective.h"
#include "costmodel/measured_ranges.h"

namespace shardlab {

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

  // Throws ConfigError.
  [[nodiscard]] static PopulationCurve from_json(const nlohmann::json& json,
                                                 const JsonPlace& place);
  [[nodiscard]] nlohmann::json to_json() const;

  // Interpolated between the points.
  [[nodiscard]] double log_factor(double bend) const;
  [[nodiscard]] double log_error(double bend) const;
};

}  // namespace shardlab
