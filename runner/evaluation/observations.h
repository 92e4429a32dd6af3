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

// What speaks against the topology, or against the times, in sentences.
//
// Rows may take less time than the topology's links need (least_us of costmodel/price_doubts.h) by
// more than 5 %, which allows for rounded figures of links. Or all large messages of ring
// collectives, of kLargeBytes or more (health.h), take more than ten times as long: such a run had
// other links or was not healthy, which the rules of health.h cannot tell where the source states
// no links.
[[nodiscard]] std::vector<std::string> doubts_of_links(const MeasurementSet& set,
                                                       const Topology& topology);

}  // namespace shardlab
