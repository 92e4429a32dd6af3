// The stack of each release gives the committed answers of its PyTorch
// (scripts/gen_golden_dtensor.py).
#include "tests/support/dtensor_golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "runner/config/configs.h"

namespace shardlab::testing_support {
namespace dtensor_golden_test {

// How many answers of a release are committed, at least.
struct Recorded {
  Release release;
  std::size_t costs;
  std::size_t plans;
  std::size_t selections;
};
constexpr std::array kRecorded = {Recorded{Release::k2_13, 10'000, 4'000, 13'000},
                                  Recorded{Release::k2_14, 1'000, 400, 1'400},
                                  Recorded{Release::k2_15, 4'000, 1'500, 4'600}};
static_assert(kRecorded.size() == kReleases.size(), "every release has recorded answers");

const ReleaseEntry& entry_of(const Recorded& recorded) {
  return kReleases[static_cast<std::size_t>(recorded.release)];
}
void PrintTo(const Recorded& recorded, std::ostream* out) { *out << entry_of(recorded).torch; }

class DTensorGolden : public testing::TestWithParam<Recorded> {
 protected:
  // The folder of 2.15.0 is 2.15.
  static std::filesystem::path folder() {
    const std::string torch(entry_of(GetParam()).torch);
    return std::filesystem::path(SHARDLAB_SOURCE_DIR "/tests/differential/golden") /
           torch.substr(0, torch.rfind('.'));
  }
  static nlohmann::json golden(const std::string& name) {
    nlohmann::json file = read_json_file(folder() / name);
    EXPECT_EQ(release_of(file).release, GetParam().release) << name;
    return file;
  }
};

void expect_equal(const GoldenReport& report, std::size_t at_least) {
  EXPECT_GE(report.compared, at_least);
  EXPECT_EQ(report.differences.size(), 0U) << "of " << report.compared << " compared";
  for (std::size_t i = 0; i < std::min<std::size_t>(report.differences.size(), 8); ++i) {
    ADD_FAILURE() << report.differences[i];
  }
}

TEST_P(DTensorGolden, CostsEqualPyTorchGreedyAndGraph) {
  expect_equal(compare_costs(golden("costs.json")), GetParam().costs);
}

TEST_P(DTensorGolden, PlansEqualPyTorchStepForStepAndMergedLikewise) {
  expect_equal(compare_plans(golden("plans.json")), GetParam().plans);
}

TEST_P(DTensorGolden, CostsOfOpaqueStridedShardsEqualPyTorch) {
  expect_equal(compare_costs(golden("costs_opaque_strided.json")), GetParam().costs / 20);
}

TEST_P(DTensorGolden, StrategySetsAndChoicesEqualPyTorch) {
  // Counted over all families, and for single ones.
  GoldenReport all;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("selections")) continue;
    GoldenReport report = compare_selections(golden(name));
    all.compared += report.compared;
    for (std::string& difference : report.differences) {
      all.differences.push_back(name + ": " + std::move(difference));
    }
  }
  expect_equal(all, GetParam().selections);
}

INSTANTIATE_TEST_SUITE_P(PyTorch, DTensorGolden, testing::ValuesIn(kRecorded),
                         [](const auto& test) {
                           std::string name(entry_of(test.param).torch);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace dtensor_golden_test
}  // namespace shardlab::testing_support
