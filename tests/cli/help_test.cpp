// Help: every command of the table (runner/commands/commands.h) explains itself, with an example
// that works.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace help_test {

std::string help_of(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  words.emplace_back("--help");
  const ProcessResult result = run_shardlab(words);
  EXPECT_EQ(result.exit_code, 0) << join(words, " ");
  EXPECT_EQ(result.err, "") << join(words, " ");
  return result.out;
}

// The files that the examples of a command take from earlier runs.
void write_what_the_example_reads(const std::string& command, const TemporaryFolder& folder) {
  ProcessResult result;
  result.exit_code = 0;
  if (command == "solve") {
    std::filesystem::copy(SHARDLAB_SOURCE_DIR "/configs/programs/mlp.json",
                          folder.path() / "llama.json");
  } else if (command == "apply") {
    std::filesystem::copy(SHARDLAB_SOURCE_DIR "/configs/programs/mlp.json",
                          folder.path() / "llama.json");
    result =
        run_shardlab({"solve", "llama.json", "--mesh", "2x4", "--format", "json"}, folder.path());
    folder.write("plan.json", result.out);
  } else if (command == "solve-network") {
    result = run_shardlab({"solve", "mlp", "--mesh", "2", "--export-problem", "network.cfn"},
                          folder.path());
  } else if (command == "report") {
    result = run_shardlab({"simulate", "--mesh", "2", "--tensor", "f32[4]", "--from", "R", "--to",
                           "S(0)", "--out", "run"},
                          folder.path());
  }
  ASSERT_EQ(result.exit_code, 0) << result.err;
}

class Help : public testing::TestWithParam<std::string> {};

TEST_P(Help, ShowsAnExampleFirstThenOptions) {
  const std::string name = GetParam();
  const std::string help = help_of({name});
  const std::size_t example = help.find("\n  shardlab " + name + " ");
  const std::size_t options = help.find("\nOptions:");
  ASSERT_NE(example, std::string::npos) << help;
  ASSERT_NE(options, std::string::npos) << help;
  EXPECT_LT(example, options);
  for (const char* common : {"--format", "--set", "--jobs", "--seed", "--quiet", "--no-timing"}) {
    EXPECT_NE(help.find(common), std::string::npos) << common;
  }
}

TEST_P(Help, ItsExampleWorks) {
  const std::string name = GetParam();
  if (name == "measure") GTEST_SKIP() << "its example needs GPUs; measure_test.cpp has others";
  const TemporaryFolder folder;
  ASSERT_NO_FATAL_FAILURE(write_what_the_example_reads(name, folder));
  const std::string help = help_of({name});
  const std::size_t begin = help.find("  shardlab ") + 2;
  const std::string example = help.substr(begin, help.find('\n', begin) - begin);
  const std::string command =
      std::string(SHARDLAB_BINARY) + example.substr(std::string("shardlab").size());
  const ProcessResult result =
      run_process({"/bin/sh", "-c", command}, {.folder = folder.path(), .environment = {}});
  EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
  EXPECT_NE(result.out, "");
  EXPECT_EQ(result.err, "");
}

INSTANTIATE_TEST_SUITE_P(Commands, Help, testing::ValuesIn(command_names()),
                         [](const testing::TestParamInfo<std::string>& test) {
                           return replaced(test.param, "-", "_");
                         });

TEST(Program, HelpListsEveryCommandWithItsExample) {
  const std::string help = help_of({});
  for (const std::string& name : command_names()) {
    EXPECT_NE(help.find("\n  " + name + " "), std::string::npos) << name;
    EXPECT_NE(help.find("shardlab " + name + " "), std::string::npos) << name;
  }
}

}  // namespace help_test
}  // namespace shardlab::testing_support
