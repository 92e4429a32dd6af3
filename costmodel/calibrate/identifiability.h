// The two thresholds by which calibrations judge what their rows tell.
#pragma once

namespace shardlab {

// A parameter whose logarithm has a larger standard error is left open by the rows: a factor e
// either way says the same.
inline constexpr double kOpenLogError = 1.0;

// Half width of a 95 % interval of a logarithm (5 % either way) that is narrow enough: rows are
// wanted until it is reached.
inline constexpr double kWantedWidth = 0.05;

}  // namespace shardlab
