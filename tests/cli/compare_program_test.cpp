// `compare --program`: what a change of stack costs in the training step of a real program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace compare_program_test {

using nlohmann::json;
using Words = std::vector<std::string>;

class CompareProgram : public testing::Test {
 protected:
  void SetUp() override {
    const ProcessResult made = run_shardlab({"program", "llama3-8b", "--layers", "1", "--batch",
                                             "8", "--matmul", "native", "--out", "llama.json"},
                                            folder.path());
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  ProcessResult compare(const Words& more) const {
    Words words = {"compare",     "--baseline", "dtensor-v3",
                   "--candidate", "dtensor-v4", "--no-timing"};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder.path());
  }
  TemporaryFolder folder;
};

// By the prices of single operators this flip changes nothing: the reference takes both choices for
// equally cheap. In the step it changes hardly more: the gradient that it makes is P(sum)P(sum),
// which is reduced together with the other gradients of the layer, and the baseline's is
// P(sum)S(1), which takes a way of its own, but both ways lie behind the kernels of the backward
// pass.
TEST_F(CompareProgram, SaysWhatAFlipChangesInTheStep) {
  const ProcessResult done = compare(
      {"--program", "llama.json", "--mesh", "2x4", "--recipe", "fsdp-tp", "--format", "json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json report = json::parse(done.out);
  ASSERT_EQ(report["steps"].size(), 1U);
  const json& step = report["steps"][0];
  EXPECT_EQ(step["mesh"], "2x4");
  EXPECT_EQ(step["candidate"], "dtensor-v4");
  EXPECT_EQ(step["sources"], "the best plan under alpha-beta with recipe fsdp-tp");
  ASSERT_EQ(step["flips"].size(), 1U);
  const double change =
      step["step_us"]["candidate"].get<double>() - step["step_us"]["baseline"].get<double>();
  EXPECT_NE(change, 0.0);
  EXPECT_LT(std::abs(change), 1e-3 * step["step_us"]["baseline"].get<double>());
  EXPECT_NEAR(step["flips"][0]["delta_step_us"].get<double>(), change, 1e-6);
  EXPECT_EQ(step["flips"][0]["op"], "aten.mm.default");
  EXPECT_EQ(step["flips"][0]["count"], 2);
  EXPECT_GT(step["peak_bytes"]["baseline"].get<double>(), 1e9);
  EXPECT_EQ(report["stacks"][1]["flips"]["total"], 1);
  EXPECT_EQ(report["stacks"][1]["flips"]["equal"], 1);
}

// On its own the flip costs as much as the choice before it. With what follows, kernels and moves
// take less, but not the step, because what is saved lay behind other kernels.
TEST_F(CompareProgram, SaysWhatAFlipChangesLater) {
  const Words words = {"--program", "llama.json", "--mesh",      "2x4",
                       "--recipe",  "fsdp-tp",    "--downstream"};
  const ProcessResult text = compare(words);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(
      text.out,
      testing::HasSubstr("  0 of 1 flips are cheaper on their own; of these, 0 cost more than they "
                         "save once what follows is counted\n"));
  Words with_json = words;
  with_json.insert(with_json.end(), {"--format", "json"});
  const json report = json::parse(compare(with_json).out);
  const json& flip = report["steps"][0]["flips"][0];
  EXPECT_NEAR(flip["delta_local_us"].get<double>(), 0.0, 1e-6);
  EXPECT_LT(flip["delta_sum_us"].get<double>(), 0.0);
  EXPECT_GT(flip["delta_step_us"].get<double>(), 0.0);
  EXPECT_GT(flip["followers"].get<int>(), 0);
}

// The aliases keep a partial sum, which is cheaper than to scatter it before; each of their readers
// reduces it for itself later, which costs more than that.
TEST_F(CompareProgram, SaysWhichCheaperChoicesAreDearerLater) {
  const Words words = {"compare",   "--baseline",  "dtensor-legacy", "--candidate",  "dtensor-2.13",
                       "--program", "llama.json",  "--mesh",         "2x4",          "--recipe",
                       "fsdp-tp",   "--reference", "alpha-beta",     "--downstream", "--no-timing"};
  const ProcessResult text = run_shardlab(words, folder.path());
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out,
              testing::HasSubstr(
                  "  4 of 12 flips are cheaper on their own; of these, 3 cost more than they "
                  "save once what follows is counted\n"));
  Words with_json = words;
  with_json.insert(with_json.end(), {"--format", "json"});
  const json report = json::parse(run_shardlab(with_json, folder.path()).out);
  const json& flips = report["steps"][0]["flips"];
  const auto found = std::find_if(flips.begin(), flips.end(), [](const json& flip) {
    return flip["node"] == "alias_default_14";
  });
  ASSERT_NE(found, flips.end());
  EXPECT_EQ((*found)["candidate"], "S(0)P(sum) -> S(0)P(sum)");
  EXPECT_LT((*found)["delta_local_us"].get<double>(), -1000.0);
  EXPECT_GT((*found)["delta_sum_us"].get<double>(), 1000.0);
  EXPECT_GT((*found)["delta_step_us"].get<double>(), 1000.0);
}

TEST_F(CompareProgram, WhatFollowsNeedsAProgram) {
  const ProcessResult done = compare({"--suite", "ops-small", "--downstream"});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_THAT(done.err,
              testing::HasSubstr("compare: found --downstream without --program; valid: "));
}

TEST_F(CompareProgram, ReportsTheStepAndReadsItBack) {
  const ProcessResult done =
      compare({"--program", "llama.json", "--mesh", "2x4", "--recipe", "fsdp-tp", "--out", "out"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("Under dtensor-v4, a step of llama3-8b on 2x4 takes "),
            std::string::npos);
  EXPECT_NE(done.out.find(" longer than under dtensor-v3, and as much memory at its peak, "),
            std::string::npos)
      << done.out;
  EXPECT_NE(done.out.find("  each taken alone, in a step of llama3-8b under dtensor-v4:\n    +"),
            std::string::npos)
      << done.out;
  for (const char* file : {"out/report.md", "out/report.html"}) {
    const std::string text = read_text(folder.path() / file);
    EXPECT_NE(text.find("What does the change cost in a training step?"), std::string::npos)
        << file;
  }
  const ProcessResult again =
      run_shardlab({"report", "out/record.json", "--out", "again"}, folder.path());
  ASSERT_EQ(again.exit_code, 0) << again.err;
  for (const char* name : {"report.html", "report.md", "report.json", "record.json"}) {
    EXPECT_EQ(read_text(folder.path() / "again" / name), read_text(folder.path() / "out" / name));
  }
}

TEST_F(CompareProgram, TakesTheLayoutsOfASavedPlan) {
  const ProcessResult solved =
      run_shardlab({"solve", "llama.json", "--mesh", "2x4", "--recipe", "fsdp-tp", "--stack",
                    "alpha-beta", "--format", "json", "--no-timing"},
                   folder.path());
  ASSERT_EQ(solved.exit_code, 0) << solved.err;
  folder.write("plan.json", solved.out);
  const ProcessResult done = compare(
      {"--program", "llama.json", "--mesh", "2x4", "--plan", "plan.json", "--format", "json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(json::parse(done.out)["steps"][0]["sources"], "the plan plan.json");
}

// A candidate whose decisions ask for a move that DTensor refuses to run is still compared.
TEST_F(CompareProgram, SaysWhyACandidateCannotRun) {
  const ProcessResult done = run_shardlab(
      {"compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v2", "--program",
       "llama.json", "--mesh", "2x4", "--recipe", "fsdp-tp-sp", "--format", "json", "--no-timing"},
      folder.path());
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json step = json::parse(done.out)["steps"][0];
  EXPECT_TRUE(step["step_us"]["candidate"].is_null());
  EXPECT_GT(step["step_us"]["baseline"].get<double>(), 0.0);
  EXPECT_NE(step["cannot_run"].get<std::string>().find("P(sum)->P(max) is refused"),
            std::string::npos);
}

// The mesh leaves the NVLink domain of 72 GPUs, so that the network counts for those who read it.
TEST_F(CompareProgram, SaysWhichStacksDoNotReadAChangeOfTheNetwork) {
  const auto said = [&](const std::string& mesh) {
    return compare({"--program", "transformer-block", "--mesh", mesh, "--topology", "gb200",
                    "--set", "topology.links.1.bandwidth_gb_per_s=10"})
        .err;
  };
  const std::string change =
      "shardlab: --set topology.links.1.bandwidth_gb_per_s=10 changes no price under ";
  const std::string reason =
      ": the questions do not use it, or the models of these stacks do not read it\n";
  EXPECT_EQ(said("18x8"), change + "dtensor-v3 and dtensor-v4" + reason);
  EXPECT_EQ(said("9x8"), change + "dtensor-v3, dtensor-v4 and alpha-beta" + reason);
}

TEST_F(CompareProgram, SaysWhatMayMakeAStepFit) {
  const auto advice = [&](const Words& more) {
    Words words = {"--program", "transformer-block",
                   "--mesh",    "2x4",
                   "--set",     "topology.device.memory_gib=0.001"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult done = compare(words);
    EXPECT_EQ(done.err, "");  // the memory of a device changes no price, but it counts here
    const std::string start = "\n  a step exceeds a device's memory; try ";
    const std::size_t place = done.out.find(start);
    if (place == std::string::npos) return "nothing of it in: " + done.out;
    const std::size_t from = place + start.size();
    return done.out.substr(from, done.out.find('\n', from) - from);
  };
  EXPECT_EQ(advice({}), "--recompute selective --reshard-after-forward");
  EXPECT_EQ(advice({"--recompute", "selective", "--reshard-after-forward"}),
            "--recompute full, or more ranks");
  EXPECT_EQ(advice({"--recompute", "full", "--reshard-after-forward"}), "more ranks");
}

TEST_F(CompareProgram, RefusesHalfAQuestion) {
  const auto error = [&](const Words& words) {
    const ProcessResult done = compare(words);
    EXPECT_EQ(done.exit_code, 2) << done.out;
    return done.err;
  };
  EXPECT_NE(error({}).find("found neither --suite nor --program"), std::string::npos);
  EXPECT_NE(error({"--program", "llama.json"}).find("found --program without --mesh"),
            std::string::npos);
  EXPECT_NE(error({"--suite", "ops-small", "--mesh", "2x4"}).find("found --mesh without --program"),
            std::string::npos);
  EXPECT_NE(error({"--suite", "ops-small", "--recipe", "fsdp"}).find("without --program"),
            std::string::npos);
  EXPECT_NE(error({"--program", "llama.json", "--mesh", "2x4", "--recipe", "fsdp", "--plan", "p"})
                .find("valid: one of them"),
            std::string::npos);
  EXPECT_NE(error({"--program", "llama.json", "--mesh", "2x4", "--reference", "dtensor-v3"})
                .find("kernels"),
            std::string::npos);
}

}  // namespace compare_program_test
}  // namespace shardlab::testing_support
