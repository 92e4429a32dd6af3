// Calibration of the roofline: measured kernels in, efficiencies and start-ups out.
//
//   Calibration fit = calibrate_kernels(set.kernels, topology);
//   fit.choice()       // {"name": "roofline", "params": {"copy_efficiency": 0.91, ...}}
//
// Each kind of kernel has a start-up and an efficiency (GEMMs one efficiency a width of dtype), which
// make the sum of Huber's function of ln(predicted / measured) least. The launch floor is the median
// of the empty launches. Rates above the topology's figures are not believed: an efficiency ends at
// 1. What no row tells stays as the model has it, and is listed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/calibrate/calibration.h"
#include "costmodel/compute_model.h"
#include "costmodel/measurements/measurement_set.h"

namespace shardlab {

// The kernel as a compute model is asked about it; nothing for an empty launch, and for TF32, of
// which the roofline has no dtype.
[[nodiscard]] std::optional<KernelQuery> kernel_query(const MeasuredKernel& row);

// Throws InputError: fewer than two rows of kernels that the model prices.
[[nodiscard]] Calibration calibrate_kernels(std::span<const MeasuredKernel> rows,
                                            const Topology& topology);

// Errors of a compute model, in percent of the measured times; rows that it does not price are left
// out.
[[nodiscard]] std::vector<double> kernel_errors_percent(const ComputeModel& model,
                                                        std::span<const MeasuredKernel> rows);

}  // namespace shardlab
