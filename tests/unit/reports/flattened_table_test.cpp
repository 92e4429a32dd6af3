// What a report says of flattened meshes that are worth registering, of one, of several and of
// none.
#include "reports/flattened_table.h"

#include <gtest/gtest.h>

namespace shardlab::reports {
namespace flattened_table_test {

FlattenedMeshes advice_of(std::int64_t tried, const std::vector<FlattenedMesh>& worth) {
  return {.stack = "mine",
          .step_us = 1000.0,
          .tried = tried,
          .worth = worth,
          .group_seconds = {0.5, 2.0, 6.0},
          .group_bytes = {}};
}

const FlattenedMesh kFirst = {{"dp", "tp"}, 8, 50.0, {10000, 40000, 120000}};
const FlattenedMesh kSecond = {{"cp", "tp"}, 16, 20.0, {25000, 100000, 300000}};

TEST(FlattenedSentence, SaysWhatIsSavedAndWhenItIsPaidFor) {
  EXPECT_EQ(flattened_sentence(advice_of(0, {})),
            "The mesh has no more dims to flatten for `mine`.");
  EXPECT_EQ(flattened_sentence(advice_of(1, {})),
            "No flattened mesh shortens the step under `mine`; 1 was tried.");
  EXPECT_EQ(
      flattened_sentence(advice_of(1, {kFirst})),
      "1 flattened mesh shortens the step under `mine` by 50.00 us of 1.000 ms, and has paid for "
      "its process group after 40,000 steps, if it takes 2.000 s to make.");
  EXPECT_EQ(
      flattened_sentence(advice_of(4, {kFirst, kSecond})),
      "2 flattened meshes shorten the step under `mine` by 70.00 us of 1.000 ms, and have paid "
      "for their process groups after 100,000 steps, if each takes 2.000 s to make.");
}

TEST(FlattenedTable, HasARowForEach) {
  const Table table = flattened_table(advice_of(4, {kFirst, kSecond}));
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[1].size(), table.columns.size());
}

}  // namespace flattened_table_test
}  // namespace shardlab::reports
