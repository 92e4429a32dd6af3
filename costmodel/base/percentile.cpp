#include "costmodel/base/percentile.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace shardlab {

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const double position = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= values.size()) return values.back();
  return values[below] +
         (position - static_cast<double>(below)) * (values[below + 1] - values[below]);
}

double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace shardlab
