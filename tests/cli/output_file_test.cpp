// Outputs that would take the place of what a command reads.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/messages.h"
#include "tests/support/process.h"

namespace shardlab {
namespace output_file_test {

using namespace testing_support;
using Words = std::vector<std::string>;

struct Replaced {
  Words words;  // FILE stands for the file
  std::string option;
  std::string text;
};
void PrintTo(const Replaced& c, std::ostream* out) { *out << c.words.front(); }
class OutputFile : public testing::TestWithParam<Replaced> {};

TEST_P(OutputFile, IsNoneThatTheCommandReads) {
  const TemporaryFolder folder;
  folder.write("mine.txt", GetParam().text);
  std::filesystem::create_symlink("mine.txt", folder.path() / "link.txt");
  for (const std::string name : {"mine.txt", "./mine.txt", "link.txt"}) {
    Words words = GetParam().words;
    words.insert(words.begin() + 1, "mine.txt");
    words.insert(words.end(), {GetParam().option, name});
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, 2) << join(words, " ");
    EXPECT_NE(result.err.find("shardlab: " + GetParam().option + ": found \"" + name +
                              "\", which this command reads; valid: another file\n"),
              std::string::npos)
        << result.err;
    EXPECT_EQ(read_text(folder.path() / "mine.txt"), GetParam().text);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OutputFile,
    testing::Values(Replaced{{"calibrate", "--topology", "h100", "--quiet"},
                             "--out",
                             read_text(SHARDLAB_SOURCE_DIR "/docs/samples/all_reduce-2x8.txt")},
                    Replaced{{"simulate", "--mesh", "2", "--stack", "alpha-beta", "--data", "off"},
                             "--trace",
                             read_text(SHARDLAB_SOURCE_DIR "/configs/programs/mlp.json")},
                    Replaced{{"solve", "--mesh", "2"},
                             "--export-problem",
                             read_text(SHARDLAB_SOURCE_DIR "/configs/programs/mlp.json")}));

}  // namespace output_file_test
}  // namespace shardlab
