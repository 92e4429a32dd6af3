#include "sim/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_chunks.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace mesh_test {

using testing_support::groups_of;
using testing_support::Random;
using testing_support::random_cases;
using testing_support::random_mesh;
using Names = std::vector<std::string>;

TEST(MeshText, PrintsWhatItParses) {
  for (const char* text : {"4", "8x8", "2x3x4", "1x1x1x1", "dp=8,tp=8", "dp_2=2,tp=3,pp=1"}) {
    EXPECT_EQ(DeviceMesh::parse(text).text(), text);
  }
}

TEST(MeshText, ReadsBlanksAndCommasBetweenSizes) {
  EXPECT_EQ(DeviceMesh::parse(" 8 x 4 ").text(), "8x4");
  EXPECT_EQ(DeviceMesh::parse("8,4").text(), "8x4");
  EXPECT_EQ(DeviceMesh::parse("dp = 8 , tp = 4").text(), "dp=8,tp=4");
}

TEST(MeshText, ReadsBracketsAndWhatPyTorchPrints) {
  for (const char* text :
       {"(2, 4)", "[2, 4]", "2,4", "(2,4,)", "[2x4]", "DeviceMesh((2, 4), 'cuda', stride=(4, 1))",
        "DeviceMesh((2, 4))", "DeviceMesh([2, 4], 'cpu')"}) {
    EXPECT_EQ(DeviceMesh::parse(text).text(), "2x4") << text;
  }
  EXPECT_EQ(DeviceMesh::parse("(8,)").text(), "8");
  EXPECT_EQ(DeviceMesh::parse("(dp=2, tp=4)").text(), "dp=2,tp=4");
  EXPECT_EQ(DeviceMesh::parse("DeviceMesh((dp=2, tp=4), 'cuda', stride=(4, 1))").text(),
            "dp=2,tp=4");
}

struct MeshError {
  const char* name;
  const char* text;
  const char* message;
};
void PrintTo(const MeshError& c, std::ostream* out) { *out << c.text; }
class MeshErrors : public testing::TestWithParam<MeshError> {};

TEST_P(MeshErrors, AreTheseWordForWord) {
  EXPECT_THROW_MSG(DeviceMesh::parse(GetParam().text), TextError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, MeshErrors,
    testing::Values(
        MeshError{"Empty", "",
                  "mesh \"\": at position 0: expected a mesh dim size (8x8, dp=8,tp=8)"},
        MeshError{"ZeroSize", "8x0",
                  "mesh \"8x0\": at position 2: expected a mesh dim size (8x8, dp=8,tp=8) from 1 "
                  "to 1099511627776"},
        MeshError{"Negative", "-2",
                  "mesh \"-2\": at position 0: expected a mesh dim size (8x8, dp=8,tp=8) from 1 to "
                  "1099511627776"},
        MeshError{"OtherSeparator", "8y8",
                  "mesh \"8y8\": at position 1: expected \"x\" and another size, or the end (8x8, "
                  "dp=8,tp=8)"},
        MeshError{"NotClosed", "(2, 4",
                  "mesh \"(2, 4\": at position 5: expected \",\" and another size, or \")\""},
        MeshError{"MoreBehindIt", "[2, 4]x2",
                  "mesh \"[2, 4]x2\": at position 6: expected the end of the mesh"},
        MeshError{"NoSizesInBrackets", "()",
                  "mesh \"()\": at position 1: expected a mesh dim size (8x8, dp=8,tp=8)"},
        MeshError{"Slice", "DeviceMesh((dp=2), 'cpu', stride=(4,))",
                  "mesh \"DeviceMesh((dp=2), 'cpu', stride=(4,))\": at position 26: expected "
                  "stride=(1,), which the ranks of a whole mesh have; this is a slice of a larger "
                  "mesh, or has its ranks in another order"},
        MeshError{"ReprNotClosed", "DeviceMesh((2, 4), 'cpu'",
                  "mesh \"DeviceMesh((2, 4), 'cpu'\": at position 24: expected \")\" at the end of "
                  "the mesh"},
        MeshError{"DanglingX", "8x",
                  "mesh \"8x\": at position 2: expected a mesh dim size (8x8, dp=8,tp=8)"},
        MeshError{"NameAfterSize", "8,tp=4",
                  "mesh \"8,tp=4\": at position 2: expected a mesh dim "
                  "size (8x8, dp=8,tp=8)"},
        MeshError{"SizeAfterName", "dp=8,4",
                  "mesh \"dp=8,4\": at position 5: expected an axis such as tp=8"},
        MeshError{"NameWithoutSize", "dp",
                  "mesh \"dp\": at position 2: expected \"=\" and the size of axis \"dp\""},
        MeshError{"NamedWithX", "dp=8xtp=8",
                  "mesh \"dp=8xtp=8\": at position 4: expected \",\" and another axis, or the end "
                  "(dp=8,tp=8)"},
        MeshError{"TwiceOneName", "dp=2,dp=4",
                  "mesh \"dp=2,dp=4\": at position 5: expected distinct axis names, found \"dp\" "
                  "twice"},
        MeshError{"NineDims", "1x1x1x1x1x1x1x1x1",
                  "mesh \"1x1x1x1x1x1x1x1x1\": at position 16: expected at most 8 mesh dims"},
        MeshError{"TooManyRanks", "1099511627776x2",
                  "mesh \"1099511627776x2\": at position 14: expected at most 2^40 ranks"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(MeshMake, RefusesWhatParseRefuses) {
  EXPECT_THROW_MSG(DeviceMesh::make({}), TextError,
                   "mesh \"\": at position 0: expected at least one mesh dim");
  EXPECT_THROW_MSG(DeviceMesh::make({2, 0}), TextError,
                   "mesh \"2x0\": at position 0: expected mesh dims of at least 1 rank");
  EXPECT_THROW_MSG(DeviceMesh::make({2, 2}, {"dp"}), TextError,
                   "mesh \"2x2\": at position 0: expected a name for every mesh dim");
  EXPECT_THROW_MSG(DeviceMesh::make({2, 2}, {"dp", "dp"}), TextError,
                   "mesh \"dp, dp\": at position 0: expected distinct axis names, found \"dp\" "
                   "twice");
  EXPECT_THROW_MSG(DeviceMesh::make({1, 1, 1, 1, 1, 1, 1, 1, 1}), TextError,
                   "mesh \"1x1x1x1x1x1x1x1x1\": at position 0: expected at most 8 mesh dims");
}

TEST(Mesh, IsLaidOutRowMajor) {
  const DeviceMesh mesh = DeviceMesh::parse("2x3x4");
  EXPECT_EQ(mesh.layout(0).text(), "2:12");
  EXPECT_EQ(mesh.layout(1).text(), "3:4");
  EXPECT_EQ(mesh.layout(2).text(), "4:1");
  EXPECT_EQ(mesh.size(), 24);
  EXPECT_EQ(mesh.world_size(), 24);
  EXPECT_EQ(mesh.ndim(), 3);
}

TEST(Mesh, CoordinatesCountRowMajor) {
  const DeviceMesh mesh = DeviceMesh::parse("2x3");
  EXPECT_EQ(mesh.coordinate(0), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(mesh.coordinate(4), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(mesh.coordinate(5), (std::vector<std::int64_t>{1, 2}));
  EXPECT_THROW(static_cast<void>(mesh.coordinate(6)), ContractError);
}

TEST(Mesh, ADimThatItLacksIsABug) {
  const DeviceMesh mesh = DeviceMesh::parse("2x3");
  EXPECT_THROW(static_cast<void>(mesh.size(2)), ContractError);
  EXPECT_THROW(static_cast<void>(mesh.size(-1)), ContractError);
}

TEST(MeshSlice, KeepsTheStridesOfTheRoot) {
  const DeviceMesh sub = DeviceMesh::parse("dp=2,pp=3,tp=4").slice(Names{"dp", "tp"});
  EXPECT_EQ(sub.layout(0).text(), "2:12");
  EXPECT_EQ(sub.layout(1).text(), "4:1");
  EXPECT_EQ(sub.ranks(), (std::vector<std::int64_t>{0, 1, 2, 3, 12, 13, 14, 15}));
  EXPECT_EQ(sub.size(), 8);
  EXPECT_EQ(sub.world_size(), 24);
  EXPECT_EQ(sub.text(), "dp=2,tp=4");
}

TEST(MeshSlice, OfASliceIsASliceOfTheRoot) {
  const DeviceMesh root = DeviceMesh::parse("a=2,b=3,c=4");
  EXPECT_EQ(root.slice(Names{"a", "c"}).slice(Names{"c"}), root.slice(Names{"c"}));
}

TEST(MeshSlice, ErrorsNameTheMistake) {
  const DeviceMesh mesh = DeviceMesh::parse("dp=2,pp=3,tp=4");
  EXPECT_THROW_MSG(mesh.slice(Names{"tp", "dp"}), TextError,
                   "mesh \"tp, dp\": at position 0: expected axes in the order of the root mesh");
  EXPECT_THROW_MSG(mesh.slice(Names{"dp", "dp"}), TextError,
                   "mesh \"dp, dp\": at position 0: expected distinct axis names, found \"dp\" "
                   "twice");
  EXPECT_THROW_MSG(
      mesh.slice(Names{"dp", "cp"}), TextError,
      "mesh \"dp, cp\": at position 0: expected known axis names, found \"cp\"; valid: "
      "dp, pp, tp");
  EXPECT_THROW_MSG(DeviceMesh::parse("2x4").slice(Names{"dp"}), TextError,
                   "mesh \"dp\": at position 0: expected a mesh with axis names (dp=2,tp=4), found "
                   "none");
  EXPECT_THROW_MSG(mesh.slice(Names{}), TextError,
                   "mesh \"\": at position 0: expected at least one axis name");
  const DeviceMesh flat = mesh.flatten(Names{"dp", "pp"});
  EXPECT_THROW_MSG(flat.slice(Names{"dp_pp", "pp"}), TextError,
                   "mesh \"dp_pp, pp\": at position 0: expected axes whose ranks do not overlap");
  EXPECT_THROW_MSG(
      flat.slice(Names{"tp", "dp_pp"}), TextError,
      "mesh \"tp, dp_pp\": at position 0: expected axes in the order of the root mesh");
}

TEST(MeshSlice, TakesAFlattenedAxisByName) {
  const DeviceMesh mesh = DeviceMesh::parse("dp=2,pp=3,tp=4").flatten(Names{"dp", "pp"});
  const DeviceMesh sub = mesh.slice(Names{"dp_pp", "tp"});
  EXPECT_EQ(sub.layout(0).text(), "6:4");
  EXPECT_EQ(sub.text(), "dp_pp=6,tp=4");
}

TEST(MeshSlice, OfAMeshOfOnesWorksAfterFlattening169381) {
  // Dims d2 and d3 of a mesh (1,1,1,1) are flattened, then (d1, d2_d3, d4) are sliced. Strides of
  // unit dims must be 1, not 0.
  const DeviceMesh mesh = DeviceMesh::parse("d1=1,d2=1,d3=1,d4=1").flatten(Names{"d2", "d3"});
  EXPECT_EQ(mesh.flattened("d2_d3").layout(0).text(), "1:1");
  const DeviceMesh sub = mesh.slice(Names{"d1", "d2_d3", "d4"});
  EXPECT_EQ(sub.text(), "d1=1,d2_d3=1,d4=1");
  EXPECT_EQ(sub.ranks(), std::vector<std::int64_t>{0});
}

TEST(MeshFlatten, OfNeighboursIsOneStride) {
  const DeviceMesh mesh = DeviceMesh::parse("dp=2,pp=3,tp=4");
  EXPECT_EQ(mesh.flatten(Names{"dp", "pp"}).flattened("dp_pp").layout(0).text(), "6:4");
  EXPECT_EQ(mesh.flatten(Names{"pp", "tp"}).flattened("pp_tp").layout(0).text(), "12:1");
  EXPECT_EQ(mesh.flatten(Names{"dp", "pp", "tp"}).flattened("dp_pp_tp").layout(0).text(), "24:1");
}

TEST(MeshFlatten, WithAGapIsANestedDimInRowMajorOrder) {
  const DeviceMesh flat =
      DeviceMesh::parse("a=2,b=2,c=2").flatten(Names{"a", "c"}, "ac").flattened("ac");
  EXPECT_EQ(flat.layout(0).text(), "(2:4,2:1)");
  EXPECT_EQ(flat.size(), 4);
  EXPECT_EQ(flat.groups(0), (std::vector<std::vector<std::int64_t>>{{0, 1, 4, 5}, {2, 3, 6, 7}}));
}

TEST(MeshFlatten, LeavesTheMeshItselfUnchanged) {
  const DeviceMesh mesh = DeviceMesh::parse("dp=2,tp=4");
  const DeviceMesh with = mesh.flatten(Names{"dp", "tp"});
  EXPECT_EQ(with, mesh);
  EXPECT_FALSE(with.same_registry(mesh));
  EXPECT_TRUE(with.same_registry(mesh.flatten(Names{"dp", "tp"})));
  EXPECT_THROW_MSG(mesh.flattened("dp_tp"), TextError,
                   "mesh \"dp_tp\": at position 0: expected known axis names, found \"dp_tp\"; "
                   "valid: dp, tp");
}

TEST(MeshFlatten, RefusesANameThatIsTaken) {
  const DeviceMesh mesh = DeviceMesh::parse("a=2,b=2,c=2").flatten(Names{"a", "b"}, "x");
  EXPECT_THROW_MSG(
      mesh.flatten(Names{"b", "c"}, "x"), TextError,
      "mesh \"b, c\": at position 0: expected a new name for the flattened axis, found "
      "\"x\"");
  EXPECT_THROW_MSG(
      mesh.flatten(Names{"b", "c"}, "a"), TextError,
      "mesh \"b, c\": at position 0: expected a new name for the flattened axis, found "
      "\"a\"");
  EXPECT_NO_THROW(static_cast<void>(mesh.flatten(Names{"a", "b"}, "x")));
}

TEST(FindFlattened, ComparesLayoutsAndNotNames) {
  const DeviceMesh mesh = DeviceMesh::parse("dp=2,pp=3,tp=4").flatten(Names{"dp", "pp"}, "world");
  const auto flat = mesh.find_flattened(std::vector<int>{0, 1});
  ASSERT_TRUE(flat.has_value());
  EXPECT_EQ(flat->name, "world");
  EXPECT_FALSE(mesh.find_flattened(std::vector<int>{1, 2}).has_value());
  EXPECT_FALSE(mesh.find_flattened(std::vector<int>{0, 2}).has_value());
}

TEST(FindFlattened, ASliceFindsItsOwnAndIsNotMisledByAdjacentIndices) {
  // Dims 0 and 1 of the slice (dp, tp) look adjacent, but the flattened mesh of the root's dims 0
  // and 1 is another one.
  const DeviceMesh root = DeviceMesh::parse("dp=2,pp=3,tp=4");
  const DeviceMesh misleading = root.flatten(Names{"dp", "pp"}).slice(Names{"dp", "tp"});
  EXPECT_FALSE(misleading.find_flattened(std::vector<int>{0, 1}).has_value());
  const DeviceMesh sub =
      root.flatten(Names{"dp", "pp"}).flatten(Names{"dp", "tp"}).slice(Names{"dp", "tp"});
  EXPECT_EQ(sub.find_flattened(std::vector<int>{0, 1})->name, "dp_tp");
}

TEST(FindFlattened, TheFirstRegisteredOfEqualLayoutsWins) {
  const DeviceMesh mesh = DeviceMesh::parse("a=2,b=2")
                              .flatten(Names{"a", "b"}, "first")
                              .flatten(Names{"a", "b"}, "second");
  EXPECT_EQ(mesh.find_flattened(std::vector<int>{0, 1})->name, "first");
}

TEST(FindFlattened, ReachesTheSameRanksThroughAnotherFlattening) {
  const DeviceMesh mesh = DeviceMesh::parse("a=2,b=1,c=2").flatten(Names{"a", "c"}, "ac");
  EXPECT_EQ(mesh.find_flattened(std::vector<int>{0, 1, 2})->name, "ac");
}

TEST(FindFlattened, NeedsAxisNames) {
  EXPECT_FALSE(DeviceMesh::parse("2x2").find_flattened(std::vector<int>{0, 1}).has_value());
}

TEST(MeshGroups, EqualTheGroupsFoundByComparingCoordinatesForRandomMeshes) {
  Random random(12);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(300); ++i) {
    const DeviceMesh mesh = random_mesh(random, 4, 5);
    for (int m = 0; m < mesh.ndim(); ++m) {
      auto groups = mesh.groups(m);
      auto expected = groups_of(mesh, {m});
      std::sort(groups.begin(), groups.end());
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(groups, expected) << mesh.text() << " dim " << m;
    }
  }
}

TEST(MeshGroups, OfEveryFlattenedMeshPartitionTheRanks) {
  Random random(13);
  SHARDLAB_TRACE_SEED();
  const Names names = {"a", "b", "c", "d"};
  for (int i = 0; i < random_cases(300); ++i) {
    const DeviceMesh bare = random_mesh(random, 4, 5);
    std::vector<std::int64_t> sizes;
    for (int m = 0; m < bare.ndim(); ++m) sizes.push_back(bare.size(m));
    const DeviceMesh mesh =
        DeviceMesh::make(sizes, Names(names.begin(), names.begin() + bare.ndim()));
    std::vector<int> dims;
    Names chosen;
    for (int m = 0; m < mesh.ndim(); ++m) {
      if (!random.percent(60)) continue;
      dims.push_back(m);
      chosen.push_back(names[to_index(m)]);
    }
    if (chosen.size() < 2) continue;
    const DeviceMesh flat = mesh.flatten(chosen, "flat").flattened("flat");
    auto groups = flat.groups(0);
    auto expected = groups_of(mesh, dims);
    std::sort(groups.begin(), groups.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(groups, expected) << mesh.text() << " " << flat.layout(0).text();
  }
}

TEST(MeshGroups, OfALayoutThatDoesNotPartitionAreABug) {
  EXPECT_THROW(static_cast<void>(DeviceMesh::parse("6").groups(MeshLayout({{4, 1}}))),
               ContractError);
}

TEST(Mesh, EqualityLooksAtDimsNamesAndWorld) {
  EXPECT_EQ(DeviceMesh::parse("2x4"), DeviceMesh::parse("2x4"));
  EXPECT_FALSE(DeviceMesh::parse("2x4") == DeviceMesh::parse("4x2"));
  EXPECT_FALSE(DeviceMesh::parse("a=2,b=4") == DeviceMesh::parse("2x4"));
  EXPECT_FALSE(DeviceMesh::parse("a=1,b=4").slice(Names{"b"}) ==
               DeviceMesh::parse("a=2,b=4").slice(Names{"b"}));
}

TEST(DeviceMesh, FindsOneRankWithoutListingAll) {
  const DeviceMesh root = DeviceMesh::parse("a=2,b=3,c=4");
  const std::vector<std::string> outer_and_inner = {"a", "c"};
  for (const DeviceMesh& mesh :
       {root, root.slice(outer_and_inner), root.flatten(outer_and_inner).flattened("a_c")}) {
    const std::vector<std::int64_t> ranks = mesh.ranks();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_EQ(mesh.rank(static_cast<std::int64_t>(i)), ranks[i]) << mesh.text();
    }
  }
}

}  // namespace mesh_test
}  // namespace shardlab
