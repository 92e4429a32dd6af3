// Every form of output that the versions of nccl-tests print, and every way in which logs are
// damaged.
#include "costmodel/measurements/nccl_tests_reader.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"

namespace shardlab {
namespace nccl_tests_reader_test {

using nlohmann::json;

const SourceHints kTwoHosts{.hosts = 2, .gpus_per_host = 8, .source = "test"};

MeasurementSet read(std::string_view text, const SourceHints& hints = kTwoHosts,
                    std::string_view file = "all_reduce.txt") {
  return read_nccl_tests_text(text, hints, file);
}

std::string message_of(std::string_view text, const SourceHints& hints = kTwoHosts,
                       std::string_view file = "all_reduce.txt") {
  try {
    static_cast<void>(read(text, hints, file));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

// What a current build prints.
constexpr std::string_view kNew =
    R"(# nccl-tests version 2.18.3 nccl-headers=23003 nccl-library=22907
# Collective test starting: all_gather_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 40 agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1655 on     node-a device  0 [0000:06:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1656 on     node-a device  1 [0000:09:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   1657 on     node-b device  0 [0000:06:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid   1658 on     node-b device  1 [0000:09:00] NVIDIA H100 80GB HBM3
NCCL version 2.29.7+cuda13.1
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024            64     float    none      -1    11.50    0.09    0.07       0    11.40    0.09    0.07       0
     1048576         65536     float    none      -1    40.00   26.21   19.66       0    41.00   25.58   19.18       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 9.1
)";

TEST(NcclTestsText, ReadsWhatACurrentBuildPrints) {
  const MeasurementSet set = read(kNew, {}, "run.log");
  EXPECT_EQ(set.name, "run");
  EXPECT_EQ(set.ranks, 4);
  EXPECT_EQ(set.hosts, 2);
  EXPECT_EQ(set.gpus_per_host, 2);
  EXPECT_EQ(set.gpu, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(set.nccl_version, "2.29.7");
  ASSERT_EQ(set.rows.size(), 2U);
  const MeasuredRow& row = set.rows[1];
  EXPECT_EQ(row.collective, Collective::kAllGather);
  EXPECT_EQ(row.dtype, "f32");
  EXPECT_EQ(row.bytes, 1048576.0);
  EXPECT_EQ(row.time_us, 40.0);
  EXPECT_EQ(row.in_place_time_us, 41.0);
  EXPECT_EQ(row.iterations, 40);
  EXPECT_EQ(row.line, 16);
  EXPECT_TRUE(set.warnings.empty());
  EXPECT_TRUE(set.refused.empty());
}

// rccl-tests prints the same with its own version, which has no hash sign, and AMD's devices.
TEST(NcclTestsText, ReadsWhatRcclTestsPrints) {
  const MeasurementSet set = read(
      R"(# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 8388608 maxBytes 16777216 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
rccl-tests: Version develop:83d38d9
# Using devices
#  Rank  0 Group  0 Pid  37300 on     node-a device  0 [0000:05:00] AMD Instinct MI300X
#  Rank  1 Group  0 Pid  37300 on     node-a device  1 [0000:33:00] AMD Instinct MI300X
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
     8388608       2097152     float     sum      -1   200.00   41.94   41.94      0   202.00   41.53   41.53      0
    16777216       4194304     float     sum      -1   380.00   44.15   44.15      0   381.00   44.03   44.03      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 42.9
)",
      {}, "mi300x.log");
  EXPECT_EQ(set.gpu, "AMD Instinct MI300X");
  EXPECT_EQ(set.ranks, 2);
  EXPECT_EQ(set.hosts, 1);
  ASSERT_EQ(set.rows.size(), 2U);
  EXPECT_EQ(set.rows[0].collective, Collective::kAllReduce);
  EXPECT_EQ(set.rows[0].time_us, 200.0);
  EXPECT_EQ(set.rows[1].bytes, 16777216.0);
  EXPECT_TRUE(set.refused.empty());
}

TEST(NcclTestsText, LinesOfKeysSayWhatTheToolDoesNot) {
  const MeasurementSet set = read(R"(# source: https://example.org/log
# date: 2026-01
# collective: alltoall
# gpu: H100-SXM5-80GB
# nodes: 10
# gpus_per_node: 4
# ranks: 40
# interconnect_intra: NVLink4 + NVSwitch
# interconnect_inter: not stated
# nccl_version: 2.29.2
# settings: NCCL_ALGO=Ring
# health: suspect
# notes: one
# notes: two: again
# columns: size(B) count(elements) type redop root | out-of-place: time(us) algbw(GB/s) busbw(GB/s) wrong/error | in-place: time(us) algbw(GB/s) busbw(GB/s) wrong/error
  1048576  6553 bfloat16 none -1 40.00 26.21 25.5 0 41.00 25.58 25 N/A
)",
                                  {}, "x.txt");
  EXPECT_EQ(set.source, "https://example.org/log");
  EXPECT_EQ(set.date, "2026-01");
  EXPECT_EQ(set.gpu, "H100-SXM5-80GB");
  EXPECT_EQ(set.ranks, 40);
  EXPECT_EQ(set.hosts, 10);
  EXPECT_EQ(set.gpus_per_host, 4);
  EXPECT_EQ(set.intra, "NVLink4 + NVSwitch");
  EXPECT_EQ(set.inter, "");
  EXPECT_EQ(set.nccl_version, "2.29.2");
  EXPECT_EQ(set.settings, "NCCL_ALGO=Ring");
  EXPECT_EQ(set.notes, "one; two: again");
  EXPECT_EQ(set.health, Health::kUnhealthy);
  EXPECT_EQ(set.rows[0].collective, Collective::kAllToAll);
  EXPECT_EQ(set.rows[0].dtype, "bf16");
}

// One table for each version: its header, one row, and what is read from it. The row is 64 KiB in
// 20 us, and 21 us in place.
struct Variant {
  const char* name;
  std::string_view text;
  const char* dtype;
};
void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.text; }

class NcclTestsVariant : public testing::TestWithParam<Variant> {};

TEST_P(NcclTestsVariant, IsRead) {
  const MeasurementSet set = read(GetParam().text);
  ASSERT_EQ(set.rows.size(), 1U);
  EXPECT_TRUE(set.refused.empty());
  EXPECT_EQ(set.rows[0].bytes, 65536.0);
  EXPECT_EQ(set.rows[0].time_us, 20.0);
  EXPECT_EQ(set.rows[0].dtype, GetParam().dtype);
  EXPECT_EQ(set.rows[0].in_place_time_us, 21.0);
}

INSTANTIATE_TEST_SUITE_P(
    All, NcclTestsVariant,
    testing::Values(
        Variant{"RedopAndRoot",
                "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw "
                "#wrong\n65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n",
                "f32"},
        Variant{"RedopAlone",
                "#  size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  "
                "error\n65536 16384 half sum 20.00 3.28 6.1 2e-07 21.00 3.12 5.8 1e-07\n",
                "f16"},
        Variant{"RootAlone",
                "# collective: broadcast\n"
                "#  size  count  type  root  time  algbw  busbw  error  time  algbw  busbw  error\n"
                "65536 8192 double 0 20.00 3.28 3.28 0e+00 21.00 3.12 3.12 0e+00\n",
                "f64"},
        Variant{"NeitherRedopNorRoot",
                "# collective: alltoall\n"
                "#  size  count  type  time  algbw  busbw  error  time  algbw  busbw  error\n"
                "65536 65536 int8 20.00 3.28 3.07 N/A 21.00 3.12 2.9 N/A\n",
                "i8"},
        Variant{"NoHeaderWithRoot", "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n",
                "f32"},
        Variant{"NoHeaderWithoutRoot",
                "65536 16384 float sum 20.00 3.28 6.1 2e-07 21.00 3.12 5.8 2e-07\n", "f32"},
        Variant{"NoHeaderNothing", "65536 16384 float 20.00 3.28 6.1 N/A 21.00 3.12 5.8 N/A\n",
                "f32"},
        Variant{"NoWrongColumn",
                "#  size  count  type  redop  root  time  algbw  busbw  time  algbw  busbw\n"
                "65536 16384 float sum -1 20.00 3.28 6.1 21.00 3.12 5.8\n",
                "f32"},
        Variant{"Timestamps",
                "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw "
                "#wrong           timestamp\n"
                "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0  2026-01-02 03:04:05\n",
                "f32"},
        Variant{"PerIteration",
                "#  size  count  type  redop  root  time  algbw  busbw #wrong i_min i_max i_p99 "
                "i_cv% time  algbw  busbw #wrong i_min i_max i_p99 i_cv%\n"
                "65536 16384 float sum -1 20.00 3.28 6.1 0 19 25 24 3.1 21.00 3.12 5.8 0 20 26 25 "
                "3.3\n",
                "f32"},
        Variant{"OpenMpiTags",
                "[1,0]<stdout>:65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 "
                "5.8 0\n",
                "f32"},
        Variant{"TagGluedToTheRow",
                "[0]   65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n", "f32"},
        Variant{"TagGluedToAColumn",
                "65536 16384 float sum -1[0] 20.00 3.28 6.1 0 [0]21.00 3.12 5.8 0[0]\n", "f32"},
        Variant{"SrunLabels",
                " 0: # size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
                " 0: 65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n",
                "f32"},
        Variant{"CarriageReturns",
                "65536\t16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\r\n", "f32"}),
    [](const auto& test) { return test.param.name; });

TEST(NcclTestsText, InPlaceTimesMayBeAbsent) {
  const MeasurementSet set = read("65536 16384 float sum -1 20.00 3.28 6.1 0 N/A N/A N/A N/A\n");
  EXPECT_EQ(set.rows[0].time_us, 20.0);
  EXPECT_FALSE(set.rows[0].in_place_time_us.has_value());
}

TEST(NcclTestsText, ALogThatEndsInARowKeepsTheRowsBefore) {
  const std::string good = "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n";
  for (const char* tail :
       {"131072 32768", "131072 32768 flo", "131072 32768 float sum -1 20.00 3.28 6.1",
        "131072 32768 float sum -1 30.00 4.37 8.2 0 31.00 4.23 7.9 N/"}) {
    const MeasurementSet set = read(good + tail);
    EXPECT_EQ(set.rows.size(), 1U) << tail;
    ASSERT_EQ(set.warnings.size(), 1U) << tail;
    EXPECT_EQ(set.warnings[0], "line 2: the last row is cut off and left out");
  }
  // Text of the launcher may follow the row that was cut.
  EXPECT_EQ(read(good + "131072 32768 float sum -1\nslurmstepd: error: CANCELLED\n").rows.size(),
            1U);
  // Within a table, a row that was cut is an error.
  EXPECT_EQ(message_of(good + "131072 32768 float sum -1\n" + good),
            "all_reduce.txt:line 2: found 5 columns; valid: 13, as the table's header says");
}

TEST(NcclTestsText, WrongResultsAreRefusedWithTheirReason) {
  const MeasurementSet set = read(
      "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
      "65536 16384 float sum -1 20.00 3.28 6.1 3 21.00 3.12 5.8 0\n"
      "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 7\n"
      "65536 16384 float sum -1 20.00 3.28 6.1 1e-06 21.00 3.12 5.8 1e-06\n"
      "65536 16384 float sum -1 20.00 3.28 6.1 1e-01 21.00 3.12 5.8 1e-06\n"
      "65536 16384 float sum -1 20.00 9.99 6.1 0 21.00 3.12 5.8 0\n"
      "65536 16384 float sum -1 N/A N/A N/A N/A 21.00 3.12 5.8 0\n"
      "65536 16384 float sum -1 -20.00 3.28 6.1 0 21.00 3.12 5.8 0\n"
      "65536 16384 float sum -1 0.00 3.28 6.1 0 21.00 3.12 5.8 0\n"
      "65536 16384 float sum -1 20.00 3.28 6.1 0 -21.00 3.12 5.8 0\n");
  ASSERT_EQ(set.rows.size(), 1U);
  EXPECT_EQ(set.rows[0].line, 4);
  EXPECT_EQ(set.refused,
            (std::vector<RefusedRow>{{2, "found 3 wrong elements (#wrong)"},
                                     {3, "in place: found 7 wrong elements (#wrong)"},
                                     {5, "results are wrong by 0.1 (error), more than 1e-05"},
                                     {6,
                                      "columns contradict each other: 65536 B in 20 us is 3.28 "
                                      "GB/s, but the algbw column says 9.99"},
                                     {7, "found no out-of-place time"},
                                     {8, "found an out-of-place time of -20 us"},
                                     {9, "found an out-of-place time of 0 us"},
                                     {10, "in place: found a time of -21 us"}}));
}

TEST(NcclTestsText, ARowWhoseSizeOrCountCannotBeReadIsNotPassedOver) {
  const std::string good = "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n";
  const std::string rest = " float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n";
  for (const char* size :
       {"6.5536e4", "65536.0", "-65536", "65,536", "64K", "99999999999999999999"}) {
    EXPECT_EQ(message_of(good + size + " 16384" + rest),
              "all_reduce.txt:line 2: found \"" + std::string(size) +
                  "\" in column 1; valid: a whole number of bytes (size count type [redop] [root] "
                  "time algbw busbw [#wrong], then the last four in place)");
  }
  EXPECT_EQ(message_of("65536 16k" + rest).substr(0, 86),
            "all_reduce.txt:line 1: found \"16k\" in column 2; valid: a whole number of elements "
            "(siz");
  EXPECT_EQ(message_of("64K 16k float 20.00 3.28 6.1 N/A 21.00 3.12 5.8 N/A\n").substr(0, 46),
            "all_reduce.txt:line 1: found \"64K\" in column 1");
  EXPECT_EQ(
      read(good + "[STAT]: 131072 32768" + " float sum -1 30.00 4.37 8.2 0 31.00 4.23 7.9 0\n" +
           "[STAT]:131072 32768" + " float sum -1 30.00 4.37 8.2 0 31.00 4.23 7.9 0\n")
          .rows.size(),
      3U);
  // Tags and timestamps do not hide the error.
  EXPECT_EQ(message_of("[1,0]<stdout>:64K 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0  "
                       "2026-01-02 03:04:05\n")
                .substr(0, 46),
            "all_reduce.txt:line 1: found \"64K\" in column 1");
  // Other text of a log is no error.
  EXPECT_EQ(read(good + "n:1:1 [0] NCCL INFO 24 coll channels, 16 nvls channels, 32 p2p channels\n"
                        "srun: error: n1: task 3: float exception 1 2 3 4 5 6 7 8\n"
                        "tried 4 floats sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n"
                        "see table float sum -1 20.00 3.28 GB/s and 21.00 3.12 5.8 0\n"
                        "Rank 4 float\n")
                .rows.size(),
            1U);
}

// Ranks share a terminal: NCCL_DEBUG=INFO of one writes into the row that another prints.
TEST(NcclTestsText, ARowThatALineOfNcclsLogCutsIsRefusedAlone) {
  const std::string good = "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n";
  const MeasurementSet set =
      read(good +
           "131072 32768 float sum -1n1:19:73 [0] NCCL INFO Channel 00/0 : 7[3] -> 0[0] [receive] "
           "via NET/IB/2/GDRDMA\n"
           "n1:19:74 [1] NCCL INFO Channel 01/0 : 1[1] -> 3[3] via P2P/CUMEM\n"
           "   70.49   29.75   52.07      0    68.87   30.45   53.29      0\n" +
           good);
  EXPECT_EQ(set.rows.size(), 2U);
  EXPECT_EQ(set.refused, (std::vector<RefusedRow>{{2, "a line of NCCL's log cuts the row"}}));
}

TEST(NcclTestsText, TablesOfOtherToolsArePassedOver) {
  const std::string good = "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n";
  const std::string others =
      " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
      " 65536 5000 92.42 92.40 0.176230\n"
      "0 3 0x75a3, 21010 44.0 257.0W NPS1, SPX, 0 797Mhz 2000Mhz 0% auto 1400.0W 17% 1%\n"
      "10 20\n";
  const MeasurementSet set = read(others + good + " 65536 5000 92.42 92.40 0.176230\n" + good);
  EXPECT_EQ(set.rows.size(), 2U);
  EXPECT_TRUE(set.warnings.empty());
  EXPECT_EQ(
      message_of(good + "65536 16384 4 sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n").substr(0, 48),
      "all_reduce.txt:line 2: found the type \"4\"; valid");
}

// Versions up to 2.10 leave the column redop of an all-to-all blank.
TEST(NcclTestsText, AColumnOfReductionsMayBeBlank) {
  const MeasurementSet set = read(
      "# size count type redop time algbw busbw error time algbw busbw error\n"
      "65536 1024 float 20.00 3.28 3.1 N/A 21.00 3.12 2.9 N/A\n",
      kTwoHosts, "alltoall.txt");
  ASSERT_EQ(set.rows.size(), 1U);
  EXPECT_EQ(set.rows[0].collective, Collective::kAllToAll);
  EXPECT_EQ(set.rows[0].time_us, 20.0);
  EXPECT_EQ(set.rows[0].in_place_time_us, 21.0);
}

TEST(NcclTestsText, ZeroBytesSayNothing) {
  const MeasurementSet set = read(
      "0 0 float sum -1 5.00 0.00 0.00 0 5.00 0.00 0.00 0\n"
      "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n");
  EXPECT_EQ(set.rows.size(), 1U);
  EXPECT_EQ(set.warnings, std::vector<std::string>{"1 row of 0 bytes is left out"});
}

TEST(NcclTestsText, ARootThatIsNoRankIsRefused) {
  const std::string head =
      "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
  const auto row = [](const std::string& root) {
    return "65536 16384 float sum " + root + " 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n";
  };
  EXPECT_TRUE(read(head + row("-1") + row("0") + row("2147483647") + row("N/A")).refused.empty());
  const MeasurementSet set =
      read(head + row("-1") + row("-2") + row("0.5") + row("2147483648") + row("-1e60"));
  const auto refused = [](int line, const std::string& root) {
    return RefusedRow{line,
                      "found the root " + root + "; valid: a rank, or -1 where there is none"};
  };
  EXPECT_EQ(set.refused, (std::vector<RefusedRow>{refused(3, "-2"), refused(4, "0.5"),
                                                  refused(5, "2147483648"), refused(6, "-1e+60")}));
}

TEST(NcclTestsText, FiguresThatNoMeasurementHasAreRefused) {
  const MeasurementSet set = read(
      "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
      "2000000000000000000 500000000000000000 float sum -1 20.00 N/A N/A 0 21.00 N/A N/A 0\n"
      "65536 16384 float sum -1 2e15 N/A N/A 0 21.00 3.12 5.8 0\n"
      "65536 16384 float sum -1 1e-7 N/A N/A 0 21.00 3.12 5.8 0\n"
      "65536 16384 float sum -1 20.00 3.28 6.1 0 2e15 N/A N/A 0\n"
      "65536 16384 float sum -1 20.00 3.28 6.1 0 0.00 N/A N/A 0\n");
  EXPECT_EQ(set.rows.size(), 1U);
  EXPECT_EQ(set.refused, (std::vector<RefusedRow>{{2, "found 2e+18 bytes; valid: at most 1e+18"},
                                                  {3, "found an out-of-place time of 2e+15 us"},
                                                  {4, "found an out-of-place time of 1e-07 us"},
                                                  {5, "in place: found a time of 2e+15 us"}}));
}

TEST(NcclTestsText, SeveralTablesInOneFile) {
  const MeasurementSet set = read(
      "# Collective test starting: all_reduce_perf\n"
      "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
      "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n"
      "# Collective test starting: reduce_perf\n"
      "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
      "65536 16384 float sum 0 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n"
      "# Collective test starting: alltoall_perf\n"
      "# size count type time algbw busbw error time algbw busbw error\n"
      "65536 1024 float 20.00 3.28 3.1 N/A 21.00 3.12 2.9 N/A\n",
      kTwoHosts, "all.txt");
  ASSERT_EQ(set.rows.size(), 2U);
  EXPECT_EQ(set.rows[0].collective, Collective::kAllReduce);
  EXPECT_EQ(set.rows[1].collective, Collective::kAllToAll);
  ASSERT_EQ(set.refused.size(), 1U);
  EXPECT_EQ(set.refused[0].reason,
            "found the collective \"reduce_perf\"; valid: all_gather, all_reduce, reduce_scatter, "
            "alltoall, broadcast, scatter, sendrecv");
}

TEST(NcclTestsText, TheCollectiveComesFromALineACommandTheFileOrTheColumns) {
  const std::string sum = "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n";
  const std::string scattered = "65536 1024 float sum -1 20.00 3.28 3.1 0 21.00 3.12 2.9 0\n";
  const std::string none = "65536 1024 float none -1 20.00 3.28 3.1 0 21.00 3.12 2.9 0\n";
  const std::string sent = "65536 16384 float none -1 20.00 3.28 3.3 0 21.00 3.12 3.1 0\n";
  const auto kind = [](const std::string& text, std::string_view file = "x.txt") {
    return read(text, kTwoHosts, file).rows[0].collective;
  };
  EXPECT_EQ(kind("# collective: broadcast\n" + sent, "all_gather.txt"), Collective::kBroadcast);
  EXPECT_EQ(kind("$ mpirun -np 16 ./build/sendrecv_perf -b 8\n" + sent), Collective::kSendRecv);
  EXPECT_EQ(kind(none, "runs/allgather-2x8.log"), Collective::kAllGather);
  EXPECT_EQ(kind(sum), Collective::kAllReduce);
  EXPECT_EQ(kind(scattered), Collective::kReduceScatter);
  EXPECT_EQ(message_of(none, kTwoHosts, "x.txt"),
            "x.txt:line 1: found nothing that names the table's collective; valid: a line \"# "
            "collective: all_gather\" above it, or a file name that contains it");
}

// What superbenchmark's logs of reduce_perf have without the command.
TEST(NcclTestsText, AReductionOntoOneRankIsAReduceWhichHasNoPrice) {
  const std::string rooted = "65536 16384 float sum 0 20.00 3.28 3.28 0 21.00 3.12 3.12 0\n";
  EXPECT_EQ(
      message_of(rooted, kTwoHosts, "x.txt"),
      "x.txt:line 1: found no usable row: found the collective \"reduce\"; valid: all_gather, "
      "all_reduce, reduce_scatter, alltoall, broadcast, scatter, sendrecv");
  const std::string none = "65536 16384 float none 0 20.00 3.28 3.28 0 21.00 3.12 3.12 0\n";
  EXPECT_NE(message_of(none, kTwoHosts, "x.txt").find("found nothing that names the table's"),
            std::string::npos);
}

TEST(NcclTestsText, RanksComeFromTheFileElseFromTheHints) {
  const std::string row = "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n";
  const MeasurementSet hinted = read("65536 16384 float sum -1 20.00 3.28 6.0 0 21.00 3.12 5.7 0\n",
                                     {.hosts = 3, .gpus_per_host = 4});
  EXPECT_EQ(hinted.ranks, 12);
  EXPECT_EQ(hinted.hosts, 3);
  const MeasurementSet clash = read("# nodes: 2\n# gpus_per_node: 8\n" + row, {.hosts = 4});
  EXPECT_EQ(clash.ranks, 16);
  EXPECT_EQ(clash.hosts, 2);
  EXPECT_EQ(clash.warnings,
            std::vector<std::string>{
                "the file says 2 hosts, but the command line says 4; the file is used"});
  // A list that leaves out some ranks still shows the last one, which tells the number of ranks.
  const MeasurementSet elided = read(
      "#  Rank  0 Group  0 Pid 1 on a device  0 [0x18] NVIDIA A100\n"
      "#  Rank 15 Group  0 Pid 2 on b device  7 [0xdb] NVIDIA A100\n" +
          row,
      {});
  EXPECT_EQ(elided.ranks, 16);
  EXPECT_EQ(elided.hosts, 2);
  EXPECT_EQ(elided.gpus_per_host, 8);
  EXPECT_EQ(
      message_of(row, {}),
      "all_reduce.txt: found no number of ranks; valid: a device list (\"#  Rank  0 ... on "
      "HOST device  0\"), lines \"# ranks: N\", \"# nodes: N\" and \"# gpus_per_node: N\", or "
      "--hosts and --gpus-per-host");
}

// -- how many GPUs a process drives

constexpr std::string_view kRow = "1024 64 float sum -1 11.50 0.09 0.17 0 11.40 0.09 0.17 0\n";

std::int64_t per_process(const std::string& above) {
  return read(above + std::string(kRow)).gpus_per_process;
}

TEST(NcclTestsText, TheHeaderSaysHowManyGpusAProcessDrives) {
  EXPECT_EQ(per_process("# nThread 1 nGpus 8 minBytes 8 maxBytes 1024\n"), 8);
  EXPECT_EQ(per_process("# nThread 8 nGpus 1 minBytes 8 maxBytes 1024\n"), 8);
  EXPECT_EQ(per_process("# nThread 1 nGpus 1 minBytes 8 maxBytes 1024\n"), 1);
  EXPECT_EQ(per_process("# nccl_tests_header: nThread 2 nGpus 4 minBytes 8\n"), 8);
  EXPECT_EQ(per_process(""), 0);
}

TEST(NcclTestsText, TablesThatDifferInTheGpusOfAProcessSayNothing) {
  const std::string eight = "# nThread 1 nGpus 8 minBytes 8\n";
  EXPECT_EQ(per_process(eight + std::string(kRow) + eight), 8);
  EXPECT_EQ(per_process(eight + std::string(kRow) + "# nThread 1 nGpus 1 minBytes 8\n"), 0);
}

TEST(NcclTestsText, ACommandLineSaysHowManyGpusAProcessDrives) {
  EXPECT_EQ(per_process("$ ./all_reduce_perf -b 8 -e 1G -f 2 -g 8\n"), 8);
  EXPECT_EQ(per_process("$ mpirun -n 16 all_reduce_perf -b 8 -e 1G -g1 -t 2\n"), 2);
  EXPECT_EQ(per_process("# command: srun all_reduce_perf -b 8 -e 1G\n"), 1);
  EXPECT_EQ(per_process("# command: all_reduce_perf --ngpus=4 --nthreads 2\n"), 8);
  EXPECT_EQ(per_process("# command: srun -n 16 all_reduce_perf ...\n"), 0);
  EXPECT_EQ(per_process("# command: all_reduce_perf -b 8 -g ${GPUS}\n"), 0);
  EXPECT_EQ(per_process("# notes: like all_reduce_perf -b 8 -g 8 of the same page\n"), 0);
}

TEST(NcclTestsText, ProcessesOfTheDeviceListAreCounted) {
  const std::string row = "1024 64 float sum -1 11.50 0.09 0.09 0 11.40 0.09 0.09 0\n";
  const auto list = [&](const char* second) {
    return "# Using devices\n#  Rank  0 Group  0 Pid 17 on node-a device  0 [0x18] NVIDIA H100\n" +
           std::string("#  Rank  1 Group  0 Pid ") + second + " device  1 [0x2a] NVIDIA H100\n" +
           row;
  };
  EXPECT_EQ(read(list("17 on node-a"), {}).gpus_per_process, 2);
  EXPECT_EQ(read(list("18 on node-a"), {}).gpus_per_process, 1);
  EXPECT_EQ(read(list("17 on node-b"), {}).gpus_per_process, 1);
  EXPECT_EQ(read("# gpus_per_process: 1\n" + list("17 on node-a"), {}).gpus_per_process, 1);
}

TEST(NcclTestsText, AProcessCannotDriveMoreGpusThanAHostHas) {
  const MeasurementSet set = read("# nThread 1 nGpus 16 minBytes 8\n" + std::string(kRow));
  EXPECT_EQ(set.gpus_per_process, 0);
  ASSERT_EQ(set.warnings.size(), 1U);
  EXPECT_EQ(set.warnings[0],
            "the file says that a process drives 16 GPUs, but a host has 8; it is taken as not "
            "stated");
}

TEST(NcclTestsText, ErrorsNameTheLineAndWhatIsValid) {
  EXPECT_EQ(
      message_of("65536 16384 complex sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n").substr(0, 67),
      "all_reduce.txt:line 1: found the type \"complex\"; valid: float, doub");
  EXPECT_EQ(
      message_of("\n65536 16384 float sum -1 2o.00 3.28 6.1 0 21.00 3.12 5.8 0\n").substr(0, 74),
      "all_reduce.txt:line 2: found \"2o.00\" in column 6; valid: a number or N/A (");
  using namespace std::string_literals;
  EXPECT_NE(message_of("65536 16384 float sum -1 2\0 3.28 6.1 0 21.00 3.12 5.8 0\n"s)
                .find("found \"2\\x00\" in column 6; valid: a number or N/A ("),
            std::string::npos);
  EXPECT_EQ(message_of("# ranks: many\n"),
            "all_reduce.txt:line 1: found \"many\" after \"ranks:\"; valid: an integer from 1 to "
            "1099511627776");
  EXPECT_EQ(
      message_of("# ranks: 8\n# ranks: 16\n"),
      "all_reduce.txt:line 2: found 16 after \"ranks:\", but 8 earlier; valid: the same number "
      "throughout the file");
  EXPECT_EQ(message_of("# size count type redop root cputime algbw busbw #wrong\n"),
            "all_reduce.txt:line 1: found the column cputime (-C 1), the time to launch; valid: "
            "time");
  EXPECT_EQ(message_of("# (B) (elements) (ms) (GB/s)\n"),
            "all_reduce.txt:line 1: found times in (ms); valid: (us)");
  EXPECT_EQ(message_of("hello\n").substr(0, 59),
            "all_reduce.txt: found no row of a table; valid: nccl-tests'");
  EXPECT_EQ(message_of("65536 16384 float sum -1 20.00 3.28 6.1 5 21.00 3.12 5.8 0\n"),
            "all_reduce.txt:line 1: found no usable row: found 5 wrong elements (#wrong)");
  EXPECT_EQ(message_of("# ranks: 1\n# nodes: 1\n65536 16384 float sum -1 20.0 3.28 0 0 21.00 3.12 "
                       "0 0\n",
                       {}),
            "all_reduce.txt:line 3: found no usable row: a single rank communicates nothing");
}

// -- JSON
// ------------------------------------------------------------------------------------------

json good() {
  return json::parse(R"({
    "version": 2, "start_time": "2026-01-02 03:04:05",
    "args": ["./build/reduce_scatter_perf", "-b", "8"], "env": ["SECRET=1"],
    "nccl_version": 22907,
    "config": {"nthreads": 1, "ngpus": 2, "iterations": 20, "per_iter_timing": "true",
      "devices": [
        {"rank": 0, "group": 0, "pid": 1, "hostname": "a", "device": 0, "device_hex": "0x18",
         "device_info": "NVIDIA H100"},
        {"rank": 2, "group": 0, "pid": 2, "hostname": "b", "device": 0, "device_hex": "0x18",
         "device_info": "NVIDIA H100"}]},
    "results": [
      {"size": 65536, "count": 4096, "type": "float", "redop": "sum", "root": "    -1",
       "out_of_place": {"time": 20.0, "alg_bw": 3.2768, "bus_bw": 2.4576, "nwrong": 0.0},
       "out_of_place_per_iter": {"min_us": 19.0, "p50_us": 19.5, "p95_us": 24.0, "times_us": []},
       "in_place": {"time": 21.0, "alg_bw": 3.1207, "bus_bw": 2.3405, "nwrong": null},
       "actual_iterations": 18, "experiment_name": "ReduceScatter"},
      {"size": 131072, "count": 8192, "type": "float", "redop": "sum", "root": "    -1",
       "out_of_place": {"time": 30.0, "alg_bw": 4.369, "bus_bw": 3.2768, "nwrong": 4.0},
       "in_place": null}],
    "end_time": "2026-01-02 03:05:05"})");
}

MeasurementSet read_json(const json& value, const SourceHints& hints = {}) {
  return read_nccl_tests_json(value, hints, {"run.json", ""});
}

std::string json_message_of(const char* patch) {
  json value = good();
  value.merge_patch(json::parse(patch));
  try {
    static_cast<void>(read_json(value));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(NcclTestsJson, ReadsTheToolsOwnReport) {
  EXPECT_TRUE(is_nccl_tests_json(good()));
  const MeasurementSet set = read_json(good());
  EXPECT_EQ(set.ranks,
            4);  // two processes with two GPUs each; the list names the first GPU of each
  EXPECT_EQ(set.hosts, 2);
  EXPECT_EQ(set.gpus_per_host, 2);
  EXPECT_EQ(set.gpus_per_process, 2);
  EXPECT_EQ(set.gpu, "NVIDIA H100");
  EXPECT_EQ(set.nccl_version, "2.29.7");
  EXPECT_EQ(set.date, "2026-01-02");
  ASSERT_EQ(set.rows.size(), 1U);
  EXPECT_EQ(set.rows[0].collective, Collective::kReduceScatter);
  EXPECT_EQ(set.rows[0].time_us, 20.0);
  EXPECT_EQ(set.rows[0].in_place_time_us, 21.0);
  EXPECT_EQ(set.rows[0].iterations, 18);
  EXPECT_EQ(set.rows[0].p50_us, 19.5);
  EXPECT_EQ(set.rows[0].p95_us, 24.0);
  EXPECT_EQ(set.refused,
            (std::vector<RefusedRow>{{0, "found 4 wrong elements (nwrong)", "/results/1"}}));
  EXPECT_EQ(set.to_json().dump().find("SECRET"), std::string::npos);
}

TEST(NcclTestsJson, ADeviceListAtTheTopNamesEveryRank) {
  json value = good();
  value["devices"] = json::array();
  for (int rank = 0; rank < 16; ++rank) {
    value["devices"].push_back({{"rank", rank}, {"hostname", rank < 8 ? "a" : "b"}});
  }
  value["config"].erase("devices");
  value["results"][0]["out_of_place"]["bus_bw"] = 3.072;
  value["results"][0]["in_place"]["bus_bw"] = 2.9257;
  const MeasurementSet set = read_json(value);
  EXPECT_EQ(set.ranks, 16);
  EXPECT_EQ(set.hosts, 2);
}

// The list names only the first and the last of eight processes, which drive two GPUs each.
TEST(NcclTestsJson, AShortenedDeviceListShowsTheHostsByTheNumbersOfItsDevices) {
  json value = good();
  value["config"]["devices"][1].merge_patch({{"rank", 14}, {"device", 2}});
  value["results"][0]["out_of_place"]["bus_bw"] = 3.072;
  value["results"][0]["in_place"]["bus_bw"] = 2.9257;
  const MeasurementSet set = read_json(value);
  EXPECT_EQ(set.ranks, 16);
  EXPECT_EQ(set.hosts, 4);
  EXPECT_EQ(set.gpus_per_host, 4);
}

TEST(NcclTestsJson, APercentileThatIsNoTimeRefusesItsRow) {
  for (const char* key : {"p50_us", "p95_us"}) {
    json value = good();
    value["results"][1]["out_of_place"]["nwrong"] = 0;
    value["results"][1]["out_of_place_per_iter"] = {{"p50_us", 1.0}, {"p95_us", 2.0}};
    value["results"][1]["out_of_place_per_iter"][key] = 3e15;
    EXPECT_EQ(
        read_json(value).refused,
        (std::vector<RefusedRow>{{0, std::string("found 3e+15 us as ") + key, "/results/1"}}));
  }
}

TEST(NcclTestsJson, ARowWithoutATimeIsRefusedAlone) {
  const auto refused_with = [](const json& time, const char* side = "out_of_place") {
    json value = good();
    value["results"][1]["in_place"] = {{"time", 31.0}};
    value["results"][1]["out_of_place"]["nwrong"] = 0;
    value["results"][1][side]["time"] = time;
    const MeasurementSet set = read_json(value);
    EXPECT_EQ(set.rows.size(), set.refused.empty() ? 2U : 1U);
    return set.refused;
  };
  const auto row = [](const char* reason) {
    return std::vector<RefusedRow>{{0, reason, "/results/1"}};
  };
  EXPECT_EQ(refused_with(nullptr), row("found no out-of-place time"));
  EXPECT_EQ(refused_with("nan"), row("found no out-of-place time"));
  EXPECT_EQ(refused_with(-40), row("found an out-of-place time of -40 us"));
  EXPECT_EQ(refused_with(0), row("found an out-of-place time of 0 us"));
  EXPECT_EQ(refused_with(-3, "in_place"), row("in place: found a time of -3 us"));
  EXPECT_TRUE(refused_with(nullptr, "in_place").empty());
  EXPECT_TRUE(refused_with(30).empty());
}

TEST(NcclTestsJson, OfTheVariablesTheJudgedOnesAreRead) {
  json document = good();
  document["env"] = {"NCCL_ALGO=Ring", "NCCL_IB_DISABLE=1", "NCCL_DEBUG=INFO", "TOKEN=secret"};
  EXPECT_EQ(read_json(document).settings, "NCCL_ALGO=Ring NCCL_IB_DISABLE=1");
}

TEST(NcclTestsJson, SaysWhatTheToolSaysAgainstItsResults) {
  json document = good();
  document["config"]["graph"] = 1;
  document["config"]["blocking_collectives"] = "true";
  document["out_of_bounds"] = {{"count", 12}, {"okay", "false"}};
  document["errors"] = {"unhandled system error"};
  const MeasurementSet set = read_json(document);
  EXPECT_EQ(set.settings, "CUDA graphs launched the calls (-G); each call was waited for (-z)");
  ASSERT_EQ(set.warnings.size(), 4U);
  EXPECT_EQ(set.warnings[0],
            "nccl-tests says that out_of_bounds is not okay: {\"count\":12,\"okay\":\"false\"}");
  EXPECT_EQ(set.warnings[1], "nccl-tests ended with errors: [\"unhandled system error\"]");
}

TEST(NcclTestsJson, ErrorsNameThePointer) {
  EXPECT_EQ(json_message_of(R"({"results": 3})"), "run.json:/results: found 3; valid: an array");
  EXPECT_EQ(json_message_of(R"({"results": []})"), "run.json:/results: found no usable row");
  EXPECT_EQ(json_message_of(R"({"results": [7]})"),
            "run.json:/results/0: found 7; valid: an object");
  EXPECT_EQ(json_message_of(R"({"results": [{"size": 8}]})"),
            "run.json:/results/0: missing key \"type\"");
  EXPECT_EQ(json_message_of(R"({"results": [{"size": 8, "type": "float",
                                "out_of_place": {"time": "x"}}]})"),
            "run.json:/results/0/out_of_place/time: found \"x\"; valid: a number");
  EXPECT_EQ(json_message_of(R"({"results": [{"size": 8, "type": "float",
                                "out_of_place": {"alg_bw": 3}}]})"),
            "run.json:/results/0/out_of_place: missing key \"time\"");
  EXPECT_EQ(json_message_of(R"({"results": [{"size": 8, "type": "float",
                                "out_of_place": {"time": -8.0}}]})"),
            "run.json:/results/0: found no usable row: found an out-of-place time of -8 us");
  EXPECT_EQ(json_message_of(R"({"results": [{"size": 8, "type": "float",
                                "out_of_place": {"cpu_time": 3}}]})"),
            "run.json:/results/0/out_of_place/cpu_time: found the time to launch (-C 1); valid: "
            "time");
  EXPECT_EQ(json_message_of(R"({"config": null})").substr(0, 39),
            "run.json: found no number of ranks; val");
  EXPECT_EQ(json_message_of(R"({"config": {"devices": [{"rank": -1}]}})"),
            "run.json:/config/devices/0/rank: found -1; valid: an integer from 0 to 1099511627776");
}

}  // namespace nccl_tests_reader_test
}  // namespace shardlab
