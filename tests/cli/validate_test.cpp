// shardlab validate as a user runs it: keys, groups, the gate, formats by content, and errors word
// for word.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace validate_test {

using nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kRow = "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n";
const std::string kLog = std::string("# nodes: 2\n# gpus_per_node: 8\n# gpu: H100\n") + kRow;

constexpr const char* kNcclLog =
    "n:1:1 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n"
    "n:1:1 [0] NCCL INFO   Algorithm   |     Tree     |     Ring     |\n"
    "n:1:1 [0] NCCL INFO     AllReduce | 8.2/ 95.5 | 0.0/ 0.0 | 0.0/ 0.0 | 15.0/ 99.0 |\n";

json json_of(Words words, const std::filesystem::path& folder = {}, int exit_code = 0) {
  words.insert(words.begin(), "validate");
  words.insert(words.end(), {"--format", "json"});
  const ProcessResult result = run_shardlab(words, folder);
  EXPECT_EQ(result.exit_code, exit_code) << join(words, " ") << "\n" << result.err;
  EXPECT_EQ(result.err, "");
  return json::parse(result.out, nullptr, false);
}

constexpr const char* kSlowRow =
    "65536 16384 float sum -1 2000.00 0.03 0.06 0 2100.00 0.03 0.06 0\n";

// Runs that do not show what their hardware can do are counted in "all", which says so.
TEST(ValidateCommand, CountsHealthySetsApartFromUnhealthyOnes) {
  const TemporaryFolder folder;
  folder.write("good.txt", kLog);
  folder.write("bad.txt", "# health: unhealthy\n" + replaced(kLog, kRow, kSlowRow));
  const json good = json_of({"good.txt", "--stack", "alpha-beta"}, folder.path());
  EXPECT_FALSE(good.contains("healthy"));
  EXPECT_EQ(good["unhealthy_sets"], json::array());
  const json both = json_of({"good.txt", "bad.txt", "--stack", "alpha-beta"}, folder.path());
  EXPECT_EQ(both["points"], 2);
  EXPECT_EQ(both["unhealthy_sets"], json({"bad"}));
  EXPECT_EQ(both["healthy"]["points"], 1);
  EXPECT_EQ(both["healthy"]["median_ape_percent"], good["median_ape_percent"]);
  EXPECT_NE(both["median_ape_percent"], good["median_ape_percent"]);
  const ProcessResult text =
      run_shardlab({"validate", "good.txt", "bad.txt", "--stack", "alpha-beta"}, folder.path());
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("1 of the 2 sets is unhealthy, so that its times do not show what the "
                          "hardware can do; the row \"all\" counts it"),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("healthy sets alone"), std::string::npos) << text.out;
}

TEST(ValidateCommand, PrintsTheErrorsOfEachRowAndGroup) {
  const json out = json_of({"h100_1x8_all_reduce_dgxc", "h100_2x8_all_gather_gcp-a3mega-gke",
                            "--stack", "alpha-beta", "--rows"});
  EXPECT_EQ(out["points"], 58);
  EXPECT_EQ(out["unpriced"], 0);
  std::vector<double> errors;
  double sum = 0.0;
  for (const json& row : out["rows"]) {
    const double measured = row["measured_us"].get<double>();
    errors.push_back(100.0 * (row["predicted_us"].get<double>() - measured) / measured);
    sum += errors.back();
    EXPECT_DOUBLE_EQ(row["error_percent"].get<double>(), errors.back());
  }
  ASSERT_EQ(errors.size(), 58U);
  EXPECT_NEAR(out["bias_percent"].get<double>(), sum / 58.0, 1e-9);
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  EXPECT_NEAR(out["median_ape_percent"].get<double>(), (errors[28] + errors[29]) / 2, 1e-9);
  // The 90th percentile of 58 errors lies at position 0.9 * 57 = 51.3.
  EXPECT_NEAR(out["p90_ape_percent"].get<double>(), errors[51] + 0.3 * (errors[52] - errors[51]),
              1e-9);
  ASSERT_EQ(out["worst"].size(), 10U);
  EXPECT_NEAR(std::abs(out["worst"][0]["error_percent"].get<double>()), errors.back(), 1e-9);
  const json& by = out["by"];
  EXPECT_EQ(by["collective"]["all_reduce"]["points"], 32);
  EXPECT_EQ(by["collective"]["all_gather"]["points"], 26);
  EXPECT_EQ(by["file"]["h100_1x8_all_reduce_dgxc"]["points"], 32);
  EXPECT_EQ(by["scale"]["2x8"]["points"], 26);
  EXPECT_EQ(by["size_band"]["<1MB"]["points"].get<int>() +
                by["size_band"]["1-64MB"]["points"].get<int>() +
                by["size_band"][">=64MB"]["points"].get<int>(),
            58);
  EXPECT_FALSE(json_of({"h100_1x8_all_reduce_dgxc"}).contains("rows"));
}

TEST(ValidateCommand, WithoutFilesAllHealthySetsCount) {
  const json out = json_of({"--stack", "dtensor-v3"});
  EXPECT_EQ(out["sets"], 225);
  EXPECT_EQ(out["warnings"][0],
            "no FILE is given, so all 225 healthy measurement sets that are shipped are used");
  EXPECT_FALSE(out["by"]["file"].contains("h100_2x8_all_reduce_dgx06-07"));
  EXPECT_GT(out["median_ape_percent"].get<double>(), 20.0);
}

TEST(ValidateCommand, ReadsEveryFormatByItsContent) {
  const TemporaryFolder folder;
  folder.write("all_reduce.log", kLog);
  folder.write("bare_all_reduce.txt", kRow);
  folder.write("run", R"({"args": ["all_reduce_perf"],
      "config": {"devices": [{"rank": 0, "hostname": "a"}, {"rank": 1, "hostname": "a"}]},
      "results": [{"size": 65536, "type": "float",
                   "out_of_place": {"time": 20.0, "alg_bw": 3.28, "nwrong": 0}}]})");
  folder.write("own.json", R"({"schema": "shardlab/measurements/1", "source": "https://e.org",
      "gpu": "A100", "gpus_per_host": 4, "hosts": 1, "ranks": 4,
      "rows": [{"collective": "all_reduce", "dtype": "f32", "bytes": 65536, "time_us": 20}]})");
  const json out = json_of({"all_reduce.log", "bare_all_reduce.txt", "run", "own.json", "--hosts",
                            "2", "--gpus-per-host", "8", "--rows"},
                           folder.path());
  EXPECT_EQ(out["points"], 4);
  EXPECT_EQ(out["by"]["scale"]["2x8"]["points"], 2);
  EXPECT_EQ(out["by"]["scale"]["1x2"]["points"], 1);
  EXPECT_EQ(out["by"]["scale"]["1x4"]["points"], 1);
  EXPECT_EQ(out["by"]["gpu"]["A100"]["points"], 1);
  for (const json& row : out["rows"]) EXPECT_EQ(row["measured_us"], 20.0);
  // Rows of the same scale have the same price under the same model.
  EXPECT_EQ(out["rows"][0]["predicted_us"], out["rows"][1]["predicted_us"]);
}

TEST(ValidateCommand, TheGateIsExitOneAfterTheResult) {
  const Words set = {"h100_1x8_all_reduce_dgxc", "--stack", "alpha-beta"};
  const double median = json_of(set)["median_ape_percent"].get<double>();
  const auto with_gate = [&](double limit) {
    Words words = set;
    words.insert(words.end(), {"--max-median-ape-percent", format_double(limit)});
    return words;
  };
  EXPECT_EQ(json_of(with_gate(median + 0.001))["points"], 32);
  EXPECT_EQ(json_of(with_gate(median - 0.001), {}, 1)["points"], 32);
}

TEST(ValidateCommand, TextSaysWhatWasLeftOut) {
  const TemporaryFolder folder;
  folder.write("all_reduce.log", kLog +
                                     "131072 32768 float sum -1 20.00 6.55 6.1 5 21.00 6.24 5.8 0\n"
                                     "262144 65536 float sum -1 20");
  const ProcessResult result = run_shardlab({"validate", "all_reduce.log"}, folder.path());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err,
            "shardlab: all_reduce: row at line 5 is refused: found 5 wrong elements (#wrong)\n"
            "shardlab: all_reduce: line 6: the last row is cut off and left out\n");
  EXPECT_TRUE(
      result.out.starts_with("1 points of 1 measurement sets under dtensor-2.15, errors of "
                             "the out-of-place time in percent\n"))
      << result.out;
  // Progress alone is what --quiet drops.
  EXPECT_EQ(run_shardlab({"validate", "all_reduce.log", "--quiet"}, folder.path()).err, result.err);
}

TEST(ValidateCommand, NamesTheTopologies) {
  const char* const sets[] = {"b300_1x8_all_reduce_oci-qs", "h100_1x8_all_reduce_dgxc"};
  EXPECT_EQ(json_of({sets[0], sets[1]})["topologies"], json({{"b300", 1}, {"h100", 1}}));
  const ProcessResult text = run_shardlab({"validate", sets[0], sets[1]});
  EXPECT_NE(text.out.find("\n  topologies: b300 (1 set), h100 (1 set)\n"), std::string::npos)
      << text.out;
}

TEST(ValidateCommand, AnUnknownGpuStandsOnH100AndSaysSo) {
  const json out = json_of({"v100_1x8_all_reduce_blog2019"});
  EXPECT_EQ(out["warnings"],
            json({"no topology of the GPU \"V100-SXM2-16GB\" is shipped; h100 is used instead"}));
  EXPECT_EQ(json_of({"v100_1x8_all_reduce_blog2019", "--topology", "a100"})["warnings"],
            json::array());
}

TEST(ValidateCommand, SaysWhichSetsTheStackWasFittedTo) {
  const std::string other = "rtx2080ti_1x2_all_gather_autodl";
  const auto warnings = [](const Words& sets) {
    Words words = sets;
    words.insert(words.end(), {"--stack", "calibrated-h100", "--topology", "h100"});
    json all = json_of(words)["warnings"];
    // The links of the other set's hosts are far slower than those of the topology.
    EXPECT_NE(all.back().get<std::string>().find(" times what the links of h100 need"),
              std::string::npos);
    all.erase(all.size() - 1);
    return all;
  };
  EXPECT_EQ(warnings({"h100_1x8_all_reduce_dgxc", "h100_1x8_all_gather_xxrjun-c01", other}),
            json({"calibrated-h100 was fitted to 2 of these 3 sets, such as "
                  "h100_1x8_all_reduce_dgxc: its errors on them say nothing about runs that it has "
                  "not seen"}));
  EXPECT_EQ(warnings({other}), json::array());
}

// Runs are told apart by their times, and not by the names of their files.
TEST(ValidateCommand, KnowsTheRunThatTheStackWasFittedTo) {
  const TemporaryFolder folder;
  const std::string head =
      "# gpu: H100-SXM5-80GB\n# nodes: 1\n# gpus_per_node: 8\n# collective: all_reduce\n";
  const std::string row = "1048576 262144 float sum -1 40.00 26.21 45.88 0 40.50 25.89 45.31 0\n";
  const std::string other = "1048576 262144 float sum -1 41.00 25.58 44.76 0 40.50 25.89 45.31 0\n";
  folder.write("day1/all_reduce.txt", head + row);
  folder.write("day2/all_reduce.txt", head + other);
  folder.write("copy.txt", head + row);
  const auto run = [&](const Words& words) {
    const ProcessResult done = run_shardlab(words, folder.path());
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.out;
  };
  run({"calibrate", "day1/all_reduce.txt", "--out", "mine.json"});
  const auto warnings = [&](const std::string& file) {
    return json::parse(
        run({"validate", file, "--stack", "mine.json", "--format", "json"}))["warnings"];
  };
  EXPECT_EQ(warnings("day2/all_reduce.txt"), json::array());
  EXPECT_EQ(warnings("copy.txt"),
            json({"mine was fitted to this set, copy: its errors on it say nothing about runs that "
                  "it has not seen"}));
  EXPECT_EQ(warnings("h100_1x8_all_reduce_dgxc"),
            json({"mine was fitted with the shipped logs as its prior, which hold this set, "
                  "h100_1x8_all_reduce_dgxc: its errors on it say nothing about runs that it has "
                  "not seen"}));
  const json both = json::parse(run({"validate", "day1/all_reduce.txt", "day2/all_reduce.txt",
                                     "--stack", "mine.json", "--format", "json"}));
  EXPECT_EQ(both["by"]["file"].size(), 2U);
  EXPECT_EQ(both["by"]["file"]["day1/all_reduce"]["points"], 1);
  EXPECT_EQ(both["by"]["file"]["day2/all_reduce"]["points"], 1);
  folder.write("day1/h100/run.txt", head + row);
  folder.write("day2/h100/run.txt", head + other);
  const json deeper = json::parse(run({"validate", "day1/h100/run.txt", "day2/h100/run.txt",
                                       "--stack", "mine.json", "--format", "json"}));
  EXPECT_EQ(deeper["by"]["file"]["day1/h100/run"]["points"], 1);
  EXPECT_EQ(deeper["by"]["file"]["day2/h100/run"]["points"], 1);
  // What the stack was fitted to and what its prior holds are both said.
  const json seen = json::parse(run({"validate", "copy.txt", "h100_1x8_all_reduce_dgxc", "--stack",
                                     "mine.json", "--format", "json"}))["warnings"];
  EXPECT_EQ(
      seen,
      json({"mine was fitted to 1 of these 2 sets, such as copy, and with the shipped logs as "
            "its prior, which hold 1 of these 2 sets, such as h100_1x8_all_reduce_dgxc: "
            "its errors on them say nothing about runs that it has not seen"}));
}

TEST(ValidateCommand, DoubtsALogThatIsFarTooSlow) {
  const TemporaryFolder folder;
  folder.write("all_reduce.txt",
               "# gpu: H100-SXM5-80GB\n# nodes: 2\n# gpus_per_node: 8\n"
               "1073741824 268435456 float sum -1 1000000 1.07 2.01 0 1000000 1.07 2.01 0\n");
  const ProcessResult done = run_shardlab({"validate", "all_reduce.txt"}, folder.path());
  EXPECT_NE(done.err.find(" times what the links of h100 need, and no other large message is "
                          "nearer; the run had other links"),
            std::string::npos)
      << done.err;
}

// The hosts of a measurement are its own, so that the links of others prove nothing about its
// times.
TEST(ValidateCommand, TheHostsOfALogAreThoseOfTheLog) {
  for (const char* set : {"devices_per_host=4", "topology.devices_per_host=4"}) {
    const ProcessResult result =
        run_shardlab({"validate", "h100_2x8_all_reduce_aws-p5-readme", "--set", set});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err,
              "shardlab: --set devices_per_host: the hosts of the ranks are those of the "
              "measurements; valid: without it, or --hosts and --gpus-per-host for files that do "
              "not say them\n");
  }
}

TEST(ValidateCommand, OverridesReachTheModel) {
  const Words set = {"h100_1x8_all_reduce_dgxc", "--stack", "alpha-beta", "--rows"};
  Words fast = set;
  fast.insert(fast.end(), {"--set", "links.nvlink.bandwidth_gb_per_s=900"});
  const json slow_rows = json_of(set)["rows"];
  const json fast_rows = json_of(fast)["rows"];
  EXPECT_LT(fast_rows.back()["predicted_us"].get<double>(),
            0.6 * slow_rows.back()["predicted_us"].get<double>());
}

TEST(ValidateCommand, ComparesNcclsTable) {
  const TemporaryFolder folder;
  folder.write("nccl.log", kNcclLog);
  const Words words = {
      "nccl.log", "--nccl-table",    "--stack", "nccl", "--topology", "h100", "--hosts",
      "1",        "--gpus-per-host", "8"};
  const json table = json_of(words, folder.path())["tables"][0];
  EXPECT_EQ(table["nccl_version"], "2.27.5");
  EXPECT_EQ(table["ranks"], 8);
  EXPECT_EQ(table["compared"], 2);
  ASSERT_EQ(table["cells"].size(), 2U);
  EXPECT_EQ(table["cells"][0]["algorithm"], "TREE");
  EXPECT_EQ(table["cells"][0]["nccl_latency_us"], 8.2);
  Words as_text = words;
  as_text.insert(as_text.begin(), "validate");
  const ProcessResult text = run_shardlab(as_text, folder.path());
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_TRUE(text.out.starts_with(
      "nccl.log: NCCL 2.27.5, 8 ranks on 1 host: of the 2 entries compared, nccl gives "))
      << text.out;
}

struct BadInput {
  const char* name;
  Words words;  // after validate, that read "bad"
  std::string text;
  int exit_code;
  const char* message;
};
void PrintTo(const BadInput& input, std::ostream* out) { *out << input.text; }

class ValidateBadInput : public testing::TestWithParam<BadInput> {};

TEST_P(ValidateBadInput, IsAnsweredWordForWord) {
  const TemporaryFolder folder;
  folder.write("bad", GetParam().text);
  Words words = GetParam().words;
  words.insert(words.begin(), "validate");
  const ProcessResult result = run_shardlab(words, folder.path());
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "shardlab: " + std::string(GetParam().message) + "\n");
}

INSTANTIATE_TEST_SUITE_P(
    All, ValidateBadInput,
    testing::Values(
        BadInput{
            "NoSuchFile",
            {"./none.txt"},
            "",
            2,
            "measurement set \"./none.txt\": no such file; valid: a path, or a name of `shardlab "
            "list measurements`"},
        BadInput{"NoSuchName",
                 {"h100_1x8_all_reduce_dgx"},
                 "",
                 2,
                 "unknown measurement set \"h100_1x8_all_reduce_dgx\" (did you mean "
                 "\"h100_1x8_all_reduce_dgxc\"?); valid: a path, or a name of `shardlab list "
                 "measurements`"},
        BadInput{"Empty",
                 {"bad"},
                 "",
                 3,
                 "bad: found no row of a table; valid: nccl-tests' text, with rows \"size count "
                 "type [redop] [root] time algbw busbw [#wrong], then the last four in place\""},
        BadInput{"ALine",
                 {"bad"},
                 "# ranks: 8\n# nodes: 0\n",
                 3,
                 "bad:line 2: found \"0\" after \"nodes:\"; valid: an integer from 1 to "
                 "1099511627776"},
        BadInput{"BrokenJson",
                 {"bad"},
                 "{\"results\": [",
                 3,
                 "bad:line 1, column 14: broken JSON: the text ends too early; valid: a complete "
                 "JSON document"},
        BadInput{"OtherSchema",
                 {"bad"},
                 R"({"schema": "shardlab/stack/1"})",
                 3,
                 "bad:/schema: found \"shardlab/stack/1\"; valid: \"shardlab/measurements/1\""},
        BadInput{"NoScale",
                 {"bad"},
                 std::string("# collective: all_reduce\n") + kRow,
                 3,
                 "bad: found no number of ranks; valid: a device list (\"#  Rank  0 ... on HOST "
                 "device  0\"), lines \"# ranks: N\", \"# nodes: N\" and \"# gpus_per_node: N\", "
                 "or --hosts and --gpus-per-host"},
        BadInput{"NcclTableWithoutFile",
                 {"--nccl-table"},
                 "",
                 2,
                 "--nccl-table: no FILE is given; valid: a log that NCCL wrote under "
                 "NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,TUNING"},
        BadInput{"NcclTableWithoutTopology",
                 {"bad", "--nccl-table"},
                 kNcclLog,
                 2,
                 "--nccl-table: a log does not name its hardware; valid: with --topology"},
        BadInput{"NcclTableWithRows",
                 {"bad", "--nccl-table", "--rows"},
                 kNcclLog,
                 2,
                 "--nccl-table: its result is one document on stdout; valid: without --out, "
                 "--summary, --rows, "
                 "--scoreboard and --max-median-ape-percent"},
        BadInput{"NcclTableOfAnotherFile",
                 {"bad", "--nccl-table", "--topology", "h100"},
                 kLog,
                 2,
                 "bad: found no table of NCCL's; valid: a log that NCCL wrote under "
                 "NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,TUNING"},
        BadInput{"NcclTableOfUnknownRanks",
                 {"bad", "--nccl-table", "--topology", "h100", "--stack", "nccl"},
                 kNcclLog,
                 2,
                 "bad: the log does not say how many ranks and hosts there were (NCCL writes it "
                 "under NCCL_DEBUG_SUBSYS=INIT); valid: with --hosts and --gpus-per-host"},
        BadInput{
            "NcclTableOfOneRank",
            {"bad", "--nccl-table", "--topology", "h100", "--hosts", "1", "--gpus-per-host", "1"},
            kNcclLog,
            2,
            "bad: found 1 ranks on 1 hosts; valid: at least 2 ranks, and at least 1 on each host"},
        BadInput{"NcclTableOfAnotherModel",
                 {"bad", "--nccl-table", "--topology", "h100", "--stack", "alpha-beta", "--hosts",
                  "1", "--gpus-per-host", "8"},
                 kNcclLog,
                 2,
                 "stack alpha-beta: its collectives (alpha_beta) do not choose among NCCL's "
                 "algorithms; valid: a stack whose collective_model is nccl"},
        BadInput{"ScoreboardOfOneStack",
                 {"bad", "--scoreboard", "--stack", "nosuch", "--format", "json"},
                 kLog,
                 2,
                 "--scoreboard: --stack is for one stack, but a scoreboard shows all of them; "
                 "valid: without it"},
        BadInput{"ScoreboardWithTopology",
                 {"bad", "--scoreboard", "--topology", "a100"},
                 kLog,
                 2,
                 "--scoreboard: --topology is for one stack, but a scoreboard shows all of them; "
                 "valid: without it"},
        BadInput{"ScoreboardWithRows",
                 {"bad", "--scoreboard", "--rows"},
                 kLog,
                 2,
                 "--scoreboard: --rows is for one stack, but a scoreboard shows all of them; "
                 "valid: without it"},
        BadInput{"ScoreboardWithAGate",
                 {"bad", "--scoreboard", "--max-median-ape-percent", "0"},
                 kLog,
                 2,
                 "--scoreboard: --max-median-ape-percent is for one stack, but a scoreboard shows "
                 "all of them; valid: without it"},
        BadInput{"ScoreboardAsJson",
                 {"bad", "--scoreboard", "--format", "json"},
                 kLog,
                 2,
                 "--scoreboard: its result is Markdown; valid: without --format json"},
        BadInput{"NoHosts",
                 {"bad", "--hosts", "0"},
                 "",
                 2,
                 "validate: --hosts: found \"0\"; valid: an integer from 1 to 1073741824"},
        BadInput{
            "UnknownOption",
            {"bad", "--row"},
            "",
            2,
            "validate: unknown option \"--row\" (did you mean \"--rows\"?); valid: --help, "
            "--stack, --topology, --hosts, --gpus-per-host, --steps, --rows, --nccl-table, "
            "--scoreboard, --max-median-ape-percent, --out, --summary, --format, --jobs, --set, "
            "--digits, --max-input, --color, --quiet, --no-timing"}),
    [](const testing::TestParamInfo<BadInput>& test) { return std::string(test.param.name); });

}  // namespace validate_test
}  // namespace shardlab::testing_support
