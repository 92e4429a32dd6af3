// `compare` leads with time: its totals and its collectives are added up again here, from
// record.json, by code that shares nothing with the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace compare_time_test {

using nlohmann::json;

struct Compared {
  std::string out;
  json record;
  json report;
};

Compared compare(const std::string& baseline, const std::string& candidate,
                 const std::vector<std::string>& suites,
                 const std::vector<std::string>& more = {}) {
  const TemporaryFolder folder;
  std::vector<std::string> words = {"compare", "--baseline", baseline, "--candidate",
                                    candidate, "--out",      "out",    "--no-timing"};
  for (const std::string& suite : suites) words.insert(words.end(), {"--suite", suite});
  words.insert(words.end(), more.begin(), more.end());
  const ProcessResult done = run_shardlab(words, folder.path());
  EXPECT_EQ(done.exit_code, 0) << done.err;
  return {done.out, json::parse(read_text(folder.path() / "out" / "record.json")),
          json::parse(read_text(folder.path() / "out" / "report.json"))};
}

struct Totals {
  long double before = 0.0;
  long double after = 0.0;
  long double flips = 0.0;
};

// What the choices of a suite take, in long double and from the last question to the first.
Totals totals_of(const json& record, const std::string& suite) {
  Totals totals;
  for (std::size_t i = record["questions"].size(); i-- > 0;) {
    const json& question = record["questions"][i];
    const json& before = question["answers"][0];
    const json& after = question["answers"][1];
    if (question["suite"] != suite || before["reference_us"].is_null() ||
        after["reference_us"].is_null() || before.contains("cannot_run") ||
        after.contains("cannot_run")) {
      continue;
    }
    const auto count = static_cast<long double>(question["count"].get<std::int64_t>());
    const auto old_us = static_cast<long double>(before["reference_us"].get<double>());
    const auto new_us = static_cast<long double>(after["reference_us"].get<double>());
    totals.before += count * old_us;
    totals.after += count * new_us;
    if (before["choice"] != after["choice"]) totals.flips += count * (new_us - old_us);
  }
  return totals;
}

void expect_totals(const Compared& compared) {
  for (const json& suite : compared.report["suites"]) {
    SCOPED_TRACE(suite["name"].get<std::string>());
    const Totals totals = totals_of(compared.record, suite["name"]);
    const double scale = 1e-12 * static_cast<double>(totals.before);
    EXPECT_NEAR(suite["total_us"]["baseline"], static_cast<double>(totals.before), scale);
    EXPECT_NEAR(suite["total_us"]["candidate"], static_cast<double>(totals.after), scale);
    long double flips = 0.0;
    for (const json& flip : compared.report["flips"]) {
      if (flip["suite"] == suite["name"] && !flip["delta_us"].is_null()) {
        flips += static_cast<long double>(flip["delta_us"].get<double>());
      }
    }
    EXPECT_NEAR(static_cast<double>(flips), static_cast<double>(totals.flips), scale);
  }
}

TEST(CompareTime, OfOpsFullNothingChangesFromV3ToV4) {
  const Compared compared = compare("dtensor-v3", "dtensor-v4", {"ops-full"});
  expect_totals(compared);
  const Totals totals = totals_of(compared.record, "ops-full");
  const double percent =
      static_cast<double>(100.0L * (totals.after - totals.before) / totals.before);
  EXPECT_LT(percent, 0.0);
  EXPECT_GT(percent, -0.002);
  EXPECT_NEAR(compared.report["suites"][0]["delta_percent"], percent, 1e-9);
  EXPECT_TRUE(compared.out.starts_with(
      "Changing dtensor-v3 to dtensor-v4 changes almost nothing in time: the choices of ops-full "
      "take "))
      << compared.out.substr(0, 300);
  EXPECT_LT(compared.out.find(" as before (-0.0008 %, -2."), compared.out.find('\n'))
      << compared.out.substr(0, 300);
  // The first flip is the one that moves most time, not the one that moves the largest share of
  // itself.
  double last = INFINITY;
  for (const json& flip : compared.report["flips"]) {
    const double size = std::abs(flip["delta_us"].get<double>());
    EXPECT_LE(size, last * (1 + 1e-9));
    last = size;
  }
}

TEST(CompareTime, OfTheLlamaSuitesItSaysByHowMuchTheyChange) {
  const Compared compared =
      compare("dtensor-v3", "dtensor-v-compute", {"llama3-8b-tp", "llama3-8b-fsdp-tp"});
  expect_totals(compared);
  ASSERT_EQ(compared.report["suites"].size(), 2U);
  ASSERT_EQ(compared.report["programs"].size(), 2U) << "each was recorded from a program";
  for (const json& suite : compared.report["suites"]) {
    EXPECT_LE(suite["delta_percent"].get<double>(), 0.0) << suite["name"];
    EXPECT_GT(suite["delta_percent"].get<double>(), -0.1) << suite["name"];
  }
}

// The bytes of "bf16[2,2048,4096] S(1)", unsharded.
double bytes_of(const std::string& input) {
  static const std::map<std::string, double> kSizes = {{"bf16", 2}, {"f32", 4}, {"i64", 8},
                                                       {"bool", 1}, {"f64", 8}, {"i32", 4}};
  const std::size_t open = input.find('[');
  double bytes = kSizes.at(input.substr(0, open));
  std::istringstream sizes(input.substr(open + 1, input.find(']') - open - 1));
  for (std::string size; std::getline(sizes, size, ',');) bytes *= std::stod(size);
  return bytes;
}

// On a mesh of one dim, the two ends of a step say which collective it is. An all-to-all holds a
// rank's part of the tensor, the others all of it.
std::pair<std::string, double> collective_of(const std::string& from, const std::string& to,
                                             double ranks) {
  if (from[0] == 'S' && to == "R") return {"all_gather", 1.0};
  if (from[0] == 'P' && to == "R") return {"all_reduce", 1.0};
  if (from[0] == 'P' && to[0] == 'S') return {"reduce_scatter", 1.0};
  if (from[0] == 'S' && to[0] == 'S') return {"all_to_all", 1.0 / ranks};
  return {"", 0.0};
}

using Traffic = std::map<std::string, std::pair<std::int64_t, double>>;

Traffic traffic_of(const json& record, std::size_t stack) {
  Traffic traffic;
  for (const json& question : record["questions"]) {
    EXPECT_EQ(question["mesh"], "8");
    for (std::string path : question["answers"][stack]["path"]) {
      std::string tensor = question["inputs"][0];
      if (path.starts_with("input ")) {
        tensor = question["inputs"][std::stoul(path.substr(6))];
        path = path.substr(path.find(": ") + 2);
      }
      for (std::size_t at = path.find("->"); at != std::string::npos; at = path.find("->")) {
        const std::string from = path.substr(0, at);
        path = path.substr(at + 2);
        const auto [kind, share] = collective_of(from, path.substr(0, path.find("->")), 8.0);
        if (kind.empty()) continue;
        const std::int64_t count = question["count"];
        traffic[kind].first += count;
        traffic[kind].second += static_cast<double>(count) * share * bytes_of(tensor);
      }
    }
  }
  return traffic;
}

TEST(CompareTime, CollectivesAreThoseOfThePathsThatTheStacksTake) {
  const Compared compared = compare("dtensor-v3", "dtensor-v-compute", {"llama3-8b-tp"});
  const json& told = compared.report["suites"][0]["collectives"];
  const Traffic before = traffic_of(compared.record, 0);
  const Traffic after = traffic_of(compared.record, 1);
  ASSERT_GE(before.size(), 2U);
  for (const auto& [side, traffic] :
       {std::pair("baseline", before), std::pair("candidate", after)}) {
    for (const auto& [kind, amounts] : traffic) {
      SCOPED_TRACE(std::string(side) + " " + kind);
      EXPECT_EQ(told[kind][side]["count"], amounts.first);
      EXPECT_NEAR(told[kind][side]["bytes"], amounts.second, 1e-12 * amounts.second);
    }
  }
}

TEST(CompareTime, SmallFlipsCanBeHiddenAndTheRecordIsTheSame) {
  const TemporaryFolder folder;
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"compare",     "--baseline",        "dtensor-v3",
                                      "--candidate", "dtensor-v-compute", "--suite",
                                      "ops-small",   "--no-timing"};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder.path());
  };
  const ProcessResult all = run({"--out", "all"});
  const ProcessResult few = run({"--out", "few", "--min-share", "0.1"});
  ASSERT_EQ(all.exit_code, 0) << all.err;
  ASSERT_EQ(few.exit_code, 0) << few.err;
  EXPECT_EQ(read_text(folder.path() / "all/record.json"),
            read_text(folder.path() / "few/record.json"));
  EXPECT_EQ(read_text(folder.path() / "all/report.json"),
            read_text(folder.path() / "few/report.json"));
  const json report = json::parse(read_text(folder.path() / "all/report.json"));
  std::size_t hidden = 0;
  for (const json& flip : report["flips"]) {
    if (std::abs(flip["share_percent"].get<double>()) < 0.1) ++hidden;
  }
  ASSERT_GT(hidden, 1U);
  EXPECT_NE(few.out.find("  " + std::to_string(hidden) +
                         " flips below 0.10 % of the suite's time are not shown\n"),
            std::string::npos)
      << few.out;
  // `report` takes the same option, for records of comparisons alone.
  const ProcessResult again = run_shardlab(
      {"report", "all/record.json", "--out", "again", "--min-share", "0.1"}, folder.path());
  ASSERT_EQ(again.exit_code, 0) << again.err;
  for (const char* name : {"report.html", "report.md", "report.json", "record.json"}) {
    EXPECT_EQ(read_text(folder.path() / "again" / name), read_text(folder.path() / "few" / name));
  }
  const ProcessResult wrong = run({"--min-share", "-1"});
  EXPECT_EQ(wrong.exit_code, 2) << wrong.err;
}

// No rule of DTensor covers an einsum as one operator.
constexpr const char* kOneUnasked = R"json({"schema": "shardlab/suite/1", "name": "few",
  "title": "t", "source": "s", "questions": [
  {"id": "q1", "kind": "plan", "mesh": "8", "tensor": "f32[1023]", "from": "S(0)", "to": "R"},
  {"id": "q2", "kind": "select", "op": "aten.mm.default", "mesh": "8",
   "inputs": ["f32[16,16] S(0)", "f32[16,16] R"]},
  {"id": "q3", "kind": "select", "op": "aten.einsum.default", "mesh": "8",
   "inputs": ["[f32[8,8] R; f32[8,8] S(0)]"], "args": ["ij,jk->ik"]}]})json";

TEST(CompareTime, QuestionsThatCannotBeAskedAreNamed) {
  const TemporaryFolder folder;
  const std::string suite = folder.write("few.json", kOneUnasked);
  const Compared done = compare("dtensor-v3", "dtensor-v4", {suite});
  const std::string said =
      "1 of 3 questions was not asked: few/q3, because aten.einsum.default: no sharding strategy "
      "registered in rule set dtensor-2.13; valid: shardlab, autoparallel, autoparallel-2.15.";
  EXPECT_NE(done.out.find(said), std::string::npos) << done.out;
  ASSERT_EQ(done.report["not_asked"].size(), 1U);
  EXPECT_EQ(done.report["not_asked"][0]["id"], "few/q3");
  EXPECT_EQ(done.report["not_asked"][0]["op"], "aten.einsum.default");
  EXPECT_EQ(done.report["not_asked"], done.record["not_asked"]);
  EXPECT_EQ(done.report["questions"], 2);
}

TEST(CompareTime, TheParametersOfAFusedOptimizerAreDecidedOneByOne) {
  const TemporaryFolder folder;
  const std::string lists = R"("[f32[8,4] S(0); f32[16] R]")";
  const std::string suite =
      folder.write("adam.json", R"json({"schema": "shardlab/suite/1", "name": "adam",
    "title": "t", "source": "s", "questions": [
    {"id": "q1", "kind": "select", "op": "aten._fused_adamw_.default", "mesh": "4", "inputs": [)json" +
                                    lists + ", " + lists + ", " + lists + ", " + lists +
                                    R"json(, "none", "[f32[] R; f32[] R]"]}]})json");
  const Compared done = compare("dtensor-2.13", "dtensor-2.15", {suite});
  EXPECT_EQ(done.report["questions"], 1) << done.out;
  EXPECT_FALSE(done.report.contains("not_asked")) << done.out;
  const std::string choice = "S(0), S(0), S(0), S(0), R -> ; R, R, R, R, R -> ";
  EXPECT_EQ(done.record["questions"][0]["answers"][0]["choice"], choice);
  const ProcessResult ties = run_shardlab({"ties", "--suite", suite, "--stack", "dtensor-2.15"});
  EXPECT_EQ(ties.exit_code, 0) << ties.err;
  EXPECT_EQ(ties.out.find("not asked"), std::string::npos) << ties.out;
}

TEST(CompareTime, ASuiteOfWhichNothingCanBeAskedIsAnError) {
  const TemporaryFolder folder;
  const std::string suite =
      folder.write("bad.json", R"json({"schema": "shardlab/suite/1", "name": "bad",
    "title": "t", "source": "s", "questions": [
    {"id": "q1", "kind": "select", "op": "aten.mm.default", "mesh": "8",
     "inputs": ["f32[8,8] S(0)", "f32[9,8] R"]},
    {"id": "q2", "kind": "select", "op": "aten.mm.default", "mesh": "8", "inputs": ["f32[8,8] S(0)"]}]})json");
  const std::string reason = "because aten.mm.default: shapes do not fit mk,kn->mn";
  const ProcessResult compared = run_shardlab(
      {"compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v4", "--suite", suite});
  EXPECT_EQ(compared.exit_code, 3);
  EXPECT_NE(
      compared.err.find("bad: none of the 2 questions can be asked, the first, bad/q1, " + reason),
      std::string::npos)
      << compared.err;
  const ProcessResult ties = run_shardlab({"ties", "--suite", suite, "--stack", "dtensor-v3"});
  EXPECT_NE(ties.out.find("2 not asked, the first " + reason), std::string::npos) << ties.out;
}

// `compare` lists what changes without a flip: one planner reaches the choice by cheaper steps.
TEST(CompareTime, ChoicesThatStayAreListedWhereOtherStepsChangeTheirTime) {
  const TemporaryFolder folder;
  const std::string graph = folder.write(
      "graph.json",
      R"({"schema": "shardlab/stack/1", "base": "dtensor-v3", "name": "by-graph", "planner": "graph"})");
  const Compared done = compare("dtensor-v3", graph, {"ops-small"});
  const auto& listed = done.report["other_steps"];
  ASSERT_GT(listed.size(), 1U);
  const auto& change = done.report["suites"][0];
  double sum = 0.0;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    sum += listed[i]["delta_us"].get<double>();
    if (i == 0) continue;
    EXPECT_GE(std::abs(listed[i - 1]["delta_us"].get<double>()),
              std::abs(listed[i]["delta_us"].get<double>()));
  }
  EXPECT_EQ(change["same_choice_by_other_steps"], listed.size());
  EXPECT_NEAR(change["other_steps_us"].get<double>(), sum, 1e-6);
  EXPECT_NE(done.out.find("choices that stay, by other steps that save or lose most:"),
            std::string::npos)
      << done.out;
}

TEST(CompareTime, WhatTheTopologyDoesNotChangeIsSaid) {
  const TemporaryFolder folder;
  folder.write("few.json", kOneUnasked);
  const auto told = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"compare",    "--baseline", "dtensor-v3", "--candidate",
                                      "dtensor-v4", "--suite",    "few.json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult done = run_shardlab(words, folder.path());
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.err;
  };
  const std::string nvlink =
      "shardlab: --set links.nvlink.latency_us=2 changes no price under dtensor-v3 and dtensor-v4: "
      "the questions do not use it, or the models of these stacks do not read it\n";
  EXPECT_EQ(told({"--set", "links.nvlink.latency_us=2"}), nvlink);
  EXPECT_EQ(told({"--set", "links.nvlink.latency_us=2", "--quiet"}), nvlink);
  EXPECT_EQ(told({"--set", "devices_per_host=4"}), "");
  // Each change is looked at on its own: no question leaves the host.
  EXPECT_EQ(told({"--set", "links.nvlink.latency_us=2", "--set", "links.network.latency_us=9"}),
            nvlink +
                "shardlab: --set links.network.latency_us=9 changes no price under dtensor-v3, "
                "dtensor-v4 and alpha-beta: the questions do not use it, or the models of these "
                "stacks do not read it\n");
}

// The price of each choice under the stack of this index.
std::vector<json> prices_under(const json& record, std::size_t stack) {
  std::vector<json> prices;
  for (const json& question : record["questions"]) {
    prices.push_back(question["answers"][stack]["price_us"]);
  }
  return prices;
}

// What is said of a change is true of all prices. Nothing is said of a change that moves some of
// them, such as the rate of one dtype, which few products have.
TEST(CompareTime, WhatIsSaidOfAChangeIsTrueOfAllPrices) {
  const TemporaryFolder folder;
  const auto compared = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"compare", "--baseline", "alpha-beta", "--candidate",
                                      "ap-nccl", "--suite",    "ops-small",  "--out",
                                      "out",     "--no-timing"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult done = run_shardlab(words, folder.path());
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return std::pair(done.err, json::parse(read_text(folder.path() / "out" / "record.json")));
  };
  const json before = compared({}).second;
  struct Case {
    std::string change;
    std::string unread_under;
    std::vector<std::size_t> unread = {};  // the same stacks by their index
  };
  const std::vector<Case> cases = {{"device.peak_tflops.f32=1", "ap-nccl", {1}},
                                   {"device.peak_tflops.f64=1", "alpha-beta and ap-nccl", {0, 1}},
                                   {"device.peak_tflops.bf16=1", ""}};
  for (const auto& [change, unread_under, unread] : cases) {
    SCOPED_TRACE(change);
    const auto& [said, after] = compared({"--set", change});
    const std::string start = "shardlab: --set " + change + " changes no price under ";
    if (unread.empty()) {
      EXPECT_EQ(said, "");
    } else {
      EXPECT_EQ(said.find(start + unread_under + ": "), 0U) << said;
    }
    for (const std::size_t stack : {0U, 1U}) {
      const bool is_named = std::find(unread.begin(), unread.end(), stack) != unread.end();
      EXPECT_EQ(prices_under(before, stack) == prices_under(after, stack), is_named) << stack;
    }
  }
}

TEST(CompareTime, ThePenaltyOfAllToAllIsAParameter) {
  const Compared version = compare("dtensor-v3", "dtensor-v4", {"ops-small"});
  const TemporaryFolder folder;
  const ProcessResult changed =
      run_shardlab({"compare", "--baseline", "dtensor-v3", "--suite", "ops-small", "--out", "out",
                    "--no-timing", "--set", "stack.transitions.all_to_all_penalty_us=0"},
                   folder.path());
  ASSERT_EQ(changed.exit_code, 0) << changed.err;
  const json record = json::parse(read_text(folder.path() / "out" / "record.json"));
  ASSERT_EQ(record["stacks"][1], "dtensor-v3+set");
  ASSERT_EQ(record["questions"].size(), version.record["questions"].size());
  for (std::size_t i = 0; i < record["questions"].size(); ++i) {
    EXPECT_EQ(record["questions"][i]["answers"], version.record["questions"][i]["answers"]) << i;
  }
  EXPECT_EQ(record["configuration"]["stacks"][1]["title"],
            version.record["configuration"]["stacks"][0]["title"].get<std::string>() +
                ", changed by --set stack.transitions.all_to_all_penalty_us=0");
}

// No question of a suite has a flattened mesh, without which nothing is merged.
TEST(CompareCommand, SaysWhereNoQuestionTestsHowAStackMerges) {
  const TemporaryFolder folder;
  folder.write("merging.json",
               R"({"schema": "shardlab/stack/1", "base": "dtensor-v3", "name": "merging",
                   "merge": "price"})");
  folder.write("copy.json",
               R"({"schema": "shardlab/stack/1", "base": "dtensor-v3", "name": "copy"})");
  const auto said = [&](const std::string& candidate) {
    return run_shardlab({"compare", "--baseline", "dtensor-v3", "--candidate", candidate, "--suite",
                         "ops-small", "--quiet"},
                        folder.path())
        .err;
  };
  EXPECT_NE(said("merging.json").find("how merging merges collectives is not tested here"),
            std::string::npos);
  EXPECT_EQ(said("copy.json").find("merge"), std::string::npos);
}

}  // namespace compare_time_test
}  // namespace shardlab::testing_support
