// Rows of ops that look up, write or cut: which dims may be sharded, and which partials pass.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace families_index_test {

using testing_support::call_of;
using testing_support::row_texts;
using Texts = std::vector<std::string>;

struct RowsCase {
  const char* name;
  RuleSet set;
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  Texts rows;
};
void PrintTo(const RowsCase& c, std::ostream* out) { *out << c.op; }
class IndexRows : public testing::TestWithParam<RowsCase> {};

TEST_P(IndexRows, AreTheseInThisOrder) {
  const RowsCase& c = GetParam();
  const OpRule& rule = find_op_rule(c.op, c.set);
  const OpCall call = call_of(c.op, c.inputs, 1, c.args);
  EXPECT_EQ(row_texts(rule.rows(call, rule), rule.outputs(call).size()), c.rows);
}

INSTANTIATE_TEST_SUITE_P(
    All, IndexRows,
    testing::Values(
        // Where the indexed dims are not next to each other, the selected ones come first in the
        // result.
        RowsCase{"IndexApart",
                 Release::k2_13,
                 "aten.index.Tensor",
                 {"f32[4,5,6] R", "[i64[3] R; none; i64[2,1] R]"},
                 "[]",
                 {"?2|?1,R,R", "?0|R,R,?0", "?1|R,?0,R", "P(sum)|P(sum),R,R", "P(avg)|P(avg),R,R"}},
        RowsCase{"IndexTogether",
                 Release::k2_13,
                 "aten.index.Tensor",
                 {"f32[4,5,6] R", "[none; i64[3] R; i64[2,1] R]"},
                 "[]",
                 {"?0|?0,R,R", "?1|R,R,?0", "?2|R,?0,R", "P(sum)|P(sum),R,R", "P(avg)|P(avg),R,R"}},
        // Values that are broadcast along a dim are replicated.
        RowsCase{"IndexPutBroadcast",
                 Release::k2_13,
                 "aten.index_put.default",
                 {"f32[4,5,6] R", "[none; i64[3] R]", "f32[3,1] R"},
                 "[]",
                 {"?0|?0,R,R", "?2|?2,R,R", "P(sum)|P(sum),R,P(sum)"}},
        // Each rank may add its own values. Without accumulation they would overwrite each other.
        RowsCase{"IndexPutAccumulates",
                 kShardlab,
                 "aten.index_put.default",
                 {"f32[4,6] R", "[i64[3] R]", "f32[3,6] R"},
                 "[true]",
                 {"?1|?1,R,?1", "P(sum)|P(sum),R,P(sum)", "P(avg)|P(avg),R,P(avg)",
                  "P(max)|P(max),R,R", "P(min)|P(min),R,R", "P(sum)|P(sum),?0,?0"}},
        // PyTorch proposes plain shards and does not compare extents.
        RowsCase{"GatherOfPyTorch",
                 Release::k2_13,
                 "aten.gather.default",
                 {"f32[8,4] R", "i64[2,1] R"},
                 "[1]",
                 {"R|R,R", "MP(1,4)|S(1),MP(1,4)", "S(1)|R,S(1)", "S(0)|S(0),S(0)"}},
        RowsCase{"GatherOfOtherExtents",
                 kShardlab,
                 "aten.gather.default",
                 {"f32[8,4] R", "i64[2,3] R"},
                 "[1]",
                 {"MP(1,4)|?1,R", "?1|R,?1", "P(sum)|P(sum),R", "P(avg)|P(avg),R",
                  "P(min)|P(min),R", "P(max)|P(max),R"}},
        // The source has more rows than the index, and only PyTorch shards it nevertheless.
        RowsCase{"ScatterAddOfPyTorch",
                 Release::k2_13,
                 "aten.scatter_add.default",
                 {"f32[4,6] R", "i64[4,3] R", "f32[5,3] R"},
                 "[1]",
                 {"R|R,R,R", "S(0)|S(0),S(0),S(0)"}},
        RowsCase{"ScatterAddOfMoreRows",
                 kShardlab,
                 "aten.scatter_add.default",
                 {"f32[4,6] R", "i64[4,3] R", "f32[5,3] R"},
                 "[1]",
                 {"P(sum)|P(sum),?1,?1", "P(sum)|P(sum),R,P(sum)", "P(avg)|P(avg),R,P(avg)",
                  "P(max)|P(max),R,R", "P(min)|P(min),R,R"}},
        // A filled value is right in a sum only if it is 0.
        RowsCase{"FillWithZero",
                 kShardlab,
                 "aten.index_fill.int_Scalar",
                 {"f32[4] R", "i64[2] R"},
                 "[0, 0]",
                 {"P(sum)|P(sum),R", "P(avg)|P(avg),R", "P(min)|P(min),R", "P(max)|P(max),R"}},
        RowsCase{"FillWithTwo",
                 kShardlab,
                 "aten.index_fill.int_Scalar",
                 {"f32[4] R", "i64[2] R"},
                 "[0, 2]",
                 {"P(avg)|P(avg),R", "P(min)|P(min),R", "P(max)|P(max),R"}},
        RowsCase{"PadWithZero",
                 Release::k2_13,
                 "aten.constant_pad_nd.default",
                 {"f32[4,6] R"},
                 "[[1, 0]]",
                 {"?0|?0", "P(sum)|P(sum)", "P(avg)|P(avg)", "P(max)|P(max)", "P(min)|P(min)"}},
        RowsCase{"PadWithOne",
                 Release::k2_13,
                 "aten.constant_pad_nd.default",
                 {"f32[4,6] R"},
                 "[[1, 0], 1]",
                 {"?0|?0", "P(avg)|P(avg)", "P(max)|P(max)", "P(min)|P(min)"}},
        RowsCase{"CutByPadding",
                 Release::k2_13,
                 "aten.constant_pad_nd.default",
                 {"f32[4] R"},
                 "[[-1, 0], 1]",
                 {"P(avg)|P(avg)", "P(max)|P(max)", "P(min)|P(min)"}},
        RowsCase{"CutLosesNothing",
                 kShardlab,
                 "aten.constant_pad_nd.default",
                 {"f32[4] R"},
                 "[[-1, 0], 1]",
                 {"P(sum)|P(sum)", "P(avg)|P(avg)", "P(max)|P(max)", "P(min)|P(min)"}},
        // A slice that is the whole dim keeps its shards.
        RowsCase{"WholeSlice",
                 kShardlab,
                 "aten.slice.Tensor",
                 {"f32[4] R"},
                 "[0, -9, 9]",
                 {"?0|?0", "P(sum)|P(sum)", "P(avg)|P(avg)", "P(min)|P(min)", "P(max)|P(max)"}},
        RowsCase{"Slice",
                 kShardlab,
                 "aten.slice.Tensor",
                 {"f32[4] R"},
                 "[0, 1]",
                 {"P(sum)|P(sum)", "P(avg)|P(avg)", "P(min)|P(min)", "P(max)|P(max)"}},
        // Gradients that are scaled by how often a row is looked up need all lookups.
        RowsCase{"ScaledEmbeddingGradients",
                 kShardlab,
                 "aten.embedding_dense_backward.default",
                 {"f32[6,4] R", "i64[6] R"},
                 "[8, -1, true]",
                 {"?1|?1,R", "P(sum)|P(sum),R", "P(avg)|P(avg),R"}},
        RowsCase{"Diagonal",
                 kShardlab,
                 "aten.diagonal.default",
                 {"f32[4,5,6] R"},
                 "[0, 2, 0]",
                 {"?0|?1", "P(sum)|P(sum)", "P(avg)|P(avg)", "P(min)|P(min)", "P(max)|P(max)"}},
        RowsCase{"WithOut",
                 Release::k2_13,
                 "aten.flip.out",
                 {"f32[4,6] R", "f32[4,6] R"},
                 "[[0]]",
                 {"?1|?1,?1", "P(sum)|P(sum),P(sum)", "P(avg)|P(avg),P(avg)",
                  "P(max)|P(max),P(max)", "P(min)|P(min),P(min)"}}),
    [](const auto& test) { return std::string(test.param.name); });

struct FollowCase {
  const char* name;
  const char* op;
  std::string input;
  const char* args;
  std::string followed;  // "output|input", or empty where the call is refused
};
void PrintTo(const FollowCase& c, std::ostream* out) { *out << c.op; }
class CutFollows : public testing::TestWithParam<FollowCase> {};

TEST_P(CutFollows, TheLayoutOfItsInputAsInPyTorch) {
  const FollowCase& c = GetParam();
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const OpCall call = call_of(c.op, {c.input}, 2, c.args);
  const OpRule& rule = find_op_rule(c.op, Release::k2_13);
  if (c.followed.empty()) {
    EXPECT_THROW(rule.follow(call, mesh), InputError);
    return;
  }
  const FollowCandidate candidate = rule.follow(call, mesh).at(0);
  EXPECT_EQ(Layout(candidate.outputs.at(0)).text() + "|" + Layout(candidate.inputs.at(0)).text(),
            c.followed);
}

INSTANTIATE_TEST_SUITE_P(
    All, CutFollows,
    testing::Values(
        FollowCase{"Slice", "aten.slice.Tensor", "f32[8,8] S(0)S(1)", "[1, 2]", "S(0)R|S(0)R"},
        FollowCase{"WholeSlice", "aten.slice.Tensor", "f32[8,8] S(0)S(1)", "[1, -8, 9]",
                   "S(0)S(1)|S(0)S(1)"},
        // A start before the first row hides that the slice is whole.
        FollowCase{"SliceFromBefore", "aten.slice.Tensor", "f32[8,8] S(0)S(1)", "[1, -9]",
                   "S(0)R|S(0)R"},
        FollowCase{"Select", "aten.select.int", "f32[8,8,8] S(0)S(2)", "[1, 0]",
                   "S(0)S(1)|S(0)S(2)"},
        FollowCase{"SelectOfShards", "aten.select.int", "f32[8,8,8] S(1)S(2)", "[1, 0]",
                   "RS(1)|RS(2)"},
        FollowCase{"SelectBackward", "aten.select_backward.default", "f32[8,8] S(0)S(1)",
                   "[[8,4,8], 1, 0]", "S(0)S(2)|S(0)S(1)"},
        // PyTorch takes a dim that is counted from the end to come before every shard.
        FollowCase{"SelectBackwardFromTheEnd", "aten.select_backward.default", "f32[8,8] S(0)S(1)",
                   "[[8,4,8], -2, 0]", "S(1)S(2)|S(0)S(1)"},
        FollowCase{"SliceBackward", "aten.slice_backward.default", "f32[4,8] S(0)P",
                   "[[8,8], 0, 0, 4, 1]", "RP(sum)|RP(sum)"},
        FollowCase{"SliceBackwardFromTheEnd", "aten.slice_backward.default", "f32[4,8] S(0)P",
                   "[[8,8], -2, 0, 4, 1]", "S(0)P(sum)|S(0)P(sum)"},
        FollowCase{"Split", "aten.split.Tensor", "f32[8,8] S(0)S(1)", "[4]", "RS(1)|RS(1)"},
        FollowCase{"Unbind", "aten.unbind.int", "f32[2,8] S(1)P", "[0]", "S(0)P(sum)|S(1)P(sum)"},
        FollowCase{"UnbindOfShards", "aten.unbind.int", "f32[2,8] S(0)P", "[0]", ""}),
    [](const auto& test) { return std::string(test.param.name); });

struct Mistake {
  const char* name;
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  const char* message;
};
void PrintTo(const Mistake& c, std::ostream* out) { *out << c.op; }
class IndexMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(IndexMistakes, AreErrorsWordForWord) {
  const Mistake& c = GetParam();
  const OpCall call = call_of(c.op, c.inputs, 1, c.args);
  EXPECT_THROW_MSG(find_op_rule(c.op, Release::k2_13).outputs(call), InputError, c.message);
}

INSTANTIATE_TEST_SUITE_P(
    All, IndexMistakes,
    testing::Values(
        Mistake{"MaskAsIndex",
                "aten.index.Tensor",
                {"f32[4] R", "[b8[4] R]"},
                "[]",
                "aten.index.Tensor: no sharding strategy for a mask as an index (b8[4]): the shape "
                "of what it selects depends on the data; valid: indices of i64 or i32"},
        Mistake{"MoreIndicesThanDims",
                "aten.index.Tensor",
                {"f32[4] R", "[i64[1] R; i64[1] R]"},
                "[]",
                "aten.index.Tensor: found 2 indices, of which 2 are tensors; valid: at most one "
                "index for each of 1 dims, and at least one tensor"},
        Mistake{"NoList",
                "aten.index.Tensor",
                {"f32[4] R", "i64[1] R"},
                "[]",
                "aten.index.Tensor: takes a tensor and a list of indices, such as \"[none; i64[4] "
                "R]\""},
        Mistake{"IndexOfNumbers",
                "aten.index_select.default",
                {"f32[4] R", "f32[1] R"},
                "[0]",
                "aten.index_select.default: found an index f32[1]; valid: an index of i64 or i32"},
        Mistake{"GatherBeyond",
                "aten.gather.default",
                {"f32[4,2] R", "i64[5,2] R"},
                "[1]",
                "aten.gather.default: found an index i64[5,2] for f32[4,2]; valid: an index with "
                "as many dims, where the index is no longer than the tensor in any dim but dim 1"},
        Mistake{"OutOfAnotherShape",
                "aten.flip.out",
                {"f32[4] R", "f32[5] R"},
                "[[0]]",
                "aten.flip.out: out f32[5] does not have the result's shape, f32[4]"},
        Mistake{"OutMissing",
                "aten.flip.out",
                {},
                "[[0]]",
                "aten.flip.out: takes its operands and, as the last argument, the out tensor"},
        Mistake{"NoDims",
                "aten.select.int",
                {"f32[] R"},
                "[0, 0]",
                "aten.select.int: takes a tensor of at least one dim"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace families_index_test
}  // namespace shardlab
