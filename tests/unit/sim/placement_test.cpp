#include "sim/placement.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace placement_test {

using testing_support::all_orders;
using testing_support::Random;
using testing_support::random_cases;
using testing_support::random_layout;
using testing_support::random_mesh;

struct PlacementCase {
  const char* name;
  const char* text;
  Placement placement;
};
void PrintTo(const PlacementCase& c, std::ostream* out) { *out << c.text; }
class PlacementText : public testing::TestWithParam<PlacementCase> {};

TEST_P(PlacementText, ParsesAndPrints) {
  EXPECT_EQ(Placement::parse(GetParam().text), GetParam().placement);
  EXPECT_EQ(GetParam().placement.text(), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    All, PlacementText,
    testing::Values(PlacementCase{"Replicate", "R", Placement::replicate()},
                    PlacementCase{"Shard", "S(0)", Placement::shard(0)},
                    PlacementCase{"LastDim", "S(15)", Placement::shard(15)},
                    PlacementCase{"Strided", "_S(1,4)", Placement::strided_shard(1, 4)},
                    PlacementCase{"StridedByOne", "_S(0,1)", Placement::strided_shard(0, 1)},
                    PlacementCase{"Sum", "P(sum)", Placement::partial(ReduceOp::kSum)},
                    PlacementCase{"Avg", "P(avg)", Placement::partial(ReduceOp::kAvg)},
                    PlacementCase{"Max", "P(max)", Placement::partial(ReduceOp::kMax)},
                    PlacementCase{"Min", "P(min)", Placement::partial(ReduceOp::kMin)},
                    PlacementCase{"Product", "P(product)", Placement::partial(ReduceOp::kProduct)},
                    PlacementCase{"Band", "P(band)", Placement::partial(ReduceOp::kBand)},
                    PlacementCase{"Bor", "P(bor)", Placement::partial(ReduceOp::kBor)},
                    PlacementCase{"Bxor", "P(bxor)", Placement::partial(ReduceOp::kBxor)},
                    PlacementCase{"Mask", "MP", Placement::mask_partial()},
                    PlacementCase{"MaskOfRows", "MP(1,50257)", Placement::mask_partial(1, 50257)},
                    PlacementCase{"Norm", "NP(2)", Placement::norm_partial(2)},
                    PlacementCase{"FractionalNorm", "NP(1.5)", Placement::norm_partial(1.5)}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(PlacementText, PAloneIsASum) {
  EXPECT_EQ(Placement::parse("P"), Placement::partial(ReduceOp::kSum));
  EXPECT_EQ(Placement::parse("P").text(), "P(sum)");
}

TEST(PlacementText, BlanksInsideAreRead) {
  EXPECT_EQ(Placement::parse(" _S( 1 , 4 ) "), Placement::strided_shard(1, 4));
}

struct TextErrorCase {
  const char* name;
  const char* text;
  const char* message;
};
void PrintTo(const TextErrorCase& c, std::ostream* out) { *out << c.text; }
class PlacementErrors : public testing::TestWithParam<TextErrorCase> {};

TEST_P(PlacementErrors, AreTheseWordForWord) {
  EXPECT_THROW_MSG(Placement::parse(GetParam().text), TextError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, PlacementErrors,
    testing::Values(
        TextErrorCase{"Empty", "",
                      "placement \"\": at position 0: expected a placement: R, S(d), _S(d,f), "
                      "P(op), MP or NP(p); or one that is registered: RG(DIMS:UNITS)"},
        TextErrorCase{"Lowercase", "s(0)",
                      "placement \"s(0)\": at position 0: expected a placement: R, S(d), _S(d,f), "
                      "P(op), MP or NP(p); or one that is registered: RG(DIMS:UNITS)"},
        TextErrorCase{"ShardWithoutDim", "S()",
                      "placement \"S()\": at position 2: expected a tensor dim"},
        TextErrorCase{
            "NegativeDim", "S(-1)",
            "placement \"S(-1)\": at position 2: expected a tensor dim from 0 to 15, since a "
            "negative one counts from the last dim of a tensor, and no tensor is known "
            "here"},
        TextErrorCase{"DimTooLarge", "S(16)",
                      "placement \"S(16)\": at position 2: expected a tensor dim from 0 to 15"},
        TextErrorCase{"NotClosed", "S(0", "placement \"S(0\": at position 3: expected \")\""},
        TextErrorCase{"NoFactor", "_S(0)",
                      "placement \"_S(0)\": at position 4: expected \",\" and a split factor"},
        TextErrorCase{"FactorZero", "_S(0,0)",
                      "placement \"_S(0,0)\": at position 5: expected a split factor from 1 to "
                      "1073741824"},
        TextErrorCase{"UnknownOp", "P(mean)",
                      "placement \"P(mean)\": at position 2: expected a reduce op: sum, avg, max, "
                      "min, product, band, bor, bxor"},
        TextErrorCase{"NormZero", "NP(0)",
                      "placement \"NP(0)\": at position 3: expected a p other than 0 (use P(sum)) "
                      "and infinity (use P(max))"},
        TextErrorCase{
            "MaskWithoutRows", "MP(0)",
            "placement \"MP(0)\": at position 4: expected \",\" and the embedding's rows"},
        TextErrorCase{"Trailing", "RR",
                      "placement \"RR\": at position 1: expected the end of the placement"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Placement, KnowsItsKind) {
  EXPECT_TRUE(Placement().is_replicate());
  EXPECT_TRUE(Placement::shard(1).is_shard() && Placement::shard(1).is_shard_like());
  EXPECT_TRUE(Placement::shard(1).is_shard_of(1) && !Placement::shard(1).is_shard_of(0));
  EXPECT_TRUE(Placement::strided_shard(1, 2).is_strided());
  EXPECT_TRUE(Placement::strided_shard(1, 2).is_shard_like());
  EXPECT_FALSE(Placement::strided_shard(1, 2).is_shard());
  EXPECT_FALSE(Placement::strided_shard(1, 2).is_shard_of(1));
  for (const char* text : {"P(sum)", "MP", "NP(2)"}) {
    EXPECT_TRUE(Placement::parse(text).is_partial()) << text;
    EXPECT_FALSE(Placement::parse(text).is_shard_like()) << text;
  }
}

TEST(Placement, AStridedShardByOneIsNoPlainShard) {
  EXPECT_NE(Placement::strided_shard(0, 1), Placement::shard(0));
}

TEST(Placement, WithDimKeepsKindAndFactor) {
  EXPECT_EQ(Placement::shard(0).with_dim(3), Placement::shard(3));
  EXPECT_EQ(Placement::strided_shard(0, 4).with_dim(2), Placement::strided_shard(2, 4));
}

TEST(Placement, MaskAndNormBelongToTheIdentity) {
  EXPECT_NE(Placement::mask_partial(0, 10), Placement::mask_partial(0, 11));
  EXPECT_NE(Placement::mask_partial(0, 10), Placement::mask_partial(1, 10));
  EXPECT_NE(Placement::norm_partial(2), Placement::norm_partial(3));
  EXPECT_NE(Placement::mask_partial(), Placement::partial(ReduceOp::kSum));
}

TEST(MixedPartials, OnlySumAndAvgMayBeMixed) {
  // For each pair of kinds and ops: whether it is forbidden.
  const std::vector<std::pair<const char*, bool>> cases = {
      {"P(sum)P(sum)", false}, {"P(sum)P(avg)", false},   {"P(avg)P(sum)", false},
      {"P(max)P(max)", false}, {"P(max)P(min)", true},    {"P(sum)P(max)", true},
      {"P(avg)P(min)", true},  {"P(sum)P(product)", true}};
  for (const auto& [text, forbidden] : cases) {
    const std::string both(text);
    const std::size_t second = both.rfind('P');
    Placements placements = {Placement::parse(both.substr(0, second)), Placement::replicate(),
                             Placement::parse(both.substr(second))};
    EXPECT_EQ(has_mixed_partials(placements), forbidden) << text;
  }
}

TEST(MixedPartials, AMaskPartialIsAnotherKindAlthoughItSums) {
  EXPECT_TRUE(has_mixed_partials({Placement::mask_partial(), Placement::partial()}));
  EXPECT_TRUE(has_mixed_partials({Placement::norm_partial(2), Placement::partial()}));
  EXPECT_FALSE(has_mixed_partials({Placement::mask_partial(), Placement::shard(0)}));
}

TEST(LayoutText, IsReadWithAndWithoutSeparators) {
  const Layout expected = Layout::parse("S(0)RP(sum)", 3);
  for (const char* text : {"S(0),R,P(sum)", "S(0) R P", " S( 0 ) , R , P(sum) ", "S(0)RP"}) {
    EXPECT_EQ(Layout::parse(text, 3), expected) << text;
  }
  EXPECT_EQ(expected.text(), "S(0)RP(sum)");
}

TEST(LayoutText, TheDefaultOrderIsPrintedOnlyOnDemand) {
  const Layout layout = Layout::parse("S(0)S(0)R", 3);
  EXPECT_EQ(layout.text(), "S(0)S(0)R");
  EXPECT_EQ(layout.text(true), "S(0)[0]S(0)[1]R");
}

TEST(LayoutText, AnotherOrderIsPrintedAlways) {
  const Layout layout = Layout::parse("P S(1)[1] S(1)[0] R", 4);
  EXPECT_EQ(layout.text(), "P(sum)S(1)[1]S(1)[0]R");
  EXPECT_FALSE(layout.has_default_order());
}

TEST(LayoutText, IndicesStandOnlyOnTheTensorDimWhoseOrderDiffers) {
  EXPECT_EQ(Layout::parse("S(0)[1]S(1)[0]S(0)[0]S(1)[1]", 4).text(), "S(0)[1]S(1)S(0)[0]S(1)");
  EXPECT_EQ(Layout::parse("S(0)[1]S(1)S(0)[0]S(1)", 4).text(true), "S(0)[1]S(1)[0]S(0)[0]S(1)[1]");
}

TEST(LayoutText, ALoneShardNeedsNoIndexAndMayHaveIt) {
  EXPECT_EQ(Layout::parse("S(0)[0]R", 2), Layout::parse("S(0)R", 2));
  EXPECT_EQ(Layout::parse("S(0)R", 2).text(true), "S(0)R");
}

TEST(LayoutText, AStridedShardWithAnIndexIsAPlacementOfItsOwn) {
  const Layout own = Layout::parse("_S(0,2)[0]", 1);
  EXPECT_TRUE(own.own_strided);
  EXPECT_FALSE(own.encodes_order());
  EXPECT_EQ(own.text(), "_S(0,2)[0]");
  EXPECT_EQ(own.text(true), "_S(0,2)") << "plans are printed as PyTorch prints them";
  EXPECT_EQ(Layout::parse("S(0)[0]_S(0,4)[1]", 2).text(), "S(0)[0]_S(0,4)[1]");
  EXPECT_EQ(Layout::parse("S(1)_S(0,4)[0]", 2).text(), "S(1)_S(0,4)[0]");
  const Layout encoded = Layout::parse("_S(0,2)", 1);
  EXPECT_TRUE(encoded.encodes_order());
  EXPECT_NE(own, encoded);
  EXPECT_EQ(Layout::parse("S(0)[0]", 1), Layout::parse("S(0)", 1));
  EXPECT_TRUE(Layout::parse("_S(0,2)S(0)", 2).encodes_order());
}

TEST(LayoutText, RoundTripsForEveryOrderOfRandomLayouts) {
  Random random(21);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(2000); ++i) {
    const DeviceMesh mesh = random_mesh(random, 5, 3);
    Layout layout = random_layout(random, mesh, 3, {.strided = random.percent(30)});
    // Strided shards with an order index are placements of their own.
    layout.own_strided = layout.has_strided();
    EXPECT_EQ(Layout::parse(layout.text(), mesh.ndim()), layout) << layout.text();
    if (!layout.has_strided()) {
      EXPECT_EQ(Layout::parse(layout.text(true), mesh.ndim()), layout) << layout.text(true);
    }
  }
}

class LayoutErrors : public testing::TestWithParam<TextErrorCase> {};

TEST_P(LayoutErrors, AreTheseWordForWord) {
  EXPECT_THROW_MSG(Layout::parse(GetParam().text, 2), TextError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    OnTwoMeshDims, LayoutErrors,
    testing::Values(
        TextErrorCase{"TooFew", "R",
                      "layout \"R\": at position 1: expected 2 placements, one per mesh dim"},
        TextErrorCase{"TooMany", "RRR",
                      "layout \"RRR\": at position 2: expected 2 placements, one per mesh dim"},
        TextErrorCase{"None", "",
                      "layout \"\": at position 0: expected 2 placements, one per mesh dim"},
        TextErrorCase{"UnknownPlacement", "RX",
                      "layout \"RX\": at position 1: expected a placement: R, S(d), _S(d,f), "
                      "P(op), MP or NP(p); or one that is registered: RG(DIMS:UNITS)"},
        TextErrorCase{
            "IndexOnAReplica", "R[0]R",
            "layout \"R[0]R\": at position 2: expected an order index only after a shard"},
        TextErrorCase{"IndexTooLarge", "S(0)[8]S(0)[0]",
                      "layout \"S(0)[8]S(0)[0]\": at position 5: expected an order index from 0 to "
                      "7"},
        TextErrorCase{"IndexNotClosed", "S(0)[0S(0)",
                      "layout \"S(0)[0S(0)\": at position 6: expected \"]\""},
        TextErrorCase{"SameIndexTwice", "S(0)[0]S(0)[0]",
                      "layout \"S(0)[0]S(0)[0]\": at position 0: expected order indices 0 to 1 on "
                      "the shards of tensor dim 0"},
        TextErrorCase{"IndexLeftOut", "S(0)[1]S(0)",
                      "layout \"S(0)[1]S(0)\": at position 0: expected order indices 0 to 1 on the "
                      "shards of tensor dim 0"},
        TextErrorCase{"IndexOutOfTheShards", "S(0)[1]S(1)",
                      "layout \"S(0)[1]S(1)\": at position 0: expected order indices 0 to 0 on the "
                      "shards of tensor dim 0"},
        TextErrorCase{
            "MixedPartials", "P(sum)P(max)",
            "layout \"P(sum)P(max)\": at position 6: expected partials of one kind (only "
            "P(sum) and P(avg) may be mixed), not P(sum) on mesh dim 0 and P(max) on mesh "
            "dim 1"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(LayoutErrorsOnSeveralMeshDims, NameThePartialsThatAreMixedAndTheirMeshDims) {
  const std::string expected =
      "expected partials of one kind (only P(sum) and P(avg) may be mixed), not ";
  EXPECT_THROW_MSG(Layout::parse("P(avg)S(0)P(max)", 3), TextError,
                   "layout \"P(avg)S(0)P(max)\": at position 10: " + expected +
                       "P(avg) on mesh dim 0 and P(max) on mesh dim 2");
  EXPECT_THROW_MSG(Layout::parse("RP(sum)P(avg)NP(2)P(min)", 5), TextError,
                   "layout \"RP(sum)P(avg)NP(2)P(min)\": at position 13: " + expected +
                       "P(sum) on mesh dim 1 and NP(2) on mesh dim 3");
  EXPECT_THROW_MSG(Layout::parse("(Partial(avg), Replicate(), Partial(max))", 3), TextError,
                   "layout \"(Partial(avg), Replicate(), Partial(max))\": at position 28: " +
                       expected + "P(avg) on mesh dim 0 and P(max) on mesh dim 2");
}

TEST(LayoutErrorsOnOneMeshDim, SpeakOfOnePlacement) {
  EXPECT_THROW_MSG(Layout::parse("RR", 1), TextError,
                   "layout \"RR\": at position 1: expected 1 placement, one per mesh dim");
}

TEST(Layout, ListsTheMeshDimsOfATensorDimInTheirOrder) {
  const Layout layout = Layout::parse("S(0)[2]S(1)S(0)[0]_S(0,2)[1]", 4);
  const auto dims = layout.mesh_dims_of(0);
  EXPECT_EQ(std::vector<int>(dims.begin(), dims.end()), (std::vector<int>{2, 3, 0}));
  EXPECT_EQ(layout.mesh_dims_of(1).size(), 1U);
  EXPECT_TRUE(layout.mesh_dims_of(2).empty());
}

TEST(Layout, KnowsWhetherItIsReplicatedOrStrided) {
  EXPECT_TRUE(Layout::replicated(3).is_replicated());
  EXPECT_FALSE(Layout::parse("RP", 2).is_replicated());
  EXPECT_TRUE(Layout::parse("R_S(0,2)", 2).has_strided());
  EXPECT_FALSE(Layout::parse("RS(0)", 2).has_strided());
}

TEST(Layout, SamePlacementsInAnotherOrderAreAnotherLayout) {
  const Layout layout = Layout::parse("S(0)S(0)S(0)", 3);
  const auto orders = all_orders(layout);
  ASSERT_EQ(orders.size(), 6U);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    for (std::size_t j = 0; j < orders.size(); ++j) EXPECT_EQ(orders[i] == orders[j], i == j);
  }
}

}  // namespace placement_test
}  // namespace shardlab
