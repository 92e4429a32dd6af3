// The network that the text of a source states.
#include "costmodel/measurements/stated_network.h"

#include <gtest/gtest.h>

namespace shardlab {
namespace stated_network_test {

double gb_per_s(std::string_view inter, std::int64_t devices) {
  return stated_network(inter, devices).bandwidth_of_device.value_or(GBps(-1)).value();
}

// The texts are those of configs/measurements.
TEST(StatedNetwork, BandwidthIsADevicesShareOfItsHost) {
  EXPECT_EQ(gb_per_s("EFA, 4 x 100 Gb/s per node (p4d)", 8), 6.25);
  EXPECT_EQ(gb_per_s("EFA, 32 x 100 Gb/s per node (AWS p5.48xlarge)", 8), 50);
  EXPECT_EQ(gb_per_s("InfiniBand HDR 200 Gb/s, 8 NICs/node", 8), 25);
  EXPECT_EQ(gb_per_s("InfiniBand HDR 200 Gb/s, 8 NICs/node", 1), 25);
  EXPECT_EQ(gb_per_s("RoCE, one 400 Gb/s NIC per GPU (GCP A3 Ultra)", 8), 50);
  EXPECT_EQ(gb_per_s("EFA, 100 Gb/s per node (p3dn)", 8), 1.5625);
  EXPECT_EQ(gb_per_s("Slingshot-11, 2 NICs/node, libfabric CXI", 4), 12.5);
  EXPECT_EQ(gb_per_s("RoCE, ConnectX-8, 8 NICs/node", 8), 50);
  EXPECT_EQ(gb_per_s("InfiniBand, 100 Gb/s", 1), 12.5);
}

// The texts are those of step times, in configs/steptimes and of users.
TEST(StatedNetwork, RatesAreThoseOfAGpuOrOfAHost) {
  EXPECT_EQ(gb_per_s("RoCE 1600 Gb/s a host", 8), 25);
  EXPECT_EQ(gb_per_s("RDMA 400 Gb/s a GPU", 8), 50);
  EXPECT_EQ(gb_per_s("DGX H100 (400 Gb/s a GPU)", 8), 50);
  EXPECT_EQ(gb_per_s("Ethernet 25 Gb/s a host", 8), 0.390625);
  EXPECT_EQ(gb_per_s("2 x 200 Gb/s per GPU", 8), 50);
  EXPECT_EQ(gb_per_s("100Gbps/node", 4), 3.125);
  EXPECT_EQ(gb_per_s("Ethernet, 100 Gbit/s per server", 4), 3.125);
  EXPECT_EQ(gb_per_s("400 Gb/s a rack", 8), -1);
  EXPECT_EQ(gb_per_s("far below 400 Gb/s per GPU", 8), -1);
}

TEST(StatedNetwork, WhatIsNotStatedIsNotGuessed) {
  EXPECT_FALSE(stated_network("", 8).bandwidth_of_device.has_value());
  EXPECT_FALSE(stated_network("none (single node)", 8).bandwidth_of_device.has_value());
  EXPECT_FALSE(stated_network("InfiniBand HDR 200 Gb/s", 8).bandwidth_of_device.has_value());
  EXPECT_FALSE(stated_network("x Gb/s, 8 NICs/node", 8).bandwidth_of_device.has_value());
  EXPECT_FALSE(stated_network("sendrecv busbw 45.9 GB/s", 8).bandwidth_of_device.has_value());
}

TEST(StatedNetwork, RatesHaveSeveralUnits) {
  for (const char* text :
       {"8 x 200 Gb/s per node", "8 x 200 Gbps per node", "8 x 200 Gbit/s per node",
        "8 x 0.2 Tb/s per node", "1.6 Tb/s per node", "1600 Gbps per node", "1.6Tbps per node"}) {
    ASSERT_TRUE(stated_network(text, 8).bandwidth_of_device.has_value()) << text;
    EXPECT_DOUBLE_EQ(stated_network(text, 8).bandwidth_of_device->value(), 25.0) << text;
  }
  EXPECT_FALSE(stated_rate("200 GB/s").has_value());
  EXPECT_FALSE(stated_rate("Gbps").has_value());
}

TEST(StatedNetwork, FabricsHaveTheirDelays) {
  EXPECT_EQ(stated_network("InfiniBand NDR 400 Gb/s, 8 NICs/node", 8).delay, 1.0);
  EXPECT_EQ(stated_network("RoCE v2, 16 x 100 Gb/s per node (OCI)", 8).delay, 1.0);
  EXPECT_GT(stated_network("EFA, 4 x 100 Gb/s per node (p4d)", 8).delay, 2.0);
  EXPECT_GT(stated_network("TCP-based GPUDirect-TCPXO, 8 x 200 Gb/s per node", 8).delay, 2.0);
  EXPECT_GT(stated_network("TCP-based GPUDirect-TCPX, 4 x 200 Gb/s per node", 8).delay, 10.0);
  EXPECT_GT(stated_network("Slingshot-11, 4 x 200 Gb/s per node", 4).delay, 1.0);
}

TEST(StatedNetwork, ReducesWhereTheTextNamesSharp) {
  EXPECT_TRUE(stated_network("InfiniBand HDR with SHARP (CollNet), 4 x 200 Gb/s", 8).reduces);
  EXPECT_TRUE(stated_network("InfiniBand NDR 400 Gb/s, 8 NICs/node, SHARP manifest", 8).reduces);
  EXPECT_TRUE(stated_network("NVLink SHARP and InfiniBand SHARP", 8).reduces);
  for (const char* text :
       {"InfiniBand NDR 400 Gb/s, 8 NICs/node", "InfiniBand, no SHARP", "InfiniBand without SHARP",
        "non-SHARP InfiniBand", "InfiniBand, SHARP off", "InfiniBand (SHARP: not available)",
        "InfiniBand, SHARP disabled", "InfiniBand, NVLink SHARP inside", "NCCL_COLLNET_ENABLE=1"}) {
    EXPECT_FALSE(stated_network(text, 8).reduces) << text;
  }
}

}  // namespace stated_network_test
}  // namespace shardlab
