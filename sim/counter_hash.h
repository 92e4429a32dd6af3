// Random numbers that are computed from indices instead of drawn in turn: the number of a rank, an
// element or a kernel depends only on the seed and its indices. It is therefore the same in every
// layout and with any number of threads.
//
//   counter_hash(seed, rank, kernel)      // 64 random bits
//   counter_normal(seed, rank, kernel)    // a standard normal variate
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace shardlab {

// SplitMix64 (Steele, Lea, Flood 2014) of a counter: the same number for the same arguments.
[[nodiscard]] inline std::uint64_t counter_hash(std::uint64_t seed, std::uint64_t a,
                                                std::uint64_t b) {
  std::uint64_t x = seed + 0x9e3779b97f4a7c15ULL * (a + 1) + 0xd1b54a32d192ed03ULL * (b + 1);
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

// A standard normal variate (Box and Muller 1958).
[[nodiscard]] inline double counter_normal(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t first = counter_hash(seed, a, 2 * b);
  const std::uint64_t second = counter_hash(seed, a, 2 * b + 1);
  const double u = (static_cast<double>(first >> 11U) + 1.0) * 0x1p-53;  // in (0, 1]
  const double v = static_cast<double>(second >> 11U) * 0x1p-53;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace shardlab
