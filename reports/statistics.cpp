#include "reports/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/percentile.h"

namespace shardlab::reports {
namespace {

void check_no_nan(std::span<const double> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    SHARDLAB_CHECK(!std::isnan(values[i]), "value ", i, " of ", values.size(), " is NaN");
  }
}

std::int64_t pairs_among(std::int64_t count) { return count * (count - 1) / 2; }

// The number of pairs within the runs of equal neighbours.
template <class Equal>
std::int64_t tied_pairs(std::size_t size, const Equal& equal_to_previous) {
  std::int64_t pairs = 0;
  std::int64_t run = 1;
  for (std::size_t i = 1; i <= size; ++i) {
    if (i < size && equal_to_previous(i)) {
      ++run;
    } else {
      pairs += pairs_among(run);
      run = 1;
    }
  }
  return pairs;
}

// Sorts `values` and returns how many pairs were strictly out of order: the swaps of a bubble sort,
// counted by merging.
std::int64_t sort_counting_inversions(std::vector<double>& values) {
  std::int64_t inversions = 0;
  std::vector<double> merged(values.size());
  for (std::size_t width = 1; width < values.size(); width *= 2) {
    for (std::size_t low = 0; low < values.size(); low += 2 * width) {
      const std::size_t middle = std::min(low + width, values.size());
      const std::size_t high = std::min(low + 2 * width, values.size());
      std::size_t left = low;
      std::size_t right = middle;
      for (std::size_t out = low; out < high; ++out) {
        if (left < middle && (right == high || values[left] <= values[right])) {
          merged[out] = values[left++];
        } else {
          merged[out] = values[right++];
          inversions += static_cast<std::int64_t>(middle - left);
        }
      }
    }
    values.swap(merged);
  }
  return inversions;
}

}  // namespace

std::optional<double> mean(std::span<const double> values) {
  check_no_nan(values);
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<double> weighted_mean(std::span<const double> values,
                                    std::span<const double> weights) {
  SHARDLAB_CHECK(values.size() == weights.size(), values.size(), " values, ", weights.size(),
                 " weights");
  check_no_nan(values);
  check_no_nan(weights);
  double sum = 0.0;
  double total = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    SHARDLAB_CHECK(weights[i] >= 0.0, "weight ", i, " is ", weights[i]);
    sum += weights[i] * values[i];
    total += weights[i];
  }
  if (total <= 0.0) return std::nullopt;
  return sum / total;
}

std::optional<double> maximum(std::span<const double> values) {
  check_no_nan(values);
  if (values.empty()) return std::nullopt;
  return *std::max_element(values.begin(), values.end());
}

std::optional<double> percentile(std::span<const double> values, double p) {
  SHARDLAB_CHECK(p >= 0.0 && p <= 1.0, "p is ", p);
  check_no_nan(values);
  if (values.empty()) return std::nullopt;
  return shardlab::percentile({values.begin(), values.end()}, p);
}

std::optional<double> median(std::span<const double> values) { return percentile(values, 0.5); }

std::optional<double> kendall_tau_b(std::span<const double> left, std::span<const double> right) {
  SHARDLAB_CHECK(left.size() == right.size(), left.size(), " values against ", right.size());
  check_no_nan(left);
  check_no_nan(right);
  const std::size_t size = left.size();
  if (size < 2) return std::nullopt;

  std::vector<std::pair<double, double>> pairs(size);
  for (std::size_t i = 0; i < size; ++i) pairs[i] = {left[i], right[i]};
  std::sort(pairs.begin(), pairs.end());
  const std::int64_t tied_left =
      tied_pairs(size, [&](std::size_t i) { return pairs[i].first == pairs[i - 1].first; });
  const std::int64_t tied_both =
      tied_pairs(size, [&](std::size_t i) { return pairs[i] == pairs[i - 1]; });

  // In the order of `left` (ties by `right`), each strict descent of `right` is one discordant
  // pair.
  std::vector<double> second(size);
  for (std::size_t i = 0; i < size; ++i) second[i] = pairs[i].second;
  const std::int64_t discordant = sort_counting_inversions(second);
  const std::int64_t tied_right =
      tied_pairs(size, [&](std::size_t i) { return second[i] == second[i - 1]; });

  const std::int64_t all = pairs_among(static_cast<std::int64_t>(size));
  if (all == tied_left || all == tied_right) return std::nullopt;
  const std::int64_t concordant = all - tied_left - tied_right + tied_both - discordant;
  const double untied_left = static_cast<double>(all - tied_left);
  const double untied_right = static_cast<double>(all - tied_right);
  const double tau =
      static_cast<double>(concordant - discordant) / std::sqrt(untied_left * untied_right);
  return std::clamp(tau, -1.0, 1.0);
}

}  // namespace shardlab::reports
