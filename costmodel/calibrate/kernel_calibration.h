// Calibration of the roofline: measured kernels in, efficiencies and start-ups out.
//
//   Calibration fit = calibrate_kernels(set.kernels, topology);
//   fit.choice()       // {"name": "roofline", "params": {"copy_efficiency": 0.91, ...}}
//
// Every kind of kernel but attention, whose rows are refused, has a start-up in us and an
// efficiency from 0 to 1; GEMMs have one efficiency for each width of dtype, and one for TF32.
// Their values minimise the sum of Huber's function (huber.h) of ln(predicted / measured). The
// launch floor is the median of the empty launches. Rates above the topology's figures are not
// believed: an efficiency is at most 1. A parameter that no row determines stays at the model's
// default and is listed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/calibrate/calibration.h"
#include "costmodel/compute_model.h"
#include "costmodel/measurements/measurement_set.h"

namespace shardlab {

// The question that a measured kernel puts to a compute model; nothing for an empty launch, which
// does no work. A row of tf32 asks for a product of f32 that rounds to TF32.
[[nodiscard]] std::optional<KernelQuery> kernel_query(const MeasuredKernel& row);

// Whether a measured product rounded to TF32, of which the topology states no rate.
[[nodiscard]] bool lacks_tf32_rate(const KernelQuery& query, const Topology& topology);

// Throws InputError if the model prices fewer than two of the rows.
[[nodiscard]] Calibration calibrate_kernels(std::span<const MeasuredKernel> rows,
                                            const Topology& topology);

// The signed error of a compute model at each row, in percent of the measured time. Rows that it
// does not price are left out.
[[nodiscard]] std::vector<double> kernel_errors_percent(const ComputeModel& model,
                                                        std::span<const MeasuredKernel> rows);

}  // namespace shardlab
