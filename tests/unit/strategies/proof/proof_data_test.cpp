// The targets that the data of proofs and simulations lets a loss ignore.
#include "strategies/proof/proof_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace proof_data_test {

using testing::ElementsAre;
using testing_support::call_of;

// The targets of a loss after some are ignored. All were 1.
Doubles targets_of(const std::string& op, const std::vector<std::string>& inputs,
                   std::size_t tensor, const std::string& args) {
  const OpCall call = call_of(op, inputs, 1, args);
  std::size_t count = 1;
  for (const std::int64_t extent : call.tensors()[tensor]->meta.shape) {
    count *= static_cast<std::size_t>(extent);
  }
  Doubles values(count, 1.0);
  ignore_some_targets(call, tensor, values);
  return values;
}

Doubles forward(const std::string& target, const std::string& args) {
  return targets_of("aten.nll_loss_forward.default", {"f32[8,5] R", target, "none"}, 1, args);
}

TEST(IgnoredTargets, AreInTheFirstHalf) {
  EXPECT_THAT(forward("i64[8] R", "[1, -100]"), ElementsAre(-100, 1, -100, 1, 1, 1, 1, 1));
  EXPECT_THAT(forward("i64[5] R", "[1, -100]"), ElementsAre(-100, 1, -100, 1, 1));
  EXPECT_THAT(forward("i64[2] R", "[2, 255]"), ElementsAre(255, 1));
}

TEST(IgnoredTargets, AreThoseOfTheDefaultWhereTheCallNamesNone) {
  EXPECT_THAT(forward("i64[3] R", "[1]"), ElementsAre(-100, 1, 1));
}

TEST(IgnoredTargets, AreNeverAllTargets) {
  EXPECT_THAT(forward("i64[1] R", "[1, -100]"), ElementsAre(1));
  EXPECT_THAT(forward("i64[] R", "[1, -100]"), ElementsAre(1));
  EXPECT_TRUE(forward("i64[0] R", "[1, -100]").empty());
}

TEST(IgnoredTargets, AreThoseThatAreThereAlready) {
  EXPECT_THAT(forward("i64[3] R", "[1, 1]"), ElementsAre(1, 1, 1));
}

TEST(IgnoredTargets, CanBeHeldByTheDtypeOfTheTargets) {
  EXPECT_THAT(forward("u8[3] R", "[1, -100]"), ElementsAre(1, 1, 1));
  EXPECT_THAT(forward("u8[3] R", "[1, 255]"), ElementsAre(255, 1, 1));
  EXPECT_THAT(forward("i8[3] R", "[1, 128]"), ElementsAre(1, 1, 1));
}

// Each half of each dim, which is a shard on two ranks, has its own number of them.
TEST(IgnoredTargets, DifferBetweenTheShardsOfEveryDim) {
  const Doubles targets =
      targets_of("aten.nll_loss2d_forward.default", {"f32[4,3,6,2] R", "i64[4,6,2] R", "f32[3] R"},
                 1, "[1, -100]");
  const Shape shape = {4, 6, 2};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::array<int, 2> ignored = {0, 0};
    for (std::int64_t i = 0; i < std::ssize(targets); ++i) {
      const Shape index = {i / 12, i / 2 % 6, i % 2};
      const bool second = 2 * index[d] >= shape[d];
      ignored[second ? 1 : 0] += targets[static_cast<std::size_t>(i)] == -100.0 ? 1 : 0;
    }
    EXPECT_NE(ignored[0], ignored[1]) << "dim " << d;
  }
}

TEST(IgnoredTargets, AreFoundBehindTheGradientToo) {
  const std::vector<std::string> inputs = {"f32[] R", "f32[4,5] R", "i64[4] R", "none", "f32[] R"};
  EXPECT_THAT(targets_of("aten.nll_loss_backward.default", inputs, 2, "[1, -100]"),
              ElementsAre(-100, 1, 1, 1));
  EXPECT_THAT(targets_of("aten.nll_loss_backward.default", inputs, 3, "[1, -100]"), ElementsAre(1));
}

TEST(IgnoredTargets, AreNotAmongOtherTensorsAndOps) {
  EXPECT_THAT(targets_of("aten.nll_loss_forward.default", {"f32[3,2] R", "i64[3] R", "f32[2] R"}, 2,
                         "[1, -100]"),
              ElementsAre(1, 1));
  EXPECT_THAT(targets_of("aten.embedding.default", {"f32[8,2] R", "i64[3] R"}, 1, "[]"),
              ElementsAre(1, 1, 1));
}

}  // namespace proof_data_test
}  // namespace shardlab
