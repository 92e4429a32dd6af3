// Products of f32 that round to TF32, under roofline and kernels.
#include "costmodel/models/tf32.h"

#include <gtest/gtest.h>

#include "costmodel/kernel_work.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace tf32_test {

// The reference topology, with TF32's rate on an H100 if `has_tf32`.
Topology topology(bool has_tf32 = true) {
  nlohmann::json json = testing_support::topology_json(8);
  if (has_tf32) json["device"]["peak_tflops"]["tf32"] = 494.5;
  return Topology::from_json(json, {"test.json", ""});
}

const nlohmann::json kDefaults = nlohmann::json::object();

double price(const std::string& model, const nlohmann::json& params, const KernelQuery& query,
             bool has_tf32 = true) {
  return testing_support::compute_model({{"name", model}, {"params", params}}, topology(has_tf32))
      ->price(query)
      .total.value();
}

KernelQuery product(Tf32 tf32, DType dtype = DType::kF32) {
  return {.kind = Kernel::kGemm, .bytes = 1.0, .flops = 1e13, .dtype = dtype, .tf32 = tf32};
}

TEST(Tf32, TheRooflineTakesItsRateWherePyTorchRoundsByDefault) {
  const double f32 = 1e13 / (67e6 * 0.7);
  const double tf32 = 1e13 / (494.5e6 * 0.7);
  EXPECT_DOUBLE_EQ(price("roofline", kDefaults, product(Tf32::kAsMatmul)), f32);
  EXPECT_DOUBLE_EQ(price("roofline", kDefaults, product(Tf32::kAsConvolution)), tf32);
  EXPECT_DOUBLE_EQ(price("roofline", kDefaults, product(Tf32::kOn)), tf32);
  EXPECT_DOUBLE_EQ(price("roofline", kDefaults, product(Tf32::kOff)), f32);
}

TEST(Tf32, EachSettingHasAParameter) {
  for (const std::string model : {"roofline", "kernels"}) {
    const double f32 = price(model, kDefaults, product(Tf32::kOff));
    const double tf32 = price(model, kDefaults, product(Tf32::kOn));
    EXPECT_LT(tf32, 0.2 * f32) << model;
    const nlohmann::json high = {{"tf32_matmul", 1}};
    EXPECT_EQ(price(model, high, product(Tf32::kAsMatmul)), tf32) << model;
    EXPECT_EQ(price(model, high, product(Tf32::kOff)), f32) << model;
    const nlohmann::json off = {{"tf32_convolution", 0}};
    EXPECT_EQ(price(model, off, product(Tf32::kAsConvolution)), f32) << model;
    EXPECT_EQ(price(model, off, product(Tf32::kOn)), tf32) << model;
  }
}

TEST(Tf32, OnlyProductsOfF32RoundAndOnlyWhereTheTopologyHasARate) {
  for (const std::string model : {"roofline", "kernels"}) {
    for (const DType dtype : {DType::kBF16, DType::kF64, DType::kF8E4M3}) {
      EXPECT_EQ(price(model, kDefaults, product(Tf32::kAsConvolution, dtype)),
                price(model, kDefaults, product(Tf32::kOff, dtype)))
          << model << " " << to_string(dtype);
    }
    EXPECT_EQ(price(model, kDefaults, product(Tf32::kOn), false),
              price(model, kDefaults, product(Tf32::kOff), false))
        << model;
    KernelQuery sum = product(Tf32::kOn);
    sum.kind = Kernel::kReduction;
    KernelQuery plain_sum = product(Tf32::kOff);
    plain_sum.kind = Kernel::kReduction;
    EXPECT_EQ(price(model, kDefaults, sum), price(model, kDefaults, plain_sum)) << model;
  }
}

TEST(Tf32, ProductsOfComplexNumbersRoundToo) {
  const nlohmann::json high = {{"tf32_matmul", 1}};
  EXPECT_DOUBLE_EQ(price("roofline", high, product(Tf32::kAsMatmul, DType::kC64)),
                   4 * price("roofline", high, product(Tf32::kAsMatmul)));
}

TEST(Tf32, HasAnEfficiencyOfItsOwn) {
  EXPECT_DOUBLE_EQ(price("roofline", {{"tf32_flops_efficiency", 0.35}}, product(Tf32::kOn)),
                   1e13 / (494.5e6 * 0.35));
  EXPECT_DOUBLE_EQ(price("roofline", {{"f32_flops_efficiency", 0.35}}, product(Tf32::kOn)),
                   1e13 / (494.5e6 * 0.7));
  // One wave of tiles of 128 x 256 on 132 SMs; 3.8 us are the start-up of a product.
  KernelQuery wave = product(Tf32::kOn);
  wave.gemm = {.batch = 132, .m = 128, .n = 256, .k = 8192};
  wave.flops = gemm_flops(*wave.gemm);
  const auto tiles_us = [&](double efficiency, double k_half_bytes) {
    return price("kernels",
                 {{"flops_efficiency", 1.0},
                  {"tf32_tile_efficiency", efficiency},
                  {"tf32_k_half_bytes", k_half_bytes}},
                 wave) -
           3.8;
  };
  EXPECT_NEAR(tiles_us(0.3, 2000) / tiles_us(0.6, 2000), 2.0, 1e-9);
  // A prologue as long as the contracted dim itself, of which smaller tiles save a part.
  EXPECT_GT(tiles_us(0.6, 4 * 8192) / tiles_us(0.6, 0), 1.5);
  EXPECT_EQ(price("kernels", {{"tile_efficiency", 0.1}, {"k_half_bytes", 4000}}, wave),
            price("kernels", kDefaults, wave));
}

// FlexAttention follows the setting of matrix products; efficient attention makes three products of
// TF32 of each product of f32, always.
TEST(Tf32, AttentionHasARateByItsKernel) {
  const auto attention_us = [](const std::string& model, AttentionKernel kernel, int tf32_matmul,
                               bool has_tf32 = true) {
    KernelQuery attention = product(Tf32::kAsMatmul);
    attention.kind = Kernel::kAttention;
    attention.attention = AttentionShape{.heads = 32,
                                         .kv_heads = 32,
                                         .queries = 8192,
                                         .keys = 8192,
                                         .key_dim = 128,
                                         .value_dim = 128,
                                         .kernel = kernel};
    return price(model, {{"tf32_matmul", tf32_matmul}}, attention, has_tf32);
  };
  for (const std::string model : {"roofline", "kernels"}) {
    const double flex = attention_us(model, AttentionKernel::kFlash, 0);
    EXPECT_NEAR(attention_us(model, AttentionKernel::kFlash, 1) / flex, 67 / 494.5, 0.01) << model;
    const double efficient = attention_us(model, AttentionKernel::kEfficient, 0);
    EXPECT_EQ(attention_us(model, AttentionKernel::kEfficient, 1), efficient) << model;
    EXPECT_NEAR(efficient / attention_us(model, AttentionKernel::kEfficient, 0, false),
                67 / (494.5 / 3), 0.01)
        << model;
  }
}

}  // namespace tf32_test
}  // namespace shardlab
