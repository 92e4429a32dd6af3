// Bus bandwidths: whether they fit a collective and its ranks within the printed digits, and logs
// whose header names another collective or other ranks.
#include "costmodel/measurements/nccl_tests_busbw.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/nccl_tests_reader.h"

namespace shardlab {
namespace nccl_tests_busbw_test {

TEST(BusBandwidths, FactorsAreThoseOfNcclTests) {
  EXPECT_EQ(bus_factor(Collective::kAllReduce, 8), 1.75);
  EXPECT_EQ(bus_factor(Collective::kAllReduce, 16), 1.875);
  for (const Collective kind : {Collective::kAllGather, Collective::kReduceScatter,
                                Collective::kAllToAll, Collective::kScatter}) {
    EXPECT_EQ(bus_factor(kind, 8), 0.875);
  }
  for (const Collective kind : {Collective::kBroadcast, Collective::kSendRecv}) {
    EXPECT_EQ(bus_factor(kind, 8), 1.0);
  }
}

TEST(BusBandwidths, FiguresKnowTheirLastDigit) {
  const auto half_digit = [](std::string_view text) {
    return PrintedFigure::parse(text).half_digit;
  };
  EXPECT_DOUBLE_EQ(PrintedFigure::parse("26.21").value, 26.21);
  EXPECT_DOUBLE_EQ(half_digit("26.21"), 0.005);
  EXPECT_DOUBLE_EQ(half_digit("6.1"), 0.05);
  EXPECT_DOUBLE_EQ(half_digit("391"), 0.5);
  EXPECT_DOUBLE_EQ(half_digit("1.50"), 0.005);
  EXPECT_DOUBLE_EQ(half_digit("1.5e+06"), 5e4);
  EXPECT_DOUBLE_EQ(half_digit("1.5e-02"), 5e-4);
  EXPECT_DOUBLE_EQ(half_digit("2E3"), 500.0);
}

std::string reason(Collective kind, std::int64_t ranks, const char* algbw, const char* busbw) {
  return BusBandwidths().check(kind, ranks, PrintedFigure::parse(algbw),
                               PrintedFigure::parse(busbw), 0);
}

TEST(BusBandwidths, AgreeWithinWhatIsPrinted) {
  EXPECT_EQ(reason(Collective::kAllReduce, 8, "26.21", "45.88"), "");
  EXPECT_EQ(reason(Collective::kAllReduce, 8, "26.21", "45.8"), "");  // one digit fewer
  EXPECT_EQ(
      reason(Collective::kAllReduce, 8, "26.21", "12.88"),
      "columns contradict each other: an algbw of 26.21 GB/s means a busbw of 45.87 for all_reduce "
      "among 8 ranks, but the busbw column says 12.88");
  EXPECT_NE(reason(Collective::kAllReduce, 16, "26.21", "45.88"), "");
  EXPECT_NE(reason(Collective::kAllGather, 8, "26.21", "45.88"), "");
  // Small figures tell little: 0.1 may be 0.05 to 0.15, which fits a ratio of 1.75 and one of
  // 1.875.
  EXPECT_EQ(reason(Collective::kAllReduce, 8, "0.00", "0.00"), "");
  EXPECT_EQ(reason(Collective::kAllReduce, 8, "0.00", "0.01"), "");
  EXPECT_EQ(reason(Collective::kAllReduce, 8, "0.05", "0.09"), "");
  EXPECT_EQ(reason(Collective::kAllReduce, 16, "0.05", "0.09"), "");
  EXPECT_EQ(reason(Collective::kAllReduce, 8, "0.1", "0.1"), "");
  EXPECT_NE(reason(Collective::kAllReduce, 8, "0.10", "0.10"), "");
}

// Five sizes among 8 ranks, as nccl-tests prints them.
constexpr std::string_view kRows =
    "1024 256 float sum -1 20.00 0.05 0.09 0 20.10 0.05 0.09 0\n"
    "65536 16384 float sum -1 25.00 2.62 4.59 0 25.10 2.61 4.57 0\n"
    "1048576 262144 float sum -1 40.00 26.21 45.88 0 40.50 25.89 45.31 0\n"
    "16777216 4194304 float sum -1 120.00 139.81 244.67 0 121.00 138.65 242.64 0\n"
    "268435456 67108864 float sum -1 1200.00 223.70 391.47 0 1201.00 223.51 391.14 0\n";

MeasurementSet read(const std::string& header, std::string rows = std::string(kRows)) {
  return read_nccl_tests_text(header + rows, {}, "run.txt");
}

std::string message_of(const std::string& header, std::string rows = std::string(kRows)) {
  try {
    static_cast<void>(read(header, std::move(rows)));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string scale(int nodes, int per_node, int ranks, const char* collective) {
  return "# nodes: " + std::to_string(nodes) + "\n# gpus_per_node: " + std::to_string(per_node) +
         "\n# ranks: " + std::to_string(ranks) + "\n# collective: " + collective + "\n";
}

std::string with(std::string_view from, std::string_view to) {
  std::string rows(kRows);
  const std::size_t at = rows.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return rows.replace(at, from.size(), to);
}

TEST(BusBandwidths, AHeaderOfOtherRanksOrAnotherCollectiveIsAnError) {
  EXPECT_EQ(read(scale(1, 8, 8, "all_reduce")).rows.size(), 5U);
  EXPECT_EQ(
      message_of(scale(2, 8, 16, "all_reduce")),
      "run.txt:line 6: found a busbw of 4.59 GB/s for an algbw of 2.62 GB/s; valid: 4.91, which "
      "is 1.875 times the algbw, for all_reduce among 16 ranks; another collective or another "
      "number of ranks ran");
  EXPECT_EQ(
      message_of(scale(1, 8, 8, "all_gather")),
      "run.txt:line 5: found a busbw of 0.09 GB/s for an algbw of 0.05 GB/s; valid: 0.04, which "
      "is 0.875 times the algbw, for all_gather among 8 ranks; another collective or another "
      "number of ranks ran");
  EXPECT_NE(message_of(scale(1, 8, 8, "broadcast")), "no error");
  // Where one of two tables is wrong, the message names that one.
  EXPECT_EQ(
      message_of(scale(1, 8, 8, "all_reduce") + std::string(kRows) + "# collective: all_gather\n")
          .substr(0, 16),
      "run.txt:line 11:");
}

TEST(BusBandwidths, ARetypedFigureRefusesItsRowAlone) {
  const MeasurementSet set = read(scale(1, 8, 8, "all_reduce"), with("45.88", "12.88"));
  EXPECT_EQ(set.rows.size(), 4U);
  EXPECT_EQ(set.refused,
            (std::vector<RefusedRow>{
                {7,
                 "columns contradict each other: an algbw of 26.21 GB/s means a busbw of 45.87 for "
                 "all_reduce among 8 ranks, but the busbw column says 12.88"}}));
  const MeasurementSet in_place = read(scale(1, 8, 8, "all_reduce"), with("45.31", "12.88"));
  ASSERT_EQ(in_place.refused.size(), 1U);
  EXPECT_TRUE(in_place.refused[0].reason.starts_with("in place: columns contradict"));
  EXPECT_EQ(read(scale(1, 8, 8, "all_reduce"), with("45.88", "N/A")).rows.size(), 5U);
}

TEST(BusBandwidths, LinesOfOneScaleAgree) {
  EXPECT_EQ(message_of(scale(3, 8, 8, "all_reduce")),
            "run.txt: found 8 ranks on 3 nodes of 8 GPUs; valid: lines \"# ranks: N\", \"# nodes: "
            "N\" and \"# gpus_per_node: N\" of which the first is the product of the others");
  const std::string many = std::to_string(kMaxRanks);
  EXPECT_EQ(
      message_of("# collective: all_reduce\n# nodes: " + many + "\n# gpus_per_node: " + many +
                 "\n"),
      "run.txt: found " + many + " hosts of " + many + " GPUs; valid: at most " + many + " ranks");
}

TEST(BusBandwidths, JsonIsHeldAgainstItsDevicesToo) {
  const auto document = [](const char* program, double busbw) {
    nlohmann::json value = {{"args", {program}}, {"results", nlohmann::json::array()}};
    for (int rank = 0; rank < 8; ++rank) {
      value["devices"].push_back({{"rank", rank}, {"hostname", "a"}});
    }
    for (const double factor : {1.0, 16.0, 64.0}) {
      value["results"].push_back({{"size", 1048576 * factor},
                                  {"type", "float"},
                                  {"out_of_place",
                                   {{"time", 40.0 * factor},
                                    {"alg_bw", 26.2144},
                                    {"bus_bw", factor == 16.0 ? busbw : 45.8752}}}});
    }
    return value;
  };
  const auto read_document = [&](const char* program, double busbw) {
    return read_nccl_tests_json(document(program, busbw), {}, {"run.json", ""});
  };
  EXPECT_EQ(read_document("all_reduce_perf", 45.8752).rows.size(), 3U);
  EXPECT_EQ(
      read_document("all_reduce_perf", 12.5).refused,
      (std::vector<RefusedRow>{
          {0,
           "columns contradict each other: an algbw of 26.2144 GB/s means a busbw of 45.88 for "
           "all_reduce among 8 ranks, but the busbw column says 12.5",
           "/results/1"}}));
  try {
    static_cast<void>(read_document("all_gather_perf", 45.8752));
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "run.json:/results/0: found a busbw of 45.8752 GB/s for an algbw of 26.2144 GB/s; "
        "valid: 22.94, which is 0.875 times the algbw, for all_gather among 8 ranks; another "
        "collective or another number of ranks ran");
  }
}

}  // namespace nccl_tests_busbw_test
}  // namespace shardlab
