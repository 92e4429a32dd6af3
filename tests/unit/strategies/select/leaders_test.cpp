// The candidates near the least total are compared with those that a look at every total finds.
#include "strategies/select/leaders.h"

#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/base/units.h"
#include "tests/support/random_source.h"

namespace shardlab {
namespace leaders_test {

using testing_support::Random;
using testing_support::random_cases;

TEST(Leaders, AreAllCandidatesNearTheLeastTotal) {
  Random random(731);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(500); ++i) {
    std::vector<double> totals(static_cast<std::size_t>(1 + random.below(300)));
    for (double& total : totals) {
      total = random.percent(10) ? kInfinity : static_cast<double>(random.below(20));
    }
    double least = kInfinity;
    for (const double total : totals) least = std::min(least, total);
    std::vector<std::size_t> near;
    double others = kInfinity;
    for (std::size_t c = 0; c < totals.size(); ++c) {
      if (totals[c] == least) {
        near.push_back(c);
      } else {
        others = std::min(others, totals[c]);
      }
    }
    const Leaders leaders(totals);
    EXPECT_EQ(leaders.indices(), near);
    EXPECT_EQ(leaders.others(), others);
  }
}

TEST(Leaders, IncludeTotalsThatDifferByRoundingAlone) {
  const std::vector<double> totals = {3.0, 0.1 + 0.2, 0.3};
  const Leaders leaders(totals);
  EXPECT_EQ(leaders.indices(), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(leaders.others(), 3.0);
}

}  // namespace leaders_test
}  // namespace shardlab
