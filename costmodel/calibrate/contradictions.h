// Rows that cannot all be right: the same question about the same system, with answers far apart.
//
//   for (const RefusedObservation& refused : contradictions(rows)) ... rows[refused.row] ...
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/calibrate/calibration.h"

namespace shardlab {

// "all_reduce of 1024 B among 8 ranks on 1 host: 12.5 us", for messages.
[[nodiscard]] std::string observation_text(const Observation& row);

// The rows that are refused because others of their set contradict them. Rows of one set that ask
// the same question (collective, ranks, hosts, bytes) contradict each other if the longest time is
// more than 1.5 times the shortest. Two such rows are both refused; of three or more, those within
// a factor of 1.5 of the median stay.
[[nodiscard]] std::vector<RefusedObservation> contradictions(std::span<const Observation> rows);

// The rows that are not among the refused ones. Throws InputError if none is left.
[[nodiscard]] std::vector<Observation> rows_kept(std::span<const Observation> rows,
                                                 std::span<const RefusedObservation> refused);

}  // namespace shardlab
