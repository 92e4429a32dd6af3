// Normally distributed random numbers, the same with every standard library.
#pragma once

#include <cmath>
#include <numbers>

#include "tests/support/random_source.h"

namespace shardlab::testing_support {

// A draw from the standard normal distribution. Source: Box and Muller 1958.
inline double normal_variate(Random& random) {
  const auto uniform = [&] {
    return (static_cast<double>(random.between(0, 1 << 30)) + 0.5) / ((1 << 30) + 1.0);
  };
  return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
}

}  // namespace shardlab::testing_support
