// The two thresholds by which calibrations judge what their rows determine.
#pragma once

namespace shardlab {

// The rows do not determine a parameter if the standard error of its logarithm is larger than this:
// values that differ by a factor of e fit them about as well.
inline constexpr double kOpenLogError = 1.0;

// The half width that the 95 % interval of a logarithm should reach (5 % either way). Calibrations
// ask for more rows until it does.
inline constexpr double kWantedWidth = 0.05;

}  // namespace shardlab
