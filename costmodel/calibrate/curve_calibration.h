// Calibration of the piecewise model: one curve per collective and group (curve_fit.h).
//
//   Calibration fit = calibrate_curves(*find_cost_model("piecewise"), rows, topology);
//   fit.rows     // the curves as the model reads them
//
// A latency floor or a bandwidth that the rows of a curve do not determine is taken from the other
// curves (curve_relation.h), or from alpha_beta on the topology if no other curve determines it
// either.
#pragma once

#include <span>

#include "costmodel/calibrate/calibration.h"

namespace shardlab {

// Assumes rows with positive times that do not contradict each other. A group of fewer than three
// rows gets no curve and is listed as not identified. Throws InputError if no group has three rows,
// or if the fitted model is off by more than 100 % at half of the rows.
[[nodiscard]] Calibration calibrate_curves(const ModelEntry& model,
                                           std::span<const Observation> rows,
                                           const Topology& topology);

}  // namespace shardlab
