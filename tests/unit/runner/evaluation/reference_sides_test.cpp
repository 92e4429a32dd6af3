#include "runner/evaluation/reference_sides.h"

#include <gtest/gtest.h>

#include "runner/config/configs.h"

namespace shardlab {
namespace reference_sides_test {

std::vector<std::string> sides(const std::string& reference,
                               const std::vector<std::string>& names) {
  const ConfigStore store(configs_root(), {});
  std::vector<Stack> stacks;
  for (const std::string& name : names) stacks.push_back(store.stack(name));
  return reference_sides(store.stack(reference), stacks);
}

using Lines = std::vector<std::string>;

TEST(ReferenceSides, ACandidateWithTheReferencesPartsIsSaid) {
  EXPECT_EQ(sides("alpha-beta", {"dtensor-v3", "dtensor-v-compute"}),
            Lines{"shares the transitions (v-compute) and the compute model (roofline) of "
                  "dtensor-v-compute, but not of dtensor-v3 (v3, none), so it sides with what "
                  "follows from them; ask another --reference too"});
}

TEST(ReferenceSides, SoIsABaseline) {
  EXPECT_EQ(sides("alpha-beta", {"dtensor-v-compute", "dtensor-v3"}),
            Lines{"shares the transitions (v-compute) and the compute model (roofline) of "
                  "dtensor-v-compute, but not of dtensor-v3 (v3, none), so it sides with what "
                  "follows from them; ask another --reference too"});
}

TEST(ReferenceSides, PartsThatBothOrNeitherHaveAreNot) {
  EXPECT_EQ(sides("alpha-beta", {"dtensor-v3", "dtensor-v4"}), Lines{});
  EXPECT_EQ(sides("calibrated-h100", {"alpha-beta", "nccl"}), Lines{});
  EXPECT_EQ(sides("alpha-beta", {"dtensor-v3", "alpha-beta"}), Lines{}) << "the reference itself";
}

TEST(ReferenceSides, EachCandidateHasItsLine) {
  EXPECT_EQ(sides("alpha-beta", {"dtensor-v3", "dtensor-v4", "dtensor-v-compute"}).size(), 1U);
}

}  // namespace reference_sides_test
}  // namespace shardlab
