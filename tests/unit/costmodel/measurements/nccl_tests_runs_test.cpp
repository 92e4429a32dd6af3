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
                    std::string_view other_group = "0",
                    const std::string& options = "maxBytes 16 step: 2(factor)") {
  std::string text = "# nThread 1 nGpus 1 minBytes 8 " + options + "\n# Using devices\n";
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    text += "#  Rank  " + std::to_string(i) + " Group  " +
            (i % 2 == 0 ? std::string("0") : std::string(other_group)) + " Pid " +
            std::to_string(i + 1) + " on " + hosts[i] + " device  " + std::to_string(i) + " [0x1" +
            std::to_string(i) + "] " + std::string(gpu) + "\n";
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

const std::string kTable = "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n" + kRow;
// A line of a device list, as on hosts of so many GPUs.
std::string device_line(int rank, int device, const std::string& host) {
  return "#  Rank " + std::to_string(rank) + " Group  0 Pid " + std::to_string(rank + 1) + " on " +
         host + " device  " + std::to_string(device) + " [0x1" + std::to_string(device) +
         "] NVIDIA GB300\n";
}

// Ranks 0 and 1 and the last two of 64 on 16 hosts, as published logs are shortened.
TEST(NcclTestsRuns, AShortenedDeviceListShowsTheHostsByTheNumbersOfItsDevices) {
  const std::string ends = device_line(0, 0, "a") + device_line(1, 1, "a") + "...\n" +
                           device_line(62, 2, "b") + device_line(63, 3, "b") + kTable;
  const MeasurementSet set = read(kBroadcast + ends);
  EXPECT_EQ(set.ranks, 64);
  EXPECT_EQ(set.hosts, 16);
  EXPECT_EQ(set.gpus_per_host, 4);
  EXPECT_EQ(set.warnings,
            std::vector<std::string>{
                "the device list leaves out 60 of 64 ranks; by the numbers of its devices, a host "
                "has 4 GPUs, so there were 16 hosts; state another number with --hosts"});
  const MeasurementSet told = read_nccl_tests_text(kBroadcast + ends, {.hosts = 8}, "run.log");
  EXPECT_EQ(told.hosts, 8);
  EXPECT_TRUE(told.warnings.empty());
  const MeasurementSet stated = read("# nodes: 32\n" + kBroadcast + ends);
  EXPECT_EQ(stated.hosts, 32);
  EXPECT_TRUE(stated.warnings.empty());
  EXPECT_EQ(read("# gpus_per_node: 2\n" + kBroadcast + ends).hosts, 32);
}

TEST(NcclTestsRuns, AShortenedDeviceListThatShowsNoHostsNeedsTheirNumber) {
  const std::string first = device_line(0, 0, "a");
  const std::string refusal =
      "run.log: found a device list that leaves out 6 of 8 ranks, and does not show on how many "
      "hosts they ran; valid: a list of all ranks, a line \"# nodes: N\", or --hosts";
  for (const std::string& last :
       {device_line(7, 0, "a"), device_line(7, 2, "b"), device_line(7, 3, "a"),
        std::string("#  Rank 7 Group  0 on b\n")}) {
    EXPECT_EQ(message_of(kBroadcast + first + last + kTable), refusal) << last;
  }
}

TEST(NcclTestsRuns, ARunOnSeveralKindsOfGpusIsUnhealthy) {
  const auto list = [](const std::string& second) {
    return kBroadcast + "#  Rank  0 Group  0 Pid 1 on a device  0 [0x10] NVIDIA H100 80GB HBM3\n" +
           "#  Rank  1 Group  0 Pid 2 on b device  0 [0x10] " + second + "\n" + kTable;
  };
  const MeasurementSet mixed = read(list("NVIDIA A100-SXM4-80GB"));
  EXPECT_EQ(mixed.gpu, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(mixed.health, Health::kUnhealthy);
  EXPECT_EQ(
      mixed.health_reason,
      "mixed: 1 of the listed devices are NVIDIA H100 80GB HBM3, and 1 is not, such as NVIDIA "
      "A100-SXM4-80GB");
  for (const std::string same :
       {"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3a:1:1 [0] NCCL INFO", "NVIDIA H1"}) {
    EXPECT_EQ(read(list(same)).health, Health::kUnknown) << same;
  }
  const MeasurementSet named = read("# gpu: NVIDIA H100 80GB HBM3\n" + list("NVIDIA A100"));
  EXPECT_EQ(named.health, Health::kUnknown);
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
  const std::string sum =
      devices({"a", "a"}) + "4194304  524288  float  sum  -1  100.0  41.94  20.97  0\n";
  EXPECT_EQ(read(sum, "reduce_scatter.log").rows[0].collective, Collective::kReduceScatter);
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

// The settings that the health depends on stand in commands of several lines, behind `export` and
// in NCCL's own lines.
TEST(NcclTestsRuns, SettingsAreFoundOutsideTheProgramsLine) {
  const auto settings = [](const std::string& above) {
    return read(above + kBroadcast + devices({"a", "b"}) + kRow).settings;
  };
  EXPECT_EQ(settings("mpirun -np 2 \\\n  -x NCCL_ALGO=Ring -x NCCL_PROTO=Simple \\\n  ./run\n"),
            "NCCL_ALGO=Ring NCCL_PROTO=Simple");
  EXPECT_EQ(settings("export NCCL_PROTO=LL\nexport NCCL_DEBUG=INFO\n"), "NCCL_PROTO=LL");
  EXPECT_EQ(settings("export NCCL_PROTO=LL128\nexport NCCL_PROTO=LL\n"),
            "NCCL_PROTO=LL128 NCCL_PROTO=LL");
  EXPECT_EQ(settings("export NCCL_ALGO=Ring,Tree\n"), "NCCL_ALGO=Ring,Tree");
  EXPECT_EQ(settings("srun --export=ALL,NCCL_IB_DISABLE=1,NCCL_ALGO= ./run\n"),
            "NCCL_IB_DISABLE=1");
  EXPECT_EQ(settings("a:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
                     "a:1:1 [0] NCCL INFO Using network Socket\n"
                     "a:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"
                     "b:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"),
            "NCCL_IB_DISABLE=1 NCCL_NET=Socket NCCL_ALGO=Ring");
  EXPECT_EQ(settings("MY_NCCL_ALGO=Ring NCCL_NETS=3\n"
                     "a:1:1 [0] NCCL INFO Using network IB\n"),
            "");
}

// A line that was cut in front of the bus, which says where a device is.
TEST(NcclTestsRuns, ADamagedDeviceKeepsItsName) {
  std::string log = kBroadcast + devices({"a", "b"}) + kRow;
  const std::size_t bus = log.find('[');
  ASSERT_NE(bus, std::string::npos);
  log.erase(bus, 1);
  EXPECT_EQ(read(log).gpu, "NVIDIA H100");
}

TEST(NcclTestsRuns, HowTheCallsWereLaunchedIsSaid) {
  const auto of = [](const std::string& options, const std::string& more = "") {
    return read(kBroadcast + more +
                devices({"a", "b"}, "NVIDIA H100", "0", "maxBytes 16 step: 2(factor) " + options) +
                kRow);
  };
  const MeasurementSet usual = of("warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0");
  EXPECT_EQ(usual.settings, "");
  EXPECT_TRUE(usual.warnings.empty());
  const MeasurementSet odd = of("warmup iters: 0 iters: 1 agg iters: 16 validation: 1 graph: 1",
                                "# Blocking Enabled: wait for completion\n");
  EXPECT_EQ(
      odd.settings,
      "CUDA graphs launched the calls (-G); 16 calls were launched as one (-m); each call was "
      "waited for (-z); no call ran before the measured ones (-w 0)");
  ASSERT_EQ(odd.warnings.size(), 4U);
  EXPECT_EQ(odd.warnings[0],
            "CUDA graphs launched the calls (-G), so small messages take less time than in "
            "programs without graphs");
}

TEST(NcclTestsRuns, ThatEndEarlyOrFailSaySo) {
  const auto warnings = [](const std::string& most, const std::string& rows) {
    const std::string options = "maxBytes " + most + " step: 2(factor)";
    return read(kBroadcast + devices({"a", "b"}, "NVIDIA H100", "0", options) + rows).warnings;
  };
  using Warnings = std::vector<std::string>;
  EXPECT_EQ(warnings("8388608", kRow + kOtherRow), Warnings{});
  EXPECT_EQ(warnings("8388607", kRow), Warnings{});
  EXPECT_EQ(warnings("8388608", kRow),
            Warnings{"the table ends at 4 MiB, but its header says maxBytes 8 MiB; the run ended "
                     "early, or rows are missing"});
  EXPECT_EQ(warnings("8388608", kRow + "a: Test NCCL failure common.cu:303 'network error'\n"),
            Warnings{"line 8: nccl-tests stopped here (Test NCCL failure), so larger sizes are "
                     "missing"});
  EXPECT_EQ(warnings("4194304", kRow + "# Out of bounds values : 12 FAILED\n"),
            Warnings{"line 8: nccl-tests says \"Out of bounds values : 12 FAILED\""});
  EXPECT_EQ(warnings("4194304", kRow + "# Avg bus bandwidth    : 3.2 FAILED\n"),
            Warnings{"line 8: nccl-tests says \"Avg bus bandwidth    : 3.2 FAILED\""});
}

TEST(NcclTestsRuns, AReductionThatTheCollectiveLacksIsRefused) {
  const std::string sum = "4194304  1048576  float  sum  -1  100.0  41.94  41.94  0\n";
  const std::string columns = devices({"a", "b"});
  // Among two ranks, the bus bandwidth of an all-gather is half of its bandwidth.
  const std::string gathered = "4194304  524288  float  sum  -1  100.0  41.94  20.97  0\n";
  EXPECT_EQ(message_of(columns + gathered, "all_gather.txt"),
            "all_gather.txt:line 6: found the redop \"sum\", but the file calls the collective "
            "all_gather, which has none; valid: a file name, command or line \"# collective: "
            "NAME\" that names the collective of the table");
  EXPECT_NE(message_of(columns + kRow, "all_reduce.txt").find("found the redop \"none\""),
            std::string::npos);
  EXPECT_EQ(read(columns + sum, "sendrecv.txt").rows.size(), 1U);
}

// The collectives of a log's rows, which fit each of these.
std::vector<Collective> collectives(const std::string& text) {
  std::vector<Collective> kinds;
  for (const MeasuredRow& row : read(text).rows) kinds.push_back(row.collective);
  return kinds;
}
const std::string kGathered = "4194304  524288  float  none  -1  100.0  41.94  20.97  0\n";
const std::string kMoreGathered = "8388608  1048576  float  none  -1  200.0  41.94  20.97  0\n";
const std::string kGatherList = devices({"a", "a"});

TEST(NcclTestsRuns, TextThatNamesAProgramDoesNotOverrideTheCommand) {
  const std::string command = "$ mpirun -np 2 ./build/all_gather_perf -b 8\n";
  const std::vector<Collective> gathers(2, Collective::kAllGather);
  for (const std::string stray :
       {"[n1:123] pmix: slot list shared with job alltoall_perf.1234\n",
        "slurmstepd: unrelated warning from alltoall_perf plugin\n", "see alltoall_perf\n"}) {
    EXPECT_EQ(collectives(command + stray + kGatherList + kGathered + kMoreGathered), gathers);
    EXPECT_EQ(collectives(command + kGatherList + stray + kGathered + kMoreGathered), gathers);
    EXPECT_EQ(collectives(command + kGatherList + kGathered + stray + kMoreGathered), gathers)
        << "a table does not change its collective";
  }
}

TEST(NcclTestsRuns, TextNamesTheCollectiveWhereNoCommandDoes) {
  const std::string gather = "Running all_gather_perf on two GPUs\n";
  const std::string other = "Next: alltoall_perf\n";
  const std::vector<Collective> both = {Collective::kAllGather, Collective::kAllToAll};
  EXPECT_EQ(collectives(other + gather + kGatherList + kGathered)[0], Collective::kAllGather);
  EXPECT_EQ(collectives(gather + kGatherList + kGathered + other + kGatherList + kGathered), both);
  EXPECT_EQ(collectives(gather + kGatherList + kGathered + other + kGathered), both)
      << "sizes begin again where a table without a header begins";
}

TEST(NcclTestsRuns, ADirectoryOnTheWayToAProgramIsNoProgram) {
  for (const std::string command :
       {"$ /shared/nccl_perf_runs/build/all_gather_perf -b 8\n",
        "$ cd /home/u/gpu_perf && mpirun -np 2 ./build/all_gather_perf_mpi -b 8 -g 1\n",
        "$ nsys profile -o alltoall_perf -f true \"./all_gather_perf\" -b 8\n"}) {
    const MeasurementSet set = read(command + kGatherList + kGathered);
    EXPECT_EQ(set.rows[0].collective, Collective::kAllGather) << command;
    EXPECT_EQ(set.gpus_per_process, 1) << command;
  }
}

TEST(NcclTestsRuns, SettingsStandInFrontOfAProgram) {
  const std::string log = kGatherList + kGathered;
  EXPECT_EQ(read("NCCL_PROTO=LL ./all_gather_perf > out.txt\n" + log).settings, "NCCL_PROTO=LL");
  EXPECT_EQ(read("The logs of an all_gather_perf test (NCCL_TESTS_VERSION=master, "
                 "NCCL_VERSION=2.18.5):\n" +
                 log)
                .settings,
            "");
}

TEST(NcclTestsRuns, TheCommandLineCorrectsHostsThatWereCounted) {
  std::string list = "# Using devices\n";
  for (int i = 0; i < 4; ++i) {
    list += "#  Rank  " + std::to_string(i) + " Group  0 Pid " + std::to_string(i + 1) +
            " on localhost device  " + std::to_string(i % 2) + " [0x1" + std::to_string(i % 2) +
            "] NVIDIA H100\n";
  }
  const std::string text =
      kBroadcast + list + "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n" + kRow;
  const auto with = [&](const std::string& all, const SourceHints& hints) {
    return read_nccl_tests_text(all, hints, "run.log");
  };
  const MeasurementSet counted = with(text, {});
  EXPECT_EQ(counted.hosts, 1);
  ASSERT_EQ(counted.warnings.size(), 1U);
  EXPECT_EQ(counted.warnings[0],
            "ranks 0 and 2 have the same device of the host localhost in the device list, so "
            "several hosts may have that name, as containers do; --hosts says how many there were");
  for (const SourceHints& hints : {SourceHints{.hosts = 2}, SourceHints{.gpus_per_host = 2}}) {
    const MeasurementSet told = with(text, hints);
    EXPECT_EQ(told.hosts, 2);
    EXPECT_EQ(told.gpus_per_host, 2);
    ASSERT_EQ(told.warnings.size(), 1U);
    EXPECT_EQ(
        told.warnings[0],
        "the device list names 1 host, but the command line says 2; the command line is used");
  }
  EXPECT_EQ(with("# nodes: 1\n" + text, {.hosts = 2}).hosts, 1);
}

// Returns the lines with the prefix of a collector in front of each.
std::string behind(const std::string& prefix, const std::string& lines) {
  std::string text;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin) + 1;
    text += prefix + lines.substr(begin, end - begin);
    begin = end;
  }
  return text;
}

TEST(NcclTestsRuns, MorePrefixesOfCollectorsAreSkipped) {
  const std::string lines = kBroadcast + devices({"a", "b"}) + kRow + kOtherRow;
  for (const std::string prefix :
       {"[10:11:12] ", "Jan 01 10:11:12 node1 nccl[123]: ", "2026-01-01 10:11:12,123 INFO ",
        "Mon Jan  1 10:11:12 2026[1,0]<stdout>:", "2026-01-01 10:11:12 [INFO] "}) {
    const MeasurementSet set = read(behind(prefix, lines));
    EXPECT_EQ(set.ranks, 2) << prefix;
    EXPECT_EQ(set.rows.size(), 2U) << prefix;
  }
}

// What stands in front of every line is not known, but lines of nccl-tests have their own forms.
TEST(NcclTestsRuns, HeadersAreReadBehindAnyPrefixAsRowsAre) {
  const std::string lines = "# nccl-tests version 2.17.6 nccl-headers=22803 nccl-library=22803\n" +
                            kBroadcast + devices({"a", "b"}, "NVIDIA H100", "0", "graph: 1") +
                            kRow + kOtherRow;
  for (const std::string prefix : {"2025-03-01 10:11:12,345 - INFO - ", "10:11:12 ",
                                   "[1,mpirank:0,algo-1]<stdout>:", "(pid=1234, ip=10.0.0.1) ",
                                   "1740823872.123 ", "I0301 10:11:12.123456 1234 main.cc:12] ",
                                   "    18\t", "n1:1:1 [0] NCCL INFO Bootstrap : Using eth0 "}) {
    const MeasurementSet set = read(behind(prefix, lines));
    EXPECT_EQ(set.ranks, 2) << prefix;
    EXPECT_EQ(set.hosts, 2) << prefix;
    EXPECT_EQ(set.gpu, "NVIDIA H100") << prefix;
    EXPECT_EQ(set.nccl_version, "2.28.3") << prefix;
    EXPECT_EQ(set.settings, "CUDA graphs launched the calls (-G)") << prefix;
    ASSERT_EQ(set.rows.size(), 2U) << prefix;
    EXPECT_EQ(set.rows[1].bytes, 8388608) << prefix;
    EXPECT_EQ(set.rows[1].time_us, 200) << prefix;
  }
}

// The reason of the error stands in what was noticed before it.
TEST(NcclTestsRuns, ErrorsHoldTheWarnings) {
  const std::string rank = "#  Rank  0 Group  0 Pid 1 on a device  0 [0x10] NVIDIA H100\n";
  const std::string columns = "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n";
  EXPECT_NE(message_of(kBroadcast + "# Using devices\n" + rank + rank + columns + kRow)
                .find("a single rank communicates nothing; line 4: rank 0 is listed twice in the "
                      "device list; nccl-tests built without MPI measures each process alone"),
            std::string::npos);
}

}  // namespace nccl_tests_runs_test
}  // namespace shardlab
