// How well a fitted model predicts the rows that it was fitted to.
#pragma once

#include <span>

#include "costmodel/calibrate/calibration.h"

namespace shardlab {

// Fills in rows_used, median_ape_percent and p90_ape_percent. Throws InputError if the model is off
// by more than 100 % at half of its own rows: such a model explains nothing.
void add_fit_errors(Calibration& fit, std::span<const Observation> rows, const Topology& topology);

}  // namespace shardlab
