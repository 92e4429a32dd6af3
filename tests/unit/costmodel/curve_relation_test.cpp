#include "costmodel/curve_relation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shardlab {
namespace curve_relation_test {

constexpr CurveGroup kInside{Collective::kAllGather, 8, 1};
constexpr CurveGroup kBetween{Collective::kAllGather, 16, 2};

TEST(CurveRelation, VolumesAreRingFactorsInsideAHost) {
  EXPECT_DOUBLE_EQ(volume_factor(kInside), 7.0 / 8);
  EXPECT_DOUBLE_EQ(volume_factor({Collective::kAllReduce, 8, 1}), 2 * 7.0 / 8);
}

TEST(CurveRelation, VolumesBetweenHostsAreOfOneLink) {
  EXPECT_DOUBLE_EQ(volume_factor(kBetween), 15.0 / 16 / 8);
  EXPECT_DOUBLE_EQ(volume_factor({Collective::kAllReduce, 16, 2}), 2 * 15.0 / 16 / 8);
  EXPECT_DOUBLE_EQ(volume_factor({Collective::kAllToAll, 16, 2}), 0.5);
  EXPECT_DOUBLE_EQ(volume_factor({Collective::kSendRecv, 16, 2}), 1.0);
  // One of nine ranks is alone on its host, and gets the parts of all others over one link.
  EXPECT_DOUBLE_EQ(volume_factor({Collective::kAllGather, 9, 2, 1.0}), 8.0 / 9);
  EXPECT_DOUBLE_EQ(volume_factor({Collective::kAllToAll, 9, 2, 1.0}), 8.0 / 9);
}

TEST(CurveRelation, FloorsGrowWithRanksAndHosts) {
  for (const Collective kind : {Collective::kAllGather, Collective::kReduceScatter,
                                Collective::kAllReduce, Collective::kAllToAll}) {
    double last = 0.0;
    for (std::int64_t ranks = 2; ranks <= 64; ranks *= 2) {
      EXPECT_GT(latency_factor({kind, ranks, 1}), last);
      last = latency_factor({kind, ranks, 1});
    }
    last = 0.0;
    for (std::int64_t hosts = 2; hosts <= 4096; hosts *= 2) {
      EXPECT_GT(latency_factor({kind, 8 * hosts, hosts}), last);
      last = latency_factor({kind, 8 * hosts, hosts});
    }
  }
  EXPECT_LT(latency_factor({Collective::kAllReduce, 4096, 512}),
            latency_factor({Collective::kAllGather, 4096, 512}) / 10);
}

TEST(CurveRelation, NearGroupsCountMore) {
  EXPECT_EQ(relation_weight(kInside, kBetween), 0.0);
  EXPECT_NEAR(relation_weight(kInside, kInside), 1e6, 1.0);
  EXPECT_GT(relation_weight({Collective::kAllGather, 4, 1}, kInside),
            relation_weight({Collective::kAllGather, 2, 1}, kInside));
  EXPECT_GT(relation_weight({Collective::kReduceScatter, 8, 1}, kInside),
            relation_weight({Collective::kAllToAll, 8, 1}, kInside));
}

}  // namespace curve_relation_test
}  // namespace shardlab
