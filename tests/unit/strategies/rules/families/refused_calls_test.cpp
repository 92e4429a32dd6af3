// Calls that PyTorch refuses for the dtypes or the sizes of their tensors have no price.
// tests/scripts/refused_calls_test.py asks the PyTorch that is installed about the same calls.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace refused_calls_test {

using testing_support::call_of;

struct Refused {
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  const char* message;
};
void PrintTo(const Refused& c, std::ostream* out) { *out << c.op << c.args; }
class RefusedCall : public testing::TestWithParam<Refused> {};

TEST_P(RefusedCall, SaysWhatWasFoundAndWhatIsValid) {
  const OpCall call = call_of(GetParam().op, GetParam().inputs, 1, GetParam().args);
  EXPECT_THROW_MSG(find_op_rule(call.op, kShardlab).outputs(call), InputError,
                   std::string(GetParam().op) + ": " + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedCall,
    testing::Values(
        Refused{"prims.div.default",
                {"f32[4,6] R", "f32[6] R"},
                "[]",
                "found f32[4,6] and f32[6]; valid: tensors of one shape and one dtype, since prims "
                "neither broadcast nor promote"},
        Refused{"prims.maximum.default",
                {"f32[4,6] R", "bf16[4,6] R"},
                "[]",
                "found f32[4,6] and bf16[4,6]; valid: tensors of one shape and one dtype, since "
                "prims neither broadcast nor promote"},
        Refused{"prims.conj_physical.default",
                {"f32[4,6] R"},
                "[]",
                "found f32[4,6]; valid: a complex tensor"},
        Refused{"prims.sum.default",
                {"f32[4,6] R"},
                "[[-1]]",
                "found the dims [-1]; valid: a list of dims, each counted from 0"},
        Refused{"prims.copy_to.default",
                {"f32[4,6] R", "f32[6] R"},
                "[]",
                "found f32[6] to copy into f32[4,6]; valid: tensors of one shape"},
        Refused{"aten.mm.default",
                {"bf16[4,6] R", "f32[6,5] R"},
                "[]",
                "found bf16[4,6] and f32[6,5]; valid: tensors of one dtype"},
        Refused{"aten.mm.out",
                {"f32[4,6] R", "f32[6,5] R", "bf16[4,5] R"},
                "[]",
                "found f32[4,6] and bf16[4,5]; valid: tensors of one dtype"},
        Refused{"aten.addmm.default",
                {"f32[5] R", "bf16[4,6] R", "bf16[6,5] R"},
                "[]",
                "found f32[5] and bf16[4,6]; valid: tensors of one dtype"},
        Refused{"aten.einsum.default",
                {"bf16[4,6] R", "f32[6,5] R"},
                "[\"mk,kn->mn\"]",
                "found bf16[4,6] and f32[6,5]; valid: tensors of one dtype"},
        Refused{"aten.convolution.default",
                {"bf16[2,4,8] R", "f32[6,4,3] R", "f32[6] R"},
                "[[1],[0],[1],false,[0],1]",
                "found bf16[2,4,8] and f32[6,4,3]; valid: tensors of one dtype"},
        Refused{"aten.convolution_backward.default",
                {"f32[2,6,6] R", "bf16[2,4,8] R", "bf16[6,4,3] R"},
                "[[6],[1],[0],[1],false,[0],1]",
                "found f32[2,6,6] and bf16[2,4,8]; valid: tensors of one dtype"},
        Refused{"aten._scaled_dot_product_flash_attention.default",
                {"bf16[2,4,8,16] R", "bf16[2,4,8,16] R", "f32[2,4,8,16] R"},
                "[]",
                "found bf16[2,4,8,16] and f32[2,4,8,16]; valid: tensors of one dtype"},
        Refused{"aten.max_pool2d_with_indices_backward.default",
                {"bf16[1,2,2,2] R", "f32[1,2,4,4] R", "i64[1,2,2,2] R"},
                "[[2,2],[2,2]]",
                "found bf16[1,2,2,2] and f32[1,2,4,4]; valid: tensors of one dtype"},
        Refused{"aten.lerp.Scalar",
                {"f32[4] R", "bf16[4] R"},
                "[0.5]",
                "found f32[4] and bf16[4]; valid: tensors of one dtype"},
        Refused{"aten.cholesky_solve.default",
                {"f32[3,2] R", "f64[3,3] R"},
                "[]",
                "found f32[3,2], f64[3,3]; valid: floating point tensors of one dtype and one "
                "batch, [...,r,c], [...,n,n]"},
        Refused{"aten.cholesky_solve.default",
                {"f32[4,2] R", "f32[3,3] R"},
                "[]",
                "found f32[4,2], f32[3,3]; valid: as many rows in one matrix as in the other"},
        Refused{"aten._linalg_solve_ex.default",
                {"f32[3,3] R", "f32[3,2] R"},
                "[false]",
                "found f32[3,3], f32[3,2]; valid: as many columns in one matrix as in the other"},
        Refused{"aten.where.self",
                {"f32[4] R", "f32[4] R", "f32[4] R"},
                "[]",
                "found a mask f32[4]; valid: a mask of dtype b8"},
        Refused{"aten.masked_fill.Scalar",
                {"f32[4] R", "u8[4] R"},
                "[0.0]",
                "found a mask u8[4]; valid: a mask of dtype b8"},
        Refused{"aten.copy.default",
                {"f32[6] R", "f32[4,6] R"},
                "[]",
                "found f32[4,6] to copy into f32[6]; valid: a tensor that broadcasts to it"},
        Refused{"aten.add_.Tensor",
                {"i64[4] R", "f32[4] R"},
                "[]",
                "the first tensor i64[4] does not have a dtype that can hold the result, f32[4]"},
        Refused{"aten.mul_.Tensor",
                {"f32[4] R", "c64[4] R"},
                "[]",
                "the first tensor f32[4] does not have a dtype that can hold the result, c64[4]"},
        Refused{"aten.div.out",
                {"i64[4] R", "i64[4] R", "i64[4] R"},
                "[]",
                "out i64[4] does not have a dtype that can hold the result, f32[4]"}));

TEST(AcceptedCall, CopiesAndWritesToWiderDtypes) {
  const auto output_of = [](const char* op, std::vector<std::string> inputs) {
    const OpCall call = call_of(op, std::move(inputs), 1, "[]");
    return find_op_rule(op, kShardlab).outputs(call)[0].text();
  };
  EXPECT_EQ(output_of("aten.abs.default", {"c64[4] R"}), "f32[4]");
  EXPECT_EQ(output_of("aten.div_.Tensor", {"c64[4] R", "f32[4] R"}), "c64[4]");
  EXPECT_EQ(output_of("aten.exp.out", {"c64[4] R", "c64[4] R"}), "c64[4]");
  EXPECT_EQ(output_of("aten.lerp.Tensor", {"f32[4] R", "f32[4] R", "f64[] R"}), "f32[4]");
  EXPECT_EQ(output_of("aten.copy_.default", {"i64[4] R", "f32[4] R"}), "i64[4]");
  EXPECT_EQ(output_of("aten.eq.Tensor_out", {"f32[4] R", "f32[4] R", "f32[4] R"}), "f32[4]");
  EXPECT_EQ(output_of("aten.where.self", {"u8[4] R", "f32[4] R", "i64[4] R"}), "f32[4]");
}

}  // namespace refused_calls_test
}  // namespace shardlab
