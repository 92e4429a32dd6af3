#include "runner/measure/nccl_environment.h"

#include <gtest/gtest.h>

namespace shardlab {
namespace nccl_environment_test {

std::string text_of(const NcclWishes& wishes) {
  std::string text;
  for (const Setting& setting : settings_for(wishes)) {
    text += setting.name + "=" + setting.value + " ";
  }
  return text;
}

TEST(NcclEnvironment, OneGpuFrom230OnIsASwitch) {
  EXPECT_EQ(text_of({.rank = 1, .ranks = 2, .one_gpu = true, .nccl_version = 23004}),
            "NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=4 NCCL_NVLS_ENABLE=0 ");
  EXPECT_EQ(text_of({.rank = 1, .ranks = 16, .one_gpu = true, .nccl_version = 23203}),
            "NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=1 NCCL_NVLS_ENABLE=0 ");
}

TEST(NcclEnvironment, OneGpuBefore230IsAHostIdPerRank) {
  EXPECT_EQ(text_of({.rank = 1, .ranks = 2, .one_gpu = true, .nccl_version = 22809}),
            "NCCL_HOSTID=shardlab-rank-1 NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 ");
}

TEST(NcclEnvironment, LogAndTopologyAreFiles) {
  EXPECT_EQ(text_of({.log_file = "nccl.log", .topology_xml = "t.xml"}),
            "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING NCCL_DEBUG_FILE=nccl.log "
            "NCCL_TOPO_DUMP_FILE=t.xml ");
  EXPECT_EQ(text_of({}), "");
}

TEST(NcclEnvironment, WhatTheUserSetStays) {
  setenv("NCCL_TEST_ONLY_GIVEN", "7", 1);
  unsetenv("NCCL_TEST_ONLY_OPEN");
  EXPECT_EQ(apply_settings({{"NCCL_TEST_ONLY_GIVEN", "1"},
                            {"NCCL_TEST_ONLY_OPEN", "2"},
                            {"NCCL_HOSTID", "says nothing about speed"}}),
            "NCCL_TEST_ONLY_GIVEN=7 NCCL_TEST_ONLY_OPEN=2");
  unsetenv("NCCL_TEST_ONLY_GIVEN");
  unsetenv("NCCL_TEST_ONLY_OPEN");
  unsetenv("NCCL_HOSTID");
}

TEST(NcclEnvironment, TheCaveatNamesTheWay) {
  EXPECT_NE(one_gpu_caveat(22809).find("loopback sockets"), std::string::npos);
  EXPECT_NE(one_gpu_caveat(23004).find("NCCL_MULTI_RANK_GPU_ENABLE"), std::string::npos);
}

}  // namespace nccl_environment_test
}  // namespace shardlab
