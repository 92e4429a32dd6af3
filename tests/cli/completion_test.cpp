// What a shell is told when it completes a word (runner/help/completion.h).
// tests/scripts/completion_test.py asks the shells themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace completion_test {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

struct Answer {
  std::vector<std::string> words;
  std::string last;  // ":files" or ":words"
};

Answer answer_to(std::vector<std::string> words) {
  words.insert(words.begin(), "__complete");
  const ProcessResult result = run_shardlab(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  Answer answer;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    if (!answer.last.empty()) answer.words.push_back(answer.last.substr(0, answer.last.find('\t')));
    answer.last = line;
  }
  return answer;
}

std::vector<std::string> words_for(std::vector<std::string> words) {
  return answer_to(std::move(words)).words;
}

TEST(Completion, OffersEveryCommand) {
  EXPECT_EQ(words_for({""}), command_names());
  EXPECT_EQ(words_for({}), command_names());
  EXPECT_EQ(words_for({"help", ""}), command_names());
  EXPECT_THAT(words_for({"--"}), ElementsAre("--help", "--version"));
}

TEST(Completion, OffersTheNamesOfWhatIsShippedAndFiles) {
  const std::vector<std::pair<std::vector<std::string>, ConfigKind>> places = {
      {{"plan", "--stack", ""}, ConfigKind::kStack},
      {{"compare", "--baseline", ""}, ConfigKind::kStack},
      {{"compare", "--candidate", "x", "--candidate", ""}, ConfigKind::kStack},
      {{"plan", "--topology", ""}, ConfigKind::kTopology},
      {{"ties", "--suite", ""}, ConfigKind::kSuite},
      {{"solve", ""}, ConfigKind::kProgram},
      {{"solve", "mlp", "--recipe", ""}, ConfigKind::kRecipe},
      {{"sweep", ""}, ConfigKind::kExperiment},
      {{"validate", "a.log", ""}, ConfigKind::kMeasurement},
      {{"describe", "stack", ""}, ConfigKind::kStack},
  };
  for (const auto& [words, kind] : places) {
    const Answer answer = answer_to(words);
    EXPECT_EQ(answer.words, shipped().names(kind)) << join(words, " ");
    EXPECT_EQ(answer.last, ":files") << join(words, " ");
  }
  EXPECT_EQ(words_for({"regress", "R03", ""}), shipped().names(ConfigKind::kRegression));
  EXPECT_EQ(answer_to({"regress", ""}).last, ":words");
}

TEST(Completion, KeepsTheOptionInFrontOfItsValue) {
  EXPECT_THAT(words_for({"plan", "--planner=g"}),
              ElementsAre("--planner=greedy", "--planner=graph"));
  EXPECT_THAT(words_for({"plan", "--stack=dtensor-v-"}), ElementsAre("--stack=dtensor-v-compute"));
}

TEST(Completion, KnowsShortNamesOfOps) {
  EXPECT_THAT(words_for({"select", "--op", "_softmax"}), Contains("_softmax"));
  EXPECT_THAT(words_for({"rules", "mm", "aten._safe_softmax."}),
              ElementsAre("aten._safe_softmax.default"));
}

TEST(Completion, OffersOnlyOptionsThatTheCommandReadsAndThatAreNotGiven) {
  const std::vector<std::string> options =
      words_for({"plan", "--mesh", "8", "--set", "devices_per_host=1", "--"});
  EXPECT_THAT(options, Contains("--stack"));
  EXPECT_THAT(options, Contains("--set"));  // may be repeated
  EXPECT_THAT(options, Not(Contains("--mesh")));
  EXPECT_THAT(options, Not(Contains("--jobs")));
}

TEST(Completion, AnOptionOfSeveralValuesEndsAtTheNextOption) {
  const std::vector<std::string> words = {"select", "--inputs", "f32[8,8] R"};
  std::vector<std::string> next = words;
  next.emplace_back("--sta");
  EXPECT_THAT(words_for(next), ElementsAre("--stack"));
  next = words;
  next.emplace_back("");
  EXPECT_THAT(words_for(next), IsEmpty());
}

TEST(Completion, OffersNothingWhereAnythingMayStandOrNothingIsKnown) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"plan", "--set", ""}, {"plan", "--mesh", ""}, {"plam", ""}, {"describe", "stac", ""}}) {
    const Answer answer = answer_to(words);
    EXPECT_THAT(answer.words, IsEmpty()) << join(words, " ");
    EXPECT_EQ(answer.last, ":words") << join(words, " ");
  }
}

TEST(Completion, EachShellHasAScript) {
  for (const char* shell : {"bash", "fish", "zsh"}) {
    const ProcessResult result = run_shardlab({"completion", shell});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_NE(result.out.find("__complete"), std::string::npos) << shell;
    EXPECT_TRUE(result.out ==
                read_text(std::string(SHARDLAB_SOURCE_DIR "/runner/help/shardlab.") + shell));
  }
}

}  // namespace completion_test
}  // namespace shardlab::testing_support
