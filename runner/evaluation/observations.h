// Turns the rows of measurement sets into the observations that a calibration fits.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/calibrate/calibration.h"
#include "costmodel/measurements/measurement_set.h"

namespace shardlab {

struct Observations {
  std::vector<Observation> rows;
  std::vector<std::string> labels;  // "h100_1x8_all_reduce_dgxc:14", or its row's number
};

[[nodiscard]] Observations observations_of(std::span<const MeasurementSet> sets,
                                           const Topology& topology);

// Says which rows of a set take less time than the topology's links need (least_us of
// costmodel/price_doubts.h) by more than 5 %, which allows for rounded figures of links: the
// topology is not that of the run, or its times are wrong. "" if there is none.
[[nodiscard]] std::string faster_than_links(const MeasurementSet& set, const Topology& topology);

}  // namespace shardlab
