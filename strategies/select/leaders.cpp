#include "strategies/select/leaders.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace shardlab {
namespace {

constexpr std::size_t kBlock = 64;
// Totals within this share of the least compete. The share is larger than the one within which
// ties_at_minimum() counts ties.
constexpr double kNear = 1e-11;

// Four minima are kept side by side: with one alone, each comparison would wait for the one before.
double least_of(std::span<const double> values) {
  std::array<double, 4> least;
  least.fill(std::numeric_limits<double>::infinity());
  std::size_t i = 0;
  for (; i + 4 <= values.size(); i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) {
      least[lane] = values[i + lane] < least[lane] ? values[i + lane] : least[lane];
    }
  }
  for (; i < values.size(); ++i) least[0] = std::min(least[0], values[i]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

}  // namespace

Leaders::Leaders(std::span<const double> totals) {
  std::vector<double> block_least;
  for (std::size_t begin = 0; begin < totals.size(); begin += kBlock) {
    block_least.push_back(least_of(totals.subspan(begin, std::min(kBlock, totals.size() - begin))));
  }
  const double least = least_of(block_least);
  const double near = least + kNear * std::abs(least);
  for (std::size_t b = 0; b < block_least.size(); ++b) {
    if (block_least[b] > near) {
      others_ = std::min(others_, block_least[b]);
      continue;
    }
    for (std::size_t i = b * kBlock; i < std::min(totals.size(), (b + 1) * kBlock); ++i) {
      if (totals[i] <= near) {
        indices_.push_back(i);
      } else {
        others_ = std::min(others_, totals[i]);
      }
    }
  }
}

}  // namespace shardlab
