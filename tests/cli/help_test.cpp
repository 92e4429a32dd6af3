// Help: every command of the table (runner/commands/commands.h) explains itself, with an example
// that works.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace help_test {

#ifdef SHARDLAB_SANITIZED
constexpr double kSlowdown = 10.0;
#else
constexpr double kSlowdown = 1.0;
#endif

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

// The options of all commands that many of them read, and those that read each.
const std::map<std::string, std::set<std::string>> kReaders = {
    {"--seed", {"select", "simulate", "ties", "compare", "record", "measure", "sweep", "demo"}},
    {"--jobs",
     {"simulate", "ties", "rules", "compare", "record", "regress", "validate", "calibrate", "solve",
      "solve-network", "sweep", "demo"}},
    {"--set",
     {"plan", "select", "simulate", "ties", "compare", "record", "regress", "validate", "calibrate",
      "measure", "solve", "apply", "step", "sweep", "describe", "demo"}},
};

class Help : public testing::TestWithParam<std::string> {};

TEST_P(Help, ShowsAnExampleFirstThenOptions) {
  const std::string name = GetParam();
  const std::string help = help_of({name});
  const std::size_t example = help.find("\n  shardlab " + name + " ");
  const std::size_t options = help.find("\nOptions:");
  ASSERT_NE(example, std::string::npos) << help;
  ASSERT_NE(options, std::string::npos) << help;
  EXPECT_LT(example, options);
  if (name == "help" || name == "completion") return;
  for (const char* common : {"\n  --format ", "\n  --quiet ", "\n  --no-timing "}) {
    EXPECT_NE(help.find(common), std::string::npos) << common;
  }
  for (const auto& [option, readers] : kReaders) {
    EXPECT_EQ(help.find("\n  " + option + " ") != std::string::npos, readers.contains(name))
        << option;
  }
}

TEST_P(Help, EndsWithTheMeaningOfTheExitCodes) {
  const std::string help = help_of({GetParam()});
  const std::size_t begin = help.find("\n\nExit codes:\n");
  ASSERT_NE(begin, std::string::npos) << help;
  EXPECT_EQ(
      help.substr(begin + 2),
      "Exit codes:\n"
      "  0    done\n"
      "  1    a gate said no: a case failed, a bound was passed, a verification failed; the "
      "result is printed first\n"
      "  2    the command line is wrong\n"
      "  3    a file is wrong\n"
      "  4    the environment lacks something: a GPU, NCCL, PyTorch, memory, space on the disk\n"
      "  5    a bug in shardlab\n"
      "  130  Ctrl-C ended the command; those that ask many questions print first what they "
      "have\n");
}

TEST_P(Help, IsWhatHelpWithItsNamePrints) {
  const ProcessResult result = run_shardlab({"help", GetParam()});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, help_of({GetParam()}));
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

// Runs a command line of a page as a shell would, and returns how many seconds it took.
double seconds_of(std::string_view command) {
  const TemporaryFolder folder;
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = run_process(
      {"/bin/sh", "-c",
       std::string(SHARDLAB_BINARY) + std::string(command.substr(std::string("shardlab").size()))},
      {.folder = folder.path(), .environment = {}});
  EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
  EXPECT_NE(result.out, "") << command;
  EXPECT_EQ(result.err, "") << command;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(StartPage, IsPrintedWhereNothingIsAskedAndBeginsWithThreeThingsThatWork) {
  const ProcessResult page = run_shardlab({});
  EXPECT_EQ(page.exit_code, 0);
  EXPECT_EQ(page.err, "");
  std::size_t at = page.out.find("\nThree things to try:\n");
  ASSERT_NE(at, std::string::npos) << page.out;
  ASSERT_EQ(things_to_try().size(), 3U);
  for (const Trial& trial : things_to_try()) {
    const std::size_t next = page.out.find("\n  " + std::string(trial.command) + "\n", at);
    ASSERT_NE(next, std::string::npos) << trial.command << "\n" << page.out;
    at = next;
    EXPECT_LT(seconds_of(trial.command), 20.0 * kSlowdown) << trial.command;
  }
  EXPECT_LT(at, page.out.find(name_of(Purpose::kDecision)));
}

TEST(StartPage, ListsEveryCommandBelowItsPurpose) {
  const std::string page = run_shardlab({}).out;
  for (const CommandRow& row : all_commands()) {
    const std::size_t title = page.find("\n" + std::string(name_of(row.purpose)) + ":\n");
    ASSERT_NE(title, std::string::npos) << row.name;
    const std::size_t line = page.find("\n  " + std::string(row.name) + " ", title);
    EXPECT_LT(line, page.find("\n\n", title)) << row.name;
  }
}

TEST(StartPage, IsNoWiderThanATerminal) {
  std::istringstream lines(run_shardlab({}).out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 110U) << line;
}

TEST(Program, HelpWithoutACommandIsTheHelpOfTheProgram) {
  const ProcessResult result = run_shardlab({"help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, help_of({}));
  EXPECT_NE(result.out.find("\n\nExit codes:\n  0    done\n"), std::string::npos);
}

TEST(Program, HelpListsEveryCommandWithItsExample) {
  const std::string help = help_of({});
  for (const std::string& name : command_names()) {
    EXPECT_NE(help.find("\n  " + name + " "), std::string::npos) << name;
    EXPECT_NE(help.find("shardlab " + name + " "), std::string::npos) << name;
  }
}

}  // namespace help_test
}  // namespace shardlab::testing_support
