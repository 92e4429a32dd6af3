// shardlab sweep: the same bytes in one process and in many, and after a kill.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace sweep_test {

namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kSmall = R"({"schema": "shardlab/experiment/1",
  "topologies": ["h100", "a100"], "suites": ["ops-small"],
  "stacks": ["dtensor-v3", {"base": "alpha-beta", "name": "slow", "transition_us": 1}]})";
// An experiment that takes some seconds.
constexpr const char* kLarge = R"({"schema": "shardlab/experiment/1",
  "topologies": ["h100"], "suites": ["ops-full", "ops-small"], "stacks": ["dtensor-v3", "dtensor-v1", "alpha-beta"]})";

class Sweeps : public testing::Test {
 protected:
  ProcessResult sweep(const Words& more, const std::string& experiment = "small.json") {
    Words words = {"sweep", experiment, "--no-timing"};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder_.path());
  }
  ProcessResult mpirun(const Words& more) const {
    Words words = {kMpirun, "--oversubscribe", "-np", "2", SHARDLAB_BINARY, "sweep"};
    words.insert(words.end(), more.begin(), more.end());
    return run_process(words, {.folder = folder_.path(),
                               .environment = {{"SHARDLAB_CONFIGS", ""},
                                               {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                               {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}});
  }
  std::string results(const std::string& out) const {
    return read_text(folder_.path() / out / "results.jsonl");
  }
  // Returns what one undisturbed process writes.
  std::string whole(const std::string& experiment) {
    EXPECT_EQ(sweep({"--out", "whole"}, experiment).exit_code, 0);
    return results("whole");
  }

  static constexpr const char* kMpirun = "/usr/bin/mpirun";
  TemporaryFolder folder_;
  fs::path small_ = folder_.write("small.json", kSmall);
  fs::path large_ = folder_.write("large.json", kLarge);
};

// Waits until a file has this many bytes. Returns false if that takes too long.
bool grows_to(const fs::path& path, std::uintmax_t bytes) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (std::chrono::steady_clock::now() < end) {
    std::error_code error;
    if (fs::file_size(path, error) >= bytes && !error) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// Expects what a killed run may leave: a head, whole rows of its own, perhaps a torn row; and never
// all rows.
void expect_a_part(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  const std::size_t rows = json::parse(line)["rows"];
  std::size_t found = 0;
  while (std::getline(in, line)) ++found;
  EXPECT_LT(found, rows) << path << " was complete before it was killed";
  EXPECT_GT(found, 0U);
}

TEST_F(Sweeps, ResultsAreRowsUnderAHead) {
  const ProcessResult run = sweep({"--out", "out", "--format", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json said = json::parse(run.out);
  EXPECT_EQ(said["rows"], 2 * 816);
  EXPECT_TRUE(said["complete"]);
  EXPECT_EQ(said["results"], "out/results.jsonl");
  ASSERT_EQ(said["summary"].size(), 4U);
  EXPECT_EQ(said["summary"][0]["flips"], 0);
  EXPECT_EQ(said["summary"][1]["stack"], "slow");
  std::ifstream in(folder_.path() / "out/results.jsonl");
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(json::parse(line)["schema"], "shardlab/sweep/1");
  // The summary has as many flips as its rows and as `compare` counts.
  std::size_t row = 0;
  std::size_t flips = 0;
  for (; std::getline(in, line); ++row) {
    const json each = json::parse(line);
    EXPECT_EQ(each["row"], row);
    EXPECT_EQ(each["topology"], row < 816 ? "h100" : "a100");
    if (row < 816 && each["answers"][0]["choice"] != each["answers"][1]["choice"]) ++flips;
  }
  EXPECT_EQ(row, 2U * 816U);
  EXPECT_EQ(said["summary"][1]["flips"], flips);
  EXPECT_GT(flips, 0U);
}

TEST_F(Sweeps, PartsInAnyOrderMakeTheSameBytes) {
  const std::string one = whole("small.json");
  for (const char* part : {"3/3", "1/3", "2/3"}) {
    const ProcessResult run = sweep({"--out", "parts", "--part", part, "--jobs", "1"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out.find("not complete yet") == std::string::npos, std::string(part) == "2/3");
  }
  EXPECT_EQ(results("parts"), one);
  EXPECT_EQ(sweep({"--out", "jobs", "--jobs", "3"}).exit_code, 0);
  EXPECT_EQ(results("jobs"), one);
}

TEST_F(Sweeps, TwoProcessesOfMpirunMakeTheSameBytes) {
  if (!fs::exists(kMpirun)) GTEST_SKIP() << "no mpirun here (Debian: openmpi-bin)";
  const ProcessResult run =
      mpirun({"small.json", "--out", "mpi", "--format", "json", "--no-timing"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(json::parse(
      run.out)["complete"]);  // there is one document, printed by the process that merged
  EXPECT_EQ(results("mpi"), whole("small.json"));
}

TEST_F(Sweeps, ATornLineIsCutOffAndRowsAreNeitherLostNorDoubled) {
  const std::string one = whole("small.json");
  const fs::path part = folder_.path() / "whole/part-0001-of-0001.jsonl";
  const std::string text = read_text(part);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{40}, text.size() / 3, text.size() - 1}) {
    folder_.write("whole/part-0001-of-0001.jsonl", text.substr(0, bytes));
    fs::remove(folder_.path() / "whole/results.jsonl");
    const ProcessResult run = sweep({"--out", "whole", "--resume", "--format", "json"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(json::parse(run.out)["resumed_rows"] == 0, bytes < 200);
    EXPECT_EQ(results("whole"), one);
  }
}

TEST_F(Sweeps, AKilledWorkerEndsTheJobAndIsResumed) {
  if (!fs::exists(kMpirun)) GTEST_SKIP() << "no mpirun here (Debian: openmpi-bin)";
  ProcessResult run;
  std::thread job([&] { run = mpirun({"large.json", "--out", "killed", "--jobs", "1"}); });
  const fs::path part = folder_.path() / "killed/part-0002-of-0002.jsonl";
  const bool begun = grows_to(part, 100'000);
  // The worker is one of this test's processes if it runs in this test's folder, which no other
  // process knows.
  pid_t worker = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code error;
    if (fs::read_symlink(entry.path() / "cwd", error) != folder_.path()) continue;
    std::ifstream in(entry.path() / "environ");
    const std::string environment{std::istreambuf_iterator<char>(in), {}};
    if (environment.find("OMPI_COMM_WORLD_RANK=1") != std::string::npos) worker = std::stoi(name);
  }
  if (worker > 0) kill(worker, SIGKILL);
  job.join();
  ASSERT_TRUE(begun) << run.err;
  ASSERT_GT(worker, 0) << run.err;
  EXPECT_NE(run.exit_code, 0);
  EXPECT_NE((run.out + run.err).find("signal 9"), std::string::npos) << run.out << run.err;
  EXPECT_FALSE(fs::exists(folder_.path() / "killed/results.jsonl"));
  expect_a_part(part);
  const ProcessResult again = mpirun({"large.json", "--out", "killed", "--resume"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(results("killed"), whole("large.json"));
}

TEST_F(Sweeps, WhatCannotGoOnSaysWhy) {
  const std::string one = whole("small.json");
  const auto error = [&](const Words& words, int exit_code,
                         const std::string& experiment = "small.json") {
    const ProcessResult run = sweep(words, experiment);
    EXPECT_EQ(run.exit_code, exit_code);
    return run.err;
  };
  const std::string part = "whole/part-0001-of-0001.jsonl";
  EXPECT_EQ(error({"--out", "whole"}, 2),
            "shardlab: " + part + ": exists already; valid: --resume, or another --out\n");
  EXPECT_NE(error({"--out", "whole", "--resume", "--set", "stack.transition_us=2"}, 3)
                .find(part + ": line 1: found another sweep, {\"schema\":\"shardlab/sweep/1\""),
            std::string::npos);
  std::string text = read_text(folder_.path() / part);
  const std::size_t second = text.find('\n', text.find('\n') + 1) + 1;
  folder_.write(part, text.substr(0, text.find('\n') + 1) + text.substr(second));
  EXPECT_EQ(
      error({"--out", "whole", "--resume"}, 3),
      "shardlab: " + part + ": line 2: found " + text.substr(second, 40) + "; valid: row 0\n");
  for (const char* bad : {"0/2", "3/2", "1", "1/", "a/b", "1/99999", "-1/2"}) {
    EXPECT_EQ(error({"--out", "x", "--part", bad}, 2),
              "shardlab: --part: found \"" + std::string(bad) +
                  "\"; valid: I/N, the I-th of N parts, with N at most 9999\n");
  }
  // Another process is writing the part.
  fs::create_directories(folder_.path() / "busy");
  const fs::path busy = folder_.path() / "busy/part-0001-of-0001.jsonl";
  const int fd = open(busy.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(error({"--out", "busy"}, 4),
            "shardlab: busy/part-0001-of-0001.jsonl: another process is writing it\n");
  close(fd);
}

// A row that has other bytes than those that were written is neither resumed nor merged, wherever
// the difference is.
TEST_F(Sweeps, AFlippedBitInAFinishedRowIsFound) {
  whole("small.json");
  const std::string part = "whole/part-0001-of-0001.jsonl";
  const std::string text = read_text(folder_.path() / part);
  const std::size_t begin = text.find('\n', text.find('\n') + 1) + 1;  // of row 1, on line 3
  const std::size_t end = text.find('\n', begin);
  for (const std::size_t at : {begin + 12, (begin + end) / 2, end - 5}) {
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    for (const std::size_t bytes : {text.size(), 2 * end}) {
      folder_.write(part, flipped.substr(0, bytes));
      fs::remove(folder_.path() / "whole/results.jsonl");
      const ProcessResult run = sweep({"--out", "whole", "--resume"});
      EXPECT_EQ(run.exit_code, 3);
      EXPECT_EQ(run.err, "shardlab: " + part +
                             ": line 3: found row 1, whose bytes do not have its checksum; valid: "
                             "the row as it was written, or another --out\n");
      EXPECT_FALSE(fs::exists(folder_.path() / "whole/results.jsonl"));
    }
  }
  // The part of another process is looked at when the parts are merged.
  ASSERT_EQ(sweep({"--out", "two", "--part", "1/2"}).exit_code, 0);
  const std::string other = "two/part-0001-of-0002.jsonl";
  std::string flipped = read_text(folder_.path() / other);
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 4);
  folder_.write(other, flipped);
  const ProcessResult run = sweep({"--out", "two", "--part", "2/2"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_TRUE(run.err.starts_with("shardlab: " + other + ": line ")) << run.err;
  EXPECT_FALSE(fs::exists(folder_.path() / "two/results.jsonl"));
}

// The results are made again from the parts, whose rows have checksums of their own.
TEST_F(Sweeps, DamagedResultsAreMadeAgainFromTheParts) {
  const std::string text = whole("small.json");
  std::string flipped = text;
  flipped[text.size() / 2] = static_cast<char>(flipped[text.size() / 2] ^ 1);
  const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
  for (const std::string& damaged :
       {text.substr(0, last), text.substr(0, last + 10), flipped, text + "{}\n"}) {
    folder_.write("whole/results.jsonl", damaged);
    const ProcessResult run = sweep({"--out", "whole", "--resume"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(results("whole"), text);
  }
}

TEST_F(Sweeps, AFolderHoldsOneSweep) {
  folder_.write("other.json", replaced(kSmall, "\"transition_us\": 1", "\"transition_us\": 2"));
  const auto refused = [&](const Words& words, const std::string& file) {
    const ProcessResult run = sweep(words, "other.json");
    EXPECT_EQ(run.exit_code, 3);
    EXPECT_TRUE(run.err.starts_with("shardlab: " + file + ": line 1: found another sweep, {"))
        << run.err;
    EXPECT_NE(run.err.find("; valid: {\"schema\":\"shardlab/sweep/1\""), std::string::npos)
        << run.err;
    EXPECT_TRUE(run.err.ends_with(", or another --out\n")) << run.err;
  };
  ASSERT_EQ(sweep({"--out", "mixed", "--part", "1/2"}).exit_code, 0);
  refused({"--out", "mixed", "--part", "2/2"}, "mixed/part-0001-of-0002.jsonl");
  refused({"--out", "mixed"}, "mixed/part-0001-of-0002.jsonl");
  EXPECT_FALSE(fs::exists(folder_.path() / "mixed/part-0002-of-0002.jsonl"));
  whole("small.json");
  fs::remove(folder_.path() / "whole/part-0001-of-0001.jsonl");
  const std::string results = read_text(folder_.path() / "whole/results.jsonl");
  refused({"--out", "whole"}, "whole/results.jsonl");
  EXPECT_EQ(read_text(folder_.path() / "whole/results.jsonl"), results);
  // The same experiment may be cut into other parts.
  EXPECT_EQ(sweep({"--out", "mixed", "--part", "3/3"}).exit_code, 0);
}

TEST_F(Sweeps, BrokenExperimentsSayWhere) {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {R"({"schema": "shardlab/experiment/1", "topologies": [], "suites": ["ops-small"], "stacks": ["dtensor-v3"]})",
       "e.json:/topologies: found an empty array; valid: an array of at least one element"},
      {R"({"schema": "shardlab/experiment/1", "topologies": ["h10"], "suites": ["ops-small"], "stacks": ["dtensor-v3"]})",
       "e.json:/topologies/0: unknown topology \"h10\" (did you mean \"h100\"?); valid: a path, "
       "or {topologies}"},
      {R"({"schema": "shardlab/experiment/1", "topologies": ["h100"], "suites": ["ops-small"], "stacks": ["dtensor-v3", "dtensor-v3"]})",
       "e.json:/stacks/1: found \"dtensor-v3\" a second time; valid: each name only once"},
      {R"({"schema": "shardlab/experiment/1", "topologies": ["h100"], "suites": ["ops-small"], "stacks": [{"base": "dtensor-v3"}]})",
       "e.json:/stacks/0: name is missing; valid: a name of its own"},
      {R"({"schema": "shardlab/experiment/1", "topologies": ["h100"], "suites": ["ops-small"], "stacks": ["dtensor-v3"], "sed": 1})",
       "e.json:/sed: unknown key (did you mean \"seed\"?); valid: schema, name, title, seed, "
       "topologies, suites, stacks, "
       "reference"},
  };
  for (const Row& row : rows) {
    folder_.write("e.json", row.text);
    const ProcessResult run = sweep({"--out", "out"}, "e.json");
    EXPECT_EQ(run.exit_code, 3);
    EXPECT_EQ(run.err, with_lists("shardlab: " + std::string(row.message) + "\n"));
  }
}

TEST_F(Sweeps, OneProcessOfALaunchSpeaks) {
  EXPECT_EQ(sweep({"--out", "launched", "--part", "1/2"}).exit_code, 0);
  EXPECT_EQ(sweep({"--out", "launched", "--part", "2/2"}).exit_code, 0);
  int spoke = 0;
  for (const char* rank : {"0", "1"}) {
    const ProcessResult run =
        run_process({SHARDLAB_BINARY, "sweep", "small.json", "--out", "launched", "--resume"},
                    {.folder = folder_.path(),
                     .environment = {{"SHARDLAB_CONFIGS", ""},
                                     {"OMPI_COMM_WORLD_RANK", rank},
                                     {"OMPI_COMM_WORLD_SIZE", "2"}}});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    spoke += run.out.empty() ? 0 : 1;
  }
  EXPECT_EQ(spoke, 1);
}

TEST_F(Sweeps, ARunThatAsksForOtherCountsIsAnother) {
  const std::string suite = R"q({"schema": "shardlab/suite/1", "name": "one", "questions": [
    {"id": "a", "kind": "plan", "mesh": "8", "tensor": "f32[64]", "from": "S(0)", "to": "R", "count": COUNT}]})q";
  folder_.write("one.json", replaced(suite, "COUNT", "9"));
  folder_.write("e.json", R"q({"schema": "shardlab/experiment/1", "topologies": ["h100"],
    "suites": ["./one.json"], "stacks": ["dtensor-v3"]})q");
  EXPECT_EQ(sweep({"--out", "out"}, "e.json").exit_code, 0);
  EXPECT_EQ(sweep({"--out", "out", "--resume"}, "e.json").exit_code, 0);
  folder_.write("one.json", replaced(suite, "COUNT", "5"));
  EXPECT_EQ(sweep({"--out", "out", "--resume"}, "e.json").exit_code, 3);
}

TEST_F(Sweeps, AChangeOfStacksLeavesTheReferenceAsItIs) {
  const auto rows_of = [this](const std::string& out) {
    std::vector<json> rows;
    std::istringstream lines(results(out));
    for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
    return rows;
  };
  ASSERT_EQ(sweep({"--out", "plain"}).exit_code, 0);
  ASSERT_EQ(sweep({"--out", "changed", "--set", "stack.transition_us=3"}).exit_code, 0);
  const std::vector<json> plain = rows_of("plain");
  const std::vector<json> changed = rows_of("changed");
  ASSERT_EQ(plain.size(), changed.size());
  EXPECT_NE(changed[0].dump().find("\"dtensor-v3+set\""), std::string::npos);
  std::size_t compared = 0;
  for (std::size_t i = 1; i < plain.size(); ++i) {
    const json best = plain[i].value("best_us", json());
    if (best.is_null()) continue;
    ++compared;
    EXPECT_EQ(changed[i].value("best_us", json()), best) << plain[i];
  }
  EXPECT_GT(compared, 100U);
}

TEST_F(Sweeps, AChangeOfTopologiesIsPartOfTheirNames) {
  const ProcessResult run =
      sweep({"--out", "changed", "--set", "devices_per_host=2", "--format", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  std::set<std::string> names;
  const json out = json::parse(run.out);
  for (const json& row : out["summary"]) names.insert(row["topology"]);
  EXPECT_EQ(names, (std::set<std::string>{"a100+set", "h100+set"}));
  EXPECT_EQ(results("changed").find("\"h100\""), std::string::npos);
}

TEST_F(Sweeps, RecordedChoicesTellNothingOfTies) {
  ASSERT_EQ(run_shardlab({"record", "--suite", "ops-small", "--stack", "dtensor-v3", "--out",
                          "own.choices.json"},
                         folder_.path())
                .exit_code,
            0);
  folder_.write("recorded.json", R"({"schema": "shardlab/experiment/1", "topologies": ["h100"],
    "suites": ["ops-small"], "stacks": ["dtensor-v3", "own.choices.json"]})");
  const ProcessResult run = sweep({"--out", "recorded", "--format", "json"}, "recorded.json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json summary = json::parse(run.out)["summary"];
  EXPECT_GT(summary[0]["ties"], 0);
  EXPECT_TRUE(summary[1]["ties"].is_null()) << summary;
  EXPECT_TRUE(summary[1]["order_dependent"].is_null()) << summary;
}

TEST_F(Sweeps, ASeedDrawsOtherQuestions) {
  const std::string one = whole("small.json");
  const auto seeded = [&](const std::string& out, const std::string& seed) {
    EXPECT_EQ(sweep({"--out", out, "--set", "experiment.seed=" + seed}).exit_code, 0);
    const std::string text = results(out);
    return text.substr(text.find('\n'));
  };
  const std::string five = seeded("five", "5");
  EXPECT_EQ(five, seeded("again", "5"));
  EXPECT_NE(five, seeded("six", "6"));
  EXPECT_EQ(sweep({"--out", "option", "--seed", "5"}).exit_code, 0);
  EXPECT_EQ(results("option"), results("five"));
  EXPECT_NE(five, one.substr(one.find('\n')));
}

}  // namespace sweep_test
}  // namespace shardlab::testing_support
