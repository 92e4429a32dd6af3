// Parts are those that local_rows() lists one by one, and their numbers rise through the tensor.
#include "sim/held_part.h"

#include <gtest/gtest.h>

#include <map>

namespace shardlab {
namespace held_part_test {

std::vector<std::int64_t> listed(const std::vector<HeldPart::Range>& ranges) {
  std::vector<std::int64_t> rows;
  for (const HeldPart::Range& range : ranges) {
    for (std::int64_t row = range.begin; row < range.end; ++row) rows.push_back(row);
  }
  return rows;
}

TEST(HeldPart, HoldsTheRowsThatEachRankHas) {
  const DeviceMesh mesh = DeviceMesh::parse("2x3x2");
  const char* layouts[] = {"RRR",          "S(0)RS(1)", "S(0)S(0)S(0)", "S(0)[2]S(0)[0]S(0)[1]",
                           "_S(0,3)S(0)R", "PS(1)P",    "_S(0,5)S(0)R", "_S(0,6)_S(0,2)S(0)",
                           "S(1)S(0)S(1)"};
  for (const char* tensor : {"f32[24,12]", "f32[5,3]", "f32[13,1]", "f32[0,4]"}) {
    const TensorMeta meta = TensorMeta::parse(tensor);
    for (const char* text : layouts) {
      const Layout layout = Layout::parse(text, 3);
      for (std::int64_t i = 0; i < mesh.size(); ++i) {
        const std::vector<std::int64_t> coordinate = mesh.coordinate(i);
        const HeldPart held = held_part(meta, layout, mesh, coordinate);
        ASSERT_TRUE(held.is_listed);
        bool is_empty = false;
        for (int d = 0; d < meta.ndim(); ++d) {
          const std::vector<std::int64_t> rows =
              local_rows(meta.shape, d, layout, mesh, coordinate);
          EXPECT_EQ(listed(held.ranges[to_index(d)]), rows) << tensor << " " << text << " " << i;
          is_empty = is_empty || rows.empty();
        }
        EXPECT_EQ(held.is_empty(), is_empty) << tensor << " " << text << " " << i;
      }
    }
  }
}

TEST(HeldPart, NumbersRiseThroughTheTensorAlsoInAnotherShardOrder) {
  const DeviceMesh mesh = DeviceMesh::parse("2x4");
  const TensorMeta meta = TensorMeta::parse("f32[16,8]");
  for (const char* text : {"S(0)S(0)", "S(0)[1]S(0)[0]", "_S(0,4)S(0)"}) {
    const Layout layout = Layout::parse(text, 2);
    std::map<std::int64_t, std::int64_t> begins;
    for (std::int64_t i = 0; i < mesh.size(); ++i) {
      const HeldPart held = held_part(meta, layout, mesh, mesh.coordinate(i));
      EXPECT_EQ(held.parts, 8) << text;
      begins[held.part] = held.ranges[0].at(0).begin;
    }
    ASSERT_EQ(begins.size(), 8U) << text;
    for (const auto& [part, begin] : begins) EXPECT_EQ(begin, 2 * part) << text;
  }
}

TEST(HeldPart, RangesThatTouchAreOne) {
  const DeviceMesh mesh = DeviceMesh::parse("1x2");
  const HeldPart held = held_part(TensorMeta::parse("f32[8]"), Layout::parse("_S(0,2)R", 2), mesh,
                                  mesh.coordinate(0));
  EXPECT_EQ(held.ranges[0], (std::vector<HeldPart::Range>{{0, 8}}));
}

TEST(HeldPart, SummandsAreCountedByReduction) {
  const DeviceMesh mesh = DeviceMesh::parse("2x3x1x2");
  const auto summands = [&](const char* text, std::int64_t index) {
    return held_part(TensorMeta::parse("f32[12]"), Layout::parse(text, 4), mesh,
                     mesh.coordinate(index))
        .summands;
  };
  using Summands = std::vector<HeldPart::Summand>;
  EXPECT_EQ(summands("S(0)RPR", 0), Summands());  // one rank along the mesh dim: nothing to add
  EXPECT_EQ(summands("PPRR", 10), (Summands{{"sum", 5, 6}}));
  EXPECT_EQ(summands("P(sum)P(avg)RS(0)", 2), (Summands{{"sum", 0, 2}, {"avg", 1, 3}}));
  EXPECT_EQ(summands("RNP(2)RR", 4), (Summands{{"norm", 2, 3}}));
  EXPECT_EQ(summands("MPRRR", 6), (Summands{{"mask", 1, 2}}));
}

TEST(HeldPart, AHugeTensorCostsNothing) {
  const DeviceMesh mesh = DeviceMesh::parse("1048576");
  const TensorMeta meta = TensorMeta::parse("f32[1099511627776]");
  const std::int64_t last[] = {1048575};
  const HeldPart held = held_part(meta, Layout::parse("S(0)", 1), mesh, last);
  EXPECT_EQ(held.part, 1048575);
  EXPECT_EQ(held.ranges[0],
            (std::vector<HeldPart::Range>{{1099511627776 - 1048576, 1099511627776}}));
  const HeldPart strided = held_part(meta, Layout::parse("_S(0,2000)", 1), mesh, last);
  EXPECT_FALSE(strided.is_listed);
  EXPECT_FALSE(strided.is_empty());
}

}  // namespace held_part_test
}  // namespace shardlab
