// What becomes of dtypes, complex numbers and casts when a program is changed to double precision.
#include "strategies/programs/wide_program.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/programs/program_builder.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace wide_program_test {

TEST(WideMeta, IsOfF64AndPairsOfComplexNumbers) {
  const auto wide = [](const char* text) { return wide_meta(TensorMeta::parse(text)).text(); };
  EXPECT_EQ(wide("bf16[8,16]"), "f64[8,16]");
  EXPECT_EQ(wide("f32[]"), "f64[]");
  EXPECT_EQ(wide("c64[8,4]"), "f64[8,4,2]");
  EXPECT_EQ(wide("i64[3]"), "i64[3]");
  EXPECT_EQ(wide("u64[2]"), "i64[2]");
  EXPECT_EQ(wide("b8[2]"), "b8[2]");
}

struct Rotary {
  Rotary() : builder("rotary", "") {
    x = builder.source(NodeKind::kInput, meta_of(DType::kF32, {4, 2}));
    table = builder.source(NodeKind::kBuffer, meta_of(DType::kC64, {4}));
  }
  // The call of the last node.
  OpCall call() && {
    const Program program = std::move(builder).build().program;
    return wide_call(program, program.nodes.size() - 1, 1);
  }
  ProgramBuilder builder;
  Value x;
  Value table;
};

TEST(WideCall, ViewsOfComplexNumbersCopyAndTheirProductsAreOfPairs) {
  Rotary view;
  static_cast<void>(view.builder.op("aten.view_as_complex.default", {view.x},
                                    nlohmann::json::array(), {meta_of(DType::kC64, {4})}));
  EXPECT_EQ(std::move(view).call().op, "aten.alias.default");
  Rotary product;
  static_cast<void>(product.builder.binary("aten.mul.Tensor", product.table, product.table));
  const OpCall call = std::move(product).call();
  EXPECT_EQ(call.op, "shardlab.complex_product");
  EXPECT_EQ(call.inputs[1].text(), "f64[4,2] R");
  Rotary conjugate;
  static_cast<void>(conjugate.builder.unary("aten._conj.default", conjugate.table));
  EXPECT_EQ(std::move(conjugate).call().op, "shardlab.complex_conjugate");
}

// A dim that counts from the right skips the dim of pairs, and a number scales both parts.
TEST(WideCall, OpsOnComplexNumbersThatKeepPairsTogetherRunOnPairs) {
  const auto op_of = [](const char* op, const nlohmann::json& args, const Shape& shape) {
    Rotary made;
    static_cast<void>(made.builder.op(op, {made.table}, args, {meta_of(DType::kC64, shape)}));
    const OpCall call = std::move(made).call();
    return call.op + " " + call.args.dump();
  };
  EXPECT_EQ(op_of("aten.unsqueeze.default", {-1}, {4, 1}), "aten.unsqueeze.default [1]");
  EXPECT_EQ(op_of("aten.unsqueeze.default", {0}, {1, 4}), "aten.unsqueeze.default [0]");
  EXPECT_EQ(op_of("aten.slice.Tensor", {-1, 0, 2}, {2}), "aten.slice.Tensor [0,0,2]");
  EXPECT_EQ(op_of("aten.mul.Tensor", {2.0}, {4}), "aten.mul.Tensor [2.0]");
  EXPECT_THROW_MSG(static_cast<void>(op_of("aten.unsqueeze.default", {2}, {4, 1})), InputError,
                   "aten.unsqueeze.default: found dim 2; valid: -2 to 1");
  Rotary polar;
  static_cast<void>(polar.builder.op("aten.polar.default", {polar.x, polar.x},
                                     nlohmann::json::array(), {meta_of(DType::kC64, {4, 2})}));
  EXPECT_EQ(std::move(polar).call().op, "shardlab.complex_polar");
}

// as_strided counts places in memory, so that it needs the strides.
TEST(WideCall, KeepsStridesWhereTheyCount) {
  ProgramBuilder b("p", "");
  TensorMeta meta = meta_of(DType::kF32, {2, 3});
  meta.strides = {1, 2};
  const Value x = b.source(NodeKind::kInput, meta);
  static_cast<void>(b.op("aten.as_strided.default", {x}, nlohmann::json::parse("[[6], [1]]"),
                         {meta_of(DType::kF32, {6})}));
  const Program program = std::move(b).build().program;
  EXPECT_EQ(wide_call(program, 1, 1).tensors()[0]->meta.strides, (Shape{1, 2}));
}

TEST(WideCall, CastsGoToF64AndPartsCopy) {
  Rotary cast;
  static_cast<void>(cast.builder.convert(cast.x, DType::kBF16));
  const OpCall call = std::move(cast).call();
  EXPECT_EQ(call.op, "prims.convert_element_type.default");
  EXPECT_EQ(call.args, nlohmann::json::array({"f64"}));
  Rotary whole;
  static_cast<void>(whole.builder.convert(whole.x, DType::kI64));
  EXPECT_EQ(std::move(whole).call().args, nlohmann::json::array({"i64"}));
  Rotary part;
  static_cast<void>(part.builder.part(part.x, 0));
  EXPECT_EQ(std::move(part).call().op, "aten.alias.default");
}

TEST(WideCall, OtherOpsOnComplexNumbersAreRefused) {
  Rotary exp;
  static_cast<void>(exp.builder.unary("aten.exp.default", exp.table));
  EXPECT_THROW_MSG(std::move(exp).call(), InputError,
                   "aten.exp.default has no reference kernel for complex numbers, so it can't be "
                   "executed");
  // The number is added to the real part alone.
  Rotary shifted;
  static_cast<void>(
      shifted.builder.op("aten.add.Tensor", {shifted.table}, {1.0}, {meta_of(DType::kC64, {4})}));
  EXPECT_THROW_MSG(std::move(shifted).call(), InputError,
                   "aten.add.Tensor has no reference kernel for complex numbers, so it can't be "
                   "executed");
}

}  // namespace wide_program_test
}  // namespace shardlab
