// `compare` with a reference that is fitted to a few rows counts the decisions that rest on them.
// The questions are made by hand, so that each is known to be measured, carried over or local.
#include <gtest/gtest.h>

#include <map>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace compare_basis_test {

using nlohmann::json;
using Words = std::vector<std::string>;

// All-gathers among the 8 GPUs of one host, from 1 MiB to 16 MiB. They take a + S / b with a = 20
// us and b = 300 GB/s.
json rows() {
  json rows = json::array();
  for (const double bytes : {1048576.0, 2097152.0, 4194304.0, 8388608.0, 16777216.0}) {
    rows.push_back({{"collective", "all_gather"},
                    {"dtype", "f32"},
                    {"bytes", bytes},
                    {"time_us", 20.0 + bytes / 300e3}});
  }
  return rows;
}

json measurement_set() {
  return {{"schema", "shardlab/measurements/1"},
          {"name", "few"},
          {"source", "worked out by hand"},
          {"gpu", "H100"},
          {"gpus_per_host", 8},
          {"hosts", 1},
          {"ranks", 8},
          {"rows", rows()}};
}

json plan_question(const char* id, const char* mesh, const char* tensor, const char* from,
                   const char* to) {
  return {{"id", id},         {"kind", "plan"}, {"mesh", mesh},
          {"tensor", tensor}, {"from", from},   {"to", to}};
}

const std::map<std::string, std::string> kExpected = {
    {"few/gather", "measured"},    {"few/small", "carried_over"},
    {"few/large", "carried_over"}, {"few/ranks", "carried_over"},
    {"few/hosts", "carried_over"}, {"few/collective", "carried_over"},
    {"few/both", "carried_over"},  {"few/chunk", "local_work"},
    {"few/same", "local_work"}};

json suite() {
  return {{"schema", "shardlab/suite/1"},
          {"name", "few"},
          {"questions",
           {plan_question("gather", "8", "f32[1024,1024]", "S(0)", "R"),
            plan_question("small", "8", "f32[256,256]", "S(0)", "R"),
            plan_question("large", "8", "f32[4096,4096]", "S(0)", "R"),
            plan_question("ranks", "4", "f32[1024,1024]", "S(0)", "R"),
            plan_question("hosts", "16", "f32[1024,1024]", "S(0)", "R"),
            plan_question("collective", "8", "f32[1024,1024]", "P(sum)", "R"),
            plan_question("both", "2x8", "f32[1024,1024]", "S(0)S(0)", "RR"),
            plan_question("chunk", "8", "f32[1024,1024]", "R", "S(0)"),
            plan_question("same", "8", "f32[1024,1024]", "S(0)", "S(0)"),
            plan_question("impossible", "8", "f32[1024,1024]", "S(0)", "P(sum)")}}};
}

class CompareBasis : public testing::Test {
 protected:
  void SetUp() override {
    folder.write("rows.json", measurement_set().dump());
    folder.write("few.json", suite().dump());
    run({"calibrate", "rows.json", "--topology", "h100", "--out", "fitted.json"});
  }
  std::string run(const Words& words) const {
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  json written(const std::string& path) const {
    return json::parse(read_text(folder.path() / path));
  }
  // What a question has to rest on: "not measured" if any step was not measured, else "measured" if
  // any was, else "local".
  static std::string basis_of(const json& question) {
    bool is_measured = false;
    bool is_carried = false;
    std::vector<json> told = {question["best"]};
    for (const json& answer : question["answers"]) told.push_back(answer);
    for (const json& one : told) {
      if (!one.contains("rests_on")) return "";
      is_carried = is_carried || !one["rests_on"]["not_measured"].empty();
      is_measured = is_measured || one["rests_on"]["measured_steps"] > 0;
    }
    return is_carried ? "carried_over" : is_measured ? "measured" : "local_work";
  }
  TemporaryFolder folder;
};

TEST_F(CompareBasis, CountsWhatRestsOnTheRowsOfTheFit) {
  const std::string out =
      run({"compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v4", "--suite",
           "few.json", "--reference", "fitted.json", "--out", "out"});
  EXPECT_NE(
      out.find("; 1 of 9 priced decisions rests on measured groups; 2 decisions rest on local work "
               "alone; the prices of the others are carried over from other groups or sizes.\n"),
      std::string::npos)
      << out;
  const json record = written("out/record.json");
  std::map<std::string, std::string> by_question;
  for (const json& question : record["questions"]) {
    const std::string basis = basis_of(question);
    if (!basis.empty()) by_question[question["id"]] = basis;
  }
  EXPECT_EQ(by_question, kExpected);
  const json report = written("out/report.json");
  EXPECT_EQ(report["stacks"][1]["rests_on"]["decisions"],
            json({{"measured", 1}, {"carried_over", 6}, {"local_work", 2}}));
  EXPECT_EQ(report["stacks"][1]["rests_on_by_mesh"]["4"]["decisions"],
            json({{"measured", 0}, {"carried_over", 1}, {"local_work", 0}}));
  std::map<std::string, int> missing;
  for (const json& group : report["not_measured"]) missing[group["what"]] = group["decisions"];
  EXPECT_EQ(missing,
            (std::map<std::string, int>{{"all_gather of 8 ranks on 1 host below 1 MiB", 1},
                                        {"all_gather of 8 ranks on 1 host above 16 MiB", 1},
                                        {"all_gather of 4 ranks on 1 host", 1},
                                        {"all_gather of 16 ranks on 2 hosts", 1},
                                        {"all_reduce of 8 ranks on 1 host", 1},
                                        {"all_gather of 2 ranks on 2 hosts", 1}}));
  for (const char* file : {"out/report.md", "out/report.html"}) {
    const std::string text = read_text(folder.path() / file);
    EXPECT_NE(text.find("What the verdicts rest on"), std::string::npos) << file;
    EXPECT_NE(text.find("has measured rows of"), std::string::npos) << file;
    EXPECT_NE(text.find("all_gather of 4 ranks on 1 host"), std::string::npos) << file;
  }
  run({"report", "out/record.json", "--out", "again"});
  for (const char* name : {"report.html", "report.md", "report.json", "record.json"}) {
    EXPECT_EQ(read_text(folder.path() / "again" / name), read_text(folder.path() / "out" / name));
  }
}

TEST_F(CompareBasis, EachFlipSaysWhatItRestsOn) {
  run({"compare", "--baseline", "dtensor-v3", "--suite", "ops-small", "--set",
       "stack.transition_us=5", "--reference", "fitted.json", "--out", "out"});
  const json report = written("out/report.json");
  std::map<std::string, int> flips = {{"measured", 0}, {"carried_over", 0}, {"local_work", 0}};
  for (const json& flip : report["flips"]) {
    // Undecided without a price of one choice, or with both, which differ by less than their
    // errors.
    if (flip["verdict"] == "undecided" && flip["gain_us"].is_null()) {
      EXPECT_FALSE(flip.contains("rests_on"));
      continue;
    }
    ++flips[flip["rests_on"].get<std::string>()];
    EXPECT_EQ(flip["not_measured"].empty(), flip["rests_on"] != "carried_over");
  }
  EXPECT_EQ(report["stacks"][1]["rests_on"]["flips"], json(flips));
  EXPECT_GT(flips["carried_over"], 0);
  std::int64_t judged = 0;
  const json record = written("out/record.json");
  for (const json& question : record["questions"]) {
    judged += basis_of(question).empty() ? 0 : 1;
  }
  std::int64_t counted = 0;
  for (const json& part : report["stacks"][1]["rests_on"]["decisions"]) counted += part.get<int>();
  EXPECT_EQ(counted, judged);
}

TEST_F(CompareBasis, FittedConstantsKeepNoRowsAndAreNotCounted) {
  run({"calibrate", "rows.json", "--topology", "h100", "--model", "alpha_beta", "--out",
       "constants.json"});
  const std::string out = run({"compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v4",
                               "--suite", "few.json", "--reference", "constants.json"});
  EXPECT_NE(out.find("(constants: collectives from constants fitted to measured rows, kernels from "
                     "the datasheet)"),
            std::string::npos)
      << out;
  EXPECT_EQ(out.find("measured groups"), std::string::npos) << out;
}

TEST_F(CompareBasis, AReferenceWithoutRowsCountsNothing) {
  const std::string out = run({"compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v4",
                               "--suite", "few.json", "--out", "out"});
  EXPECT_EQ(out.find("measured groups"), std::string::npos) << out;
  for (const char* file : {"out/record.json", "out/report.json"}) {
    EXPECT_EQ(read_text(folder.path() / file).find("rests_on"), std::string::npos) << file;
  }
  EXPECT_EQ(read_text(folder.path() / "out/report.md").find("verdicts rest on"), std::string::npos);
}

}  // namespace compare_basis_test
}  // namespace shardlab::testing_support
