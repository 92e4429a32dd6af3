// Layouts of pairs size:stride are coalesced, concatenated and listed.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/mesh.h"
#include "tests/support/random_source.h"

namespace shardlab {
namespace mesh_layout_test {

using testing_support::Random;
using testing_support::random_cases;

struct CoalesceCase {
  const char* name;
  std::vector<LayoutMode> modes;
  const char* text;
};
void PrintTo(const CoalesceCase& c, std::ostream* out) { *out << MeshLayout(c.modes).text(); }
class Coalesce : public testing::TestWithParam<CoalesceCase> {};

TEST_P(Coalesce, MergesNeighboursThatStepOverEachOther) {
  EXPECT_EQ(MeshLayout(GetParam().modes).coalesce().text(), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Coalesce,
    testing::Values(CoalesceCase{"ContiguousPair", {{2, 4}, {4, 1}}, "8:1"},
                    CoalesceCase{"StridedPair", {{2, 12}, {3, 4}}, "6:4"},
                    CoalesceCase{"SliceWithAGap", {{2, 12}, {4, 1}}, "(2:12,4:1)"},
                    CoalesceCase{"ThreeIntoOne", {{2, 12}, {3, 4}, {4, 1}}, "24:1"},
                    CoalesceCase{"UnitDimsAreDropped", {{1, 5}, {2, 3}, {1, 1}}, "2:3"},
                    CoalesceCase{"UnitDimBetweenNeighbours", {{2, 4}, {1, 77}, {4, 1}}, "8:1"},
                    CoalesceCase{"AllUnit", {{1, 24}, {1, 1}}, "1:1"},
                    CoalesceCase{"Empty", {}, "1:1"},
                    CoalesceCase{"WrongOrderStaysNested", {{4, 1}, {2, 4}}, "(4:1,2:4)"},
                    CoalesceCase{"MergesAgainWithTheMerged", {{2, 8}, {2, 4}, {4, 1}}, "16:1"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(MeshLayout, OffsetsAreRowMajorOverThePairs) {
  EXPECT_EQ(MeshLayout({{2, 12}, {4, 1}}).offsets(),
            (std::vector<std::int64_t>{0, 1, 2, 3, 12, 13, 14, 15}));
  EXPECT_EQ(MeshLayout({{4, 1}, {2, 12}}).offsets(),
            (std::vector<std::int64_t>{0, 12, 1, 13, 2, 14, 3, 15}));
}

TEST(MeshLayout, SizeIsTheNumberOfOffsets) {
  const MeshLayout layout({{2, 12}, {3, 4}, {1, 9}});
  EXPECT_EQ(layout.size(), 6);
  EXPECT_EQ(layout.offsets().size(), 6U);
}

TEST(MeshLayout, CoalescingChangesNoOffsetForRandomLayouts) {
  Random random(11);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(500); ++i) {
    std::vector<LayoutMode> modes;
    const int count = 1 + random.below(4);
    for (int m = 0; m < count; ++m) modes.push_back({random.between(1, 4), random.between(1, 16)});
    const MeshLayout layout(modes);
    const MeshLayout merged = layout.coalesce();
    EXPECT_EQ(merged.offsets(), layout.offsets()) << layout.text();
    EXPECT_EQ(merged.coalesce(), merged) << layout.text();
    EXPECT_LE(merged.modes().size(), layout.modes().size());
  }
}

TEST(MeshLayout, OverlapMeansThatTwoOffsetsAreEqualForAllSmallRowMajorPairs) {
  // Two dims of a row-major mesh never overlap, and a dim always overlaps itself.
  const DeviceMesh mesh = DeviceMesh::parse("2x3x4");
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 3; ++b) {
      const MeshLayout both = mesh.layout(a).concatenate(mesh.layout(b));
      EXPECT_EQ(both.overlaps(), a == b) << both.text();
    }
  }
}

TEST(MeshLayout, AFlattenedDimOverlapsItsParts) {
  const MeshLayout flat({{6, 4}});
  EXPECT_TRUE(flat.concatenate(MeshLayout({{2, 12}})).overlaps());
  EXPECT_TRUE(flat.concatenate(MeshLayout({{3, 4}})).overlaps());
  EXPECT_FALSE(flat.concatenate(MeshLayout({{4, 1}})).overlaps());
  EXPECT_FALSE(flat.concatenate(MeshLayout({{1, 4}})).overlaps());
}

}  // namespace mesh_layout_test
}  // namespace shardlab
