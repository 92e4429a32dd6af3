// Percentiles of a few numbers.
//
//   percentile({4.0, 1.0, 2.0}, 0.5)       // 2: the median
//   percentile({1.0, 2.0}, 0.9)            // 1.9
//   upper_median({4.0, 1.0, 2.0, 3.0})     // 3
#pragma once

#include <vector>

namespace shardlab {

// `share` is from 0 (the smallest value) to 1 (the largest). Between two neighbours the percentile
// is interpolated linearly, at share * (n - 1) from the smallest: type 7 of Hyndman and Fan 1996,
// which is the default of NumPy. No values give 0.
[[nodiscard]] double percentile(std::vector<double> values, double share);

// The median as one of the values: of an even number of values, the larger of the two in the
// middle. Assumes at least one value.
[[nodiscard]] double upper_median(std::vector<double> values);

}  // namespace shardlab
