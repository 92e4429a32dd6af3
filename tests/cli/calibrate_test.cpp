// shardlab calibrate as a user runs it, what it writes, and the committed scoreboard.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace calibrate_test {

using nlohmann::json;
using Words = std::vector<std::string>;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

TEST(CalibrateCommand, WritesAStackThatPredictsItsRows) {
  const std::filesystem::path folder = testing::TempDir();
  const std::string stack = (folder / "calibrated-h100.json").string();
  const ProcessResult fitted =
      run_shardlab({"calibrate", "h100_1x8_all_reduce_dgxc", "--out", stack, "--format", "json"});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  const json out = json::parse(fitted.out);
  EXPECT_EQ(out["model"], "population");
  EXPECT_EQ(out["rows_used"], 32);
  EXPECT_EQ(out["rows_refused"].size(), 0U);
  EXPECT_EQ(out["parameters"][0]["bytes"], 8);
  for (const json& p : out["parameters"]) {
    EXPECT_LE(p["low_95"].get<double>(), p["value"].get<double>()) << p["name"];
    EXPECT_GE(p["high_95"].get<double>(), p["value"].get<double>()) << p["name"];
  }
  const ProcessResult validated =
      run_shardlab({"validate", "h100_1x8_all_reduce_dgxc", "--stack", stack,
                    "--max-median-ape-percent", "5", "--format", "json"});
  EXPECT_EQ(validated.exit_code, 0) << validated.out << validated.err;
  EXPECT_NEAR(json::parse(validated.out)["median_ape_percent"].get<double>(),
              out["residuals"]["median_ape_percent"].get<double>(), 1e-9);
  const ProcessResult planned = run_shardlab({"plan", "--mesh", "8", "--tensor", "f32[1024,1024]",
                                              "--from", "P", "--to", "R", "--stack", stack});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
}

// A log that has each size twice says no more of other sizes than one that has each once.
TEST(CalibrateCommand, NeverHoldsOutASizeThatItAlsoFits) {
  const TemporaryFolder folder;
  std::istringstream sample(
      read_file(std::filesystem::path(SHARDLAB_SOURCE_DIR) / "docs/samples/all_reduce-2x8.txt"));
  std::string once;
  std::string rows;  // an odd number of sizes: a second pass would be split the other way round
  std::string one_size;
  for (std::string line; std::getline(sample, line);) {
    const std::size_t first = line.find_first_not_of(' ');
    const bool is_row = first != std::string::npos && line[first] >= '0' && line[first] <= '9';
    if (is_row && line.find("  8  ") < 16) continue;
    once += line + "\n";
    if (is_row) rows += line + "\n";
    if (is_row && one_size.empty()) one_size = line + "\n";
  }
  const std::string header = once.substr(0, once.find(one_size));
  folder.write("once.txt", once);
  folder.write("twice.txt", once + rows);
  folder.write("one_size.txt", header + one_size + one_size + one_size);
  const auto held_out = [&](const std::string& file) {
    const ProcessResult done = run_shardlab({"calibrate", file, "--topology", "h100", "--hold-out",
                                             "--out", "o.json", "--format", "json"},
                                            folder.path());
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return json::parse(done.out)["held_out"];
  };
  const json of_once = held_out("once.txt");
  const json of_twice = held_out("twice.txt");
  EXPECT_EQ(of_twice["points"], 2 * of_once["points"].get<int>());
  EXPECT_NEAR(of_twice["median_ape_percent"].get<double>(),
              of_once["median_ape_percent"].get<double>(), 0.5);
  EXPECT_EQ(held_out("one_size.txt")["points"], 0);
  const ProcessResult text = run_shardlab(
      {"calibrate", "one_size.txt", "--topology", "h100", "--hold-out", "--out", "o.json"},
      folder.path());
  EXPECT_NE(text.out.find("no row could be held out, since no group has two sizes or shapes"),
            std::string::npos)
      << text.out;
}

const std::string kSample = SHARDLAB_SOURCE_DIR "/docs/samples/all_reduce-2x8.txt";

// The rows of the sample under its header, in the given order of their numbers.
std::string sample_in_order(const std::function<std::size_t(std::size_t, std::size_t)>& row_at) {
  std::istringstream sample(read_file(kSample));
  std::string header;
  std::vector<std::string> rows;
  for (std::string line; std::getline(sample, line);) {
    const std::size_t first = line.find_first_not_of(' ');
    const bool is_row = first != std::string::npos && line[first] >= '0' && line[first] <= '9';
    if (is_row) {
      rows.push_back(line + "\n");
    } else if (rows.empty()) {
      header += line + "\n";
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) header += rows[row_at(i, rows.size())];
  return header;
}

// The error is that of a fit to half of the rows, whatever their order, and the stack that of all.
TEST(CalibrateCommand, HoldOutJudgesAFitAndWritesThatOfAllRows) {
  const TemporaryFolder folder;
  const TemporaryFolder other;
  folder.write("shuffled.txt", sample_in_order([](std::size_t i, std::size_t n) {
                 return i * 13 % n;  // the sample has 32 rows
               }));
  const auto fitted = [&](const std::string& file, const Words& more) {
    Words words = {"calibrate", file, "--topology", "h100", "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult done = run_shardlab(words, folder.path());
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return json::parse(done.out);
  };
  const json held = fitted(kSample, {"--hold-out", "--out", "mine.json"});
  const json shuffled = fitted("shuffled.txt", {"--hold-out"});
  const json whole = fitted(kSample, {"--out", (other.path() / "mine.json").string()});
  EXPECT_EQ(held["rows_used"], 32);
  EXPECT_EQ(held["held_out"]["points"], 16);
  EXPECT_EQ(shuffled["held_out"]["points"], 16);
  EXPECT_NEAR(held["held_out"]["median_ape_percent"].get<double>(),
              shuffled["held_out"]["median_ape_percent"].get<double>(), 1e-6);
  EXPECT_EQ(held["parameters"], whole["parameters"]);
  EXPECT_EQ(held["next_sizes"], whole["next_sizes"]);
  EXPECT_EQ(read_file(folder.path() / "mine.json"), read_file(other.path() / "mine.json"));
  const ProcessResult text =
      run_shardlab({"calibrate", kSample, "--topology", "h100", "--hold-out"}, folder.path());
  EXPECT_NE(text.out.find("\n  16 of them were held out of a first fit, whose errors on them are "),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("; the stack is fitted to all rows\n"), std::string::npos) << text.out;
}

// Progress alone is what --quiet drops.
TEST(CalibrateCommand, QuietKeepsWarnings) {
  const TemporaryFolder folder;
  folder.write("forced_all_reduce.txt", "export NCCL_ALGO=Ring\n" + read_file(kSample));
  const ProcessResult quiet = run_shardlab(
      {"calibrate", "forced_all_reduce.txt", "--topology", "h100", "--quiet"}, folder.path());
  EXPECT_NE(quiet.err.find("forced_all_reduce is unhealthy: forced: NCCL_ALGO= is set"),
            std::string::npos)
      << quiet.err;
}

// A copy of a shipped log under another name is left out of the prior too.
TEST(CalibrateCommand, ThePriorLeavesOutCopiesOfTheLog) {
  const TemporaryFolder folder;
  const std::string name = "h100_1x8_all_reduce_dgxc";
  json copy = json::parse(read_file(SHARDLAB_SOURCE_DIR "/configs/measurements/" + name + ".json"));
  copy.erase("name");
  folder.write("copy.json", copy.dump());
  const auto parameters = [&](const std::string& file) {
    const ProcessResult done = run_shardlab({"calibrate", file, "--format", "json"}, folder.path());
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return json::parse(done.out)["parameters"];
  };
  EXPECT_EQ(parameters("copy.json"), parameters(name));
}

TEST(CalibrateCommand, DescribeTakesTheHostsThatALogDoesNotSay) {
  const TemporaryFolder folder;
  folder.write(
      "all_reduce.txt",
      "  1048576  262144  float  sum  -1  100.0  10.49  19.66  0  100.0  10.49  19.66  0\n");
  const auto described = [&](const Words& more) {
    Words words = {"describe", "measurement", "all_reduce.txt"};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder.path());
  };
  EXPECT_NE(described({}).err.find("found no number of ranks"), std::string::npos);
  const ProcessResult told = described({"--hosts", "2", "--gpus-per-host", "8"});
  ASSERT_EQ(told.exit_code, 0) << told.err;
  EXPECT_EQ(json::parse(told.out)["ranks"], 16);
  const ProcessResult wrong = run_shardlab({"describe", "stack", "nccl", "--hosts", "2"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("--hosts: found for stack; valid: describe measurement FILE"),
            std::string::npos)
      << wrong.err;
}

// The shipped logs are a prior for the GPUs that they have. A curve of the rows alone needs three.
TEST(CalibrateCommand, OneRowIsEnoughWhereOtherClustersHaveTheGpu) {
  const TemporaryFolder folder;
  const std::string row = "1048576 262144 float sum -1 40.00 26.21 45.88 0 40.50 25.89 45.31 0\n";
  const std::string head = "# nodes: 1\n# gpus_per_node: 8\n# ranks: 8\n# collective: all_reduce\n";
  folder.write("h100.txt", "# gpu: H100-SXM5-80GB\n" + head + row);
  folder.write("v100.txt", "# gpu: V100-SXM2-16GB\n" + head + row);
  const auto run = [&](Words words) {
    words.insert(words.begin(), "calibrate");
    return run_shardlab(words, folder.path());
  };
  const ProcessResult fitted = run({"h100.txt", "--out", "own.json", "--format", "json"});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  EXPECT_EQ(json::parse(fitted.out)["rows_used"], 1);
  EXPECT_EQ(json::parse(fitted.out)["next_sizes"].size(), 3U);
  const ProcessResult other = run({"v100.txt", "--quiet"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("piecewise needs at least 3 rows"), std::string::npos) << other.err;
  EXPECT_EQ(run({"h100.txt", "--model", "piecewise"}).exit_code, 2);
}

// Processes that drive several GPUs each have a higher floor than PyTorch's, so that the same rows
// say less of a time when they come from such processes.
TEST(CalibrateCommand, SaysThatOneProcessDroveSeveralGpus) {
  const TemporaryFolder folder;
  const std::string head =
      "# gpu: H100-SXM5-80GB\n# nodes: 1\n# gpus_per_node: 8\n# ranks: 8\n"
      "# collective: all_reduce\n";
  const std::string row = "8 2 float sum -1 40.00 0.00 0.00 0 40.00 0.00 0.00 0\n";
  folder.write("shared.txt", head + "# gpus_per_process: 8\n" + row);
  folder.write("apart.txt", head + "# gpus_per_process: 1\n" + row);
  const auto fit = [&](Words words) {
    words.insert(words.begin(), "calibrate");
    const ProcessResult fitted = run_shardlab(words, folder.path());
    EXPECT_EQ(fitted.exit_code, 0) << fitted.err;
    return fitted.out + fitted.err;
  };
  const auto price = [&](const std::string& stack) {
    const ProcessResult planned =
        run_shardlab({"plan", "--mesh", "8", "--tensor", "f32[2]", "--from", "P", "--to", "R",
                      "--stack", stack, "--format", "json"},
                     folder.path());
    EXPECT_EQ(planned.exit_code, 0) << planned.err;
    return json::parse(planned.out)["price_us"].get<double>();
  };
  const std::string drove = "one process drove 8 GPUs";
  const std::string shared = fit({"shared.txt", "--out", "shared.json"});
  EXPECT_NE(shared.find(drove), std::string::npos) << shared;
  EXPECT_NE(shared.find("prices are for one GPU a process"), std::string::npos) << shared;
  const std::string apart = fit({"apart.txt", "--out", "apart.json"});
  EXPECT_EQ(apart.find(drove), std::string::npos) << apart;
  EXPECT_LT(price("shared.json"), 0.9 * price("apart.json"));
  const std::string unaware = fit({"a100-40g_1x8_all_reduce_superbench", "--model", "alpha_beta"});
  EXPECT_NE(unaware.find("the model does not tell the two apart"), std::string::npos) << unaware;
}

TEST(CalibrateCommand, AGpusStackComesFromTheShippedLogs) {
  const TemporaryFolder folder;
  const ProcessResult fitted = run_shardlab(
      {"calibrate", "--gpu", "h200", "--out", "own.json", "--format", "json"}, folder.path());
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  const json out = json::parse(fitted.out);
  EXPECT_EQ(out["model"], "population");
  EXPECT_GT(out["sets"].get<int>(), 100);
  EXPECT_GT(out["sources"].get<int>(), 30);
  const ProcessResult planned =
      run_shardlab({"plan", "--mesh", "8", "--tensor", "f32[1024,1024]", "--from", "P", "--to", "R",
                    "--topology", "h200", "--stack", "own.json"},
                   folder.path());
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
}

TEST(CalibrateCommand, AGpusStackTakesNoOptionOfFilesOrSteps) {
  const std::vector<std::pair<std::string, Words>> cases = {
      {"a FILE", {"h100_1x8_all_reduce_dgxc"}},
      {"--model", {"--model", "nccl"}},
      {"--hosts", {"--hosts", "3"}},
      {"--gpus-per-host", {"--gpus-per-host", "5"}},
      {"--topology", {"--topology", "h100"}},
      {"--mesh", {"--mesh", "8"}},
      {"--hold-out", {"--hold-out"}},
      {"--tuner-csv", {"--tuner-csv", "tuner.csv"}},
      {"--stack", {"--stack", "steps"}},
      {"--steps", {"--steps", "published"}}};
  for (const auto& [name, words] : cases) {
    Words all = {"calibrate", "--gpu", "h200"};
    all.insert(all.end(), words.begin(), words.end());
    const ProcessResult refused = run_shardlab(all);
    EXPECT_EQ(refused.exit_code, 2) << name;
    EXPECT_EQ(refused.err, "shardlab: --gpu: found " + name +
                               ", but the shipped logs are fitted; valid: with --out and "
                               "--format alone\n");
  }
}

// Five sizes among 8 GPUs of one host, as nccl-tests prints them.
constexpr const char* kLog =
    "# gpu: H100-SXM5-80GB\n# nodes: 1\n# gpus_per_node: 8\n# ranks: 8\n# collective: all_reduce\n"
    "1024 256 float sum -1 20.00 0.05 0.09 0 20.10 0.05 0.09 0\n"
    "65536 16384 float sum -1 25.00 2.62 4.59 0 25.10 2.61 4.57 0\n"
    "1048576 262144 float sum -1 40.00 26.21 45.88 0 40.50 25.89 45.31 0\n"
    "16777216 4194304 float sum -1 120.00 139.81 244.67 0 121.00 138.65 242.64 0\n"
    "268435456 67108864 float sum -1 1200.00 223.70 391.47 0 1201.00 223.51 391.14 0\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

json json_of(Words words, const TemporaryFolder& folder) {
  words.insert(words.begin(), "calibrate");
  words.insert(words.end(), {"--format", "json"});
  const ProcessResult result = run_shardlab(words, folder.path());
  EXPECT_EQ(result.exit_code, 0) << join(words, " ") << "\n" << result.err;
  EXPECT_EQ(result.err, "");
  return json::parse(result.out, nullptr, false);
}

TEST(CalibrateCommand, ListsEveryRowThatWasRefused) {
  const TemporaryFolder folder;
  folder.write("wrong.txt", replaced(kLog, "45.88 0", "45.88 7"));
  folder.write("negative.txt", replaced(kLog, " 40.00", " -40.00"));
  folder.write("results.json", R"({"args": ["all_reduce_perf"],
      "devices": [{"rank": 0, "hostname": "a"}, {"rank": 1, "hostname": "a"}],
      "results": [{"size": 65536, "type": "float", "out_of_place": {"time": 25.0}},
                  {"size": 1048576, "type": "float", "out_of_place": {"time": null}},
                  {"size": 16777216, "type": "float", "out_of_place": {"time": 120.0}},
                  {"size": 268435456, "type": "float", "out_of_place": {"time": 1200.0}}]})");
  const json out =
      json_of({"wrong.txt", "negative.txt", "results.json", "--topology", "h100"}, folder);
  EXPECT_EQ(out["rows_used"], 11);
  EXPECT_EQ(
      out["rows_refused"],
      json::array({{{"row", "wrong:8"}, {"reason", "found 7 wrong elements (#wrong)"}},
                   {{"row", "negative:8"}, {"reason", "found an out-of-place time of -40 us"}},
                   {{"row", "results:/results/1"}, {"reason", "found no out-of-place time"}}}));
  EXPECT_EQ(out["warnings"], json::array());
  const ProcessResult text = run_shardlab({"calibrate", "wrong.txt"}, folder.path());
  EXPECT_EQ(text.err, "");
  EXPECT_NE(text.out.find("  refused: wrong:8: found 7 wrong elements (#wrong)\n"),
            std::string::npos)
      << text.out;
}

// A page with one table before a change of settings and one after it.
TEST(CalibrateCommand, RowsThatAllContradictEachOtherAreNamed) {
  const TemporaryFolder folder;
  folder.write("all_reduce.txt",
               "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n"
               "65536 16384 float sum -1 40.00 1.64 3.1 0 41.00 1.60 3.0 0\n");
  const ProcessResult result = run_shardlab(
      {"calibrate", "all_reduce.txt", "--hosts", "2", "--gpus-per-host", "8"}, folder.path());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("shardlab: all_reduce:1: found all_reduce of 65536 B among 16 ranks on "
                            "2 hosts: 20 us, while rows for the same collective, size and group "
                            "range from 20 to 40 us, and no row is without such a contradiction; "
                            "valid: the rows of one setting in a file"),
            std::string::npos)
      << result.err;
}

// Two runs of one file that differ at the large sizes only.
TEST(CalibrateCommand, SaysHowManyRowsContradictOthersAndOfWhichSizeAParameterIs) {
  const auto run = [](double large_us) {
    std::string rows;
    for (std::int64_t bytes = 1 << 16; bytes <= 1 << 30; bytes *= 2) {
      const double us = bytes < 1 << 25 ? 40.0 : large_us * static_cast<double>(bytes) / (1 << 25);
      rows += std::to_string(bytes) + " " + std::to_string(bytes / 4) + " float sum -1 " +
              std::to_string(us) + " N/A N/A 0 " + std::to_string(us) + " N/A N/A 0\n";
    }
    return rows;
  };
  const TemporaryFolder folder;
  folder.write("all_reduce.txt", run(200.0) + run(400.0));
  const std::vector<std::string> words = {
      "calibrate",  "all_reduce.txt", "--hosts",         "1", "--model", "piecewise",
      "--topology", "h100",           "--gpus-per-host", "8"};
  const ProcessResult result = run_shardlab(words, folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with(
      "piecewise fitted to 18 rows of 1 sets, without 12 rows that contradict others of their file "
      "at 6 sizes from 32 MiB to 1 GiB; the errors on these rows are "))
      << result.out;
  const std::size_t largest = result.out.find("all_reduce.8x1.largest_gb_per_s");
  ASSERT_NE(largest, std::string::npos) << result.out;
  const std::string line = result.out.substr(largest, result.out.find('\n', largest) - largest);
  EXPECT_NE(line.find("16 MiB"), std::string::npos) << line;
}

// 256 MiB of an all_reduce among 8 GPUs bring 7/8 of them into each, over 450 GB/s.
TEST(CalibrateCommand, RowsThatTheLinksDoNotAllowAreSaid) {
  const TemporaryFolder folder;
  folder.write("log.txt", replaced(kLog, "1200.00 223.70 391.47", "300.00 894.78 1565.87"));
  const std::string warning =
      "log:10: all_reduce of 256 MiB takes 300 us, but the links of h100 need 522.0 us (rows that "
      "are "
      "too "
      "fast: 1 of 5); the run had another topology (--topology), or its times are wrong";
  EXPECT_EQ(json_of({"log.txt"}, folder)["warnings"], json::array({warning}));
  const json validated =
      json::parse(run_shardlab({"validate", "log.txt", "--format", "json"}, folder.path()).out);
  EXPECT_EQ(validated["warnings"], json::array({warning}));
}

// Each log has its own hosts: those of two GPUs have a quarter of the interfaces of those of eight.
TEST(CalibrateCommand, EveryLogIsHeldAgainstItsOwnHosts) {
  const std::string one_host = "h100_1x2_all_reduce_digitalocean-guide";
  const std::string two_hosts = "h100_2x8_all_reduce_aws-p5-readme";
  const TemporaryFolder folder;
  for (const Words& order : {Words{one_host, two_hosts}, Words{two_hosts, one_host}}) {
    const std::string warnings = json_of(order, folder)["warnings"].dump();
    EXPECT_EQ(warnings.find("too fast"), std::string::npos) << warnings;
  }
}

TEST(CalibrateCommand, LogsOfTwoGpusAreRefused) {
  const TemporaryFolder folder;
  for (const Words& words :
       {Words{"calibrate", "rtx2080ti_1x2_all_gather_autodl", "h100_1x8_all_reduce_dgxc"},
        Words{"calibrate", "h100_1x8_all_reduce_dgxc", "rtx2080ti_1x2_all_gather_autodl"}}) {
    const ProcessResult mixed = run_shardlab(words);
    EXPECT_EQ(mixed.exit_code, 2) << mixed.out;
    EXPECT_NE(mixed.err.find("valid: files of one GPU"), std::string::npos) << mixed.err;
  }
  folder.write("one.txt", kLog);
  folder.write("two.txt", replaced(kLog, "H100-SXM5-80GB", "A100-SXM4-80GB"));
  const ProcessResult both = run_shardlab({"calibrate", "one.txt", "two.txt"}, folder.path());
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_EQ(both.err,
            "shardlab: calibrate: one is of H100-SXM5-80GB, and two of A100-SXM4-80GB; valid: "
            "files of one GPU\n");
}

TEST(CalibrateCommand, AFileNamedTwiceIsRefused) {
  const TemporaryFolder folder;
  folder.write("log.txt", kLog);
  folder.write("copy.txt", kLog);
  std::filesystem::create_symlink("log.txt", folder.path() / "link.txt");
  for (const char* command : {"calibrate", "validate"}) {
    for (const char* again : {"log.txt", "./log.txt", "link.txt"}) {
      const ProcessResult twice = run_shardlab({command, "log.txt", again}, folder.path());
      EXPECT_EQ(twice.exit_code, 2) << again;
      EXPECT_EQ(twice.out, "");
      EXPECT_EQ(twice.err,
                "shardlab: measurement set \"" + std::string(again) + "\" is named twice\n");
    }
    // The same row in another file is not refused.
    EXPECT_EQ(run_shardlab({command, "log.txt", "copy.txt"}, folder.path()).exit_code, 0);
  }
  EXPECT_EQ(run_shardlab({"validate", "h100_1x8_all_reduce_dgxc", "h100_1x8_all_reduce_dgxc"}).err,
            "shardlab: measurement set \"h100_1x8_all_reduce_dgxc\" is named twice\n");
}

TEST(CalibrateCommand, AdviceSaysWhatItCounts) {
  const TemporaryFolder folder;
  folder.write("log.txt", kLog);
  const auto advice = [&](const char* model) {
    const ProcessResult fitted =
        run_shardlab({"calibrate", "log.txt", "--model", model}, folder.path());
    EXPECT_EQ(fitted.exit_code, 0) << fitted.err;
    const std::size_t at = fitted.out.find(" more rows");
    return at == std::string::npos ? fitted.out
                                   : fitted.out.substr(at, fitted.out.find('\n', at) - at);
  };
  EXPECT_EQ(advice("piecewise"),
            " more rows are needed, one at each size whose prediction is not within 5 % (11 sizes "
            "from 1 KiB to 1 GiB were checked); these help most:");
  EXPECT_EQ(advice("alpha_beta"),
            " more rows would bring every interval within 5 %; these sizes help most:");
}

TEST(CalibrateCommand, FitsTheConstantsOfEveryModelThatHasSome) {
  for (const char* model : {"alpha_beta", "nccl"}) {
    const ProcessResult fitted =
        run_shardlab({"calibrate", "h100_1x8_all_reduce_dgxc", "h100_1x8_all_gather_xxrjun-c01",
                      "--model", model, "--format", "json"});
    ASSERT_EQ(fitted.exit_code, 0) << model << fitted.err;
    const json out = json::parse(fitted.out);
    EXPECT_FALSE(out["parameters"].empty()) << model;
    EXPECT_LT(out["residuals"]["median_ape_percent"].get<double>(), 60.0) << model;
  }
}

// A stack keeps the GPU of its log, and claims nothing on another one.
TEST(CalibrateCommand, AStackIsOfTheGpuOfItsLog) {
  const TemporaryFolder folder;
  const ProcessResult fitted =
      run_shardlab({"calibrate", kSample, "--out", "mine.json"}, folder.path());
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  EXPECT_EQ(json::parse(read_file(folder.path() / "mine.json"))["collective_model"]["fitted_gpus"],
            json::array({"h100"}));
  const auto planned = [&](const std::string& topology, bool as_json) {
    Words words = {"plan",   "--mesh",  "16",        "--tensor",   "f32[4096,4096]",
                   "--from", "P(sum)",  "--to",      "R",          "--planner",
                   "greedy", "--stack", "mine.json", "--topology", topology};
    if (as_json) words.insert(words.end(), {"--format", "json"});
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  for (const char* of_h100 : {"h100", "h100-roce"}) {
    EXPECT_EQ(planned(of_h100, false).find("carried over"), std::string::npos) << of_h100;
    EXPECT_NE(planned(of_h100, false).find("clusters like those measured"), std::string::npos);
    EXPECT_FALSE(json::parse(planned(of_h100, true)).contains("other_gpu"));
  }
  const std::string text = planned("a100", false);
  EXPECT_EQ(text.find("clusters like those measured"), std::string::npos) << text;
  EXPECT_NE(text.find("because these were not measured: all_reduce of 16 ranks on 2 hosts (the "
                      "rows are of h100)\n"
                      "  note: mine's prices of collectives were fitted to runs on h100, and the "
                      "topology a100 is of the GPU a100: they are carried over from one GPU to "
                      "another, and how far they are off is not known; if it is the same GPU, say "
                      "so with --set device.gpu=h100\n"),
            std::string::npos)
      << text;
  const json plan = json::parse(planned("a100", true));
  EXPECT_FALSE(plan.contains("low_us"));
  EXPECT_EQ(plan["other_gpu"],
            json::parse(R"([{"prices": "collectives", "fitted_gpus": ["h100"], "gpu": "a100"}])"));
}

TEST(CalibrateCommand, TheHostsOfALogAreThoseOfTheLog) {
  const ProcessResult result =
      run_shardlab({"calibrate", "h100_1x8_all_reduce_dgxc", "--set", "devices_per_host=4"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "shardlab: --set devices_per_host: the hosts of the ranks are those of the "
            "measurements; valid: with --mesh, whose hosts it sets, or --hosts and --gpus-per-host "
            "for files that do not say them\n");
  // --mesh lies on hosts of four, and the log is fitted and judged as it ran.
  const ProcessResult meshed =
      run_shardlab({"calibrate", "h100_2x8_all_reduce_aws-p5-readme", "--mesh", "8", "--set",
                    "devices_per_host=4", "--format", "json"});
  ASSERT_EQ(meshed.exit_code, 0) << meshed.err;
  const json out = json::parse(meshed.out);
  EXPECT_EQ(out["devices_per_host"], 4);
  EXPECT_EQ(out["warnings"], json::array());
}

TEST(CalibrateCommand, NamesWhatIsValid) {
  const ProcessResult model =
      run_shardlab({"calibrate", "h100_1x8_all_reduce_dgxc", "--model", "dtensor"});
  EXPECT_EQ(model.exit_code, 2);
  EXPECT_NE(model.err.find("dtensor has no free constants; valid: alpha_beta"), std::string::npos)
      << model.err;
  const ProcessResult unknown =
      run_shardlab({"calibrate", "h100_1x8_all_reduce_dgxc", "--model", "hockney"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("unknown model \"hockney\"; valid: "), std::string::npos);
}

std::vector<std::string> headings_of(const std::string& markdown) {
  std::vector<std::string> headings;
  std::istringstream lines(markdown);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) headings.push_back(line);
  }
  return headings;
}

TEST(Scoreboard, OfNamedSetsHasEverySection) {
  const ProcessResult few = run_shardlab(
      {"validate", "--scoreboard", "h100_1x8_all_reduce_dgxc", "h100_2x8_all_reduce_dgx06-07",
       "h100_8x8_all_reduce_issue309b-default", "h100_2x8_all_reduce_issue309b-ring",
       "h100_10x8_all_reduce_xxrjun-c01", "h100_1x8_all_gather_xxrjun-c01"});
  ASSERT_EQ(few.exit_code, 0) << few.err;
  EXPECT_NE(few.out.find("of the 6 sets given"), std::string::npos) << few.out;
  EXPECT_EQ(few.out.find("Errors over 0 sets"), std::string::npos) << few.out;
  const std::string committed =
      read_file(std::filesystem::path(SHARDLAB_SOURCE_DIR) / "reports/scoreboard.md");
  const std::string steps = "\n# Training steps";
  EXPECT_EQ(headings_of(few.out), headings_of(committed.substr(0, committed.find(steps))));
}

TEST(Scoreboard, TheCommittedOneIsTodays) {
#ifdef SHARDLAB_SANITIZED
  GTEST_SKIP() << "sanitized programs take twenty minutes; a few sets run the same code";
#endif
  const ProcessResult today = run_shardlab({"validate", "--scoreboard"});
  ASSERT_EQ(today.exit_code, 0) << today.err;
  const std::string committed =
      read_file(std::filesystem::path(SHARDLAB_SOURCE_DIR) / "reports/scoreboard.md");
  // A section on training steps follows, which takes minutes to compute.
  const std::size_t steps = committed.find("\n# Training steps");
  ASSERT_NE(steps, std::string::npos) << "run scripts/generate_scoreboard.sh";
  EXPECT_EQ(today.out, committed.substr(0, steps)) << "run scripts/generate_scoreboard.sh";
}

// -- Which groups of a mesh were not measured -----------------------------------------------------

ProcessResult succeed(const Words& words) {
  ProcessResult result = run_shardlab(words);
  EXPECT_EQ(result.exit_code, 0) << join(words, " ") << "\n" << result.err;
  return result;
}

TEST(MeasuredGroups, CalibrateListsTheGroupsOfAMeshThatHaveNoRows) {
  const Words words = {"calibrate",
                       "h100_2x8_all_reduce_dgx06-07",
                       "h100_1x8_all_reduce_dgxc",
                       "--topology",
                       "h100",
                       "--mesh",
                       "dp=2,tp=8"};
  Words as_json = words;
  as_json.insert(as_json.end(), {"--format", "json"});
  const json out = json::parse(succeed(as_json).out);
  EXPECT_EQ(out["mesh"], "dp=2,tp=8");
  EXPECT_EQ(out["devices_per_host"], 8);
  // Three groups (dp, tp, and both) with four collectives each.
  ASSERT_EQ(out["mesh_groups"].size(), 12U);
  std::map<std::string, bool> is_measured;
  for (const json& group : out["mesh_groups"]) {
    const std::string name = group["collective"].get<std::string>() + " " +
                             std::to_string(group["ranks"].get<int>()) + " on " +
                             std::to_string(group["hosts"].get<int>());
    is_measured[name] = !group["smallest_bytes"].is_null();
    EXPECT_EQ(group["smallest_bytes"].is_null(), group["largest_bytes"].is_null()) << name;
  }
  for (const auto& [name, measured] : is_measured) {
    EXPECT_EQ(measured, name == "all_reduce 8 on 1" || name == "all_reduce 16 on 2") << name;
  }
  const std::string text = succeed(words).out;
  EXPECT_NE(text.find("groups of mesh dp=2,tp=8 on h100, with 8 devices a host"), std::string::npos)
      << text;
  EXPECT_NE(text.find("2 ranks on 2 hosts"), std::string::npos) << text;
  EXPECT_NE(text.find("16 ranks on 2 hosts"), std::string::npos) << text;
  EXPECT_NE(text.find("10 of 12 collectives of these groups have no rows"), std::string::npos)
      << text;
}

TEST(MeasuredGroups, AMeshLiesOnTheHostsOfTheTopology) {
  const json out =
      json::parse(succeed({"calibrate", "h100_1x8_all_reduce_dgxc", "--topology", "h100", "--set",
                           "devices_per_host=4", "--mesh", "8", "--format", "json"})
                      .out);
  ASSERT_EQ(out["mesh_groups"].size(), 4U);
  for (const json& group : out["mesh_groups"]) EXPECT_EQ(group["hosts"], 2);
}

TEST(MeasuredGroups, KernelsHaveNone) {
  const ProcessResult result =
      run_shardlab({"calibrate", "h100_1x8_all_reduce_dgxc", "--model", "roofline", "--mesh", "8"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("--mesh: roofline is fitted to kernels"), std::string::npos)
      << result.err;
}

// "all_reduce.8x1" is explained where it stands.
TEST(MeasuredGroups, NamesOfCurvesAreExplained) {
  const std::string text = succeed({"calibrate", "h100_2x8_all_reduce_dgx06-07"}).out;
  EXPECT_NE(text.find("all_reduce.16x2 is the curve of all_reduce among 16 ranks on 2 hosts"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("ranks would leave"), std::string::npos) << text;
}

TEST(MeasuredGroups, PlanSaysWhichPricesAreCarriedOver) {
  const TemporaryFolder folder;
  const std::string stack = folder.path() / "mine.json";
  succeed({"calibrate", "h100_1x8_all_reduce_dgxc", "--topology", "h100", "--out", stack});
  const auto plan = [&](const std::string& mesh, const std::string& stack_name) {
    return Words{"plan", "--mesh", mesh, "--tensor", "f32[64,1024]", "--from",
                 "P",    "--to",   "R",  "--stack",  stack_name};
  };
  const std::string gap = "all_reduce of 16 ranks on 2 hosts";
  const std::string here = succeed(plan("8", stack)).out;
  EXPECT_EQ(here.find("carried over"), std::string::npos) << here;
  const std::string there = succeed(plan("16", stack)).out;
  EXPECT_NE(there.find("carried over from measured groups or sizes, because these were not "
                       "measured: " +
                       gap),
            std::string::npos)
      << there;
  Words words = plan("16", stack);
  words.insert(words.end(), {"--format", "json", "--out", folder.path() / "report"});
  const json document = json::parse(succeed(words).out);
  EXPECT_EQ(document["rests_on"], json({{"measured_steps", 0}, {"not_measured", {gap}}}));
  EXPECT_NE(read_text(folder.path() / "report" / "report.md").find(gap), std::string::npos);
  // A formula has no rows, so nothing is carried over.
  words = plan("16", "alpha-beta");
  words.insert(words.end(), {"--format", "json"});
  EXPECT_FALSE(json::parse(succeed(words).out).contains("rests_on"));
}

TEST(MeasuredGroups, SolveAndStepSayWhichPricesAreCarriedOver) {
  const TemporaryFolder folder;
  const std::string stack = folder.path() / "mine.json";
  succeed({"calibrate", "h100_1x8_all_reduce_dgxc", "--topology", "h100", "--out", stack});
  const std::string solved =
      succeed({"solve", "mlp", "--mesh", "4x8", "--pin-inputs", "S(0)S(0)", "--parameter-budget",
               "0.03125", "--stack", stack, "--no-timing"})
          .out;
  EXPECT_NE(solved.find("prices of moves are carried over"), std::string::npos) << solved;
  const Words step = {"step",  "llama3-8b", "--mesh",  "fsdp=32",
                      "--seq", "8192",      "--stack", "calibrated-h100"};
  const std::string predicted = succeed(step).out;
  EXPECT_NE(predicted.find("prices of collectives are carried over"), std::string::npos)
      << predicted;
  EXPECT_NE(predicted.find("ranks on 4 hosts"), std::string::npos) << predicted;
}

}  // namespace calibrate_test
}  // namespace shardlab::testing_support
