// Random numbers for tests: one generator per test, the same numbers on every machine, and a seed
// that is shown on failure.
//
//   Random random(7);               // a number per test; SHARDLAB_TEST_SEED is common to all
//   SHARDLAB_TRACE_SEED();          // every failure below names the seed
//   for (int i = 0; i < random_cases(200); ++i) ... random.between(1, 9) ...
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace shardlab::testing_support {

inline std::uint64_t common_seed() {
  const char* given = std::getenv("SHARDLAB_TEST_SEED");
  return given == nullptr ? 20260127 : std::strtoull(given, nullptr, 10);
}

// Fewer cases under sanitizers, which slow everything down.
constexpr int random_cases(int count) {
#ifdef SHARDLAB_SANITIZED
  return count < 10 ? count : count / 10 + 1;
#else
  return count;
#endif
}

class Random {
 public:
  explicit Random(std::uint64_t test) : generator_(common_seed() * 1000003U + test) {}

  // Takes a modulo, because the distributions of the standard library differ between libraries.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    const auto values = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<std::int64_t>(generator_() % values);
  }
  int below(int end) { return static_cast<int>(between(0, end - 1)); }
  bool percent(int chance) { return below(100) < chance; }
  template <class Value>
  const Value& pick(const std::vector<Value>& values) {
    return values[generator_() % values.size()];
  }
  template <class Value>
  void shuffle(std::vector<Value>& values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[generator_() % i]);
    }
  }

 private:
  std::mt19937_64 generator_;
};

inline std::string seed_text() {
  return "seed: SHARDLAB_TEST_SEED=" + std::to_string(common_seed());
}

}  // namespace shardlab::testing_support

#define SHARDLAB_TRACE_SEED() SCOPED_TRACE(::shardlab::testing_support::seed_text())
