// Logs of nccl-tests with several runs in one file, and with what collectors of logs put in front
// of lines.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "costmodel/measurements/nccl_tests_reader.h"

namespace shardlab {
namespace nccl_tests_runs_test {

MeasurementSet read(const std::string& text, std::string_view file = "run.log") {
  return read_nccl_tests_text(text, {}, file);
}

std::string message_of(const std::string& text, std::string_view file = "run.log") {
  try {
    static_cast<void>(read(text, file));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string devices(const std::vector<std::string>& hosts, std::string_view gpu = "NVIDIA H100",
                    std::string_view other_group = "0") {
  std::string text =
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor)\n# Using devices\n";
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    text += "#  Rank  " + std::to_string(i) + " Group  " +
            (i % 2 == 0 ? std::string("0") : std::string(other_group)) + " Pid " +
            std::to_string(i + 1) + " on " + hosts[i] + " device  0 [0x10] " + std::string(gpu) +
            "\n";
  }
  return text + "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n";
}
const std::string kBroadcast = "# Collective test starting: broadcast_perf\n";
// A broadcast's bus bandwidth is its bandwidth among any number of ranks.
const std::string kRow = "4194304  1048576  float  none  0  100.0  41.94  41.94  0\n";
const std::string kOtherRow = "8388608  2097152  float  none  0  200.0  41.94  41.94  0\n";

TEST(NcclTestsRuns, OfOtherLayoutsNeedFilesOfTheirOwn) {
  const std::string first = kBroadcast + devices({"a", "a"}) + kRow;
  EXPECT_EQ(
      message_of(first + kBroadcast + devices({"a", "b"}) + kOtherRow),
      "run.log:line 11: found a list of 2 ranks on 2 hosts, NVIDIA H100, after one of 2 ranks "
      "on 1 host, NVIDIA H100 in line 4; valid: runs of one layout in a file, so a file for "
      "each");
  EXPECT_EQ(message_of(first + kBroadcast + devices({"a", "a", "a", "a"}) + kOtherRow),
            "run.log:line 11: found a list of 4 ranks on 1 host, NVIDIA H100, after one of 2 ranks "
            "on 1 host, NVIDIA H100 in line 4; valid: runs of one layout in a file, so a file for "
            "each");
  EXPECT_EQ(message_of(first + kBroadcast + devices({"a", "a"}, "NVIDIA A100") + kOtherRow),
            "run.log:line 11: found a list of 2 ranks on 1 host, NVIDIA A100, after one of 2 ranks "
            "on 1 host, NVIDIA H100 in line 4; valid: runs of one layout in a file, so a file for "
            "each");
  // Another host of the same kind is the same layout.
  const MeasurementSet set = read(first + kBroadcast + devices({"b", "b"}) + kOtherRow);
  EXPECT_EQ(set.rows.size(), 2U);
  EXPECT_EQ(set.hosts, 1);
}

TEST(NcclTestsRuns, RanksInSeveralGroupsAreNoRunOfAll) {
  const std::string text = devices({"a", "a", "b", "b"}, "NVIDIA H100", "1") + kRow;
  EXPECT_EQ(message_of(kBroadcast + text),
            "run.log: found 2 groups of ranks in the device list, which ran at the same time "
            "(NCCL_TESTS_SPLIT); valid: one group, or lines \"# ranks: N\" and \"# nodes: N\" with "
            "those of each group");
  const MeasurementSet set = read("# ranks: 2\n# nodes: 2\n" + kBroadcast + text);
  EXPECT_EQ(set.ranks, 2);
  EXPECT_EQ(set.hosts, 2);
}

TEST(NcclTestsRuns, HostsWithOtherNumbersOfRanksAreWarnedOf) {
  const MeasurementSet set = read(kBroadcast + devices({"a", "a", "a", "b"}) + kRow);
  ASSERT_EQ(set.warnings.size(), 1U);
  EXPECT_EQ(set.warnings[0],
            "hosts have 1 to 3 ranks in the device list; they are taken to have as many each");
}

TEST(NcclTestsRuns, ACommandNamesTheCollectiveOfItsOwnRunAlone) {
  const std::string command = "$ mpirun -np 2 ./build/all_gather_perf -b 8\n";
  const std::string gather = "4194304  524288  float  none  -1  100.0  41.94  20.97  0\n";
  const std::string first = command + devices({"a", "a"}) + gather;
  EXPECT_EQ(read(first).rows[0].collective, Collective::kAllGather);
  EXPECT_EQ(message_of(first + "$ bash other.sh\n" + devices({"a", "a"}) + gather),
            "run.log:line 14: found nothing that names the table's collective; valid: a line \"# "
            "collective: all_gather\" above it, or a file name that contains it");
  const MeasurementSet named =
      read(first + "$ ./build/alltoall_perf -b 8\n" + devices({"a", "a"}) + gather);
  EXPECT_EQ(named.rows[1].collective, Collective::kAllToAll);
  const MeasurementSet under_banner =
      read(first + "=== alltoall ===\n" + devices({"a", "a"}) + gather);
  EXPECT_EQ(under_banner.rows[1].collective, Collective::kAllToAll);
}

TEST(NcclTestsRuns, AFileNameWithTwoCollectivesNamesNone) {
  const std::string text =
      devices({"a", "a"}) + "4194304  524288  float  none  -1  100.0  41.94  20.97  0\n";
  EXPECT_EQ(read(text, "all_gather_2.log").rows[0].collective, Collective::kAllGather);
  EXPECT_EQ(read(text, "all_gather-all-gather.log").rows[0].collective, Collective::kAllGather);
  EXPECT_EQ(read(text, "reduce_scatter.log").rows[0].collective, Collective::kReduceScatter);
  EXPECT_EQ(message_of(text, "all_gather_then_alltoall.log"),
            "all_gather_then_alltoall.log:line 6: found nothing that names the table's collective; "
            "valid: a line \"# collective: all_gather\" above it, or a file name that contains it");
}

TEST(NcclTestsRuns, ARowThatOtherTextBeginsIsRead) {
  const MeasurementSet set =
      read(kBroadcast + devices({"a", "a"}) + "a:1:9 [0] NCCL INFO comm 0x55 rank 0     " + kRow);
  ASSERT_EQ(set.rows.size(), 1U);
  EXPECT_EQ(set.rows[0].bytes, 4194304.0);
  EXPECT_EQ(set.rows[0].time_us, 100.0);
}

TEST(NcclTestsRuns, WhatCollectorsPutInFrontOfLinesIsTakenOff) {
  const std::string log = kBroadcast + devices({"a", "b"}) + kRow + kOtherRow;
  const MeasurementSet plain = read(log);
  for (const std::string prefix :
       {"2025-03-01T10:11:12Z ", "2025-03-01T10:11:12.345678Z ", "2025-03-01 10:11:12,123 ",
        "[2025-03-01 10:11:12] ", "[pod/run-0/nccl] ", "worker-0  | ", "> ", "\x1b[0;32m",
        "2025-03-01T10:11:12Z [1,0]<stdout>:", "2025-03-01T10:11:12.345678901-07:00 stdout F "}) {
    std::string prefixed = prefix;
    for (const char c : log.substr(0, log.size() - 1)) {
      prefixed += c;
      if (c == '\n') prefixed += prefix;
    }
    prefixed += "\n";
    const MeasurementSet set = read(prefixed);
    EXPECT_EQ(set.rows, plain.rows) << prefix;
    EXPECT_EQ(set.hosts, 2) << prefix;
    EXPECT_EQ(set.gpu, "NVIDIA H100") << prefix;
  }
  // A colour within a row is no column.
  EXPECT_EQ(
      read(kBroadcast + devices({"a", "b"}) + "\x1b[1m4194304\x1b[0m" + kRow.substr(7)).rows[0],
      plain.rows[0]);
}

}  // namespace nccl_tests_runs_test
}  // namespace shardlab
