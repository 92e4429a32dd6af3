// From rows to candidates: filling, counts, filters (regressions R20, R21, R26, R27, R28).
#include "strategies/rules/expansion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace expansion_test {

using testing_support::call_of;
using testing_support::layouts_text;
using testing_support::row_texts;
using Texts = std::vector<std::string>;

Expansion expanded(const char* op, const std::vector<std::string>& inputs, const char* mesh_text,
                   RuleSet set = Release::k2_13, const std::string& args = "[]") {
  const DeviceMesh mesh = DeviceMesh::parse(mesh_text);
  return expand(find_op_rule(op, set), call_of(op, inputs, mesh.ndim(), args), mesh);
}

std::string candidate_text(const Expansion& e, std::size_t c) {
  std::vector<Placements> outputs;
  std::vector<Placements> inputs;
  for (std::size_t o = 0; o < e.outputs(); ++o) outputs.push_back(e.output(c, o));
  for (std::size_t i = 0; i < e.inputs(); ++i) inputs.push_back(e.input(c, i));
  return layouts_text(outputs, inputs);
}

Texts candidate_texts(const Expansion& e) {
  Texts texts;
  for (std::size_t c = 0; c < e.size(); ++c) texts.push_back(candidate_text(e, c));
  return texts;
}

bool contains(const Texts& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// -- Filling (R21) -----------------------------------------------------------------------------

Texts filled_mm(const std::vector<std::string>& inputs) {
  const OpRule& rule = find_op_rule("aten.mm.default", Release::k2_13);
  const OpCall call = call_of("aten.mm.default", inputs, 1);
  return row_texts(fill_rows(rule.rows(call, rule), 1, call));
}

TEST(FillRows, R21ReplicatedInputsFillNoPlaceholder) {
  EXPECT_EQ(
      filled_mm({"f32[8,8] R", "f32[8,8] R"}),
      (Texts{"R|R,R", "P(sum)|P(sum),R", "P(sum)|R,P(sum)", "P(avg)|P(avg),R", "P(avg)|R,P(avg)"}));
}

TEST(FillRows, R21AShardAmongTheInputsFillsThePlaceholders) {
  EXPECT_EQ(filled_mm({"f32[8,8] S(0)", "f32[8,8] R"}),
            (Texts{"R|R,R", "P(sum)|S(1),S(0)", "S(0)|S(0),R", "S(1)|R,S(1)", "P(sum)|P(sum),R",
                   "P(sum)|R,P(sum)", "P(avg)|P(avg),R", "P(avg)|R,P(avg)"}));
}

TEST(FillRows, R21EveryFactorFillsItsOwnRowsAscending) {
  const Texts rows = filled_mm({"f32[64,64] _S(0,4)", "f32[64,64] _S(1,2)"});
  ASSERT_EQ(rows.size(), 11U);
  EXPECT_EQ(rows[1], "P(sum)|_S(1,2),_S(0,2)");
  EXPECT_EQ(rows[2], "P(sum)|_S(1,4),_S(0,4)");
  EXPECT_EQ(rows[3], "_S(0,2)|_S(0,2),R");
}

TEST(FillRows, R21PlainShardsComeBeforeStridedOnes) {
  const Texts rows = filled_mm({"f32[64,64] S(0)", "f32[64,64] _S(1,2)"});
  ASSERT_EQ(rows.size(), 11U);
  EXPECT_EQ(rows[1], "P(sum)|S(1),S(0)");
  EXPECT_EQ(rows[2], "P(sum)|_S(1,2),_S(0,2)");
}

TEST(FillRows, OneFactorTwiceFillsOnce) {
  EXPECT_EQ(filled_mm({"f32[64,64] _S(0,2)", "f32[64,64] _S(1,2)"}).size(), 8U);
}

TEST(FillRows, TheReplicatedRowIsNotDoubledWhereARuleListsIt) {
  const OpCall call = call_of("op", {"f32[8] S(0)"}, 1);
  const Placement r = Placement::replicate();
  const Rows rows = {{RowEntry::any_shard(0), RowEntry::any_shard(0)}, {r, r}};
  EXPECT_EQ(row_texts(fill_rows(rows, 1, call)), (Texts{"S(0)|S(0)", "R|R"}));
}

TEST(FillRows, R26ARowOfTheWrongLengthIsAnError) {
  // A row of mul.out needs four entries, since the out tensor has one too.
  const OpCall call = call_of("aten.mul.out", {"f32[8] R", "f32[8] R", "f32[8] R"}, 1);
  const Placement p = Placement::partial();
  const Placement r = Placement::replicate();
  EXPECT_THROW_MSG(fill_rows(Rows{{p, p, r}}, 1, call), InputError,
                   "aten.mul.out: a row has 3 placements; valid: 4 (1 for outputs, 3 for inputs)");
  EXPECT_NO_THROW(static_cast<void>(fill_rows(Rows{{p, p, r, p}}, 1, call)));
}

// -- Counts (R20) ------------------------------------------------------------------------------

TEST(Expansion, R20MmOnThreeMeshDims) {
  EXPECT_EQ(expanded("aten.mm.default", {"f32[64,32] S(0)RR", "f32[32,64] RRR"}, "2x2x2").size(),
            512U);
}

TEST(Expansion, R20AddOfThreeDimensionalTensors) {
  EXPECT_EQ(expanded("aten.add.Tensor", {"f32[8,8,8] S(0)RR", "f32[8,8,8] RRR"}, "2x2x2").size(),
            634U);
  EXPECT_EQ(expanded("aten.add.Tensor", {"f32[8,8,8] PPR", "f32[8,8,8] RRR"}, "2x2x2").size(),
            139U);
}

TEST(Expansion, R20PointwiseWithoutPartials) {
  EXPECT_EQ(expanded("aten.abs.default", {"f32[8,8,8] S(1)RR"}, "2x2x2").size(), 64U);
}

TEST(Expansion, R20CatWithFourPartialsAndWithSums) {
  const std::vector<std::string> inputs = {"[f32[8,8,8] S(1)RR; f32[8,8,8] RRR]"};
  EXPECT_EQ(expanded("aten.cat.default", inputs, "2x2x2", kShardlab, "[0]").size(), 199U);
  // The rows S1, S2, P(sum) and R make 4^3 combinations, but S1 S1 S1 does not fit 8x4x8.
  const DeviceMesh mesh = DeviceMesh::parse("2x2x2");
  const OpRule rule{.op = "aten.cat.default"};
  Rows rows;
  for (const char* text : {"R", "S(1)", "S(2)", "P"}) {
    rows.emplace_back(3, RowEntry(Placement::parse(text)));
  }
  const OpCall even = call_of("aten.cat.default", inputs, 3);
  EXPECT_EQ(expand_rows(rows, 1, rule, even, mesh).size(), 64U);
  const OpCall narrow = call_of("aten.cat.default", {"[f32[8,4,8] S(1)RR; f32[8,4,8] RRR]"}, 3);
  EXPECT_EQ(expand_rows(rows, 1, rule, narrow, mesh).size(), 63U);
}

TEST(Expansion, R20AnInPlaceAddKeepsItsTensorAsItIs) {
  const Expansion e =
      expanded("aten.add_.Tensor", {"f32[8,8,8] S(0)RR", "f32[8,8,8] RRR"}, "2x2x2");
  EXPECT_EQ(candidate_texts(e), (Texts{"S(0)RR|S(0)RR,S(0)RR"}));
}

TEST(Expansion, CandidatesCountWithTheLastMeshDimFastest) {
  const Texts texts = candidate_texts(expanded("aten.abs.default", {"f32[8,8] S(0)R"}, "2x2"));
  EXPECT_EQ(texts,
            (Texts{"RR|RR", "RS(0)|RS(0)", "RS(1)|RS(1)", "S(0)R|S(0)R", "S(0)S(0)|S(0)S(0)",
                   "S(0)S(1)|S(0)S(1)", "S(1)R|S(1)R", "S(1)S(0)|S(1)S(0)", "S(1)S(1)|S(1)S(1)"}));
}

TEST(Expansion, CodesTellTheLayoutsOfATensorApart) {
  const Expansion e = expanded("aten.mm.default", {"f32[64,32] S(0)R", "f32[32,64] RR"}, "2x2");
  for (std::size_t i = 0; i < e.inputs(); ++i) {
    std::set<std::string> layouts;
    for (const std::uint32_t code : e.used_codes(i)) {
      EXPECT_LT(code, e.codes(i));
      EXPECT_TRUE(layouts.insert(e.input_layout(i, code).text()).second);
    }
    for (std::size_t c = 0; c < e.size(); ++c) {
      EXPECT_EQ(e.input(c, i), e.input_layout(i, e.code(c, i)).placements);
      EXPECT_TRUE(layouts.contains(Layout(e.input(c, i)).text()));
    }
  }
}

TEST(Expansion, KnowsWhichCandidateKeepsItsInputs) {
  const Expansion e = expanded("aten.mm.default", {"f32[64,32] S(0)R", "f32[32,64] RS(1)"}, "2x2");
  Texts keeping;
  for (std::size_t c = 0; c < e.size(); ++c) {
    if (e.keeps_inputs(c)) keeping.push_back(candidate_text(e, c));
  }
  EXPECT_EQ(keeping, (Texts{"S(0)S(1)|S(0)R,RS(1)"}));
}

// -- Filters -----------------------------------------------------------------------------------

TEST(ExpansionFilters, R27SumsAndMaximaNeverMix) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const OpCall call = call_of("op", {"f32[8] RR"}, 2);
  Rows rows;
  for (const char* text : {"R", "P(sum)", "P(max)"}) {
    rows.emplace_back(2, RowEntry(Placement::parse(text)));
  }
  const Texts texts = candidate_texts(expand_rows(rows, 1, OpRule{.op = "op"}, call, mesh));
  EXPECT_EQ(texts.size(), 7U);
  EXPECT_TRUE(contains(texts, "P(sum)P(sum)|P(sum)P(sum)"));
  EXPECT_TRUE(contains(texts, "P(max)P(max)|P(max)P(max)"));
  EXPECT_FALSE(contains(texts, "P(sum)P(max)|P(sum)P(max)"));
}

TEST(ExpansionFilters, R27SumsAndAveragesMix) {
  const Texts texts = candidate_texts(expanded("aten.neg.default", {"f32[8] RR"}, "2x2"));
  EXPECT_TRUE(contains(texts, "P(sum)P(avg)|P(sum)P(avg)"));
  EXPECT_FALSE(contains(texts, "P(sum)P(min)|P(sum)P(max)"));
  EXPECT_FALSE(contains(texts, "P(max)P(min)|P(min)P(max)"));
}

TEST(ExpansionFilters, AMixInTheOutputAloneIsForbiddenToo) {
  // Take logaddexp of (P(max),R) and (R,P(min)): both inputs are legal layouts, but the output
  // would be (P(max),P(min)).
  const Texts texts =
      candidate_texts(expanded("aten.logaddexp.default", {"f32[8] RR", "f32[8] RR"}, "2x2"));
  EXPECT_FALSE(contains(texts, "P(max)P(min)|P(max)R,RP(min)"));
  EXPECT_TRUE(contains(texts, "P(max)P(max)|P(max)R,RP(max)"));
}

TEST(ExpansionFilters, R26AnInPlaceOpWhoseTensorWouldMoveHasNoCandidate) {
  const Expansion e = expanded("aten.clamp_.default", {"f32[] P"}, "2");
  EXPECT_EQ(e.size(), 0U);
  EXPECT_EQ(e.in_place_error(),
            "aten.clamp_.default: in-place operations that require placement changes are not "
            "supported (input P(sum))");
}

TEST(ExpansionFilters, R26AnOutTensorKeepsItsPlacements) {
  const Texts texts =
      candidate_texts(expanded("aten.mul.out", {"f32[8] P", "f32[8] R", "f32[8] P"}, "2"));
  EXPECT_EQ(texts, (Texts{"P(sum)|P(sum),R,P(sum)", "P(sum)|R,P(sum),P(sum)"}));
}

TEST(ExpansionFilters, AShardNeedsAnElementOnEveryRank) {
  const Texts texts =
      candidate_texts(expanded("aten.mm.default", {"f32[2,8] S(1)", "f32[8,8] R"}, "4"));
  EXPECT_FALSE(contains(texts, "S(0)|S(0),R"));
  EXPECT_TRUE(contains(texts, "P(sum)|S(1),S(0)"));
}

TEST(ExpansionFilters, R28PointwiseOpsKeepAnUnevenShardThatIsThereAlready) {
  const Texts pointwise = candidate_texts(expanded("aten.abs.default", {"f32[2] S(0)"}, "4"));
  EXPECT_EQ(pointwise, (Texts{"R|R", "S(0)|S(0)"}));
  // Other ops do not allow it, and pointwise ops do not create one.
  EXPECT_FALSE(
      contains(candidate_texts(expanded("aten.mm.default", {"f32[2,8] S(0)", "f32[8,8] R"}, "4")),
               "S(0)|S(0),R"));
  EXPECT_FALSE(
      contains(candidate_texts(expanded("aten.add.Tensor", {"f32[2] R", "f32[2] S(0)"}, "4")),
               "S(0)|S(0),S(0)"));
}

TEST(ExpansionFilters, R68AMeanOfUnevenShardsIsNotTheAverageOfTheirMeans) {
  const char* dim0 = "[[0]]";
  EXPECT_EQ(candidate_texts(expanded("aten.mean.dim", {"f32[3,4] S(0)"}, "2", kShardlab, dim0)),
            (Texts{"R|R", "S(0)|S(1)", "P(avg)|P(avg)", "P(sum)|P(sum)"}));
  EXPECT_TRUE(
      contains(candidate_texts(expanded("aten.mean.dim", {"f32[4,4] S(0)"}, "2", kShardlab, dim0)),
               "P(avg)|S(0)"));
  // PyTorch's follow rule gathers first.
  EXPECT_EQ(
      candidate_texts(expanded("aten.mean.dim", {"f32[3,4] S(0)"}, "2", Release::k2_13, dim0)),
      (Texts{"R|R"}));
  EXPECT_EQ(
      candidate_texts(expanded("aten.mean.dim", {"f32[4,4] S(0)"}, "2", Release::k2_13, dim0)),
      (Texts{"P(avg)|S(0)"}));
}

TEST(ExpansionFilters, SincePyTorch214TheyLookAtTheWholeMesh) {
  const auto texts = [](const char* op, const std::vector<std::string>& inputs, const char* mesh,
                        const char* args, RuleSet set = Release::k2_14) {
    return candidate_texts(expanded(op, inputs, mesh, set, args));
  };
  // Six elements are even on each mesh dim, but not on both.
  const Texts mean = texts("aten.mean.default", {"f32[6] S(0)R"}, "2x3", "[]");
  EXPECT_TRUE(contains(mean, "P(avg)P(avg)|S(0)S(0)"));
  const Texts uneven = texts("aten.mean.default", {"f32[6] S(0)R"}, "2x2", "[]");
  EXPECT_TRUE(contains(uneven, "P(avg)R|S(0)R"));
  EXPECT_FALSE(contains(uneven, "P(avg)P(avg)|S(0)S(0)"));
  // What argmax replicates it does not shard again.
  EXPECT_EQ(texts("aten.argmax.default", {"f32[4,4] S(0)"}, "2", "[0]"), (Texts{"R|R"}));
  EXPECT_EQ(texts("aten.argmax.default", {"f32[4,4] S(1)"}, "2", "[0]"),
            (Texts{"R|R", "S(0)|S(1)"}));
  // The last spatial dim of a convolution is sharded on one mesh dim, into whole strides.
  const char* tiles = "[[2,2],[0,0],[1,1],false,[0,0],1]";
  const std::vector<std::string> image = {"f32[4,4,8,8] S(3)R", "f32[4,4,2,2] RR"};
  const Texts convolution = texts("aten.convolution.default", image, "2x2", tiles);
  EXPECT_TRUE(contains(convolution, "S(3)R|S(3)R,RR"));
  EXPECT_FALSE(contains(convolution, "S(3)S(3)|S(3)S(3),RR"));
  EXPECT_FALSE(contains(texts("aten.convolution.default", image, "2x2", tiles, Release::k2_13),
                        "S(3)R|S(3)R,RR"));
}

TEST(ExpansionFilters, SincePyTorch215UnbindKeepsItsInput) {
  const auto texts = [](const char* input, RuleSet set) {
    return candidate_texts(expanded("aten.unbind.int", {input}, "2x2", set, "[0]"));
  };
  for (const Release release : {Release::k2_14, Release::k2_15}) {
    EXPECT_EQ(texts("f32[2,8,8] S(1)P(sum)", release), (Texts{"S(0)P(sum),S(0)P(sum)|S(1)P(sum)"}));
    EXPECT_THROW(texts("f32[2,8,8] S(0)R", release), InputError);
  }
  EXPECT_EQ(texts("f32[2,8,8] P(product)R", Release::k2_14).size(), 1U);
  EXPECT_EQ(texts("f32[2,8,8] P(product)R", Release::k2_15).size(), 0U) << "no row has a product";
}

TEST(Expansion, UnevenInputsMayStayWhereTheReleaseAllowsIt) {
  const auto size = [](RuleSet set) {
    return expanded("aten.max.dim", {"f32[1,8] S(0)"}, "2", set, "[1]").size();
  };
  EXPECT_EQ(size(Release::k2_13), 1U);
  EXPECT_EQ(size(Release::k2_14), 2U);
  EXPECT_EQ(size(Release::k2_15), 2U);
  EXPECT_EQ(size(kShardlab), 1U);
}

TEST(Expansion, TooManyCombinationsAreAnErrorWithAWayOut) {
  // The rows are R, three shards and six partials, which on eight mesh dims is 10^8 combinations.
  EXPECT_THROW_MSG(
      expanded("aten.add.Tensor", {"f32[512,512,512] S(0)RRRRRRR", "f32[512,512,512] RRRRRRRR"},
               "2x2x2x2x2x2x2x2"),
      InputError,
      "aten.add.Tensor: 10 rows on each of 8 mesh dims make too many candidates to enumerate; use "
      "--search exact");
}

// -- Follow rules ------------------------------------------------------------------------------

struct FollowCase {
  const char* name;
  RuleSet set;
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  const char* mesh;
  Texts candidates;
};
void PrintTo(const FollowCase& c, std::ostream* out) { *out << c.name; }
class FollowRules : public testing::TestWithParam<FollowCase> {};

TEST_P(FollowRules, DeriveTheCandidatesFromTheInputs) {
  const FollowCase& c = GetParam();
  EXPECT_EQ(candidate_texts(expanded(c.op, c.inputs, c.mesh, c.set, c.args)), c.candidates);
}

INSTANTIATE_TEST_SUITE_P(
    All, FollowRules,
    testing::Values(FollowCase{"SumOverItsShard",
                               Release::k2_13,
                               "aten.sum.dim_IntList",
                               {"f32[8,8] S(0)S(1)"},
                               "[[1]]",
                               "2x2",
                               {"S(0)P(sum)|S(0)S(1)"}},
                    FollowCase{"SumShiftsTheDimsBehind",
                               Release::k2_13,
                               "aten.sum.dim_IntList",
                               {"f32[8,8,8] S(2)R"},
                               "[[0]]",
                               "2x2",
                               {"S(1)R|S(2)R"}},
                    FollowCase{"SumKeepingItsDim",
                               Release::k2_13,
                               "aten.sum.dim_IntList",
                               {"f32[8,8,8] S(2)R"},
                               "[[0], true]",
                               "2x2",
                               {"S(2)R|S(2)R"}},
                    FollowCase{"R59MaximumOfASumReducesFirst",
                               Release::k2_13,
                               "aten.max.default",
                               {"f32[8,8] S(0)P"},
                               "[]",
                               "2x2",
                               {"RR|RR"}},
                    FollowCase{"R59MaximumOfAMaximumKeepsIt",
                               Release::k2_13,
                               "aten.max.default",
                               {"f32[8,8] S(0)P(max)"},
                               "[]",
                               "2x2",
                               {"P(max)P(max)|S(0)P(max)"}},
                    FollowCase{"SoftmaxGathersItsDimAndReduces",
                               Release::k2_13,
                               "aten._softmax.default",
                               {"f32[8,8] S(0)S(1)"},
                               "[1, false]",
                               "2x2",
                               {"S(0)R|S(0)R"}},
                    FollowCase{"SoftmaxReducesPartials",
                               Release::k2_13,
                               "aten._softmax.default",
                               {"f32[8,8] PS(0)"},
                               "[1, false]",
                               "2x2",
                               {"RS(0)|RS(0)"}},
                    FollowCase{"CatTakesEveryInputsLayoutOnce",
                               Release::k2_13,
                               "aten.cat.default",
                               {"[f32[8,8] S(1)R; f32[8,8] RS(1); f32[8,8] S(1)R]"},
                               "[0]",
                               "2x2",
                               {"S(1)R|S(1)R,S(1)R,S(1)R", "RS(1)|RS(1),RS(1),RS(1)"}},
                    FollowCase{"CatGathersTheJoinedDim",
                               Release::k2_13,
                               "aten.cat.default",
                               {"[f32[8,8] S(0)S(1); f32[8,8] RS(1)]"},
                               "[0]",
                               "2x2",
                               {"RS(1)|RS(1),RS(1)"}},
                    FollowCase{"StackMergesAndShifts",
                               Release::k2_13,
                               "aten.stack.default",
                               {"[f32[8,8] S(0)R; f32[8,8] RP]"},
                               "[0]",
                               "2x2",
                               {"S(1)P(sum)|S(0)P(sum),S(0)P(sum)"}},
                    FollowCase{"StackOfTwoShardsReplicates",
                               Release::k2_13,
                               "aten.stack.default",
                               {"[f32[8,8] S(0)R; f32[8,8] S(1)R]"},
                               "[2]",
                               "2x2",
                               {"RR|RR,RR"}},
                    FollowCase{"LegacyAddDividesTheReplica",
                               kDTensorLegacy,
                               "aten.add.Tensor",
                               {"f32[8,8] PR", "f32[8,8] RR"},
                               "[]",
                               "2x2",
                               {"P(sum)R|P(sum)R,P(sum)R"}},
                    FollowCase{"R58LegacyMulKeepsOneOperandWhole",
                               kDTensorLegacy,
                               "aten.mul.Tensor",
                               {"f32[8,8] PR", "f32[8,8] RR"},
                               "[]",
                               "2x2",
                               {"P(sum)R|P(sum)R,RR"}},
                    FollowCase{"LegacyAbsReduces",
                               kDTensorLegacy,
                               "aten.abs.default",
                               {"f32[8,8] PS(0)"},
                               "[]",
                               "2x2",
                               {"RS(0)|RS(0)"}},
                    FollowCase{"LegacyFollowsTheMostSharded",
                               kDTensorLegacy,
                               "aten.add.Tensor",
                               {"f32[8,8] S(0)R", "f32[8,8] S(1)S(0)"},
                               "[]",
                               "2x2",
                               {"S(1)S(0)|S(1)S(0),S(1)S(0)"}},
                    FollowCase{"LegacyTiesFollowTheFirst",
                               kDTensorLegacy,
                               "aten.add.Tensor",
                               {"f32[8,8] S(0)R", "f32[8,8] S(1)R"},
                               "[]",
                               "2x2",
                               {"S(0)R|S(0)R,S(0)R"}},
                    FollowCase{"LegacyMapsShardsThroughTheBroadcast",
                               kDTensorLegacy,
                               "aten.add.Tensor",
                               {"f32[8,8] S(1)S(0)", "f32[8] RR"},
                               "[]",
                               "2x2",
                               {"S(1)S(0)|S(1)S(0),S(0)R"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(FollowCandidates, WithTheWrongNumberOfInputsAreAnError) {
  const DeviceMesh mesh = DeviceMesh::parse("2");
  const OpCall call = call_of("op", {"f32[8] R", "f32[8] R"}, 1);
  const std::vector<FollowCandidate> one = {
      {.outputs = {{Placement()}}, .inputs = {{Placement()}}}};
  EXPECT_THROW_MSG(expand_candidates(one, call, mesh), InputError,
                   "op: candidate 0 has 1 inputs; valid: 2");
}

// -- Foreach -----------------------------------------------------------------------------------

TEST(Foreach, ChildrenTakeOneElementOfEveryList) {
  const OpCall call = call_of("aten._foreach_add.List",
                              {"[f32[8] R; f32[4] S(0)]", "[f32[8] P; f32[4] R]"}, 1, "[2]");
  EXPECT_EQ(foreach_size(call), 2U);
  EXPECT_EQ(foreach_child(call, 1).text(), "aten._foreach_add.List(f32[4] S(0), f32[4] R, 2)");
}

TEST(Foreach, ListsOfUnequalLengthAreAnError) {
  EXPECT_THROW_MSG(foreach_size(call_of("op", {"[f32[8] R; f32[4] R]", "[f32[8] R]"}, 1)),
                   InputError,
                   "op: found tensor lists of length 2 and 1; valid: lists of one length");
  EXPECT_THROW_MSG(foreach_size(call_of("op", {"f32[8] R"}, 1)), InputError,
                   "op: takes tensor lists, such as \"[f32[8,8] R]\"");
}

TEST(StridedLayouts, FollowWhatTheInputsMeanByThem) {
  const Placements strided = {Placement::strided_shard(0, 2)};
  const auto texts = [&](const char* first, const char* second) {
    const OpCall call = call_of(
        "aten.add.Tensor", {std::string("f32[8] ") + first, std::string("f32[8] ") + second}, 1);
    return asked_layout(call, strided).text() + " " + made_layout(call, strided).text();
  };
  EXPECT_EQ(texts("_S(0,2)[0]", "R"), "_S(0,2)[0] _S(0,2)[0]");
  EXPECT_EQ(texts("R", "_S(0,2)"), "_S(0,2) _S(0,2)");
  EXPECT_EQ(texts("_S(0,2)[0]", "_S(0,2)"), "_S(0,2)[0] _S(0,2)") << "the first one counts";
  EXPECT_EQ(texts("_S(0,2)", "_S(0,2)[0]"), "_S(0,2) _S(0,2)");
  // Without strided inputs, only a view makes such an output.
  EXPECT_EQ(texts("S(0)", "R"), "_S(0,2)[0] _S(0,2)[0]");
}

}  // namespace expansion_test
}  // namespace shardlab
