// The stack of a release answers as the PyTorch of that release that runs beside it: thousands of
// new random questions in each run, with a printed seed. The interpreter decides the release.
// Skipped where PyTorch is not installed (scripts/setup --with-oracle installs 2.13.0).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <tuple>

#include "runner/config/configs.h"
#include "tests/support/dtensor_golden.h"
#include "tests/support/oracle.h"

namespace shardlab::testing_support {
namespace dtensor_live_test {

namespace fs = std::filesystem;

std::uint64_t fresh_seed() {
  if (const char* given = std::getenv("SHARDLAB_TEST_SEED"); given != nullptr) {
    return std::strtoull(given, nullptr, 10);
  }
  return std::random_device{}() % 1'000'000;
}

// SHARDLAB_TEST_QUESTIONS asks that many questions of each kind and family instead of `usual`.
// After a change of rules, or for a new release, thousands reach every op of a large family.
int count_of_questions(int usual) {
  const char* given = std::getenv("SHARDLAB_TEST_QUESTIONS");
  return given == nullptr ? usual : std::max(1, std::atoi(given));
}

struct LiveQuestions {
  std::string kind;
  int count;                // usually
  std::string family = {};  // which family of ops selections are about
};
void PrintTo(const LiveQuestions& questions, std::ostream* out) {
  *out << questions.kind << " " << questions.family;
}

// Selections family by family: scripts/golden_ops has one module for each.
std::vector<LiveQuestions> all_questions() {
  std::vector<LiveQuestions> all = {{"costs", 1000}, {"plans", 500}};
  for (const auto& entry : fs::directory_iterator(SHARDLAB_SOURCE_DIR "/scripts/golden_ops")) {
    const std::string family = entry.path().stem().string();
    if (entry.path().extension() != ".py" || family.starts_with('_')) continue;
    all.push_back({"selections", 150, family});
  }
  std::sort(all.begin(), all.end(), [](const LiveQuestions& a, const LiveQuestions& b) {
    return std::tie(a.kind, a.family) < std::tie(b.kind, b.family);
  });
  return all;
}

class DTensorLive : public testing::TestWithParam<LiveQuestions> {};

TEST_P(DTensorLive, AnswersFreshRandomQuestionsAsPyTorchDoes) {
  const std::string python = oracle_python();
  if (python.empty()) {
    GTEST_SKIP() << "no PyTorch: set SHARDLAB_ORACLE_PYTHON or run scripts/setup --with-oracle";
  }
  const auto& [kind, usual_count, family] = GetParam();
  const int count = count_of_questions(usual_count);
  const std::uint64_t seed = fresh_seed();
  // Many questions make several files.
  const fs::path folder =
      fs::temp_directory_path() / ("shardlab-live-" + kind + family + "-" + std::to_string(seed) +
                                   "-" + std::to_string(std::random_device{}()));
  const std::string command =
      "\"" + python +
      "\" \"" SHARDLAB_SOURCE_DIR "/scripts/gen_golden_dtensor.py\" --random --kind " + kind +
      (family.empty() ? "" : " --family " + family) + " --count " + std::to_string(count) +
      " --seed " + std::to_string(seed) + " --devices-per-host 1,1,8 --out \"" +
      (folder / "answers.json").string() + "\" 2>&1";
  fs::create_directory(folder);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  GoldenReport report;
  std::string_view torch;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const nlohmann::json file = read_json_file(entry.path());
    report.add(kind == "costs"   ? compare_costs(file)
               : kind == "plans" ? compare_plans(file)
                                 : compare_selections(file));
    torch = release_of(file).torch;
  }
  fs::remove_all(folder);
  EXPECT_GE(report.compared + report.skipped, static_cast<std::size_t>(count));
  EXPECT_EQ(report.differences.size(), 0U)
      << "of " << report.compared << " compared; repeat with SHARDLAB_TEST_SEED=" << seed;
  for (std::size_t i = 0; i < report.differences.size() && i < 8; ++i) {
    ADD_FAILURE() << report.differences[i];
  }
  std::printf("PyTorch %s, %s %s: %zu compared, seed %llu\n", std::string(torch).c_str(),
              kind.c_str(), family.c_str(), report.compared, static_cast<unsigned long long>(seed));
}

INSTANTIATE_TEST_SUITE_P(PyTorch, DTensorLive, testing::ValuesIn(all_questions()),
                         [](const auto& test) { return test.param.kind + test.param.family; });

}  // namespace dtensor_live_test
}  // namespace shardlab::testing_support
