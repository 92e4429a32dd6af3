// The stack dtensor-2.13 gives the committed answers of PyTorch 2.13.0 (scripts/gen_golden_dtensor.py).
#include "tests/support/dtensor_golden.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "runner/config/configs.h"

namespace shardlab::testing_support {
namespace dtensor_golden_test {

nlohmann::json golden(const std::string& name) {
  return read_json_file(std::string(SHARDLAB_SOURCE_DIR "/tests/differential/golden/2.13/") + name);
}

void expect_equal(const GoldenReport& report, std::size_t at_least) {
  EXPECT_GE(report.compared, at_least);
  EXPECT_EQ(report.differences.size(), 0U) << "of " << report.compared << " compared";
  for (std::size_t i = 0; i < std::min<std::size_t>(report.differences.size(), 8); ++i) {
    ADD_FAILURE() << report.differences[i];
  }
}

TEST(DTensorGolden, CostsEqualPyTorchGreedyAndGraph) {
  expect_equal(compare_costs(golden("costs.json")), 10'000);
}

TEST(DTensorGolden, PlansEqualPyTorchStepForStepAndMergedLikewise) {
  expect_equal(compare_plans(golden("plans.json")), 4'000);
}

TEST(DTensorGolden, StrategySetsAndChoicesEqualPyTorch) {
  // Counted over all families, and for single ones.
  GoldenReport all;
  for (const auto& entry :
       std::filesystem::directory_iterator(SHARDLAB_SOURCE_DIR "/tests/differential/golden/2.13")) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("selections")) continue;
    GoldenReport report = compare_selections(golden(name));
    all.compared += report.compared;
    for (std::string& difference : report.differences) {
      all.differences.push_back(name + ": " + std::move(difference));
    }
  }
  expect_equal(all, 2'000);
}

}  // namespace dtensor_golden_test
}  // namespace shardlab::testing_support
