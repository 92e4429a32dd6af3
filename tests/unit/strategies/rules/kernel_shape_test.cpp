// The shapes that rules give to models of kernels: those of the product or the attention that one
// rank computes.
#include <gtest/gtest.h>

#include "costmodel/kernel_work.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/rule_table.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace kernel_shape_test {

using testing_support::call_of;

KernelQuery work_of(const std::string& op, const std::vector<std::string>& inputs,
                    const std::string& args = "[]") {
  const OpCall call = call_of(op, inputs, 1, args);
  std::vector<Shape> shapes;
  for (const TensorSpec* tensor : call.tensors()) shapes.push_back(tensor->meta.shape);
  KernelQuery query;
  set_work(query, find_op_rule(op, kShardlab), shapes, call);
  return query;
}

struct Product {
  std::string op;
  std::vector<std::string> inputs;
  GemmShape shape;
  std::string args = "[]";
};

TEST(KernelShape, ConvolutionsFollowTheirOwnSettingOfTf32) {
  const OpCall call =
      call_of("aten.convolution.default", {"f32[2,3,8,8] R", "f32[4,3,3,3] R", "none"}, 1,
              "[[1,1],[0,0],[1,1],false,[0,0],1]");
  const std::vector<Shape> shapes = {{2, 3, 8, 8}, {4, 3, 3, 3}};
  for (const RuleSet set : {kShardlab, RuleSet(Release::k2_13), kAutoParallel}) {
    KernelQuery query;
    set_work(query, find_op_rule(call.op, set), shapes, call);
    EXPECT_EQ(query.tf32, Tf32::kAsConvolution);
  }
  EXPECT_EQ(work_of("aten.convolution_backward.default",
                    {"f32[2,4,6,6] R", "f32[2,3,8,8] R", "f32[4,3,3,3] R"},
                    "[[4],[1,1],[0,0],[1,1],false,[0,0],1,[true,true,false]]")
                .tf32,
            Tf32::kAsConvolution);
  EXPECT_EQ(work_of("aten.mm.default", {"f32[4,6] R", "f32[6,5] R"}).tf32, Tf32::kAsMatmul);
}

// PyTorch's own kernel of depthwise convolutions has no tensor cores: each channel is a group of
// its own there.
TEST(KernelShape, DepthwiseConvolutionsDoNotRound) {
  const auto tf32 = [](const std::string& weight, const std::string& groups,
                       const std::string& transposed = "false") {
    return work_of("aten.convolution.default", {"f32[2,6,8,8] R", weight, "none"},
                   "[[1,1],[0,0],[1,1]," + transposed + ",[0,0]," + groups + "]")
        .tf32;
  };
  EXPECT_EQ(tf32("f32[6,1,3,3] R", "6"), Tf32::kOff);
  EXPECT_EQ(tf32("f32[12,1,3,3] R", "6"), Tf32::kOff);
  EXPECT_EQ(tf32("f32[6,3,3,3] R", "2"), Tf32::kAsConvolution);
  EXPECT_EQ(tf32("f32[6,6,3,3] R", "1"), Tf32::kAsConvolution);
  EXPECT_EQ(tf32("f32[6,1,3,3] R", "6", "true"), Tf32::kAsConvolution);
  EXPECT_EQ(work_of("aten.convolution_backward.default",
                    {"f32[2,6,6,6] R", "f32[2,6,8,8] R", "f32[6,1,3,3] R"},
                    "[null,[1,1],[0,0],[1,1],false,[0,0],6,[true,true,false]]")
                .tf32,
            Tf32::kOff);
}

TEST(KernelShape, ProductsHaveTheirRowsColumnsAndBatch) {
  const Product products[] = {
      {"aten.mm.default", {"bf16[4,6] R", "bf16[6,5] R"}, {1, 4, 5, 6}},
      {"aten.mv.default", {"bf16[4,6] R", "bf16[6] R"}, {1, 4, 1, 6}},
      {"aten.dot.default", {"bf16[6] R", "bf16[6] R"}, {1, 1, 1, 6}},
      {"aten.addmm.default", {"bf16[5] R", "bf16[4,6] R", "bf16[6,5] R"}, {1, 4, 5, 6}},
      {"aten.bmm.default", {"bf16[3,4,6] R", "bf16[3,6,5] R"}, {3, 4, 5, 6}},
      {"aten.baddbmm.default", {"bf16[5] R", "bf16[3,4,6] R", "bf16[3,6,5] R"}, {3, 4, 5, 6}},
      {"aten.einsum.default",
       {"bf16[3,4,6] R", "bf16[6,5] R"},
       {1, 12, 5, 6},
       R"(["bmk,kn->bmn"])"},
      {"aten.einsum.default",
       {"bf16[3,4,6] R", "bf16[3,6,5] R"},
       {3, 4, 5, 6},
       R"(["bmk,bkn->bmn"])"},
      {"aten._grouped_mm.default", {"bf16[16,8] R", "bf16[2,8,24] R", "i32[2] R"}, {2, 8, 24, 8}},
  };
  for (const Product& product : products) {
    const KernelQuery query = work_of(product.op, product.inputs, product.args);
    ASSERT_TRUE(query.gemm) << product.op;
    EXPECT_EQ(query.gemm->batch, product.shape.batch) << product.op;
    EXPECT_EQ(query.gemm->m, product.shape.m) << product.op;
    EXPECT_EQ(query.gemm->n, product.shape.n) << product.op;
    EXPECT_EQ(query.gemm->k, product.shape.k) << product.op;
    EXPECT_EQ(gemm_flops(*query.gemm), query.flops) << product.op;
    EXPECT_FALSE(query.attention) << product.op;
  }
}

// A linear layer of 588 to 50257: forward, the gradient of its input, and that of its weight, whose
// first operand is a transposed view, over 4099 tokens.
TEST(KernelShape, TheRowsOfAProductAreThoseInMemory) {
  const auto multiple = [](const std::string& op, const std::vector<std::string>& inputs,
                           std::size_t transposed, const std::string& args = "[]") {
    OpCall call = call_of(op, inputs, 1, args);
    std::vector<Shape> shapes;
    for (const TensorSpec* tensor : call.tensors()) shapes.push_back(tensor->meta.shape);
    if (transposed < call.inputs.size()) {
      TensorMeta& meta = call.inputs[transposed].tensors[0].meta;
      meta.strides = {1, meta.shape[0]};
    }
    KernelQuery query;
    set_work(query, find_op_rule(op, kShardlab), shapes, call);
    return query.gemm->row_multiple;
  };
  const std::size_t none = 9;
  const std::vector<std::string> forward = {"bf16[4099,588] R", "bf16[588,50304] R"};
  const std::vector<std::string> weight = {"bf16[50304,4099] R", "bf16[4099,592] R"};
  EXPECT_EQ(multiple("aten.mm.default", forward, none), 4);  // 588
  EXPECT_EQ(multiple("aten.mm.default", forward, 1), 4);     // linear's layout
  EXPECT_EQ(multiple("aten.mm.default", weight, none), 1);   // 4099
  EXPECT_EQ(multiple("aten.mm.default", weight, 0), 16);     // 50304 and 592
  EXPECT_EQ(multiple("aten.addmm.default", {"bf16[592] R", weight[0], weight[1]}, 1), 16);
  EXPECT_EQ(multiple("aten.einsum.default", weight, 0, R"(["mk,kn->mn"])"), 16);
  EXPECT_EQ(multiple("aten.einsum.default", weight, none, R"(["mk,kn->nm"])"), 1);
  // A result of [m, n] whose dims are swapped keeps rows of n elements.
  EXPECT_EQ(multiple("aten.einsum.default", {"bf16[4099,64] R", "bf16[64,48] R"}, none,
                     R"(["mk,kn->nm"])"),
            16);
  // The free dims of a weight [width, heads, head dim] are one row: 24 elements, and not 4.
  EXPECT_EQ(multiple("aten.einsum.default", {"bf16[2,64,32] R", "bf16[32,6,4] R"}, none,
                     R"(["bsh,hnd->bsnd"])"),
            8);
  // A single row has no distance to the next one: a vector by a matrix, by a weight as `linear` has
  // it, and a product of vectors.
  EXPECT_EQ(multiple("aten.mm.default", {"bf16[1,4099] R", "bf16[4099,48] R"}, none), 16);
  EXPECT_EQ(multiple("aten.mm.default", {"bf16[1,4096] R", "bf16[4096,50257] R"}, 1), 64);
  EXPECT_EQ(multiple("aten.dot.default", {"bf16[4099] R", "bf16[4099] R"}, none), 64);
  EXPECT_EQ(multiple("aten.bmm.default", {"bf16[3,64,24] R", "bf16[3,24,40] R"}, none), 8);
  EXPECT_EQ(multiple("aten.mv.default", {"bf16[4,6] R", "bf16[6] R"}, none), 2);
}

// A rank's shard of a vocabulary that 8 divides may have rows that are not aligned.
TEST(KernelShape, TheRowsOfAShardAreItsOwn) {
  const OpCall call = call_of("aten.mm.default", {"bf16[64,4096] R", "bf16[4096,50288] S(1)"}, 1);
  const std::vector<Shape> local = {{64, 4096}, {4096, 50288 / 8}};
  KernelQuery query;
  set_work(query, find_op_rule(call.op, kShardlab), local, call);
  EXPECT_EQ(query.gemm->row_multiple, 2);  // 6286
}

TEST(KernelShape, FlashAttentionSaysWhetherItIsCausal) {
  const std::vector<std::string> inputs = {"bf16[2,8,64,16] R", "bf16[2,4,64,16] R",
                                           "bf16[2,4,64,16] R"};
  for (const bool causal : {false, true}) {
    const KernelQuery query = work_of("aten._scaled_dot_product_flash_attention.default", inputs,
                                      causal ? "[0.0, true]" : "[0.0, false]");
    ASSERT_TRUE(query.attention);
    EXPECT_EQ(query.attention->causal, causal);
    EXPECT_FALSE(query.attention->backward);
    EXPECT_EQ(query.attention->kernel, AttentionKernel::kFlash);
    EXPECT_EQ(query.attention->heads, 8);
    EXPECT_EQ(query.attention->kv_heads, 4);
    EXPECT_EQ(query.attention->queries, 64);
    EXPECT_EQ(query.attention->key_dim, 16);
    AttentionShape all = *query.attention;
    all.causal = false;
    EXPECT_EQ(attention_flops(all), query.flops);  // whose operations count all pairs
  }
}

TEST(KernelShape, TheOtherOperatorsHaveTheirFlagElsewhere) {
  const std::string x = "bf16[2,8,64,16] R";
  const KernelQuery cudnn = work_of("aten._scaled_dot_product_cudnn_attention.default",
                                    {x, x, x, "none"}, "[true, 0.0, true]");
  ASSERT_TRUE(cudnn.attention);
  EXPECT_TRUE(cudnn.attention->causal);
  EXPECT_EQ(cudnn.attention->kernel, AttentionKernel::kCudnn);
  const KernelQuery efficient = work_of("aten._scaled_dot_product_efficient_attention.default",
                                        {x, x, x, "none"}, "[true, 0.0, true]");
  ASSERT_TRUE(efficient.attention);
  EXPECT_TRUE(efficient.attention->causal);
  EXPECT_EQ(efficient.attention->kernel, AttentionKernel::kEfficient);
}

TEST(KernelShape, BackwardAttentionReadsTheQueriesAfterTheGradient) {
  const std::string x = "bf16[2,8,64,16] R";
  const std::string kv = "bf16[2,8,32,16] R";
  const KernelQuery query = work_of("aten._scaled_dot_product_flash_attention_backward.default",
                                    {x, x, kv, kv, x, "f32[2,8,64] R"}, "[64, 32, 0.0, true]");
  ASSERT_TRUE(query.attention);
  EXPECT_TRUE(query.attention->backward);
  EXPECT_TRUE(query.attention->causal);
  EXPECT_EQ(query.attention->queries, 64);
  EXPECT_EQ(query.attention->keys, 32);
}

}  // namespace kernel_shape_test
}  // namespace shardlab
