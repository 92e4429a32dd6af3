// The model kernels: how shapes change what a kernel costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "costmodel/kernel_work.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace kernels_test {

using testing_support::compute_model;
using testing_support::topology_json;
using testing_support::topology_with;

double product_us(const ComputeModel& model, const GemmShape& shape, DType dtype) {
  return model
      .price({.kind = Kernel::kGemm,
              .bytes = 1.0,
              .flops = gemm_flops(shape),
              .dtype = dtype,
              .gemm = shape})
      .total.value();
}

class Kernels : public testing::Test {
 protected:
  [[nodiscard]] double gemm_us(const GemmShape& shape, DType dtype = DType::kBF16) const {
    return product_us(*model_, shape, dtype);
  }
  [[nodiscard]] double attention_us(const AttentionShape& shape) const {
    return model_
        ->price({.kind = Kernel::kAttention,
                 .bytes = 1.0,
                 .flops = attention_flops(shape),
                 .dtype = DType::kBF16,
                 .attention = shape})
        .total.value();
  }
  // Attention of one layer of Llama 3 8B over 8,192 tokens.
  static constexpr AttentionShape kLlama = {.batch = 1,
                                            .heads = 32,
                                            .kv_heads = 8,
                                            .queries = 8192,
                                            .keys = 8192,
                                            .key_dim = 128,
                                            .value_dim = 128};

  const Topology topology_ = topology_with(8);  // 132 SMs, as it names no compute capability
  const std::unique_ptr<ComputeModel> model_ = compute_model("kernels", topology_);
};

TEST_F(Kernels, WithoutAShapeAProductTakesTheSustainedShareOfThePeak) {
  const double flops = 989e6 * 0.803 * 100;
  EXPECT_DOUBLE_EQ(model_->price({Kernel::kGemm, 8, flops, DType::kBF16}).total.value(), 103.8);
}

TEST_F(Kernels, NoWorkIsNoKernelAndLittleWorkTakesTheLaunch) {
  EXPECT_EQ(model_->price({Kernel::kCopy, 0, 0, DType::kF32}).total.value(), 0.0);
  EXPECT_EQ(model_->price({Kernel::kCopy, 8, 0, DType::kF32}).total.value(), 7.0);
}

TEST_F(Kernels, ACopyTakesItsStartupAndItsTraffic) {
  // 3350 GB/s * 0.85 is 2847.5 kB/us.
  EXPECT_DOUBLE_EQ(model_->price({Kernel::kCopy, 2.8475e8, 0, DType::kF32}).total.value(), 102.0);
}

TEST_F(Kernels, NoProductBeatsTheSustainedRate) {
  for (const double size : {1024.0, 4096.0, 16384.0, 65536.0}) {
    const GemmShape square{.batch = 1, .m = size, .n = size, .k = size};
    EXPECT_GE(gemm_us(square), gemm_flops(square) / (989e6 * 0.803)) << size;
  }
}

TEST_F(Kernels, OneTileMoreThanAWaveTakesAnotherWave) {
  const GemmShape wave{.batch = 132, .m = 128, .n = 256, .k = 8192};
  GemmShape more = wave;
  more.batch = 133;
  EXPECT_GT(gemm_us(more) / gemm_us(wave), 1.25);  // the smaller tiles soften the second wave
}

TEST_F(Kernels, AProductOfFewTilesIsSplit) {
  // One tile of 64 x 64 would read 16384 elements alone: 2 * 64 * 64 * 16384 / (peak of an SM).
  const GemmShape deep{.batch = 1, .m = 64, .n = 64, .k = 16384};
  const double unsplit = 2.0 * 64 * 64 * 16384 / (989e6 / 132 * 0.850 * 0.597);
  EXPECT_LT(gemm_us(deep), unsplit / 1.5);
}

TEST_F(Kernels, RowsOfATileThatAreNotThereTakeTimeToo) {
  const GemmShape two{.batch = 1, .m = 2, .n = 16384, .k = 8192};
  GemmShape tile = two;
  tile.m = 64;
  // Only the partial sums of a split product are fewer.
  EXPECT_GT(gemm_us(two), 0.8 * gemm_us(tile));
}

// What a product with a vector reads decides, and not the tiles that one row or column cannot fill.
TEST_F(Kernels, AProductWithAVectorRunsAtTheMemorysRate) {
  const GemmShape products[] = {{.batch = 1, .m = 1, .n = 1, .k = 67108864},
                                {.batch = 1, .m = 8192, .n = 1, .k = 8192},
                                {.batch = 65536, .m = 1, .n = 1, .k = 1024}};
  for (const GemmShape& shape : products) {
    const double bytes = 2.0 * shape.batch * (shape.m * shape.k + shape.k * shape.n);
    const double us = model_
                          ->price({.kind = Kernel::kGemm,
                                   .bytes = bytes,
                                   .flops = gemm_flops(shape),
                                   .dtype = DType::kBF16,
                                   .gemm = shape})
                          .total.value();
    EXPECT_DOUBLE_EQ(us, 3.8 + bytes / 2847.5e3);
  }
}

// A product of 8 x 8 outputs over four million elements is one tile. Split among the SMs it takes a
// hundredth of the time that it would take on one.
TEST_F(Kernels, ADeepProductOfFewTilesIsSplitAmongTheSms) {
  const GemmShape deep{.batch = 1, .m = 8, .n = 8, .k = 4194304};
  const double on_one_sm = 2.0 * 64 * 64 * deep.k / (989e6 / 132 * 0.850 * 0.597);
  EXPECT_LT(gemm_us(deep), on_one_sm / 80.0);
  EXPECT_GT(gemm_us(deep), on_one_sm / 132.0);
}

TEST_F(Kernels, ViewsAreFreeAndComplexProductsTakeFourRealOnes) {
  EXPECT_EQ(model_->price({Kernel::kView, 1e9, 0, DType::kF32}).total.value(), 0.0);
  const double flops = 1e12;
  const double real = model_->price({Kernel::kGemm, 8, flops, DType::kF32}).total.value() - 3.8;
  EXPECT_DOUBLE_EQ(model_->price({Kernel::kGemm, 8, flops, DType::kC64}).total.value() - 3.8,
                   4.0 * real);
}

TEST_F(Kernels, ProductsOfUnalignedRowsRunAmperesKernels) {
  const double startup = 3.8;
  GemmShape logits{.batch = 1, .m = 8192, .n = 50257, .k = 4096};
  const auto us = [&](double multiple, DType dtype = DType::kBF16) {
    logits.row_multiple = multiple;
    return gemm_us(logits, dtype) - startup;
  };
  EXPECT_EQ(us(0), us(64));  // not known
  EXPECT_EQ(us(8), us(64));  // 16 bytes
  EXPECT_EQ(us(4), us(2));
  // So large a product takes the sustained share of the peak, of Hopper's kernels and of Ampere's.
  EXPECT_NEAR(us(2) / us(64), 0.803 / (0.44 * 0.805 * 0.641), 0.1);
  EXPECT_NEAR(us(1) / us(2), 0.641 / 0.317, 0.1);
  // The rates are those of 16 bits.
  EXPECT_EQ(us(1, DType::kF32), us(64, DType::kF32));
  EXPECT_EQ(us(1, DType::kF8E4M3), us(64, DType::kF8E4M3));
}

// Prices of one product on a GPU of a compute capability, with parameters of the model.
double product_us(std::int64_t capability, const GemmShape& shape,
                  const nlohmann::json& params = nlohmann::json::object(),
                  DType dtype = DType::kBF16) {
  nlohmann::json topology = topology_json(8);
  topology["device"]["compute_capability"] = capability;
  topology["device"]["multiprocessors"] = 100;
  const auto model = compute_model({{"name", "kernels"}, {"params", params}},
                                   Topology::from_json(topology, {"test", ""}));
  return product_us(*model, shape, dtype);
}

TEST(KernelParameters, ReachThePriceOfAProduct) {
  // Two waves of tiles of 128 x 256, each of which computes 4096 + k_half elements of k.
  const GemmShape waves{.batch = 200, .m = 128, .n = 256, .k = 4096};
  const GemmShape deep{.batch = 1, .m = 64, .n = 64, .k = 65536};
  const GemmShape odd{.batch = 1, .m = 8192, .n = 8192, .k = 8192, .row_multiple = 1};
  const GemmShape even{.batch = 1, .m = 8192, .n = 8192, .k = 8192, .row_multiple = 2};
  // The tiles decide, and not the share of the peak that large products sustain.
  const nlohmann::json tiles_alone = {{"flops_efficiency", 1.0}, {"f8_flops_efficiency", 1.0}};
  const auto ratio = [&](const GemmShape& shape, const nlohmann::json& params,
                         DType dtype = DType::kBF16) {
    nlohmann::json changed = tiles_alone;
    changed.update(params);
    return product_us(90, shape, changed, dtype) / product_us(90, shape, tiles_alone, dtype);
  };
  EXPECT_NEAR(ratio(waves, {{"tile_efficiency", 0.425}}), 2.0, 0.1);  // but for the start-up
  EXPECT_EQ(ratio(waves, {{"f8_tile_efficiency", 0.425}}), 1.0);
  EXPECT_NEAR(ratio(waves, {{"f8_tile_efficiency", 0.425}}, DType::kF8E4M3), 2.0, 0.1);
  EXPECT_GT(ratio(waves, {{"k_half_bytes", 8192}}), 1.3);
  EXPECT_GT(ratio(waves, {{"later_wave_share", 1.0}}), 1.03);
  EXPECT_GT(ratio(deep, {{"split_us", 1000}}), 2.0);
  EXPECT_NEAR(ratio(odd, {{"odd_row_rate", 0.634}}), 0.5, 0.02);
  EXPECT_EQ(ratio(odd, {{"even_row_rate", 0.1}}), 1.0);
  EXPECT_NEAR(ratio(even, {{"even_row_rate", 0.3205}}), 2.0, 0.02);
  EXPECT_NEAR(ratio(even, {{"ampere_kernel_share", 0.88}}), 0.5, 0.02);
  GemmShape aligned = odd;
  aligned.row_multiple = 64;
  EXPECT_EQ(product_us(90, odd, {{"ampere_kernel_share", 0.0}}), product_us(90, aligned));
}

struct Listed {
  double constant;
  std::int64_t capability;
};

// What the help of a parameter lists as "5 for 80 and 100; 3.8 for 90 (assumed)".
std::vector<Listed> listed_in(std::string_view help) {
  constexpr std::string_view kMarker = "; default, by compute capability: ";
  const std::size_t at = help.find(kMarker);
  if (at == std::string_view::npos) return {};
  std::string list(help.substr(at + kMarker.size()));
  std::ranges::replace_if(
      list, [](char c) { return c == ',' || c == ';'; }, ' ');
  std::istringstream words(list);
  std::vector<Listed> listed;
  std::string word;
  double number = 0.0;
  double constant = 0.0;
  while (words >> word) {
    if (word == "for") {
      constant = number;
      if (!listed.empty()) listed.pop_back();  // the constant is no capability
    } else if (word != "and" && word != "(assumed)") {
      number = std::stod(word);
      listed.push_back({constant, std::llround(number)});
    }
  }
  return listed;
}

// The times of kernels which together read all constants of a generation.
std::vector<double> times_of(std::int64_t capability, nlohmann::json params) {
  params["tf32_matmul"] = 1.0;
  nlohmann::json topology = topology_json(8);
  topology["device"]["compute_capability"] = capability;
  topology["device"]["multiprocessors"] = 100;
  topology["device"]["peak_tflops"]["tf32"] = 494.0;
  const auto model = compute_model({{"name", "kernels"}, {"params", params}},
                                   Topology::from_json(topology, {"test", ""}));
  const GemmShape waves{.batch = 200, .m = 128, .n = 256, .k = 4096};
  const GemmShape deep{.batch = 1, .m = 64, .n = 64, .k = 1048576};
  const GemmShape odd{.batch = 1, .m = 8192, .n = 8192, .k = 8192, .row_multiple = 1};
  std::vector<double> us = {product_us(*model, odd, DType::kBF16)};
  for (const DType dtype : {DType::kBF16, DType::kF8E4M3, DType::kF32}) {
    us.push_back(product_us(*model, waves, dtype));
    us.push_back(product_us(*model, deep, dtype));
    us.push_back(model->price({Kernel::kGemm, 8, 1e12, dtype}).total.value());
  }
  for (const bool backward : {false, true}) {
    for (const AttentionKernel kernel : {AttentionKernel::kFlash, AttentionKernel::kCudnn}) {
      const AttentionShape shape{.heads = 32,
                                 .kv_heads = 8,
                                 .queries = 8192,
                                 .keys = 8192,
                                 .key_dim = 128,
                                 .value_dim = 128,
                                 .backward = backward,
                                 .kernel = kernel};
      us.push_back(model
                       ->price({.kind = Kernel::kAttention,
                                .bytes = 1.0,
                                .flops = attention_flops(shape),
                                .dtype = DType::kBF16,
                                .attention = shape})
                       .total.value());
    }
  }
  return us;
}

TEST(KernelParameters, ListTheConstantOfEachGenerationInTheirHelp) {
  std::size_t parameters = 0;
  for (const ParamSpec& spec : find_cost_model("kernels")->params) {
    const std::vector<Listed> listed = listed_in(spec.help);
    if (listed.empty()) continue;
    ++parameters;
    EXPECT_EQ(listed.size(), 6U) << spec.help;
    for (const auto& [constant, capability] : listed) {
      const std::vector<double> own = times_of(capability, {});
      EXPECT_EQ(times_of(capability, {{spec.name, constant}}), own) << spec.name << capability;
      const double other = constant > 0.0 ? constant / 2.0 : 0.5;
      EXPECT_NE(times_of(capability, {{spec.name, other}}), own) << spec.name << capability;
    }
  }
  EXPECT_EQ(parameters, 15U);
}

TEST(KernelParameters, SayWhichConstantsAreAssumed) {
  const auto help = [](std::string_view name) {
    const auto params = find_cost_model("kernels")->params;
    return std::ranges::find(params, name, &ParamSpec::name)->help;
  };
  EXPECT_EQ(help("gemm_startup_us"),
            "start-up of a GEMM, on top of its traffic or arithmetic; default, by compute "
            "capability: 5 for 80, 100 and 103; 3.8 for 90; 4.6 for 94; 2.6 for 95");
  EXPECT_EQ(help("flash_efficiency"),
            "share of the peak rate that FlashAttention-2's products reach in the forward pass; "
            "default, by compute capability: 0.8 for 80; 0.432 for 90; 0.432 for 94 and 95 "
            "(assumed); 0.213 for 100 and 103 (assumed)");
}

TEST(KernelGenerations, HaveTilesOfTheirOwn) {
  // On 100 multiprocessors, 100 outputs of 256 x 256 are one wave of the tiles of AMD's GPUs and
  // two of the largest one of NVIDIA's; 3.8 and 4.6 us are the start-ups.
  const GemmShape tiles{.batch = 100, .m = 256, .n = 256, .k = 8192};
  const double rate = 989e6 / 100;
  const double gfx942 = 2.0 * 256 * 256 * (8192 + 178) / (rate * 0.550) + 4.6;
  EXPECT_NEAR(product_us(94, tiles, {{"flops_efficiency", 1.0}}), gfx942, 1e-6 * gfx942);
  const double hopper = 2.0 * 128 * 256 * (2 * 8192 + 1.295 * 576) / (rate * 0.850) + 3.8;
  // Two waves of 128 x 256 tiles, or four of smaller ones, whose rate is up to 1.084 times as high.
  EXPECT_LE(product_us(90, tiles, {{"flops_efficiency", 1.0}}), hopper);
  EXPECT_GT(product_us(90, tiles, {{"flops_efficiency", 1.0}}), 0.9 * hopper);
  // Products that are not aligned cost no more on AMD's GPUs.
  GemmShape odd = tiles;
  odd.row_multiple = 1;
  EXPECT_EQ(product_us(95, odd), product_us(95, tiles));
  EXPECT_GT(product_us(100, odd), 4 * product_us(100, tiles));
}

TEST_F(Kernels, AShortContractedDimIsInefficient) {
  const auto rate = [&](double k) {
    const GemmShape shape{.batch = 1, .m = 8192, .n = 8192, .k = k};
    return gemm_flops(shape) / gemm_us(shape);
  };
  EXPECT_LT(rate(256), 0.65 * rate(4096));
  EXPECT_LT(rate(1024), 0.95 * rate(4096));
}

TEST_F(Kernels, CausalAttentionCostsAboutHalf) {
  AttentionShape causal = kLlama;
  causal.causal = true;
  EXPECT_NEAR(attention_us(causal) / attention_us(kLlama), 0.5, 0.02);
  EXPECT_GT(attention_us(causal), 0.5 * attention_us(kLlama));  // masked tiles at the diagonal
}

TEST_F(Kernels, AWindowOfAllKeysCostsAsMuchAsNoneAndAShortOneLess) {
  AttentionShape causal = kLlama;
  causal.causal = true;
  AttentionShape window = causal;
  window.window = 1024;
  EXPECT_LT(attention_us(window), 0.4 * attention_us(causal));
  window.window = 8192;
  EXPECT_NEAR(attention_us(window) / attention_us(causal), 1.0, 0.02);
}

TEST_F(Kernels, TheLastTileOfASequenceIsComputedWhole) {
  AttentionShape whole = kLlama;
  whole.queries = whole.keys = 640;
  AttentionShape part = whole;
  part.queries = part.keys = 559;
  EXPECT_DOUBLE_EQ(attention_us(part), attention_us(whole));
  // A few queries, as in decoding, are no tile of their own.
  AttentionShape few = kLlama;
  few.queries = 1;
  AttentionShape tile = kLlama;
  tile.queries = 128;
  EXPECT_LT(attention_us(few), attention_us(tile));
}

TEST_F(Kernels, TheCudnnOperatorIsFasterThanTheFlashOperatorOnHopper) {
  AttentionShape cudnn = kLlama;
  cudnn.kernel = AttentionKernel::kCudnn;
  AttentionShape efficient = kLlama;
  efficient.kernel = AttentionKernel::kEfficient;
  EXPECT_LT(1.6 * attention_us(cudnn), attention_us(kLlama));
  EXPECT_GT(attention_us(efficient), 2.0 * attention_us(kLlama));
}

TEST_F(Kernels, FewerMultiprocessorsOfTheSamePeakNeedAnotherWave) {
  nlohmann::json json = topology_json(8);
  json["device"]["multiprocessors"] = 131;
  const auto model = compute_model("kernels", Topology::from_json(json, {"test.json", ""}));
  const GemmShape wave{.batch = 132, .m = 128, .n = 256, .k = 8192};
  const KernelQuery query{.kind = Kernel::kGemm,
                          .bytes = 1.0,
                          .flops = gemm_flops(wave),
                          .dtype = DType::kBF16,
                          .gemm = wave};
  EXPECT_GT(model->price(query).total.value(), 1.25 * gemm_us(wave));
}

TEST_F(Kernels, ItsPriceIsAllCompute) {
  const Price price = model_->price({Kernel::kCopy, 1e9, 0, DType::kF32});
  EXPECT_EQ(price.compute, price.total);
}

TEST(KernelWork, CountsThePairsOfEachMask) {
  const auto pairs = [](double queries, double keys, bool causal, double window) {
    return attention_pairs({.queries = queries, .keys = keys, .window = window, .causal = causal});
  };
  for (const int q : {1, 3, 8, 17}) {
    for (const int k : {1, 3, 8, 17}) {
      for (const int window : {0, 1, 5, 8, 40}) {
        double counted = 0;
        double all = 0;
        for (int i = 0; i < q; ++i) {
          const int seen = window > 0 ? std::min(window, k) : k;
          counted += std::clamp(i + 1 + k - q, 0, seen);
          all += seen;
        }
        EXPECT_EQ(pairs(q, k, true, window), counted) << q << " " << k << " " << window;
        EXPECT_EQ(pairs(q, k, false, window), all) << q << " " << k << " " << window;
      }
    }
  }
  EXPECT_EQ(pairs(4, 10, true, 0), 4 * 10 - 4 * 3 / 2);
}

TEST(KernelWork, TheMultipleOfRowsIsThatOfTheLeastAlignedOne) {
  const auto of = [](std::vector<double> lengths) { return row_multiple(lengths); };
  EXPECT_EQ(of({4096, 14336}), 64);
  EXPECT_EQ(of({4096, 50257}), 1);
  EXPECT_EQ(of({588, 1152}), 4);
  EXPECT_EQ(of({24, 40}), 8);
  EXPECT_EQ(of({1, 4096}), 64);  // a column is as well a row
  EXPECT_EQ(of({}), 64);
  EXPECT_EQ(of({0, 8}), 0);
  EXPECT_EQ(of({8, 2.5}), 0);
}

TEST(KernelWork, BackwardAttentionCountsTwoAndAHalfTimesAsMuch) {
  const AttentionShape forward{
      .batch = 2, .heads = 3, .queries = 5, .keys = 7, .key_dim = 8, .value_dim = 16};
  AttentionShape backward = forward;
  backward.backward = true;
  EXPECT_EQ(attention_flops(forward), 2.0 * 2 * 3 * 5 * 7 * 24);
  EXPECT_EQ(attention_flops(backward), 2.5 * attention_flops(forward));
}

}  // namespace kernels_test
}  // namespace shardlab
