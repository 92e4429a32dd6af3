// Calibration of models with a few free constants: alpha_beta, nccl and others whose entry names
// them.
//
//   Calibration fit = calibrate_constants(*find_cost_model("alpha_beta"), rows, topology);
//
// The logarithms of the constants are fitted to the relative errors of the prices (robust_fit.h). A
// constant that the rows do not determine stays at its prior: the model's default, or the
// topology's figure.
//
// Cost: a fit needs the prices of all sizes up to a thousand times. Beyond 8,192 sizes, each
// collective and group keeps evenly spaced ones, and the rows between them get interpolated prices;
// all rows count. It takes four seconds for 100,000 rows of distinct sizes.
#pragma once

#include <span>

#include "costmodel/calibrate/calibration.h"

namespace shardlab {

// Assumes a model whose entry names free constants, and rows with positive times that do not
// contradict each other. Throws InputError if the rows determine no constant, or if the fitted
// model is off by more than 100 % at half of the rows.
[[nodiscard]] Calibration calibrate_constants(const ModelEntry& model,
                                              std::span<const Observation> rows,
                                              const Topology& topology);

}  // namespace shardlab
