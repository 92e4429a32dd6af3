#include "sim/flows/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "costmodel/base/error.h"
#include "tests/support/naive_fair_share.h"

namespace shardlab {
namespace fair_share_test {

using namespace testing_support;

struct Network {
  std::vector<double> capacities;
  std::vector<NaiveFlow> flows;
};

NaiveFlow random_flow(std::mt19937_64& random, int resources) {
  std::uniform_real_distribution<double> share(0.0, 1.0);
  NaiveFlow flow;
  const int length = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < length; ++i) {
    const auto resource = static_cast<int>(random() % static_cast<unsigned>(resources));
    // Some amounts are equal, so that several flows meet their bottleneck at once; some are tiny.
    const double amounts[] = {1.0, 0.5, share(random), 10.0 * share(random), 1e-6};
    flow.uses.push_back({resource, amounts[random() % 5]});
  }
  const double caps[] = {1.0, 1.0, 1.0, 2.0 * share(random) + 1e-3};
  flow.cap = caps[random() % 4];
  return flow;
}

Network random_network(std::mt19937_64& random) {
  std::uniform_real_distribution<double> share(0.1, 4.0);
  Network network;
  const int resources = 1 + static_cast<int>(random() % 12);
  for (int r = 0; r < resources; ++r) {
    network.capacities.push_back(random() % 2 == 0 ? 1.0 : share(random));
  }
  const auto flows = 1 + random() % 30;
  for (std::uint64_t f = 0; f < flows; ++f) {
    network.flows.push_back(random_flow(random, resources));
  }
  return network;
}

std::vector<double> solved(const Network& network) {
  FairShare share(network.capacities);
  std::vector<int> numbers;
  for (const NaiveFlow& flow : network.flows) numbers.push_back(share.add(flow.uses, flow.cap));
  share.update();
  std::vector<double> speeds;
  for (const int number : numbers) speeds.push_back(share.speed(number));
  return speeds;
}

// No resource is overused, and each flow is at its cap or has a bottleneck: a resource that is used
// up, on which no flow is faster. This characterises max-min fair speeds.
void expect_max_min(const Network& network, const std::vector<double>& speeds) {
  constexpr double kRounding = 1e-11;
  std::vector<double> used(network.capacities.size(), 0.0);
  std::vector<double> fastest(network.capacities.size(), 0.0);
  for (std::size_t f = 0; f < speeds.size(); ++f) {
    ASSERT_GT(speeds[f], 0.0);
    ASSERT_LE(speeds[f], network.flows[f].cap);
    for (const auto& [resource, amount] : network.flows[f].uses) {
      used[static_cast<std::size_t>(resource)] += amount * speeds[f];
      double& its_fastest = fastest[static_cast<std::size_t>(resource)];
      its_fastest = std::max(its_fastest, speeds[f]);
    }
  }
  for (std::size_t r = 0; r < used.size(); ++r) {
    ASSERT_LE(used[r], network.capacities[r] * (1 + kRounding)) << "resource " << r;
  }
  for (std::size_t f = 0; f < speeds.size(); ++f) {
    const auto& uses = network.flows[f].uses;
    const bool has_bottleneck = std::any_of(uses.begin(), uses.end(), [&](const ResourceUse& use) {
      const auto r = static_cast<std::size_t>(use.resource);
      return used[r] >= network.capacities[r] * (1 - kRounding) &&
             speeds[f] >= fastest[r] * (1 - kRounding);
    });
    ASSERT_TRUE(speeds[f] == network.flows[f].cap || has_bottleneck) << "flow " << f;
  }
}

TEST(FairShare, SharesTwoLinks) {
  FairShare share({100.0, 40.0});
  const std::vector<ResourceUse> uses = {{0, 50.0}, {1, 50.0}};
  const int a = share.add(uses);
  const int b = share.add(uses);
  const int c = share.add(std::vector<ResourceUse>{{0, 100.0}});
  (void)share.update();
  EXPECT_EQ(share.speed(a), 0.4);
  EXPECT_EQ(share.speed(b), 0.4);
  EXPECT_EQ(share.speed(c), 0.6);  // what the two leave of link 0
  share.remove(a);
  (void)share.update();
  EXPECT_DOUBLE_EQ(share.speed(b), 2.0 / 3.0);  // link 0 is the bottleneck of both now
  EXPECT_DOUBLE_EQ(share.speed(c), 2.0 / 3.0);
  share.remove(c);
  (void)share.update();
  EXPECT_EQ(share.speed(b), 0.8);
  EXPECT_EQ(share.flows(), 1);
}

TEST(FairShare, SpeedsAreFeasibleAndMaxMin) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    const Network network = random_network(random);
    expect_max_min(network, solved(network));
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
}

TEST(FairShare, EqualsTheDefinition) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    Network network = random_network(random);
    for (NaiveFlow& flow : network.flows) {
      // Bisection cannot tell a tiny use from none.
      for (ResourceUse& use : flow.uses) use.amount = std::max(use.amount, 0.01);
    }
    const std::vector<double> naive = naive_speeds(network.capacities, network.flows);
    const std::vector<double> speeds = solved(network);
    for (std::size_t f = 0; f < speeds.size(); ++f) {
      ASSERT_NEAR(speeds[f], naive[f], 1e-7 * naive[f]) << "round " << round << " flow " << f;
    }
  }
}

TEST(FairShare, TheOrderOfFlowsDoesNotMatter) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    const Network network = random_network(random);
    const std::vector<double> speeds = solved(network);
    std::vector<std::size_t> order(speeds.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    Network shuffled{.capacities = network.capacities, .flows = {}};
    for (const std::size_t f : order) shuffled.flows.push_back(network.flows[f]);
    const std::vector<double> others = solved(shuffled);
    for (std::size_t i = 0; i < order.size(); ++i) {
      ASSERT_NEAR(others[i], speeds[order[i]], 1e-11 * speeds[order[i]]) << "round " << round;
    }
  }
}

// Flows come and go one by one and in batches; after each update the speeds are those of a fresh
// network, and the flows whose speeds changed are exactly those that are listed.
TEST(FairShare, ChangesLeadToWhatAFreshNetworkGives) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 30; ++round) {
    const Network network = random_network(random);
    const int resources = static_cast<int>(network.capacities.size());
    FairShare share(network.capacities);
    std::map<int, NaiveFlow> live;
    std::map<int, double> speeds;
    for (int step = 0; step < 200; ++step) {
      const auto changes = 1 + random() % 3;
      for (std::uint64_t change = 0; change < changes; ++change) {
        if (!live.empty() && random() % 2 == 0) {
          const auto gone = std::next(live.begin(), static_cast<long>(random() % live.size()));
          share.remove(gone->first);
          speeds.erase(gone->first);
          live.erase(gone);
        } else {
          NaiveFlow flow = random_flow(random, resources);
          const int number = share.add(flow.uses, flow.cap);
          ASSERT_TRUE(live.emplace(number, std::move(flow)).second);
        }
      }
      std::vector<int> changed;
      for (const int flow : share.update()) changed.push_back(flow);
      std::sort(changed.begin(), changed.end());
      Network now{.capacities = network.capacities, .flows = {}};
      std::vector<double> its_speeds;
      std::vector<int> expected;
      for (const auto& [number, flow] : live) {
        now.flows.push_back(flow);
        its_speeds.push_back(share.speed(number));
        const auto known = speeds.find(number);
        if (known == speeds.end() || known->second != share.speed(number)) {
          expected.push_back(number);
        }
        speeds[number] = share.speed(number);
      }
      ASSERT_EQ(changed, expected);
      expect_max_min(now, its_speeds);
      if (HasFatalFailure()) FAIL() << "round " << round << " step " << step;
      const std::vector<double> fresh = solved(now);
      for (std::size_t f = 0; f < fresh.size(); ++f) {
        ASSERT_NEAR(its_speeds[f], fresh[f], 1e-11 * fresh[f]) << "round " << round;
      }
    }
  }
}

// Link 0 is wide enough for all, so what happens on link 1 does not reach the flows on link 2.
TEST(FairShare, SolvesOnlyWhatAChangeCanReach) {
  FairShare share({100.0, 1.0, 1.0});
  const std::vector<ResourceUse> left = {{0, 1.0}, {1, 1.0}};
  const std::vector<ResourceUse> right = {{0, 1.0}, {2, 1.0}};
  for (int i = 0; i < 5; ++i) (void)share.add(left);
  for (int i = 0; i < 7; ++i) (void)share.add(right);
  EXPECT_EQ(share.update().size(), 12U);
  const int more = share.add(left);
  EXPECT_EQ(share.update().size(), 6U);
  EXPECT_EQ(share.solved(), 6);
  share.remove(more);
  EXPECT_EQ(share.update().size(), 5U);
  EXPECT_EQ(share.solved(), 5);
  const int alone = share.add(std::vector<ResourceUse>{{0, 1.0}});
  EXPECT_EQ(share.update().size(), 1U);
  EXPECT_EQ(share.solved(), 0);
  EXPECT_EQ(share.speed(alone), 1.0);
}

TEST(FairShare, RefusesWhatMakesNoSense) {
  EXPECT_THROW(FairShare({1.0, 0.0}), ContractError);
  EXPECT_THROW(FairShare({std::numeric_limits<double>::infinity()}), ContractError);
  FairShare share({1.0});
  const auto add = [&](ResourceUse use, double cap) {
    return share.add(std::vector<ResourceUse>{use}, cap);
  };
  EXPECT_THROW((void)add({1, 1.0}, 1.0), ContractError);
  EXPECT_THROW((void)add({-1, 1.0}, 1.0), ContractError);
  EXPECT_THROW((void)add({0, -1.0}, 1.0), ContractError);
  EXPECT_THROW((void)add({0, std::numeric_limits<double>::quiet_NaN()}, 1.0), ContractError);
  EXPECT_THROW((void)add({0, 1.0}, 0.0), ContractError);
  const int flow = add({0, 1.0}, 1.0);
  share.remove(flow);
  EXPECT_THROW(share.remove(flow), ContractError);
  EXPECT_THROW((void)share.speed(7), ContractError);
}

}  // namespace fair_share_test
}  // namespace shardlab
