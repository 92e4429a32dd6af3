// A disk that fills up while a command writes: the command says so and exits with 4, and nothing
// half stands under a final name. `ulimit -f` stands in for the disk. Memory that ends is such an
// error, too.
#include <gtest/gtest.h>

#include <set>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace full_disk_test {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// The program with its words, where no file may grow beyond 512 B (as dash counts) or 1 KiB (bash).
ProcessResult run_on_full_disk(const Words& words, const fs::path& folder) {
  Words command = {"/bin/sh", "-c", "ulimit -f 1 && exec \"$0\" \"$@\"", SHARDLAB_BINARY};
  command.insert(command.end(), words.begin(), words.end());
  return run_process(command, {.folder = folder, .environment = {{"SHARDLAB_CONFIGS", ""}}});
}

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) files.insert(fs::relative(entry.path(), folder).string());
  }
  return files;
}

class FullDisk : public testing::Test {
 protected:
  void SetUp() override {
    const ProcessResult plan = run_shardlab({"plan", "--mesh", "8", "--tensor", "f32[8]", "--from",
                                             "S(0)", "--to", "R", "--out", "run"},
                                            folder.path());
    ASSERT_EQ(plan.exit_code, 0) << plan.err;
    const ProcessResult solved =
        run_shardlab({"solve", "mlp", "--mesh", "4", "--format", "json"}, folder.path());
    ASSERT_EQ(solved.exit_code, 0) << solved.err;
    folder.write("plan.json", solved.out);
  }
  TemporaryFolder folder;
};

TEST_F(FullDisk, LeavesNothingHalf) {
  const std::set<std::string> before = files_in(folder.path());
  const std::string log = SHARDLAB_SOURCE_DIR "/docs/samples/all_reduce-2x8.txt";
  for (const Words& words :
       {Words{"report", "run/record.json", "--out", "again"},
        Words{"plan", "--mesh", "8", "--tensor", "f32[8]", "--from", "S(0)", "--to", "R", "--out",
              "p"},
        Words{"solve", "mlp", "--mesh", "4", "--out", "s"},
        Words{"solve", "mlp", "--mesh", "4", "--export-problem", "p.cfn"},
        Words{"program", "llama3-8b", "--layers", "1", "--out", "program.json"},
        Words{"apply", "mlp", "--plan", "plan.json", "--out", "sharded.py"},
        Words{"record", "--suite", "ops-small", "--stack", "dtensor-v3", "--out", "c.choices.json"},
        Words{"compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v4", "--suite",
              "ops-small", "--out", "c"},
        Words{"simulate", "mlp", "--mesh", "4", "--trace", "trace.json"},
        Words{"calibrate", log, "--model", "piecewise", "--out", "stack.json"}}) {
    const ProcessResult result = run_on_full_disk(words, folder.path());
    EXPECT_EQ(result.exit_code, 4) << join(words, " ") << "\n" << result.err;
    EXPECT_NE(result.err.find("can't be written: File too large"), std::string::npos)
        << join(words, " ") << "\n"
        << result.err;
    EXPECT_EQ(files_in(folder.path()), before) << join(words, " ");
  }
}

// The old report stays whole where the new one does not fit.
TEST_F(FullDisk, KeepsTheOldFiles) {
  const std::string page = read_text(folder.path() / "run/report.html");
  const std::string record = read_text(folder.path() / "run/record.json");
  const ProcessResult result = run_on_full_disk(
      {"plan", "--mesh", "4", "--tensor", "f32[8]", "--from", "S(0)", "--to", "R", "--out", "run"},
      folder.path());
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(read_text(folder.path() / "run/report.html"), page);
  EXPECT_EQ(read_text(folder.path() / "run/record.json"), record);
}

// A sweep writes its part row by row. What was written is kept, and the run goes on from there.
TEST_F(FullDisk, OfASweepIsResumed) {
  folder.write("small.json", R"({"schema": "shardlab/experiment/1", "topologies": ["h100"],
    "suites": ["ops-small"], "stacks": ["dtensor-v3"]})");
  const ProcessResult full =
      run_on_full_disk({"sweep", "small.json", "--out", "out"}, folder.path());
  EXPECT_EQ(full.exit_code, 4) << full.err;
  EXPECT_NE(full.err.find("can't be written: File too large"), std::string::npos) << full.err;
  EXPECT_FALSE(fs::exists(folder.path() / "out/results.jsonl"));
  EXPECT_EQ(
      run_shardlab({"sweep", "small.json", "--out", "out", "--resume"}, folder.path()).exit_code,
      0);
  EXPECT_EQ(run_shardlab({"sweep", "small.json", "--out", "whole"}, folder.path()).exit_code, 0);
  EXPECT_EQ(read_text(folder.path() / "out/results.jsonl"),
            read_text(folder.path() / "whole/results.jsonl"));
}

// Sanitizers reserve more addresses than such a limit leaves.
#ifndef SHARDLAB_SANITIZED

ProcessResult run_in_little_memory(const Words& words) {
  Words command = {"/bin/sh", "-c", "ulimit -v 400000 && exec \"$0\" \"$@\"", SHARDLAB_BINARY};
  command.insert(command.end(), words.begin(), words.end());
  return run_process(command, {.folder = {}, .environment = {{"SHARDLAB_CONFIGS", ""}}});
}

constexpr const char* kNoMemory =
    "shardlab: the system gives no more memory; valid: a smaller question, fewer threads (--jobs) "
    "or "
    "a higher limit (ulimit -v)\n";

TEST(FullMemory, IsAnErrorOfTheEnvironment) {
  const std::string inputs = "bf16[8192,8192] S(0)S(0)RRRRR";
  const ProcessResult result =
      run_in_little_memory({"select", "--op", "aten.mm.default", "--mesh", "2x2x2x2x2x2x2",
                            "--inputs", inputs, inputs, "--stack", "alpha-beta"});
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(result.err, kNoMemory);
}

// The stacks of so many threads take most of the addresses. How many threads start, and whether the
// rest is enough for them, depends on the machine.
TEST(FullMemory, LeavesNoThreadBehind) {
  const ProcessResult result =
      run_in_little_memory({"solve", "transformer-block", "--mesh", "2x2x2", "--jobs", "200"});
  if (result.exit_code == 0) return;
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(result.err, kNoMemory);
}

#endif

}  // namespace full_disk_test
}  // namespace shardlab::testing_support
