#include "runner/evaluation/reference_sides.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
            Lines{"has the transitions (v-compute) and the compute model (roofline) of "
                  "dtensor-v-compute, and not of dtensor-v3 (v3, none), so its verdict is "
                  "no evidence about flips that come from this alone"});
}

TEST(ReferenceSides, SoIsABaseline) {
  EXPECT_EQ(sides("alpha-beta", {"dtensor-v-compute", "dtensor-v3"}),
            Lines{"has the transitions (v-compute) and the compute model (roofline) of "
                  "dtensor-v-compute, and not of dtensor-v3 (v3, none), so its verdict is "
                  "no evidence about flips that come from this alone"});
}

TEST(ReferenceSides, PartsThatBothOrNeitherHaveAreNot) {
  EXPECT_EQ(sides("alpha-beta", {"dtensor-v3", "dtensor-v4"}), Lines{});
  EXPECT_EQ(sides("calibrated-h100", {"alpha-beta", "nccl"}), Lines{});
  EXPECT_EQ(sides("alpha-beta", {"dtensor-v3", "alpha-beta"}), Lines{}) << "the reference itself";
}

TEST(ReferenceSides, AModelWithOtherParametersIsAnotherOne) {
  const ConfigStore store(configs_root(), {});
  nlohmann::json without_pat = {{"base", "nccl"},
                                {"name", "nccl-nopat"},
                                {"collective_model", {{"name", "nccl"}, {"params", {{"pat", 0}}}}}};
  const std::vector<Stack> stacks = {
      store.stack("dtensor-v3"),
      Stack::from_json(without_pat, {"test.json", ""},
                       [&](const std::string& name) { return store.stack(name).to_json(); })};
  Stack reference = store.stack("nccl");
  const Lines lines = reference_sides(reference, stacks);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].find("collective model"), std::string::npos) << lines[0];
  const std::vector<Stack> both = {store.stack("nccl"), stacks[1]};
  reference.name = "judge";
  EXPECT_EQ(
      reference_sides(reference, both),
      Lines{"has the collective model (nccl) of nccl, and not of nccl-nopat (nccl with "
            "other parameters), so its verdict is no evidence about flips that come from this "
            "alone"});
}

TEST(ReferenceSides, EachCandidateHasItsLine) {
  EXPECT_EQ(sides("alpha-beta", {"dtensor-v3", "dtensor-v4", "dtensor-v-compute"}).size(), 1U);
}

}  // namespace reference_sides_test
}  // namespace shardlab
