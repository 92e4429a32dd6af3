// Which results of a backward op are returned: those that the mask asks for, less the gradients of
// tensors that are not given. What is expected here is where PyTorch 2.15.0 returns no None.
#include "strategies/rules/output_mask.h"

#include <gtest/gtest.h>

#include "strategies/rules/op_rule.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace output_mask_test {

using Flags = std::vector<bool>;

struct Masked {
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  Flags returned;  // empty if nothing is left out
};

TEST(OutputMask, SaysWhichResultsAreReturned) {
  const std::string norm = "aten.native_layer_norm_backward.default";
  const std::vector<std::string> layer = {"f32[8,16,8] R", "f32[8,16,8] R", "f32[8,16,1] R",
                                          "f32[8,16,1] R", "f32[8] R",      "f32[8] R"};
  const std::vector<std::string> weightless = {layer[0], layer[1], layer[2],
                                               layer[3], "none",   layer[5]};
  const std::vector<std::string> biasless(layer.begin(), layer.end() - 1);
  const char* const batch_norm = "aten.native_batch_norm_backward.default";
  const std::vector<std::string> batch = {"f32[4,6,2] R", "f32[4,6,2] R", "none",    "f32[6] R",
                                          "f32[6] R",     "f32[6] R",     "f32[6] R"};
  const char* const convolution = "aten.convolution_backward.default";
  const std::vector<std::string> images = {"f32[8,4,8,8] R", "f32[8,3,8,8] R", "f32[4,3,3,3] R"};
  const char* const attention = "aten._scaled_dot_product_efficient_attention_backward.default";
  const std::string query = "f32[2,3,4,8] R";
  const std::vector<std::string> heads = {query, query,           query,     query,    "none",
                                          query, "f32[2,3,32] R", "i64[] R", "i64[] R"};
  std::vector<std::string> biased = heads;
  biased[4] = "f32[2,3,4,4] R";
  const std::vector<Masked> all = {
      {norm.c_str(), layer, "[[8], [true, true, true]]", {}},
      {norm.c_str(), layer, "[[8]]", {}},
      {norm.c_str(), layer, "[[8], [true, false, true]]", {true, false, true}},
      {norm.c_str(), layer, "[[8], [false, true, false]]", {false, true, false}},
      {norm.c_str(), weightless, "[[8], [true, true, true]]", {true, false, true}},
      {norm.c_str(), biasless, "[[8], [true, true, true]]", {true, true, false}},
      {norm.c_str(), biasless, "[[8], [false, true, true]]", {false, true, false}},
      {batch_norm, batch, "[true, 1e-5, [true, true, true]]", {}},
      {batch_norm, batch, "[true, 1e-5, [true, true, false]]", {true, true, false}},
      {convolution,
       images,
       "[[4], 1, 1, 1, false, 0, 1, [false, true, true]]",
       {false, true, true}},
      {convolution,
       images,
       "[null, 1, 1, 1, false, 0, 1, [true, true, false]]",
       {true, true, false}},
      {convolution,
       images,
       "[[0], 1, 1, 1, false, 0, 1, [false, true, false]]",
       {false, true, false}},
      // The gradients of the queries, keys and values are always returned.
      {attention, heads, "[0.0, [false, true, true, true]]", {true, true, true, false}},
      {attention, biased, "[0.0, [false, true, true, true]]", {}},
      {attention, biased, "[0.0, [true, true, true, false]]", {true, true, true, false}},
      {"aten._fused_rms_norm_backward.default",
       {"f32[8,16,8] R", "f32[8,16,8] R", "f32[8,16,1] R", "f32[8] R"},
       "[[8], [false, true]]",
       {false, true}},
  };
  for (const Masked& one : all) {
    const OpCall call = testing_support::call_of(one.op, one.inputs, 1, one.args);
    for (const RuleSet set : {RuleSet(Release::k2_13), RuleSet(Release::k2_15), kShardlab}) {
      const std::size_t outputs = find_op_rule(call.op, set).outputs(call).size();
      EXPECT_EQ(returned_results(call, outputs), one.returned) << call.text();
    }
  }
}

TEST(OutputMask, IsSilentWhereItDoesNotTell) {
  const OpCall product =
      testing_support::call_of("aten.mm.default", {"f32[8,8] R", "f32[8,8] R"}, 1);
  EXPECT_EQ(returned_results(product, 1), Flags());
  // Results of the flash kernel that are left out are no tensors, and no mask says which they are.
  const OpCall flash = testing_support::call_of(
      "aten._scaled_dot_product_flash_attention.default",
      {"f32[2,3,4,8] R", "f32[2,3,4,8] R", "f32[2,3,4,8] R"}, 1, "[0.0, true]");
  EXPECT_EQ(returned_results(flash, 4), Flags());
  const OpCall unknown = testing_support::call_of("mylib.norm.default", {"f32[8] R"}, 1);
  EXPECT_EQ(returned_results(unknown, 1), Flags());
}

}  // namespace output_mask_test
}  // namespace shardlab
