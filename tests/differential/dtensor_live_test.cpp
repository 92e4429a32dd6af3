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

struct LiveQuestions {
  std::string kind;
  int count;
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
  const auto& [kind, count, family] = GetParam();
  const std::uint64_t seed = fresh_seed();
  const fs::path out =
      fs::temp_directory_path() / ("shardlab-live-" + kind + family + "-" + std::to_string(seed) +
                                   "-" + std::to_string(std::random_device{}()) + ".json");
  const std::string command = "\"" + python +
                              "\" \"" SHARDLAB_SOURCE_DIR
                              "/scripts/gen_golden_dtensor.py\" --random --kind " +
                              kind + (family.empty() ? "" : " --family " + family) + " --count " +
                              std::to_string(count) + " --seed " + std::to_string(seed) +
                              " --devices-per-host 1,1,8 --out \"" + out.string() + "\" 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const nlohmann::json file = read_json_file(out);
  fs::remove(out);
  const GoldenReport report = kind == "costs"   ? compare_costs(file)
                              : kind == "plans" ? compare_plans(file)
                                                : compare_selections(file);
  EXPECT_GE(report.compared + report.skipped, static_cast<std::size_t>(count));
  EXPECT_EQ(report.differences.size(), 0U)
      << "of " << report.compared << " compared; repeat with SHARDLAB_TEST_SEED=" << seed;
  for (std::size_t i = 0; i < report.differences.size() && i < 8; ++i) {
    ADD_FAILURE() << report.differences[i];
  }
  std::printf("PyTorch %s, %s %s: %zu compared, seed %llu\n",
              std::string(release_of(file).torch).c_str(), kind.c_str(), family.c_str(),
              report.compared, static_cast<unsigned long long>(seed));
}

INSTANTIATE_TEST_SUITE_P(PyTorch, DTensorLive, testing::ValuesIn(all_questions()),
                         [](const auto& test) { return test.param.kind + test.param.family; });

}  // namespace dtensor_live_test
}  // namespace shardlab::testing_support
