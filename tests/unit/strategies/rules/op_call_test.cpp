#include "strategies/rules/op_call.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace op_call_test {

using testing_support::call_of;

TEST(OpCall, ReadsATensorAndATensorList) {
  const TensorArg one = OpCall::parse_input("f32[8,8] S(0)R", 2);
  EXPECT_FALSE(one.is_list);
  ASSERT_EQ(one.tensors.size(), 1U);
  EXPECT_EQ(one.tensors[0].text(), "f32[8,8] S(0)R");
  const TensorArg list = OpCall::parse_input(" [ f32[8,8] R ; bf16[4] S(0) ] ", 1);
  EXPECT_TRUE(list.is_list);
  ASSERT_EQ(list.tensors.size(), 2U);
  EXPECT_EQ(list.tensors[1].text(), "bf16[4] S(0)");
  EXPECT_TRUE(OpCall::parse_input("none", 1).is_absent());
  EXPECT_TRUE(OpCall::parse_input(" None ", 1).is_absent());
  EXPECT_EQ(OpCall::parse_input("[None; f32[8] R]", 1).text(), "[none; f32[8] R]");
}

struct InputError2 {
  const char* name;
  const char* text;
  const char* message;
};
void PrintTo(const InputError2& c, std::ostream* out) { *out << c.text; }
class OpCallErrors : public testing::TestWithParam<InputError2> {};

TEST_P(OpCallErrors, AreTheseWordForWord) {
  EXPECT_THROW_MSG(OpCall::parse_input(GetParam().text, 1), TextError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, OpCallErrors,
    testing::Values(
        InputError2{"ListNotClosed", "[f32[8] R; f32[8] S(0)",
                    "tensor list \"[f32[8] R; f32[8] S(0)\": at position 22: expected \"]\" at the "
                    "end of a tensor list"},
        InputError2{"OpenBracketAlone", "[",
                    "tensor list \"[\": at position 1: expected \"]\" at the end of a tensor list"},
        InputError2{"EmptyList", "[]",
                    "tensor list \"[]\": at position 1: expected a tensor, such as [f32[8,8] R; "
                    "f32[8,8] R]"},
        InputError2{"NoLayout", "f32[8]",
                    "tensor and layout \"f32[8]\": at position 6: expected a layout of 1 "
                    "placement after the tensor, such as R"},
        InputError2{"Empty", "",
                    "tensor and layout \"\": at position 0: expected a dtype: f64 f32 f16 bf16 "
                    "f8e4m3 f8e5m2 i64 i32 i16 i8 u8 b8 u64 c64"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(OpCall, FlattensListsInOrder) {
  const OpCall call = call_of("aten.cat.default", {"[f32[1] R; f32[2] R]", "f32[3] R"}, 1);
  const auto tensors = call.tensors();
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors[2]->meta.shape[0], 3);
}

TEST(OpCall, PrintsItselfWithItsArguments) {
  EXPECT_EQ(call_of("aten.cat.default", {"[f32[8] R; f32[8] S(0)]"}, 1, "[0]").text(),
            "aten.cat.default([f32[8] R; f32[8] S(0)], 0)");
  EXPECT_EQ(call_of("aten.sum.dim_IntList", {"f32[8,4] S(0)R"}, 2, "[[1], true]").text(),
            "aten.sum.dim_IntList(f32[8,4] S(0)R, [1], true)");
}

TEST(OpCallArguments, AbsentAndNullFallBack) {
  const OpCall call = call_of("op", {"f32[8] R"}, 1, "[null]");
  EXPECT_EQ(call.integer_arg(0, 7), 7);
  EXPECT_EQ(call.integer_arg(3, 7), 7);
  EXPECT_TRUE(call.boolean_arg(0, true));
  EXPECT_FALSE(call.integers_arg(0).has_value());
}

TEST(OpCallArguments, AreRead) {
  const OpCall call = call_of("op", {"f32[8] R"}, 1, "[-2, true, [0, -1], []]");
  EXPECT_EQ(call.integer_arg(0, 7), -2);
  EXPECT_TRUE(call.boolean_arg(1, false));
  EXPECT_EQ(call.integers_arg(2), (std::vector<std::int64_t>{0, -1}));
  EXPECT_EQ(call.integers_arg(0), (std::vector<std::int64_t>{-2}));
  EXPECT_EQ(call.integers_arg(3), std::vector<std::int64_t>());
}

TEST(OpCallArguments, AreErrorsWhereTheyHaveAnotherType) {
  const OpCall call =
      call_of("op", {"f32[8] R"}, 1, R"(["x", 1.5, [1, "y"], 18446744073709551615])");
  EXPECT_THROW_MSG(call.integer_arg(0, 0), InputError,
                   "op: argument 0 of --args: found \"x\"; valid: an integer");
  EXPECT_THROW_MSG(call.boolean_arg(1, false), InputError,
                   "op: argument 1 of --args: found 1.5; valid: true or false");
  EXPECT_THROW_MSG(call.integers_arg(2), InputError,
                   "op: argument 2 of --args: found an array; valid: an array of integers");
  EXPECT_THROW_MSG(call.integers_arg(1), InputError,
                   "op: argument 1 of --args: found 1.5; valid: an array of integers");
  EXPECT_THROW_MSG(call.integer_arg(3, 0), InputError,
                   "op: argument 3 of --args: found 18446744073709551615; valid: an integer");
}

TEST(NormalizeDim, CountsFromTheEnd) {
  EXPECT_EQ(normalize_dim(-1, 3, "op"), 2);
  EXPECT_EQ(normalize_dim(-3, 3, "op"), 0);
  EXPECT_EQ(normalize_dim(2, 3, "op"), 2);
}

TEST(NormalizeDim, AScalarTakesZeroAndMinusOne) {
  EXPECT_EQ(normalize_dim(0, 0, "op"), 0);
  EXPECT_EQ(normalize_dim(-1, 0, "op"), 0);
  EXPECT_THROW(static_cast<void>(normalize_dim(1, 0, "op")), InputError);
}

TEST(NormalizeDim, OutOfRangeNamesTheRange) {
  EXPECT_THROW_MSG(normalize_dim(3, 3, "op"), InputError, "op: dim 3 out of range; valid: -3 to 2");
  EXPECT_THROW_MSG(normalize_dim(-4, 3, "op"), InputError,
                   "op: dim -4 out of range; valid: -3 to 2");
}

Shape broadcast(const std::vector<std::string>& tensors) {
  const OpCall call = call_of("op", tensors, 1);
  const auto all = call.tensors();
  return broadcast_shape({all.data(), all.size()}, "op");
}

TEST(BroadcastShape, AlignsAtTheEndAndStretchesOnes) {
  EXPECT_EQ(broadcast({"f32[4,8] R", "f32[8] R"}), (Shape{4, 8}));
  EXPECT_EQ(broadcast({"f32[8] R", "f32[4,1] R"}), (Shape{4, 8}));
  EXPECT_EQ(broadcast({"f32[] R", "f32[2,3] R"}), (Shape{2, 3}));
  EXPECT_EQ(broadcast({"f32[1,3] R", "f32[2,1] R", "f32[1] R"}), (Shape{2, 3}));
  EXPECT_EQ(broadcast({"f32[0,3] R", "f32[1] R"}), (Shape{0, 3}));
}

TEST(BroadcastShape, RefusesShapesThatDisagree) {
  EXPECT_THROW_MSG(broadcast({"f32[4,8] R", "f32[4] R"}), InputError,
                   "op: shapes do not broadcast: f32[4,8], f32[4]");
  EXPECT_THROW(broadcast({"f32[0] R", "f32[2] R"}), InputError);
}

}  // namespace op_call_test
}  // namespace shardlab
