// What the scoreboard lets a stack see, and what its choices cost by measured times.
#include "runner/evaluation/scoreboard.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/shipped.h"

namespace shardlab {
namespace scoreboard_test {

using testing_support::shipped;

// Times among 8 GPUs of one host from 1 KiB to 1 GiB: `floor` us plus the bytes at 100 GB/s.
MeasurementSet set_of(Collective kind, double floor) {
  MeasurementSet set;
  set.name = std::string(to_string(kind));
  set.gpu = "H100-SXM5-80GB (test)";
  set.inter = "none";
  set.hosts = 1;
  set.ranks = 8;
  set.gpus_per_host = 8;
  for (double bytes = 1024; bytes <= 1 << 30; bytes *= 4) {
    set.rows.push_back(
        {.collective = kind, .dtype = "f32", .bytes = bytes, .time_us = floor + bytes / 1e5});
  }
  return set;
}

TEST(Scoreboard, SixRowsOfASetAreEvenlySpaced) {
  const MeasurementSet set = set_of(Collective::kAllGather, 10);
  ASSERT_EQ(set.rows.size(), 11U);
  const MeasurementSet sparse = sparse_rows(set);
  ASSERT_EQ(sparse.rows.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(sparse.rows[i].bytes, set.rows[2 * i].bytes);
  EXPECT_EQ(sparse_rows(sparse).rows.size(), 6U);
}

TEST(Scoreboard, FamiliesAreGpuAndFabric) {
  MeasurementSet set = set_of(Collective::kAllGather, 10);
  EXPECT_EQ(measurement_family(set), "H100-SXM5-80GB, one host");
  set.inter = "InfiniBand NDR (8x 400 Gb/s)";
  set.hosts = 2;
  EXPECT_EQ(measurement_family(set), "H100-SXM5-80GB, InfiniBand, 400 GB/s a host");
}

const StackDecisions& stack_of(const SystemScores& system, std::string_view name) {
  return *std::find_if(system.stacks.begin(), system.stacks.end(),
                       [&](const StackDecisions& stack) { return stack.stack == name; });
}

double largest(const StackDecisions& stack) {
  return *std::max_element(stack.regret_percent.begin(), stack.regret_percent.end());
}

// Here an all_gather takes 200 times as long as an all_to_all: whoever does not know that chooses
// wrong, and nobody does better than the best.
TEST(ScoreboardDecisions, WhoKnowsTheHardwareChoosesBetter) {
  const ConfigStore store = shipped();
  const std::vector<MeasurementSet> sets = {
      set_of(Collective::kAllGather, 2000), set_of(Collective::kReduceScatter, 10),
      set_of(Collective::kAllReduce, 10), set_of(Collective::kAllToAll, 10)};
  const std::vector<SystemScores> systems = score_decisions(store, sets, nullptr, 2);
  ASSERT_EQ(systems.size(), 1U);
  const SystemScores& system = systems.front();
  EXPECT_EQ(system.groups, "8x1");
  EXPECT_EQ(system.collectives, "AG RS AR A2A");
  EXPECT_GT(system.questions.size(), 200U);
  for (const StackDecisions& stack : system.stacks) {
    ASSERT_EQ(stack.regret_percent.size(), system.questions.size());
    EXPECT_GE(*std::min_element(stack.regret_percent.begin(), stack.regret_percent.end()), -1e-9);
  }
  EXPECT_GT(largest(stack_of(system, "dtensor-v3")), 100.0);
  EXPECT_GT(largest(stack_of(system, "alpha-beta")), 100.0);
  EXPECT_LT(largest(stack_of(system, kCalibratedStack)), 20.0);
}

TEST(ScoreboardDecisions, WhatIsNotMeasuredDoesNotCount) {
  const ConfigStore store = shipped();
  MeasurementSet set = set_of(Collective::kSendRecv, 10);
  EXPECT_TRUE(score_decisions(store, std::span(&set, 1), nullptr, 1).empty());
  set.ranks = set.gpus_per_host = 7;
  set.rows.front().collective = Collective::kAllGather;
  EXPECT_TRUE(score_decisions(store, std::span(&set, 1), nullptr, 1).empty());
}

}  // namespace scoreboard_test
}  // namespace shardlab
