// Programs are given exact numbers, indices that can be looked up, and the same values for the same
// seed.
#include "strategies/programs/program_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "strategies/programs/built_in_programs.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {
namespace program_data_test {

class ProgramData : public testing::Test {
 protected:
  [[nodiscard]] std::vector<double> values_of(NodeKind kind, const DataOptions& data = {}) const {
    const auto node = std::find_if(program_.nodes.begin(), program_.nodes.end(),
                                   [&](const ProgramNode& n) { return n.kind == kind; });
    return as_doubles(source_value(*memory_, program_,
                                   static_cast<std::size_t>(node - program_.nodes.begin()), data));
  }
  std::shared_ptr<HostMemory> memory_ = HostMemory::make(std::int64_t{1} << 30U);
  Program program_ = find_built_in_program("gpt2-xl")->make(
      {.batch = 8, .seqlen = 16, .sizes = {.width = 32, .heads = 4, .ffn = 32, .vocabulary = 24}});
};

TEST_F(ProgramData, TokensAreAllOfTheVocabularyAndNoMore) {
  const std::vector<double> tokens = values_of(NodeKind::kInput);
  EXPECT_EQ(tokens.size(), 8U * 16U);
  const std::set<double> seen(tokens.begin(), tokens.end());
  EXPECT_EQ(*seen.begin(), 0.0);
  EXPECT_EQ(*seen.rbegin(), 23.0);
  EXPECT_GT(seen.size(), 20U);
}

TEST_F(ProgramData, BuffersHoldConsecutiveNumbers) {
  const std::vector<double> positions = values_of(NodeKind::kBuffer);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    EXPECT_EQ(positions[i], static_cast<double>(i));
  }
}

TEST_F(ProgramData, WholeNumbersAreQuarters) {
  const std::vector<double> values = values_of(NodeKind::kParameter);
  std::set<double> seen;
  for (const double value : values) {
    EXPECT_EQ(4 * value, std::round(4 * value));
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 7U);
  EXPECT_EQ(*seen.begin(), -0.75);
}

TEST_F(ProgramData, TheSeedAndTheKindOfValuesAreUsed) {
  const std::vector<double> one = values_of(NodeKind::kTangent, {.seed = 1});
  EXPECT_EQ(values_of(NodeKind::kTangent, {.seed = 1}), one);
  EXPECT_NE(values_of(NodeKind::kTangent, {.seed = 2}), one);
  const std::vector<double> uniform =
      values_of(NodeKind::kTangent, {.values = DataValues::kUniform});
  EXPECT_TRUE(std::any_of(uniform.begin(), uniform.end(),
                          [](double value) { return 4 * value != std::round(4 * value); }));
  EXPECT_TRUE(std::all_of(uniform.begin(), uniform.end(),
                          [](double value) { return std::abs(value) <= 1.0; }));
}

}  // namespace program_data_test
}  // namespace shardlab
