#include "costmodel/collective.h"

#include <gtest/gtest.h>

#include <string>

namespace shardlab {
namespace collective_test {

TEST(Collective, EveryNameReadsBackAndTheListHasThemInOrder) {
  int count = 0;
  for (const std::string_view word : all_names<Collective>()) {
    const auto kind = collective_from_name(word);
    ASSERT_TRUE(kind.has_value()) << word;
    EXPECT_EQ(static_cast<int>(*kind), count) << word;
    EXPECT_EQ(to_string(*kind), word);
    ++count;
  }
  EXPECT_EQ(count, 8);
}

TEST(Collective, OtherSpellingsAreUnknown) {
  for (const char* name : {"", "AllGather", "allgather", "all-gather", "all_gather "}) {
    EXPECT_FALSE(collective_from_name(name).has_value()) << name;
  }
}

struct RingCase {
  Collective kind;
  double volume_of_4;  // (n-1)/n = 0.75
  double steps_of_4;   // n-1 = 3
};
void PrintTo(const RingCase& c, std::ostream* out) { *out << to_string(c.kind); }
class Ring : public testing::TestWithParam<RingCase> {};

TEST_P(Ring, VolumeAndStepsOfFourRanks) {
  EXPECT_EQ(ring_volume_factor(GetParam().kind, 4), GetParam().volume_of_4);
  EXPECT_EQ(ring_steps(GetParam().kind, 4), GetParam().steps_of_4);
}

TEST_P(Ring, OneRankMovesNothing) {
  EXPECT_EQ(ring_volume_factor(GetParam().kind, 1), 0.0);
  EXPECT_EQ(ring_steps(GetParam().kind, 1), 0.0);
}

TEST_P(Ring, VolumeNeverFallsWithRanksAndStaysBelowTwo) {
  for (std::int64_t n = 1; n < 5000; ++n) {
    EXPECT_LE(ring_volume_factor(GetParam().kind, n), ring_volume_factor(GetParam().kind, n + 1));
  }
  EXPECT_LT(ring_volume_factor(GetParam().kind, std::int64_t{1} << 40), 2.0);
}

INSTANTIATE_TEST_SUITE_P(All, Ring,
                         testing::Values(RingCase{Collective::kAllGather, 0.75, 3},
                                         RingCase{Collective::kReduceScatter, 0.75, 3},
                                         RingCase{Collective::kAllToAll, 0.75, 3},
                                         RingCase{Collective::kAllReduce, 1.5, 6},
                                         RingCase{Collective::kBroadcast, 1, 1},
                                         RingCase{Collective::kScatter, 1, 1},
                                         RingCase{Collective::kSendRecv, 1, 1},
                                         RingCase{Collective::kLocal, 0, 0}),
                         [](const auto& test) { return std::string(to_string(test.param.kind)); });

TEST(Ring, AnAllReduceIsAReduceScatterAndAnAllGather) {
  for (std::int64_t n = 1; n < 100; ++n) {
    EXPECT_DOUBLE_EQ(ring_volume_factor(Collective::kAllReduce, n),
                     ring_volume_factor(Collective::kReduceScatter, n) +
                         ring_volume_factor(Collective::kAllGather, n));
    EXPECT_EQ(ring_steps(Collective::kAllReduce, n),
              ring_steps(Collective::kReduceScatter, n) + ring_steps(Collective::kAllGather, n));
  }
}

}  // namespace collective_test
}  // namespace shardlab
