#include "costmodel/measurements/nccl_log.h"

#include <gtest/gtest.h>

namespace shardlab {
namespace {

constexpr const char* kLog =
    "node1:42:42 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n"
    "node1:42:55 [0] NCCL INFO Channel 00/16 : 0 1 2 3\n"
    "node1:42:42 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}\n"
    "node1:42:42 [0] NCCL INFO AllGather: 1048576 Bytes -> Algo NVLS proto SIMPLE "
    "channel{Lo..Hi}={0..15}\r\n"
    "node1:42:42 [0] NCCL INFO ReduceScatter: 64 Bytes -> Algo 1 proto 2 time 12.300000\n"
    "node1:42:42 [0] NCCL INFO Broadcast: 512 Bytes -> Algo 1";

TEST(NcclLog, ReadsWhatNcclChose) {
  const std::vector<NcclChoice> choices = read_nccl_choices(kLog);
  ASSERT_EQ(choices.size(), 3U);
  EXPECT_EQ(choices[0], (NcclChoice{Collective::kAllReduce, 4096, "RING", "LL", 0, 1}));
  EXPECT_EQ(choices[1], (NcclChoice{Collective::kAllGather, 1048576, "NVLS", "SIMPLE", 0, 15}));
  // By number, as older versions say it.
  EXPECT_EQ(choices[2], (NcclChoice{Collective::kReduceScatter, 64, "RING", "SIMPLE", -1, -1}));
}

TEST(NcclLog, ReadsTheVersion) {
  EXPECT_EQ(nccl_version_in_log(kLog), "2.28.9");
  EXPECT_EQ(nccl_version_in_log("no such line"), "");
}

TEST(NcclLog, PassesOverWhatIsNoChoice) {
  for (const char* line :
       {"", " Bytes -> Algo ", "4096 Bytes -> Algo RING proto LL",
        ": 4096 Bytes -> Algo RING proto LL", "AllReduce: many Bytes -> Algo RING proto LL",
        "AllReduce: -1 Bytes -> Algo RING proto LL", "Gather: 64 Bytes -> Algo RING proto LL",
        "AllReduce: 64 Bytes -> Algo 9 proto 2", "AllReduce: 64 Bytes -> Algo RING",
        "AllReduce: 64 Bytes -> Algo RING proto"}) {
    EXPECT_TRUE(read_nccl_choices(line).empty()) << line;
  }
}

}  // namespace
}  // namespace shardlab
