#include "strategies/rules/op_schemas.h"

#include <gtest/gtest.h>

#include <string>

#include "costmodel/base/error.h"
#include "strategies/proof/op_sample.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/op_rule.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace {

TEST(OpSchemas, SayWhichArgumentsAreTensors) {
  const std::optional<OpSchema> schema = find_op_schema("aten.add.Tensor");
  ASSERT_TRUE(schema.has_value());
  ASSERT_EQ(schema->arguments.size(), 3U);
  EXPECT_TRUE(schema->arguments[1].is_tensor());
  EXPECT_EQ(schema->arguments[2].name, "alpha");
  EXPECT_EQ(schema->arguments[2].type, "Scalar");
  EXPECT_EQ(schema->arguments[2].fallback, "1");
  EXPECT_TRUE(schema->arguments[2].only_by_name);
  EXPECT_FALSE(schema->writes);
  EXPECT_TRUE(find_op_schema("aten.add_.Tensor")->writes);
  EXPECT_TRUE(find_op_schema("aten.add.out")->writes);
  EXPECT_EQ(find_op_schema("aten.max.dim")->results, 2U);
  EXPECT_FALSE(find_op_schema("aten.add.Nothing").has_value());
  EXPECT_FALSE(find_op_schema("mylib.mm.default").has_value());
}

TEST(OpSchemas, CoverTheOpsThatHaveRules) {
  std::string without;
  for (const std::string_view op : all_op_names()) {
    if (op.starts_with("aten.") && !find_op_schema(op)) without += std::string(op) + " ";
  }
  EXPECT_EQ(without, "");
}

struct Call {
  const char* name;
  const char* op;
  const char* args;
  const char* message;  // null where PyTorch takes the call
};
void PrintTo(const Call& c, std::ostream* out) { *out << c.name; }
class SchemaArguments : public testing::TestWithParam<Call> {};

TEST_P(SchemaArguments, AreAskedFor) {
  const Call& c = GetParam();
  OpCall call{.op = c.op, .inputs = {}, .args = nlohmann::json::parse(c.args)};
  call.inputs.push_back(OpCall::parse_input("f32[8,8] S(0)", 1));
  if (c.message == nullptr) {
    EXPECT_NO_THROW(expect_arguments_of_schema(call));
  } else {
    EXPECT_THROW_MSG(expect_arguments_of_schema(call), InputError,
                     std::string(c.op) + ": argument " + c.message);
    EXPECT_THROW((void)expand(find_op_rule(call.op, Release::k2_13), call, DeviceMesh::parse("2")),
                 InputError);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SchemaArguments,
    testing::Values(
        Call{"NoneExpected", "aten.max.default", "[1]",
             "0 of --args: found 1; valid: no arguments beside the tensors of max(Tensor self) -> "
             "Tensor"},
        Call{"Surplus", "aten.clamp.default", "[3, 1, 2]",
             "2 of --args: found 2; valid: at most 2 arguments beside the tensors of clamp(Tensor "
             "self, Scalar? min=None, Scalar? max=None) -> Tensor"},
        Call{"NumberForText", "aten.gelu.default", "[17]",
             "0 of --args: found 17; valid: a text, the approximate of gelu(Tensor self, *, str "
             "approximate=\"none\") -> Tensor"},
        Call{"NoSuchDType", "aten.sum.dim_IntList", R"([[0], false, "f33"])",
             "2 of --args: found \"f33\"; valid: a dtype, such as \"f32\", the dtype of "
             "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? "
             "dtype=None) -> Tensor"},
        Call{"NullForARequiredOne", "aten._softmax.default", "[0, null]",
             "1 of --args: found null; valid: true or false, the half_to_float of _softmax(Tensor "
             "self, int dim, bool half_to_float) -> Tensor"},
        Call{"ListOfOthers", "aten.sum.dim_IntList", "[[0, 1.5]]",
             "0 of --args: found an array; valid: a list of integers, the dim of "
             "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? "
             "dtype=None) -> Tensor"},
        Call{"NullForADefault", "aten.sum.dim_IntList", "[null, null, \"f64\"]", nullptr},
        Call{"OneIntegerForAList", "aten.sum.dim_IntList", "[1]", nullptr},
        Call{"LastOnesAreLeftOut", "aten._softmax.default", "[0]", nullptr},
        Call{"InfiniteOrder", "aten.linalg_vector_norm.default", "[\"inf\"]", nullptr},
        Call{"NumberInATensorsPlace", "aten.add.Tensor", "[2.5, 1]", nullptr}));

// Tensors may be left out before arguments that are none.
TEST(OpSchemas, NumbersStandInTensorsPlacesOnlyWhereOthersAreGiven) {
  OpCall call{.op = "aten._scaled_dot_product_flash_attention_backward.default",
              .inputs = {},
              .args = nlohmann::json::parse("[2, 2, 0.25, true]")};
  for (int i = 0; i < 6; ++i) call.inputs.push_back(OpCall::parse_input("f32[2,4,2,4] R", 1));
  EXPECT_NO_THROW(expect_arguments_of_schema(call));
  call.args[3] = 1.5;
  EXPECT_THROW(expect_arguments_of_schema(call), InputError);
}

TEST(OpSchemas, NumbersStandInPlacesOfTensorsThatAreNone) {
  const auto is_taken = [](const char* op, const std::vector<std::string>& inputs,
                           const char* args) {
    OpCall call{.op = op, .inputs = {}, .args = nlohmann::json::parse(args)};
    for (const std::string& input : inputs) call.inputs.push_back(OpCall::parse_input(input, 1));
    try {
      expect_arguments_of_schema(call);
      return true;
    } catch (const InputError&) {
      return false;
    }
  };
  EXPECT_TRUE(is_taken("aten.div.Tensor_mode", {"f32[8] R"}, "[2.0]"));
  EXPECT_TRUE(is_taken("aten.div.Tensor_mode", {"f32[8] R"}, "[2.0, null]"));
  EXPECT_TRUE(is_taken("aten.div.Tensor_mode", {"f32[8] R", "f32[8] R"}, R"(["floor"])"));
  EXPECT_FALSE(is_taken("aten.div.Tensor_mode", {"f32[8] R", "f32[8] R"}, "[2.0]"));
  EXPECT_TRUE(is_taken("aten.mul.out", {"f32[8] R", "f32[8] R"}, "[2.5]"));
  EXPECT_FALSE(is_taken("aten.mul.out", {"f32[8] R", "f32[8] R", "f32[8] R"}, "[2.5]"));
  EXPECT_TRUE(is_taken("aten.mul.Tensor", {"none", "f32[8] R"}, "[2.5]"));
  EXPECT_TRUE(is_taken("aten.where.self", {"b8[8] R", "none", "f32[8] R"}, "[2.0]"));
  EXPECT_TRUE(is_taken("aten.masked_fill.Scalar", {"f32[8] R", "b8[8] R"}, R"(["nan"])"));
}

// The proof of a rule knows only calls that this check lets pass.
TEST(OpSchemas, AllowAllSamples) {
  for (const std::string_view op : all_op_names()) {
    for (const SampleCall& sample : sample_calls_of(op, 1)) {
      EXPECT_NO_THROW(expect_arguments_of_schema(sample.call)) << sample.call.text();
    }
  }
}

}  // namespace
}  // namespace shardlab
