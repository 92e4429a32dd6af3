#include "reports/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "costmodel/base/error.h"

namespace shardlab::reports {
namespace statistics_test {

using Values = std::vector<double>;

// Draws a whole number below `limit`.
double draw(std::mt19937& rng, std::uint32_t limit) {
  return static_cast<double>(static_cast<std::uint32_t>(rng()) % limit);
}

// Computes tau by its definition, pair by pair, which is slow and obvious.
std::optional<double> quadratic_tau_b(const Values& left, const Values& right) {
  double concordant = 0;
  double discordant = 0;
  double only_left_tied = 0;
  double only_right_tied = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    for (std::size_t j = i + 1; j < left.size(); ++j) {
      const bool is_left_tied = left[i] == left[j];
      const bool is_right_tied = right[i] == right[j];
      if (is_left_tied && is_right_tied) continue;
      if (is_left_tied) {
        ++only_left_tied;
      } else if (is_right_tied) {
        ++only_right_tied;
      } else if ((left[i] < left[j]) == (right[i] < right[j])) {
        ++concordant;
      } else {
        ++discordant;
      }
    }
  }
  const double untied_left = concordant + discordant + only_right_tied;
  const double untied_right = concordant + discordant + only_left_tied;
  if (untied_left == 0 || untied_right == 0) return std::nullopt;
  return (concordant - discordant) / std::sqrt(untied_left * untied_right);
}

TEST(Statistics, NoValuesHaveNoStatistics) {
  EXPECT_EQ(mean({}), std::nullopt);
  EXPECT_EQ(median({}), std::nullopt);
  EXPECT_EQ(maximum({}), std::nullopt);
  EXPECT_EQ(percentile({}, 0.99), std::nullopt);
  EXPECT_EQ(weighted_mean({}, {}), std::nullopt);
  EXPECT_EQ(kendall_tau_b({}, {}), std::nullopt);
}

TEST(Statistics, MeanAndMaximumOfAFewValues) {
  EXPECT_DOUBLE_EQ(*mean(Values{1, 2, 6}), 3.0);
  EXPECT_DOUBLE_EQ(*maximum(Values{-3, -1, -2}), -1.0);
}

TEST(Statistics, WeightsCountAValueSeveralTimes) {
  EXPECT_DOUBLE_EQ(*weighted_mean(Values{1, 5}, Values{3, 1}), 2.0);
  EXPECT_DOUBLE_EQ(*weighted_mean(Values{1, 5}, Values{1, 1}), 3.0);
  EXPECT_EQ(weighted_mean(Values{1, 5}, Values{0, 0}), std::nullopt);
}

TEST(Statistics, PercentilesInterpolateOnAStraightLine) {
  const Values values = {4, 1, 2};  // sorted 1 2 4, at places 0 1 2
  EXPECT_DOUBLE_EQ(*percentile(values, 0.0), 1.0);
  EXPECT_DOUBLE_EQ(*percentile(values, 0.5), 2.0);
  EXPECT_DOUBLE_EQ(*percentile(values, 0.75), 3.0);  // place 1.5
  EXPECT_DOUBLE_EQ(*percentile(values, 1.0), 4.0);
  EXPECT_DOUBLE_EQ(*median(Values{1, 2}), 1.5);
  EXPECT_DOUBLE_EQ(*percentile(Values{7}, 0.99), 7.0);
}

TEST(Statistics, BrokenArgumentsAreContractErrors) {
  EXPECT_THROW(static_cast<void>(percentile(Values{1}, 1.5)), ContractError);
  EXPECT_THROW(static_cast<void>(mean(Values{std::nan("")})), ContractError);
  EXPECT_THROW(static_cast<void>(weighted_mean(Values{1}, Values{})), ContractError);
  EXPECT_THROW(static_cast<void>(weighted_mean(Values{1}, Values{-1})), ContractError);
  EXPECT_THROW(static_cast<void>(kendall_tau_b(Values{1}, Values{})), ContractError);
  EXPECT_THROW(static_cast<void>(kendall_tau_b(Values{1, std::nan("")}, Values{1, 2})),
               ContractError);
}

TEST(KendallTau, TheSameOrderIsOneAndTheReverseMinusOne) {
  EXPECT_EQ(kendall_tau_b(Values{1, 2, 3, 4}, Values{10, 20, 30, 40}), 1.0);
  EXPECT_EQ(kendall_tau_b(Values{1, 2, 3, 4}, Values{4, 3, 2, 1}), -1.0);
  EXPECT_EQ(kendall_tau_b(Values{1, 1, 2}, Values{5, 5, 9}), 1.0);
}

TEST(KendallTau, TiesFollowTheTauBFormula) {
  // Pairs (1,1) (2,2) (2,3) (3,3): 4 concordant, 0 discordant, one pair tied left, one right: 4 /
  // sqrt(5 x 5).
  EXPECT_DOUBLE_EQ(*kendall_tau_b(Values{1, 2, 2, 3}, Values{1, 2, 3, 3}), 0.8);
}

TEST(KendallTau, OneValueOrOneSideAllTiedHasNoOrder) {
  EXPECT_EQ(kendall_tau_b(Values{1}, Values{1}), std::nullopt);
  EXPECT_EQ(kendall_tau_b(Values{1, 1, 1}, Values{1, 2, 3}), std::nullopt);
  EXPECT_EQ(kendall_tau_b(Values{1, 2, 3}, Values{2, 2, 2}), std::nullopt);
}

TEST(KendallTau, InfinityOrdersAboveEveryPriceAndTiesWithItself) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(kendall_tau_b(Values{1, 2, inf}, Values{3, 4, inf}), 1.0);
  EXPECT_EQ(kendall_tau_b(Values{1, inf, inf}, Values{1, 2, 2}), 1.0);
}

TEST(KendallTau, AgreesWithTheQuadraticTwinOnRandomValuesWithTies) {
  const char* from_environment = std::getenv("SHARDLAB_TEST_SEED");
  const unsigned seed =
      from_environment == nullptr ? 20240117U : static_cast<unsigned>(std::stoul(from_environment));
  SCOPED_TRACE("SHARDLAB_TEST_SEED=" + std::to_string(seed));
  std::mt19937 rng(seed);
  for (int round = 0; round < 500; ++round) {
    const std::size_t size = rng() % 40;
    const auto values = static_cast<std::uint32_t>(1 + rng() % 12);  // few values, many ties
    Values left;
    Values right;
    for (std::size_t i = 0; i < size; ++i) {
      left.push_back(draw(rng, values));
      right.push_back(draw(rng, values));
    }
    const std::optional<double> expected = quadratic_tau_b(left, right);
    const std::optional<double> tau = kendall_tau_b(left, right);
    ASSERT_EQ(tau.has_value(), expected.has_value()) << "round " << round;
    if (!tau) continue;
    ASSERT_NEAR(*tau, *expected, 1e-12) << "round " << round;
  }
}

TEST(KendallTau, IsSymmetricAndCountsLargeInputsInOneSort) {
  std::mt19937 rng(3);
  Values left;
  Values right;
  for (int i = 0; i < 200000; ++i) {  // 2e10 pairs: the twin would take minutes
    left.push_back(draw(rng, 1000));
    right.push_back(left.back() + draw(rng, 1000));
  }
  const double tau = *kendall_tau_b(left, right);
  EXPECT_GT(tau, 0.3);
  EXPECT_LT(tau, 0.7);
  EXPECT_EQ(tau, *kendall_tau_b(right, left));
}

}  // namespace statistics_test
}  // namespace shardlab::reports
