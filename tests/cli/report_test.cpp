// shardlab report, and the reports of the commands that write one: the record gives the same bytes
// again, messages name damage word for word, and the summary fits a comment.
#include <gtest/gtest.h>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace report_test {

using nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kFiles[] = {"report.html", "report.md", "report.json", "record.json"};

struct Run {
  const char* name;
  Words words;
  bool has_jobs = true;  // whether the command has work for several threads
};
void PrintTo(const Run& run, std::ostream* out) { *out << run.name; }

class Reports : public testing::TestWithParam<Run> {
 protected:
  void run(Words words) const {
    words.insert(words.end(), {"--no-timing", "--quiet"});
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
  }
  void expect_same(const std::string& left, const std::string& right) const {
    for (const char* file : kFiles) {
      EXPECT_EQ(read_text(folder.path() / left / file), read_text(folder.path() / right / file))
          << file;
    }
  }
  TemporaryFolder folder;
};

TEST_P(Reports, ARecordGivesItsReportAgainByteForByte) {
  const auto run_into = [&](const char* out, const char* jobs) {
    Words words = GetParam().words;
    words.insert(words.end(), {"--out", out});
    if (GetParam().has_jobs) words.insert(words.end(), {"--jobs", jobs});
    run(words);
  };
  run_into("one", "1");
  run_into("three", "3");
  expect_same("one", "three");
  run({"report", "one/record.json", "--out", "again"});
  expect_same("one", "again");
  const json report = json::parse(read_text(folder.path() / "one/report.json"));
  EXPECT_EQ(report["schema"], "shardlab/report/1");
  EXPECT_FALSE(report.contains("timing"));
  EXPECT_EQ(json::parse(read_text(folder.path() / "one/record.json"))["kind"], GetParam().words[0]);
}

TEST_P(Reports, StayWithinTheirLimits) {
  Words words = GetParam().words;
  words.insert(words.end(), {"--out", "out", "--summary"});
  const ProcessResult result = run_shardlab(words, folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("# shardlab: ")) << result.out;
  EXPECT_LT(result.out.size(), 4000U);
  EXPECT_LT(read_text(folder.path() / "out/report.md").size(), 60'000U);
  EXPECT_LT(read_text(folder.path() / "out/report.html").size(), 5'000'000U);
}

TEST_P(Reports, TimesStandUnderTimingAlone) {
  Words words = GetParam().words;
  words.insert(words.end(), {"--out", "timed", "--quiet"});
  ASSERT_EQ(run_shardlab(words, folder.path()).exit_code, 0);
  words[words.size() - 2] = "not";
  words.push_back("--no-timing");
  ASSERT_EQ(run_shardlab(words, folder.path()).exit_code, 0);
  json timed = json::parse(read_text(folder.path() / "timed/record.json"));
  EXPECT_GT(timed["timing"]["wall_ms"].get<double>(), 0.0);
  timed.erase("timing");
  EXPECT_EQ(timed, json::parse(read_text(folder.path() / "not/record.json")));
}

INSTANTIATE_TEST_SUITE_P(
    Commands, Reports,
    testing::Values(Run{"Compare",
                        {"compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v4",
                         "--suite", "ops-small"}},
                    Run{"Ties", {"ties", "--suite", "ops-small", "--stack", "dtensor-v3"}},
                    Run{"Validate",
                        {"validate", "h100_1x8_all_reduce_dgxc",
                         "h100_2x8_all_reduce_aws-p5-readme", "--stack", "alpha-beta"}},
                    Run{"Simulate",
                        {"simulate", "--mesh", "2x4", "--tensor", "f32[16,8]", "--from", "S(0)P",
                         "--to", "RS(1)"}},
                    Run{"SimulateOp",
                        {"simulate", "--mesh", "4", "--op", "aten.mm.default", "--inputs",
                         "f32[8,8] S(1)", "f32[8,8] R"}},
                    Run{"Plan",
                        {"plan", "--mesh", "2x4", "--tensor", "bf16[8192,4096]", "--from",
                         "S(0)S(0)", "--to", "RS(0)", "--stack", "dtensor-v3g", "--against",
                         "dtensor-v3"},
                        false},
                    Run{"Solve", {"solve", "transformer-block", "--mesh", "4"}}),
    [](const testing::TestParamInfo<Run>& test) { return std::string(test.param.name); });

// -- What goes wrong -----------------------------------------------------------------------------

class ReportCommand : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_shardlab({"ties", "--suite", "ops-small", "--out", "ties", "--no-timing"},
                           folder.path())
                  .exit_code,
              0);
    record = json::parse(read_text(folder.path() / "ties/record.json"));
  }
  std::string error_of(const Words& words, int exit_code) const {
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_EQ(result.out, "");
    return result.err;
  }
  // The message of `report` for a record with this change.
  std::string error_of(const json& damaged) const {
    folder.write("bad.json", damaged.dump());
    const std::string error = error_of({"report", "bad.json", "--out", "out"}, 3);
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "out")) << "nothing is half done";
    return error;
  }
  TemporaryFolder folder;
  json record;
};

TEST_F(ReportCommand, DamageIsNamedByFileAndPointer) {
  json damaged = record;
  damaged["result"]["items"][3]["total_us"] = "7.2";
  EXPECT_EQ(error_of(damaged),
            "shardlab: bad.json:/result/items/3/total_us: found \"7.2\"; valid: a number\n");
  damaged = record;
  damaged["result"].erase("exact_ties");
  EXPECT_EQ(error_of(damaged), "shardlab: bad.json:/result: missing key \"exact_ties\"\n");
  damaged = record;
  damaged["result"]["items"][0]["op_"] = 1;
  EXPECT_EQ(error_of(damaged),
            "shardlab: bad.json:/result/items/0/op_: unknown key (did you mean \"op\"?); valid: "
            "question, op, mesh, "
            "bytes, inputs, choice, total_us, candidates, exact_ties, near_ties, margin_us, "
            "order_dependent, flip, tied\n");
  damaged = record;
  damaged["kind"] = "guess";
  EXPECT_EQ(error_of(damaged),
            "shardlab: bad.json:/kind: found \"guess\"; valid: compare, ties, validate, solve, "
            "simulate, step, plan\n");
  damaged = record;
  damaged["schema"] = "shardlab/record/2";
  EXPECT_EQ(error_of(damaged),
            "shardlab: bad.json:/schema: found \"shardlab/record/2\"; valid: shardlab/record/1\n");
  damaged = record;
  damaged["configuration"]["stacks"][0].erase("name");
  EXPECT_EQ(error_of(damaged),
            "shardlab: bad.json:/configuration/stacks/0: expected an object with a name\n");
  EXPECT_EQ(error_of(json::array()), "shardlab: bad.json: found an array; valid: an object\n");
  folder.write("bad.json", "{\n  \"schema\": ,\n}");
  EXPECT_EQ(error_of({"report", "bad.json", "--out", "out"}, 3),
            "shardlab: bad.json:line 2, column 13: broken JSON: found \",\"; valid: a value\n");
}

TEST_F(ReportCommand, UsageIsChecked) {
  EXPECT_EQ(
      error_of({"report", "ties/record.json"}, 2),
      "shardlab: report: found nothing to write; valid: with --out, --summary or --format json\n");
  EXPECT_EQ(error_of({"report", "ties/record.json", "--summary", "--format", "json"}, 2),
            "shardlab: --summary: its result is Markdown; valid: without --format json\n");
  EXPECT_EQ(error_of({"report", "absent.json", "--out", "out"}, 3),
            "shardlab: absent.json: can't be read: No such file or directory; valid: a file\n");
  EXPECT_EQ(error_of({"report", "ties/record.json", "ties/record.json", "--out", "out"}, 2),
            "shardlab: report: ties/record.json and ties/record.json would both go to out/ties; "
            "valid: records of different names, or one at a time\n");
  EXPECT_EQ(error_of({"report", "ties/record.json", "ties/record.json", "--format", "json"}, 2),
            "shardlab: report: --format json prints one document; valid: one record\n");
  EXPECT_EQ(error_of({"validate", "--scoreboard", "--out", "out"}, 2),
            "shardlab: --scoreboard: its result is one document on stdout; valid: without --out "
            "and --summary\n");
}

// The options are checked before anything is read or worked out.
TEST_F(ReportCommand, WhereItGoesIsCheckedBeforeTheWork) {
  folder.write("f", "");
  EXPECT_EQ(
      error_of({"simulate", "mlp", "--mesh", "4", "--plan", "absent.json", "--out", "f/x"}, 4),
      "shardlab: f/x: can't be made: Not a directory\n");
}

TEST_F(ReportCommand, AFileThatCantBeWrittenHasAReason) {
  std::filesystem::create_directory(folder.path() / "taken");
  EXPECT_EQ(error_of({"program", "llama3-8b", "--layers", "1", "--out", "taken"}, 4),
            "shardlab: taken: can't be written: Is a directory\n");
}

TEST_F(ReportCommand, SeveralRecordsHaveAFolderEach) {
  ASSERT_EQ(run_shardlab({"ties", "--suite", "ops-small", "--stack", "dtensor-v4", "--out", "v4"},
                         folder.path())
                .exit_code,
            0);
  const ProcessResult result =
      run_shardlab({"report", "ties/record.json", "v4/record.json", "--out", "all"}, folder.path());
  EXPECT_EQ(result.out, "report: all/ties/report.html\nreport: all/v4/report.html\n");
  for (const char* file : kFiles) {
    EXPECT_EQ(read_text(folder.path() / "v4" / file), read_text(folder.path() / "all/v4" / file));
  }
}

TEST_F(ReportCommand, JsonIsTheReportOfTheRecord) {
  const ProcessResult result =
      run_shardlab({"report", "ties/record.json", "--format", "json"}, folder.path());
  EXPECT_EQ(result.out, read_text(folder.path() / "ties/report.json"));
}

}  // namespace report_test
}  // namespace shardlab::testing_support
