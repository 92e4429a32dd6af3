#include "costmodel/measurements/health.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardlab {
namespace health_test {

// A healthy run: 16 ranks on two hosts with 8 links each, all-reduces at 300 GB/s of bus bandwidth.
MeasurementSet good() {
  MeasurementSet set;
  set.name = "run";
  set.ranks = 16;
  set.hosts = 2;
  set.gpus_per_host = 8;
  set.intra = "NVLink4 + NVSwitch";
  set.inter = "InfiniBand NDR 400 Gb/s, 8 NICs/node";
  for (double bytes = 1024; bytes <= 4e9; bytes *= 4) {
    const double time = 20.0 + bytes * 1.875 / 300e3;
    set.rows.push_back({.collective = Collective::kAllReduce,
                        .dtype = "f32",
                        .bytes = bytes,
                        .time_us = time,
                        .in_place_time_us = 1.02 * time});
  }
  return set;
}

TEST(Health, AGoodRunIsHealthy) {
  const Judgement judgement = judge(good());
  EXPECT_EQ(judgement.health, Health::kHealthy) << judgement.reason;
  EXPECT_EQ(judgement.reason, "");
}

TEST(Health, WhatTheSourceSaysCounts) {
  MeasurementSet set = good();
  set.health = Health::kUnhealthy;
  set.notes = "half of what others reach";
  EXPECT_EQ(judge(set).health, Health::kUnhealthy);
  EXPECT_EQ(judge(set).reason, "source: half of what others reach");
  set.health_reason = "source: known";
  EXPECT_EQ(judge(set).reason, "source: known");
}

TEST(Health, ForcedAlgorithmsShowTheirOwnSpeed) {
  MeasurementSet set = good();
  set.settings = "NCCL_IB_QPS_PER_CONNECTION=2 NCCL_ALGO=Ring";
  EXPECT_EQ(judge(set).reason, "forced: NCCL_ALGO= is set");
  set.settings = "Ring algorithm (file name of the source)";
  EXPECT_EQ(judge(set).reason, "forced: the ring algorithm");
  set.settings = "NCCL_IB_QPS_PER_CONNECTION=2 NCCL_TOPO_FILE of the cloud";
  EXPECT_EQ(judge(set).health, Health::kHealthy);
}

TEST(Health, SocketsBetweenHosts) {
  MeasurementSet set = good();
  set.inter = "TCP sockets over the NICs";
  EXPECT_EQ(judge(set).reason, "sockets: \"tcp sockets\" between hosts");
  set = good();
  set.settings = "NCCL_IB_DISABLE=1";
  EXPECT_EQ(judge(set).health, Health::kUnhealthy);
  // Inside a host that setting has no effect.
  set.hosts = 1;
  set.ranks = 8;
  EXPECT_EQ(judge(set).health, Health::kHealthy);
}

TEST(Health, RaggedIsAgainstLargerSizesOfTheSameCollective) {
  MeasurementSet set = good();
  set.rows[0].time_us = 9.9 * set.rows[1].time_us;
  set.rows[0].in_place_time_us.reset();
  EXPECT_EQ(judge(set).health, Health::kHealthy);
  set.rows[0].time_us = 10.1 * set.rows[1].time_us;
  EXPECT_EQ(judge(set).reason, "ragged: 1 KiB take 10.1 times as long as 4 KiB");
  // Rows may stand in any order, and each collective is judged on its own.
  std::reverse(set.rows.begin(), set.rows.end());
  EXPECT_EQ(judge(set).reason, "ragged: 1 KiB take 10.1 times as long as 4 KiB");
  set.rows.back().collective = Collective::kAllGather;
  EXPECT_EQ(judge(set).health, Health::kHealthy);
  // A second row of the same size does not count as a larger size.
  MeasuredRow again = set.rows.front();
  again.time_us *= 20;
  again.in_place_time_us.reset();
  set.rows.push_back(again);
  EXPECT_EQ(judge(set).health, Health::kHealthy);
}

TEST(Health, UnsteadyInTheMedianOfEnoughRows) {
  MeasurementSet set = good();
  for (MeasuredRow& row : set.rows) row.in_place_time_us = 1.3 * row.time_us;
  EXPECT_EQ(judge(set).reason,
            "unsteady: in-place and out-of-place times differ by 30 % in the median");
  set.rows.resize(5);
  EXPECT_EQ(judge(set).health, Health::kHealthy);
}

TEST(Health, SlowAgainstTheLinksTheSourceStates) {
  MeasurementSet set = good();
  for (MeasuredRow& row : set.rows) {
    row.time_us *= 3;
    row.in_place_time_us.reset();
  }
  EXPECT_EQ(judge(set).reason,
            "slow: at most 99.7 GB/s of bus bandwidth through links of 400 GB/s");
  set.inter = "not stated";
  EXPECT_EQ(judge(set).health, Health::kHealthy);
  // Inside one host, NVLink's 450 GB/s count.
  set.hosts = 1;
  set.ranks = 8;
  EXPECT_NE(judge(set).reason.find("through links of 450 GB/s"), std::string::npos);
  set.intra = "PCIe";
  EXPECT_EQ(judge(set).health, Health::kHealthy);
}

TEST(Health, LinksAreReadFromTheSourcesWords) {
  EXPECT_EQ(stated_host_bandwidth("RoCE v2, 8 x 400 Gb/s per node (cloud)", 8), 400.0);
  EXPECT_EQ(stated_host_bandwidth("EFA, 4 x 100 Gb/s per node", 8), 50.0);
  EXPECT_EQ(stated_host_bandwidth("InfiniBand HDR 200 Gb/s, 8 NICs/node", 8), 200.0);
  EXPECT_EQ(stated_host_bandwidth("InfiniBand HDR 200 Gb/s, 1 NIC/node (mlx5_2)", 4), 25.0);
  EXPECT_EQ(stated_host_bandwidth("RoCE, one 400 Gb/s NIC per GPU", 2), 100.0);
  // A single GPU on each host drives one link.
  EXPECT_EQ(stated_host_bandwidth("InfiniBand NDR 400 Gb/s, 8 NICs/node", 1), 50.0);
  EXPECT_EQ(stated_host_bandwidth("RoCE, 8 x 200 Gbps per node", 8), 200.0);
  EXPECT_EQ(stated_host_bandwidth("RoCE, 8 x 200 Gbit/s per node", 8), 200.0);
  EXPECT_EQ(stated_host_bandwidth("RoCE 0.2 Tb/s, 8 NICs/node", 8), 200.0);
  EXPECT_EQ(stated_host_bandwidth("Slingshot-11, 2 NICs/node", 4), std::nullopt);
  EXPECT_EQ(stated_host_bandwidth("InfiniBand NDR 400 Gb/s", 8), std::nullopt);
  EXPECT_EQ(stated_host_bandwidth("Gb/s", 8), std::nullopt);
  EXPECT_EQ(stated_host_bandwidth("x Gb/s", 8), std::nullopt);
  EXPECT_EQ(stated_host_bandwidth("", 8), std::nullopt);
}

}  // namespace health_test
}  // namespace shardlab
