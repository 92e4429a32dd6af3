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
}

}  // namespace wide_program_test
}  // namespace shardlab
