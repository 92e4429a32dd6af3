#include "costmodel/measurements/nccl_log.h"

#include <gtest/gtest.h>

namespace shardlab {
namespace nccl_log_test {

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
  // Older versions give the algorithm and protocol by number.
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

// A table in blocks of three algorithms with three protocols each; the last block has one
// algorithm.
constexpr const char* kTableLog =
    "n1:7:7 [0] NCCL INFO comm 0x7f rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0\n"
    "n1:7:7 [0] NCCL INFO   Algorithm   |       Tree        |       Ring        |   CollNetDirect  "
    " |\n"
    "n1:7:7 [0] NCCL INFO   Protocol    |  LL | LL128 | Simple |  LL | LL128 | Simple |  LL | "
    "LL128 | "
    "Simple |\n"
    "n1:7:7 [0] NCCL INFO  Max NThreads | 512 | 640 | 512 | 512 | 640 | 256 | 0 | 0 | 640 |\n"
    "n1:7:7 [0] NCCL INFO        Reduce | 0.0/ 0.0 | 0.0/ 0.0 | 0.0/ 0.0 | 9.3/ 1.2 | 18.0/ 0.0 |\n"
    "n1:7:7 [0] NCCL INFO     AllGather |  0.0/  0.0 |  0.0/  0.0 |  0.0/  0.0 | 11.6/  2.4 | "
    "22.5/  0.0 | 22.4/  4.8 |  5.0/  0.0 |  8.5/  0.0 | 14.0/  0.0 |\r\n"
    "n1:7:7 [0] NCCL INFO     AllReduce | 16.8/  0.5 | 31.0/  0.0 |\n"
    "n1:7:7 [0] NCCL INFO   Algorithm   |        PAT        |\n"
    "n1:7:7 [0] NCCL INFO ReduceScatter |  0.0/  0.0 |  0.0/  0.0 | 17.6/  3.6 |\n"
    "n1:7:7 [0] NCCL INFO   Algorithm   |       Tree        |\n"
    "n1:7:7 [0] NCCL INFO     AllReduce |  7.5/ 10.0 |\n";

TEST(NcclLog, ReadsItsTables) {
  const std::vector<NcclTable> tables = read_nccl_tables(kTableLog);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0].ranks, 4);
  EXPECT_EQ(tables[0].hosts, 2);
  using A = NcclAlgorithm;
  using P = NcclProtocol;
  using C = Collective;
  const std::vector<NcclTableCell> expected = {
      {C::kAllGather, A::kRing, P::kLL, 11.6, 2.4},
      {C::kAllGather, A::kRing, P::kLL128, 22.5, 0.0},
      {C::kAllGather, A::kRing, P::kSimple, 22.4, 4.8},
      {C::kAllGather, A::kCollnetDirect, P::kLL, 5.0, 0.0},
      {C::kAllGather, A::kCollnetDirect, P::kLL128, 8.5, 0.0},
      {C::kAllGather, A::kCollnetDirect, P::kSimple, 14.0, 0.0},
      {C::kAllReduce, A::kTree, P::kLL, 16.8, 0.5},
      {C::kAllReduce, A::kTree, P::kLL128, 31.0, 0.0},
      {C::kReduceScatter, A::kPat, P::kSimple, 17.6, 3.6},
  };
  EXPECT_EQ(tables[0].cells, expected);
  ASSERT_EQ(tables[1].cells.size(), 1U);
  EXPECT_EQ(tables[1].cells[0], (NcclTableCell{C::kAllReduce, A::kTree, P::kLL, 7.5, 10.0}));
}

// Versions before 2.18 write a table as one block.
TEST(NcclLog, ReadsTablesOfOneBlock) {
  const std::vector<NcclTable> tables = read_nccl_tables(
      "h:1:2 [0] NCCL INFO Latency/AlgBw |    Tree/    LL |    Ring/Simple | CollNet/Simple |\n"
      "h:1:2 [0] NCCL INFO     AllReduce |     9.9/   1.5 |    36.3/   3.2 |     7.0/   1.0 |\n");
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(tables[0].ranks, 0);
  ASSERT_EQ(tables[0].cells.size(),
            2U);  // "CollNet", which stands for two algorithms today, is left out
  EXPECT_EQ(tables[0].cells[1], (NcclTableCell{Collective::kAllReduce, NcclAlgorithm::kRing,
                                               NcclProtocol::kSimple, 36.3, 3.2}));
}

TEST(NcclLog, PassesOverWhatIsNoTable) {
  for (const char* text :
       {"", "NCCL INFO AllReduce | 1.0/ 2.0 |", "NCCL INFO Algorithm |",
        "NCCL INFO Algorithm | Ring |\nNCCL INFO AllReduce | 1.0 / |",
        "NCCL INFO Algorithm | Ring |\nNCCL INFO AllReduce | nan/inf | -1/2 | 1e99/1 |"}) {
    for (const NcclTable& table : read_nccl_tables(text)) EXPECT_TRUE(table.cells.empty()) << text;
  }
}

}  // namespace nccl_log_test
}  // namespace shardlab
