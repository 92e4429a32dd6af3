#include "costmodel/straggler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "costmodel/base/error.h"
#include "tests/support/random_source.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace straggler_test {

using nlohmann::json;
using testing_support::collective_model;
using testing_support::topology_with;

const JsonPlace kPlace{"s.json", "/straggler"};

TEST(Straggler, IsReadFromItsNameOrAnObject) {
  EXPECT_EQ(Straggler::from_json("none", kPlace).kind, StragglerKind::kNone);
  const Straggler percent = Straggler::from_json({{"name", "percent"}, {"percent", 5}}, kPlace);
  EXPECT_EQ(percent.kind, StragglerKind::kPercent);
  EXPECT_EQ(percent.percent, 5.0);
}

TEST(Straggler, ToJsonReadsBackToTheSame) {
  for (const json& value : {json{{"name", "none"}}, json{{"name", "percent"}, {"percent", 2.5}},
                            json{{"name", "fixed"}, {"fixed_us", 3.0}},
                            json{{"name", "order_statistics"}, {"sigma", 0.25}},
                            json{{"name", "order_statistics"}, {"delays_us", {1.0, 0.0, 7.5}}}}) {
    EXPECT_EQ(Straggler::from_json(value, kPlace).to_json(), value);
  }
}

TEST(Straggler, PercentAddsItsShareToTheTotalAndSaysSo) {
  const Topology topology = topology_with(8);
  const CollectiveQuery query{Collective::kAllGather, 1048576, {.ranks = 4, .walk = 4}};
  const double bare = collective_model("dtensor", topology)->price(query).total.value();
  const auto slowed = Straggler::from_json({{"name", "percent"}, {"percent", 5}}, kPlace)
                          .decorate(collective_model("dtensor", topology));
  const Price price = slowed->price(query);
  EXPECT_DOUBLE_EQ(price.total.value(), bare * 1.05);
  EXPECT_DOUBLE_EQ(price.straggler.value(), bare * 0.05);
  EXPECT_DOUBLE_EQ((price.latency + price.transfer + price.straggler).value(), price.total.value());
}

TEST(Straggler, NoneLeavesTheModelAsItIs) {
  const Topology topology = topology_with(8);
  auto model = collective_model("dtensor", topology);
  const CostModel* bare = model.get();
  EXPECT_EQ(Straggler().decorate(std::move(model)).get(), bare);
}

TEST(Straggler, AnImpossiblePriceKeepsItsReason) {
  const Topology topology = topology_with(8);
  const auto slowed = Straggler{.kind = StragglerKind::kPercent, .percent = 5}.decorate(
      collective_model("table", topology));
  const Price price = slowed->price({Collective::kAllGather, 8, {.ranks = 4}});
  EXPECT_EQ(price.impossible, "the table has no row for this collective and group");
  EXPECT_EQ(price.straggler.value(), 0.0);
}

Price slowed(const json& straggler, std::int64_t ranks) {
  const Topology topology = topology_with(8);
  return Straggler::from_json(straggler, kPlace)
      .decorate(collective_model("alpha_beta", topology))
      ->price({Collective::kAllReduce, 1e6, {.ranks = ranks, .extent = ranks}});
}
double bare_us(std::int64_t ranks) { return slowed("none", ranks).total.value(); }

TEST(Straggler, FixedAddsItsCostOncePerCollective) {
  const Price price = slowed({{"name", "fixed"}, {"fixed_us", 3}}, 8);
  EXPECT_DOUBLE_EQ(price.straggler.value(), 3.0);
  EXPECT_DOUBLE_EQ(price.total.value(), bare_us(8) + 3.0);
  EXPECT_EQ(slowed({{"name", "fixed"}, {"fixed_us", 3}}, 1).total.value(), 0.0);
}

TEST(Straggler, OrderStatisticsMultiplyByTheLargestOfTheFactors) {
  const Price price = slowed({{"name", "order_statistics"}, {"sigma", 0.2}}, 8);
  EXPECT_NEAR(price.total.value(), bare_us(8) * expected_max_lognormal(0.2, 8), 1e-9);
  EXPECT_EQ(slowed({{"name", "order_statistics"}, {"sigma", 0.2}}, 1).total.value(), 0.0);
  EXPECT_DOUBLE_EQ(slowed({{"name", "order_statistics"}, {"sigma", 0}}, 8).total.value(),
                   bare_us(8));
}

TEST(Straggler, DelaysAddTheLargestOfTheDraws) {
  const json straggler = {{"name", "order_statistics"}, {"delays_us", {10.0, 0.0}}};
  // Two draws from {0, 10}: the larger one is 10 in three cases of four.
  EXPECT_DOUBLE_EQ(slowed(straggler, 2).straggler.value(), 7.5);
  EXPECT_DOUBLE_EQ(slowed(straggler, 8).straggler.value(), 10 * (1 - 1.0 / 256));
}

TEST(Straggler, AlternativesWaitToo) {
  const Topology topology = topology_with(8);
  const auto model = Straggler{.kind = StragglerKind::kFixed, .fixed_us = 3}.decorate(
      collective_model("nccl", topology));
  const CollectiveQuery query{Collective::kAllReduce, 1e6, {.ranks = 8, .extent = 8}};
  const auto all = model->alternatives(query);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().price.total, model->price(query).total);
  for (const Alternative& a : all) EXPECT_DOUBLE_EQ(a.price.straggler.value(), 3.0);
}

TEST(Straggler, ManyThreadsShareOneModel) {
  const Topology topology = topology_with(8);
  const auto model = Straggler{.kind = StragglerKind::kOrderStatistics, .sigma = 0.3}.decorate(
      collective_model("alpha_beta", topology));
  std::vector<std::thread> threads;
  std::vector<double> sums(4);
  for (std::size_t t = 0; t < sums.size(); ++t) {
    threads.emplace_back([&model, &sums, t] {
      for (std::int64_t n = 2; n < 600; n += 2) {
        sums[t] += model->price({Collective::kAllGather, 1e6, {.ranks = n}}).total.value();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const double sum : sums) EXPECT_EQ(sum, sums.front());
}

TEST(ExpectedMax, OfLogNormalsHasItsClosedForms) {
  for (const double sigma : {0.0, 0.01, 0.3, 1.0, 2.0, 5.0}) {
    const double mean = std::exp(sigma * sigma / 2);
    EXPECT_NEAR(expected_max_lognormal(sigma, 1) / mean, 1.0, 1e-9) << sigma;
    // The expected maximum of two lognormal draws is twice their mean times Phi(sigma / sqrt 2).
    const double two = 2 * mean * 0.5 * std::erfc(-sigma / 2);
    EXPECT_NEAR(expected_max_lognormal(sigma, 2) / two, 1.0, 1e-9) << sigma;
  }
}

TEST(ExpectedMax, GrowsWithMembersUpToTheMostThatATopologyHas) {
  double before = 0;
  for (int bits = 0; bits <= 40; ++bits) {
    const double now = expected_max_lognormal(0.5, std::int64_t{1} << static_cast<unsigned>(bits));
    EXPECT_GT(now, before);
    before = now;
  }
  // Gumbel's limit for the largest of 2^40 normals: 7.05, the quantile of 2^-40, plus Euler's
  // constant over it.
  EXPECT_NEAR(std::log(before) / 0.5, 7.05 + 0.5772 / 7.05, 0.02);
}

TEST(ExpectedMax, AgreesWithMonteCarloWithinItsError) {
  SHARDLAB_TRACE_SEED();
  testing_support::Random random(31);
  const auto normal = [&] {  // by the method of Box and Muller
    const auto unit = [&] {
      return (static_cast<double>(random.between(1, 1 << 30)) - 0.5) / (1 << 30);
    };
    return std::sqrt(-2 * std::log(unit())) * std::cos(6.283185307179586 * unit());
  };
  for (const int n : {2, 8, 64}) {
    constexpr int kRuns = 20000;
    double sum = 0;
    double squares = 0;
    for (int run = 0; run < kRuns; ++run) {
      double largest = 0;
      for (int i = 0; i < n; ++i) largest = std::max(largest, std::exp(0.4 * normal()));
      sum += largest;
      squares += largest * largest;
    }
    const double mean = sum / kRuns;
    const double error = std::sqrt((squares / kRuns - mean * mean) / kRuns);
    EXPECT_NEAR(mean, expected_max_lognormal(0.4, n), 4.5 * error) << n;
  }
}

TEST(ExpectedMax, OfDrawsEqualsTheCountOfAllCases) {
  const std::vector<double> values = {1, 2, 2, 5};
  double sum = 0;
  for (const double a : values) {
    for (const double b : values) {
      for (const double c : values) sum += std::max({a, b, c});
    }
  }
  EXPECT_DOUBLE_EQ(expected_max_of_draws(values, 3), sum / 64);
  EXPECT_DOUBLE_EQ(expected_max_of_draws(values, 1), 2.5);
  EXPECT_DOUBLE_EQ(expected_max_of_draws(values, std::int64_t{1} << 40), 5.0);
}

TEST(StragglerFit, RecoversWhatTimesWereDrawnFrom) {
  SHARDLAB_TRACE_SEED();
  testing_support::Random random(32);
  const auto normal = [&] {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.between(0, 1 << 30)) / (1 << 30);
    return sum;
  };
  for (const int members : {1, 8}) {
    std::vector<double> times;
    for (int i = 0; i < 4000; ++i) {
      double largest = 0;
      for (int m = 0; m < members; ++m) {
        largest = std::max(largest, 40 * std::exp(0.15 * normal()));
      }
      times.push_back(largest);
    }
    const StragglerFit fit = fit_straggler(times, members);
    EXPECT_NEAR(fit.sigma, 0.15, 0.01) << members;
    EXPECT_NEAR(fit.median_us, 40, 1) << members;
    EXPECT_NEAR(fit.sigma_standard_error, fit.sigma / std::sqrt(2.0 * 3999), 1e-12);
  }
}

TEST(StragglerFit, RefusesWhatHasNoAnswer) {
  EXPECT_THROW_MSG(fit_straggler(std::vector<double>{3.0}), InputError,
                   "a straggler fit needs at least two measured times; found 1");
  EXPECT_THROW_MSG(fit_straggler(std::vector<double>{3.0, 0.0}), InputError,
                   "time 1 of a straggler fit: found 0.000000; valid: a positive number of us");
  EXPECT_THROW_MSG(fit_straggler(std::vector<double>{3.0, 4.0}, 0), InputError,
                   "a straggler fit: found 0 members; valid: 1 or more");
}

TEST(Straggler, ErrorsNameWhatIsValid) {
  EXPECT_THROW_MSG(
      Straggler::from_json("fixed", kPlace), ConfigError,
      "s.json:/straggler: found \"fixed\" without its figures; valid: {\"name\": \"fixed\", "
      "\"fixed_us\": NUMBER}");
  EXPECT_THROW_MSG(
      Straggler::from_json({{"name", "order_statistics"}, {"delays_us", json::array()}}, kPlace),
      ConfigError, "s.json:/straggler/delays_us: found 0 delays; valid: 1 to 1000000");
  EXPECT_THROW_MSG(
      Straggler::from_json({{"name", "order_statistics"}, {"delays_us", {1, -1}}}, kPlace),
      ConfigError, "s.json:/straggler/delays_us/1: found -1; valid: a number from 0 to 1e+12");
  EXPECT_THROW_MSG(Straggler::from_json({{"name", "order_statistics"}, {"sigma", 6}}, kPlace),
                   ConfigError, "s.json:/straggler/sigma: found 6; valid: a number from 0 to 5");
  EXPECT_THROW_MSG(Straggler::from_json(
                       {{"name", "order_statistics"}, {"sigma", 1}, {"delays_us", {1}}}, kPlace),
                   ConfigError, "s.json:/straggler/sigma: unknown key; valid: name, delays_us");
  EXPECT_THROW_MSG(Straggler::from_json("slow", kPlace), ConfigError,
                   "s.json:/straggler: unknown straggler model \"slow\"; valid: none, percent, "
                   "fixed, order_statistics");
  EXPECT_THROW_MSG(Straggler::from_json({{"name", "slow"}}, kPlace), ConfigError,
                   "s.json:/straggler/name: unknown straggler model \"slow\"; valid: none, "
                   "percent, fixed, order_statistics");
  EXPECT_THROW_MSG(
      Straggler::from_json("percent", kPlace), ConfigError,
      "s.json:/straggler: found \"percent\" without its figures; valid: {\"name\": \"percent\", "
      "\"percent\": NUMBER}");
  EXPECT_THROW_MSG(Straggler::from_json({{"name", "percent"}}, kPlace), ConfigError,
                   "s.json:/straggler: missing key \"percent\"");
  EXPECT_THROW_MSG(Straggler::from_json({{"name", "percent"}, {"percent", -1}}, kPlace),
                   ConfigError,
                   "s.json:/straggler/percent: found -1; valid: a number from 0 to 1e+06");
  EXPECT_THROW_MSG(Straggler::from_json({{"name", "none"}, {"percent", 1}}, kPlace), ConfigError,
                   "s.json:/straggler/percent: unknown key; valid: name");
  EXPECT_THROW_MSG(Straggler::from_json(3, kPlace), ConfigError,
                   "s.json:/straggler: found 3; valid: an object");
}

}  // namespace straggler_test
}  // namespace shardlab
