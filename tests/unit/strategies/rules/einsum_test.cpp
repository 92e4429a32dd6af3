#include "strategies/rules/einsum.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace einsum_test {

using testing_support::row_texts;
using Linearity = EinsumEquation::Linearity;
using Texts = std::vector<std::string>;

Texts rows(const char* equation, Linearity linearity = Linearity::kNone) {
  return row_texts(EinsumEquation::parse(equation).rows(linearity, true));
}

TEST(EinsumRows, MmShardsItsThreeLetters) {
  EXPECT_EQ(rows("mk,kn->mn"), (Texts{"P(sum)|?1,?0", "?0|?0,R", "?1|R,?1"}));
}

TEST(EinsumRows, LinearMmAlsoTakesOnePartialInput) {
  EXPECT_EQ(rows("mk,kn->mn", Linearity::kPerInput),
            (Texts{"P(sum)|?1,?0", "?0|?0,R", "?1|R,?1", "P(sum)|P(sum),R", "P(sum)|R,P(sum)",
                   "P(avg)|P(avg),R", "P(avg)|R,P(avg)"}));
}

TEST(EinsumRows, BmmListsTheBatchFirst) {
  EXPECT_EQ(rows("bmk,bkn->bmn"), (Texts{"?0|?0,?0", "P(sum)|?2,?1", "?1|?1,R", "?2|R,?2"}));
}

TEST(EinsumRows, R18AFourDimensionalProductShardsEveryLetter) {
  EXPECT_EQ(rows("bsk,kn->bsn"), (Texts{"P(sum)|?2,?0", "?0|?0,R", "?1|?1,R", "?2|R,?1"}));
}

TEST(EinsumRows, DotAndMvContractTheirSharedLetter) {
  EXPECT_EQ(rows("i,i->"), (Texts{"P(sum)|?0,?0"}));
  EXPECT_EQ(rows("mk,k->m"), (Texts{"P(sum)|?1,?0", "?0|?0,R"}));
}

TEST(EinsumRows, ATransposedOutputFollowsTheLetters) {
  EXPECT_EQ(rows("mk,kn->nm"), (Texts{"P(sum)|?1,?0", "?1|?0,R", "?0|R,?1"}));
}

TEST(EinsumRows, OneInputIsReducedOrTransposed) {
  EXPECT_EQ(rows("ij->ji"), (Texts{"?1|?0", "?0|?1"}));
  EXPECT_EQ(rows("ij->i"), (Texts{"?0|?0", "P(sum)|?1"}));
  EXPECT_EQ(rows("ij->", Linearity::kPerInput),
            (Texts{"P(sum)|?0", "P(sum)|?1", "P(sum)|P(sum)", "P(avg)|P(avg)"}));
}

TEST(EinsumRows, ALetterThatOnlyOneInputHasAndReducesCantBeSplit) {
  EXPECT_EQ(rows("ij,jk->k"), (Texts{"P(sum)|?1,?0", "?0|R,?1"}));
}

TEST(EinsumRows, R64AllInputsArePartialOnlyInElementwiseProductsAndOnlyOnDemand) {
  EXPECT_EQ(rows("ij,ij->ij", Linearity::kPerInputAndAll).size(), 2U + 4U + 2U);
  EXPECT_EQ(rows("ij,ij->ij", Linearity::kPerInputAndAll).back(), "P(avg)|P(avg),P(avg)");
  EXPECT_EQ(rows("ij,ij->ij", Linearity::kPerInput).size(), 2U + 4U);
  EXPECT_EQ(rows("mk,kn->mn", Linearity::kPerInputAndAll).size(), 3U + 4U);
}

TEST(EinsumRows, ConcreteRowsHavePlainShards) {
  const Rows concrete = EinsumEquation::parse("mk,kn->mn").rows(Linearity::kNone, false);
  EXPECT_EQ(row_texts(concrete), (Texts{"P(sum)|S(1),S(0)", "S(0)|S(0),R", "S(1)|R,S(1)"}));
}

TEST(Einsum, ComputesTheOutputShape) {
  const std::vector<Shape> shapes = {{2, 3, 4}, {2, 4, 5}};
  EXPECT_EQ(EinsumEquation::parse("bmk,bkn->bmn").output_shape(shapes, "op"), (Shape{2, 3, 5}));
  EXPECT_EQ(EinsumEquation::parse("bmk,bkn->nb").output_shape(shapes, "op"), (Shape{5, 2}));
}

TEST(Einsum, CountsTwoOperationsPerCombination) {
  const std::vector<Shape> shapes = {{3, 4}, {4, 5}};
  EXPECT_EQ(EinsumEquation::parse("mk,kn->mn").flops(shapes), 2.0 * 3 * 4 * 5);
  // The inputs have different local extents of k; the rank computes with the smaller one.
  const std::vector<Shape> local = {{3, 4}, {2, 5}};
  EXPECT_EQ(EinsumEquation::parse("mk,kn->mn").flops(local), 2.0 * 3 * 2 * 5);
}

TEST(Einsum, RefusesShapesThatDoNotFit) {
  const EinsumEquation mm = EinsumEquation::parse("mk,kn->mn");
  EXPECT_THROW_MSG(mm.output_shape(std::vector<Shape>{{3, 4}, {5, 6}}, "aten.mm.default"),
                   InputError, "aten.mm.default: shapes do not fit mk,kn->mn: found [3,4], [5,6]");
  EXPECT_THROW_MSG(mm.output_shape(std::vector<Shape>{{3, 4}}, "aten.mm.default"), InputError,
                   "aten.mm.default: shapes do not fit mk,kn->mn: found [3,4]");
  EXPECT_THROW_MSG(mm.output_shape(std::vector<Shape>{{3, 4, 1}, {4, 6}}, "op"), InputError,
                   "op: shapes do not fit mk,kn->mn: found [3,4,1], [4,6]");
}

struct EquationError {
  const char* name;
  const char* text;
  const char* message;
};
void PrintTo(const EquationError& c, std::ostream* out) { *out << c.text; }
class EinsumErrors : public testing::TestWithParam<EquationError> {};

TEST_P(EinsumErrors, AreTheseWordForWord) {
  EXPECT_THROW_MSG(EinsumEquation::parse(GetParam().text), TextError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, EinsumErrors,
    testing::Values(
        EquationError{"NoArrow", "mk,kn",
                      "einsum equation \"mk,kn\": at position 5: expected \"->\" and the output's "
                      "letters"},
        EquationError{"ThreeInputs", "a,b,c->abc",
                      "einsum equation \"a,b,c->abc\": at position 3: expected at most two inputs"},
        EquationError{"Uppercase", "Mk,kn->Mn",
                      "einsum equation \"Mk,kn->Mn\": at position 0: expected an equation of one "
                      "or two inputs, such as mk,kn->mn"},
        EquationError{"Blank", "mk, kn->mn",
                      "einsum equation \"mk, kn->mn\": at position 3: expected an equation of one "
                      "or two inputs, such as mk,kn->mn"},
        EquationError{"Diagonal", "ii->i",
                      "einsum equation \"ii->i\": at position 1: expected distinct letters in one "
                      "input"},
        EquationError{"UnknownOutput", "mk,kn->mx",
                      "einsum equation \"mk,kn->mx\": at position 8: expected letters of the "
                      "inputs"},
        EquationError{"RepeatedOutput", "mk,kn->mm",
                      "einsum equation \"mk,kn->mm\": at position 8: expected distinct letters in "
                      "the output"},
        EquationError{"Ellipsis", "...k,kn->n",
                      "einsum equation \"...k,kn->n\": at position 0: expected an equation of one "
                      "or two inputs, such as mk,kn->mn"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace einsum_test
}  // namespace shardlab
