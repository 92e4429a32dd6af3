// The kernel that an operator of a profile runs: its kind, its shape, and what it reads, writes and
// computes.
#include "costmodel/measurements/profiled_operator.h"

#include <gtest/gtest.h>

namespace shardlab {
namespace profiled_operator_test {

using Dims = std::vector<std::int64_t>;

// A tensor whose elements stand one after the other.
ProfiledArgument tensor(Dims dims, DType dtype = DType::kBF16) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return {.tensor = ProfiledTensor{std::move(dims), std::move(strides), dtype}};
}
ProfiledArgument strided(Dims dims, Dims strides, DType dtype = DType::kBF16) {
  return {.tensor = ProfiledTensor{std::move(dims), std::move(strides), dtype}};
}
ProfiledArgument value(std::string text = "") { return {.tensor = {}, .value = std::move(text)}; }

std::optional<MeasuredKernel> kernel(std::string name, std::vector<ProfiledArgument> arguments,
                                     std::string_view launched = {}) {
  return kernel_of({.name = std::move(name), .arguments = std::move(arguments)}, launched);
}

TEST(ProfiledOperator, ProductsHaveTheirShapes) {
  const auto mm = kernel("aten::mm", {tensor({8, 4}), strided({4, 16}, {1, 4})});
  ASSERT_TRUE(mm);
  EXPECT_EQ(mm->kernel, "gemm");
  EXPECT_EQ(mm->dtype, "bf16");
  EXPECT_EQ(kernel_shape_text(*mm), "8x16x4, rows of 4");
  EXPECT_EQ(mm->flops, 2.0 * 8 * 16 * 4);
  EXPECT_EQ(mm->bytes, 2.0 * (8 * 4 + 4 * 16 + 8 * 16));

  const auto addmm = kernel("aten::addmm", {tensor({16}), tensor({8, 4}), tensor({4, 16})});
  ASSERT_TRUE(addmm);
  EXPECT_EQ(kernel_shape_text(*addmm), "8x16x4, rows of 4");
  EXPECT_EQ(addmm->bytes, mm->bytes + 2.0 * 16);

  const auto bmm = kernel("aten::bmm", {tensor({3, 8, 4}), tensor({3, 4, 16})});
  ASSERT_TRUE(bmm);
  EXPECT_EQ(kernel_shape_text(*bmm), "3 of 8x16x4, rows of 4");
  EXPECT_EQ(bmm->flops, 3.0 * mm->flops);
}

TEST(ProfiledOperator, ProductsKnowTheRowsOfTheirMatrices) {
  // The gradient of a weight over 4099 tokens: the tokens are no row of any matrix.
  const auto gradient = kernel("aten::mm", {strided({64, 4099}, {1, 64}), tensor({4099, 48})});
  ASSERT_TRUE(gradient);
  EXPECT_EQ(gradient->row_multiple, 16);
  EXPECT_EQ(kernel("aten::mm", {tensor({64, 4099}), tensor({4099, 48})})->row_multiple, 1);
  // A slice of a wider matrix has its rows as far apart as that one's.
  EXPECT_EQ(kernel("aten::mm", {strided({64, 32}, {36, 1}), tensor({32, 48})})->row_multiple, 4);
  EXPECT_EQ(kernel("aten::bmm", {tensor({3, 8, 24}), tensor({3, 24, 40})})->row_multiple, 8);
  // A single row has no distance to the next one.
  EXPECT_EQ(kernel("aten::mm", {tensor({1, 4099}), tensor({4099, 48})})->row_multiple, 16);
  EXPECT_EQ(kernel("aten::mm", {tensor({1, 64}), strided({64, 4099}, {1, 64})})->row_multiple, 64);
  EXPECT_EQ(kernel_shape_text(*kernel("aten::mm", {tensor({64, 4099}), tensor({4099, 48})})),
            "64x48x4099, rows of 1");
  // A trace without strides.
  EXPECT_EQ(kernel("aten::mm", {strided({64, 4099}, {}), strided({4099, 48}, {})})->row_multiple,
            0);
}

TEST(ProfiledOperator, ProductsOfOtherTypes) {
  const std::vector<ProfiledArgument> f32 = {tensor({8, 4}, DType::kF32),
                                             tensor({4, 16}, DType::kF32)};
  EXPECT_EQ(kernel("aten::mm", f32, "ampere_sgemm_32x128_tn")->dtype, "f32");
  EXPECT_EQ(kernel("aten::mm", f32, "sm80_xmma_gemm_f32f32_tf32f32_f32_tn")->dtype, "tf32");
  EXPECT_EQ(kernel("aten::mm", f32, "cutlass_80_tensorop_s1688gemm_128x64")->dtype, "tf32");
  // A product of 8 bits has an output of 16 bits.
  const auto f8 =
      kernel("aten::_scaled_mm", {tensor({8, 4}, DType::kF8E4M3), tensor({4, 16}, DType::kF8E4M3)});
  ASSERT_TRUE(f8);
  EXPECT_EQ(f8->dtype, "f8e4m3");
  EXPECT_EQ(f8->bytes, 8.0 * 4 + 4 * 16 + 2.0 * 8 * 16);
}

TEST(ProfiledOperator, ProductsThatDoNotFitHaveNoRow) {
  EXPECT_FALSE(kernel("aten::mm", {tensor({8, 4}), tensor({5, 16})}));
  EXPECT_FALSE(kernel("aten::mm", {tensor({8, 4})}));
  EXPECT_FALSE(kernel("aten::mm", {tensor({8, 4}), tensor({2, 4, 16})}));
  EXPECT_FALSE(kernel("aten::mm", {tensor({0, 4}), tensor({4, 16})}));
  EXPECT_FALSE(kernel("aten::addmm", {tensor({16}), tensor({8, 4})}));
}

// The arguments of _flash_attention_forward: 2 sequences of 32 queries and 64 keys, 8 heads on 4.
std::vector<ProfiledArgument> flash(std::string causal, std::string window = "") {
  return {tensor({2, 32, 8, 16}),
          tensor({2, 64, 4, 16}),
          tensor({2, 64, 4, 16}),
          value(),
          value(),
          value("32"),
          value("64"),
          value("0."),
          value(std::move(causal)),
          value("False"),
          value(),
          value(std::move(window))};
}

TEST(ProfiledOperator, AttentionHasItsShape) {
  const auto whole = kernel("aten::_flash_attention_forward", flash("False"));
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->kernel, "attention");
  EXPECT_EQ(kernel_shape_text(*whole), "2x8x32x16 on 4x64");
  EXPECT_EQ(whole->attention->kernel, AttentionKernel::kFlash);
  EXPECT_EQ(whole->flops, 2.0 * 2 * 8 * 32 * 64 * (16 + 16));
  EXPECT_EQ(whole->bytes, 2.0 * (2 * 32 * 8 * 16 * 2 + 2 * 64 * 4 * 16 * 2));

  const auto causal = kernel("aten::_flash_attention_forward", flash("True", "7"));
  ASSERT_TRUE(causal);
  EXPECT_EQ(kernel_shape_text(*causal), "2x8x32x16 on 4x64, causal, window 8");
  EXPECT_EQ(causal->flops, whole->flops);  // all pairs, whatever the mask leaves
}

TEST(ProfiledOperator, AttentionOfOtherLayoutsAndDirections) {
  std::vector<ProfiledArgument> backward = flash("False");
  backward.insert(backward.begin(), tensor({2, 32, 8, 16}));
  backward.insert(backward.begin() + 4, {tensor({2, 32, 8, 16}), tensor({2, 8, 32}, DType::kF32)});
  backward[11].value = "True";
  const auto flash_backward = kernel("aten::_flash_attention_backward", backward);
  ASSERT_TRUE(flash_backward);
  EXPECT_EQ(kernel_shape_text(*flash_backward), "2x8x32x16 on 4x64, causal, backward");

  const auto efficient =
      kernel("aten::_efficient_attention_forward",
             {tensor({2, 32, 8, 16}), tensor({2, 64, 4, 16}), tensor({2, 64, 4, 16}), value(),
              value(), value(), value(), value(), value("0."), value("1")});
  ASSERT_TRUE(efficient);
  EXPECT_EQ(efficient->attention->kernel, AttentionKernel::kEfficient);
  EXPECT_TRUE(efficient->attention->causal);

  const auto cudnn = kernel("aten::_scaled_dot_product_cudnn_attention",
                            {tensor({2, 8, 32, 16}), tensor({2, 4, 64, 16}), tensor({2, 4, 64, 16}),
                             value(), value("True"), value("0."), value("False")});
  ASSERT_TRUE(cudnn);
  EXPECT_EQ(kernel_shape_text(*cudnn), "2x8x32x16 on 4x64");
  EXPECT_EQ(cudnn->attention->kernel, AttentionKernel::kCudnn);
}

TEST(ProfiledOperator, SequencesOfSeveralLengthsHaveNoRow) {
  std::vector<ProfiledArgument> arguments = flash("False");
  arguments[3] = tensor({5}, DType::kI32);
  EXPECT_FALSE(kernel("aten::_flash_attention_forward", arguments));
}

TEST(ProfiledOperator, CopiesByTheOrderOfTheirElements) {
  const auto plain = kernel("aten::copy_", {tensor({8, 16}), tensor({8, 16})});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->kernel, "copy");
  EXPECT_EQ(plain->bytes, 2.0 * 2 * 8 * 16);

  const auto heads = kernel("aten::copy_", {tensor({4, 8, 16}), strided({4, 8, 16}, {16, 64, 1})});
  ASSERT_TRUE(heads);
  EXPECT_EQ(heads->kernel, "reshuffle");
  EXPECT_EQ(heads->inner, 16);
  const auto transposed = kernel("aten::copy_", {tensor({8, 16}), strided({8, 16}, {1, 8})});
  ASSERT_TRUE(transposed);
  EXPECT_EQ(transposed->kernel, "reshuffle");
  EXPECT_EQ(transposed->inner, 1);

  const auto cast = kernel("aten::copy_", {tensor({8, 16}, DType::kF32), tensor({8, 16})});
  ASSERT_TRUE(cast);
  EXPECT_EQ(cast->kernel, "elementwise");
  EXPECT_EQ(cast->bytes, (4.0 + 2.0) * 8 * 16);
}

TEST(ProfiledOperator, PointwiseOperatorsReadEachElementOnce) {
  const auto bytes = [](std::string name, std::vector<ProfiledArgument> arguments) {
    const auto row = kernel(std::move(name), std::move(arguments));
    return row && row->kernel == "elementwise" ? row->bytes : -1.0;
  };
  const double whole = 2.0 * 8 * 16;
  EXPECT_EQ(bytes("aten::gelu", {tensor({8, 16}), value()}), 2 * whole);
  EXPECT_EQ(bytes("aten::add", {tensor({8, 16}), tensor({8, 16}), value("1")}), 3 * whole);
  EXPECT_EQ(bytes("aten::mul", {tensor({8, 16}), tensor({16})}), 2 * whole + 2.0 * 16);
  // An expanded tensor is read without its copies, and the output has them.
  EXPECT_EQ(bytes("aten::mul", {strided({8, 16}, {0, 1}), tensor({8, 16})}), 2 * whole + 2.0 * 16);
  EXPECT_EQ(bytes("aten::add_", {tensor({8, 16}), tensor({8, 16}), value("1")}), 3 * whole);
  EXPECT_EQ(bytes("aten::fill_", {tensor({8, 16}), value("0")}), whole);
  EXPECT_EQ(bytes("aten::eq", {tensor({8, 16}), value("0")}), whole + 8 * 16);
  // bf16 and f32 give f32; a tensor without dims does not decide.
  EXPECT_EQ(bytes("aten::mul", {tensor({8, 16}), tensor({8, 16}, DType::kF32)}),
            whole + 2 * whole + 2 * whole);
  EXPECT_EQ(bytes("aten::mul", {tensor({8, 16}), tensor({}, DType::kF32)}), 2 * whole + 4.0);
  EXPECT_EQ(bytes("aten::mul", {tensor({8, 16}), tensor({8, 15})}), -1.0);
}

TEST(ProfiledOperator, ReductionsReadTheirInputs) {
  const auto norm = kernel("aten::native_layer_norm",
                           {tensor({8, 16}), value(), tensor({16}), tensor({16}), value("1e-5")});
  ASSERT_TRUE(norm);
  EXPECT_EQ(norm->kernel, "reduction");
  EXPECT_EQ(kernel_shape_text(*norm), "8x16");
  EXPECT_EQ(norm->bytes, 2.0 * (8 * 16 + 16 + 16 + 8 * 16));
  const auto sum = kernel("aten::sum", {tensor({8, 16}), value("[1]")});
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->bytes, 2.0 * 8 * 16);
  const auto softmax = kernel("aten::_softmax", {tensor({8, 16}), value("-1"), value("False")});
  ASSERT_TRUE(softmax);
  EXPECT_EQ(softmax->bytes, 2.0 * 2 * 8 * 16);
}

TEST(ProfiledOperator, ASoftmaxMayWriteF32) {
  const auto half = kernel("aten::_softmax", {tensor({8, 16}), value("1"), value("True")});
  ASSERT_TRUE(half);
  EXPECT_EQ(half->bytes, (2.0 + 4.0) * 8 * 16);
}

TEST(ProfiledOperator, OutputsThatAreToBeAllocatedAreNoInputs) {
  const auto abs = kernel("aten::abs", {tensor({8, 16}), tensor({0})});
  ASSERT_TRUE(abs);
  EXPECT_EQ(abs->bytes, 2.0 * 2 * 8 * 16);
}

TEST(ProfiledOperator, ShapesThatNoMeasurementHasAreRefused) {
  std::vector<ProfiledArgument> arguments = flash("False");
  arguments[1] = arguments[2] = tensor({2, 64, 0, 16});
  EXPECT_FALSE(kernel("aten::_flash_attention_forward", arguments));
  const std::int64_t large = std::int64_t{1} << 50;
  EXPECT_FALSE(kernel("aten::add", {tensor({large, 1}), tensor({1, large})}));
}

TEST(ProfiledOperator, InductorsKernelsNameTheirKind) {
  const std::vector<ProfiledArgument> arguments = {tensor({8, 16}), tensor({8, 16}), value("128")};
  const auto pointwise = kernel("triton_poi_fused_mul_silu_2", arguments);
  ASSERT_TRUE(pointwise);
  EXPECT_EQ(pointwise->kernel, "elementwise");
  EXPECT_EQ(pointwise->bytes, 2.0 * 2 * 8 * 16);
  EXPECT_EQ(kernel("triton_red_fused_add_mean_pow_rsqrt_0", arguments)->kernel, "reduction");
  EXPECT_EQ(kernel("triton_per_fused_mean_0", arguments)->kernel, "reduction");
  EXPECT_FALSE(kernel("triton_tem_fused_mm_3", arguments));
}

TEST(ProfiledOperator, OthersHaveNoRow) {
  EXPECT_FALSE(kernel("aten::index_select", {tensor({8, 16}), value(), tensor({4}, DType::kI64)}));
  EXPECT_FALSE(kernel("vllm::moe_forward", {tensor({8, 16})}));
  EXPECT_FALSE(kernel("aten::relu", {}));
  EXPECT_FALSE(kernel("aten::relu", {tensor({0, 16})}));
  // More rows than a measurement may have.
  EXPECT_FALSE(kernel("aten::relu", {strided({1 << 30, 1 << 27, 1}, {0, 0, 1})}));
}

}  // namespace profiled_operator_test
}  // namespace shardlab
