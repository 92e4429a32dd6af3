// Rows of attention whose heads of queries share heads of keys and values, and which gradients its
// backward returns.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/op_rule.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace families_attention_test {

using testing_support::call_of;
using testing_support::message_of;
using testing_support::row_texts;
using Texts = std::vector<std::string>;

constexpr const char* kFlash = "aten._scaled_dot_product_flash_attention.default";
constexpr const char* kFlashBackward = "aten._scaled_dot_product_flash_attention_backward.default";
constexpr const char* kEfficientBackward =
    "aten._scaled_dot_product_efficient_attention_backward.default";
constexpr const char* kCudnn = "aten._scaled_dot_product_cudnn_attention.default";
constexpr const char* kCudnnBackward = "aten._scaled_dot_product_cudnn_attention_backward.default";

Texts rows_of(const OpCall& call, RuleSet set) {
  const OpRule& rule = find_op_rule(call.op, set);
  return row_texts(rule.rows(call, rule), rule.outputs(call).size());
}

Texts shapes_of(const OpCall& call, RuleSet set) {
  Texts found;
  for (const TensorMeta& meta : find_op_rule(call.op, set).outputs(call)) {
    found.push_back(meta.text());
  }
  return found;
}

OpCall forward_of(const std::string& heads, const std::string& key_heads) {
  const std::string key = "f32[2," + key_heads + ",4,16] S(1)";
  return call_of(kFlash, {"f32[2," + heads + ",4,16] S(1)", key, key}, 1, "[0.0, true]");
}

// Whether some candidate of the rule shards the heads.
bool cuts_heads(const OpCall& call, RuleSet set, const char* mesh) {
  const Expansion candidates = expand(find_op_rule(call.op, set), call, DeviceMesh::parse(mesh));
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    if (candidates.output(c, 0)[0] == Placement::shard(1)) return true;
  }
  return false;
}

TEST(GroupedQueries, AreShardedLikeTheKeysThatTheyShare) {
  const OpCall call = forward_of("8", "4");
  EXPECT_EQ(rows_of(call, kShardlab),
            (Texts{"?1,?1,R,R|?1,?1,?1", "?0,?0,R,R|?0,?0,?0", "P(sum),R,R,R|R,R,P(sum)",
                   "P(avg),R,R,R|R,R,P(avg)"}));
  EXPECT_EQ(rows_of(call, Release::k2_13), (Texts{"R,R,R,R|R,R,R", "S(1),S(1),R,R|S(1),S(1),S(1)",
                                                  "S(0),S(0),R,R|S(0),S(0),S(0)"}));
  EXPECT_EQ(shapes_of(call, kShardlab), (Texts{"f32[2,8,4,16]", "f32[2,8,4]", "i64[2]", "f32[0]"}));
}

// Every rank has the only head of keys, to whose gradient each adds the part of its own queries.
TEST(GroupedQueries, MayShareOneHeadThatIsReplicated) {
  EXPECT_EQ(rows_of(forward_of("8", "1"), kShardlab)[0], "?1,?1,R,R|?1,R,R");
  const std::string query = "f32[2,8,4,16] R";
  const std::string key = "f32[2,1,4,16] R";
  const OpCall call = call_of(kFlashBackward, {query, query, key, key, query, "f32[2,8,4] R"}, 1,
                              "[4, 4, 0.0, true]");
  EXPECT_EQ(rows_of(call, kShardlab)[0], "?1,P(sum),P(sum)|?1,?1,R,R,?1,?1");
  EXPECT_EQ(shapes_of(call, kShardlab), (Texts{"f32[2,8,4,16]", "f32[2,1,4,16]", "f32[2,1,4,16]"}));
}

// PyTorch compares no numbers of heads: of 12 heads and 6 heads of keys, 4 ranks get 3 heads each,
// and 2 heads of keys or none.
TEST(GroupedQueries, AreShardedInWholeGroupsButByPyTorch) {
  for (const RuleSet set : {kShardlab, kAutoParallel, RuleSet(Release::k2_13)}) {
    EXPECT_TRUE(cuts_heads(forward_of("12", "6"), set, "3")) << to_string(set);
    EXPECT_TRUE(cuts_heads(forward_of("6", "6"), set, "4")) << to_string(set);
    EXPECT_EQ(cuts_heads(forward_of("12", "6"), set, "4"), set.release().has_value())
        << to_string(set);
  }
}

TEST(GroupedQueries, NeedHeadsThatDivideAndFlashAttention) {
  const auto outputs_of = [](const OpCall& call) {
    return find_op_rule(call.op, kShardlab).outputs(call);
  };
  EXPECT_THROW(static_cast<void>(outputs_of(forward_of("8", "3"))), InputError);
  EXPECT_THROW(static_cast<void>(outputs_of(forward_of("4", "8"))), InputError);
  OpCall unlike = forward_of("8", "4");
  unlike.inputs[2].tensors[0].meta.shape[1] = 2;
  EXPECT_THROW(static_cast<void>(outputs_of(unlike)), InputError);
  OpCall efficient = forward_of("8", "4");
  efficient.op = "aten._scaled_dot_product_efficient_attention.default";
  efficient.args = nlohmann::json::array();
  EXPECT_THROW(static_cast<void>(outputs_of(efficient)), InputError);
}

TEST(EfficientAttentionBackward, ReturnsTheBiasGradientIfAskedFor) {
  const std::string query = "f32[2,3,4,8] R";
  const auto call = [&](const char* bias, const char* mask) {
    return call_of(kEfficientBackward,
                   {query, query, query, query, bias, query, "f32[2,3,32] R", "i64[] R", "i64[] R"},
                   1, std::string("[0.0, ") + mask + "]");
  };
  const std::string meta = "f32[2,3,4,8]";
  for (const RuleSet set : {kShardlab, RuleSet(Release::k2_13), RuleSet(Release::k2_14)}) {
    const OpCall unasked = call("f32[2,3,4,4] R", "[true, true, true, false]");
    EXPECT_EQ(shapes_of(unasked, set), (Texts{meta, meta, meta}));
    EXPECT_EQ(rows_of(unasked, set).back().find("|"), rows_of(unasked, set).back().rfind("|"));
    const OpCall asked = call("f32[2,3,4,4] R", "[true, true, true, true]");
    EXPECT_EQ(shapes_of(asked, set), (Texts{meta, meta, meta, "f32[2,3,4,4]"}));
    EXPECT_EQ(shapes_of(call("none", "[true, true, true, true]"), set), (Texts{meta, meta, meta}));
    EXPECT_THROW(static_cast<void>(shapes_of(call("none", "[true, true]"), set)), InputError);
  }
  EXPECT_EQ(rows_of(call("f32[2,3,4,4] R", "[true, true, true, false]"), kShardlab)[0],
            "?1,?1,?1|?1,?1,?1,?1,?1,?1,?1,R,R");
}

// What expanding the call to the mesh says; "" if it has candidates.
std::string refusal_of(const OpCall& call, RuleSet set, const char* mesh) {
  const std::string said = message_of<InputError>([&] {
    static_cast<void>(expand(find_op_rule(call.op, set), call, DeviceMesh::parse(mesh)));
  });
  return said == "(nothing was thrown)" ? "" : said;
}

constexpr std::array kSinceRows = {Release::k2_14, Release::k2_15};

// A call of the efficient kernel's backward on two mesh dims, whose queries and bias have these
// layouts.
OpCall efficient_backward(const std::string& layout, const std::string& bias,
                          const std::string& mask) {
  const std::string query = "f32[2,8,64,8] " + layout;
  return call_of(kEfficientBackward,
                 {query, query, query, query, bias.empty() ? "none" : "f32[2,8,64,64] " + bias,
                  query, "f32[2,8,64] " + layout, "i64[] RR", "i64[] RR"},
                 2, "[0.0, " + mask + ", true]");
}

// PyTorch's row that replicates everything has None for a gradient of the bias that is not asked
// for, and its rows of shards have a placement.
TEST(EfficientAttentionBackward, MixesNoneWithPlacementsOnMeshesOfSeveralDims) {
  const std::string unasked = "[true,true,true,false]";
  for (const char* bias : {"S(0)S(1)", "RR", "S(0)R"}) {
    const OpCall call = efficient_backward("S(0)S(1)", bias, unasked);
    for (const RuleSet set : kSinceRows) {
      for (const char* mesh : {"2x4", "1x4", "4x1"}) {
        EXPECT_EQ(refusal_of(call, set, mesh),
                  std::string(kEfficientBackward) + ": found a bias and grad_input_mask " +
                      unasked + " on the mesh " + mesh +
                      "; valid: a mesh of one dim, a mask whose last value is true, or no "
                      "bias; PyTorch since 2.14 says that strategy position 3 mixes "
                      "None with placements across mesh dims")
            << to_string(set) << " " << bias;
      }
    }
    EXPECT_EQ(refusal_of(call, Release::k2_13, "2x4"), "");
    EXPECT_EQ(refusal_of(call, kShardlab, "2x4"), "");
  }
  for (const RuleSet set : kSinceRows) {
    EXPECT_NE(refusal_of(efficient_backward("_S(1,2)R", "RR", unasked), set, "2x4"), "");
    EXPECT_NE(refusal_of(efficient_backward("RR", "S(2)R", unasked), set, "2x4"), "");
    EXPECT_NE(
        refusal_of(efficient_backward("S(0)R", "RR", "[false,false,false,false]"), set, "2x4"), "");
  }
}

// Neither has a placement without a bias, both have one where the gradient is asked for, and the
// rows of shards are left out where no tensor is sharded. On one mesh dim no rows are combined.
TEST(EfficientAttentionBackward, LeavesOutTheBiasGradientElsewhere) {
  const std::string unasked = "[true,true,true,false]";
  for (const RuleSet set : kSinceRows) {
    EXPECT_EQ(refusal_of(efficient_backward("S(0)S(1)", "", unasked), set, "2x4"), "");
    EXPECT_EQ(refusal_of(efficient_backward("S(0)S(1)", "", "[true,true,true,true]"), set, "2x4"),
              "");
    EXPECT_EQ(
        refusal_of(efficient_backward("S(0)S(1)", "RR", "[false,false,false,true]"), set, "2x4"),
        "");
    EXPECT_EQ(refusal_of(efficient_backward("RR", "RR", unasked), set, "2x4"), "");
    EXPECT_EQ(refusal_of(efficient_backward("P(sum)R", "RP(avg)", unasked), set, "2x4"), "");
    const std::string query = "f32[2,8,64,8] S(0)";
    const OpCall one_dim = call_of(kEfficientBackward,
                                   {query, query, query, query, "f32[2,8,64,64] S(0)", query,
                                    "f32[2,8,64] S(0)", "i64[] R", "i64[] R"},
                                   1, "[0.0, " + unasked + ", true]");
    EXPECT_EQ(refusal_of(one_dim, set, "4"), "");
  }
}

TEST(CudnnAttention, MixesNoneWithPlacementsWhereItReturnsTheMask) {
  const auto call = [](const std::string& layout, const char* mask) {
    const std::string query = "f32[2,8,64,8] " + layout;
    return call_of(kCudnn, {query, query, query}, 2,
                   std::string("[true, 0.0, true, ") + mask + "]");
  };
  for (const RuleSet set : kSinceRows) {
    EXPECT_EQ(refusal_of(call("S(0)R", "true"), set, "2x4"),
              std::string(kCudnn) +
                  ": found return_debug_mask true on the mesh 2x4; valid: a mesh of one dim, or "
                  "return_debug_mask false; PyTorch since 2.14 says that strategy "
                  "position 8 mixes None with placements across mesh dims");
    EXPECT_EQ(refusal_of(call("S(0)R", "false"), set, "2x4"), "");
    EXPECT_EQ(refusal_of(call("RR", "true"), set, "2x4"), "");
  }
}

// In the row that replicates everything PyTorch since 2.14 has a placement for the offsets, and in
// its rows of shards it has none.
TEST(CudnnAttentionBackward, TakesOffsetsWhereNoTensorIsSharded) {
  const auto call = [](const std::string& layout, const std::string& replicated) {
    const std::string query = "f32[4,8,64,8] " + layout;
    const std::string offsets = "i32[5] " + replicated;
    return call_of(kCudnnBackward,
                   {query, query, query, query, query, "f32[4,8,64,1] " + layout,
                    "i64[] " + replicated, "i64[] " + replicated, "none", offsets, offsets},
                   static_cast<int>(replicated.size()), "[64, 64, 0.0, true]");
  };
  for (const RuleSet set : kSinceRows) {
    EXPECT_EQ(refusal_of(call("RR", "RR"), set, "2x4"), "");
    EXPECT_EQ(refusal_of(call("P(sum)R", "RR"), set, "2x4"), "");
    EXPECT_EQ(refusal_of(call("R", "R"), set, "4"), "");
    EXPECT_EQ(refusal_of(call("S(0)R", "RR"), set, "2x4"),
              std::string(kCudnnBackward) +
                  ": found offsets of the sequences on the mesh 2x4; valid: a call without them, "
                  "or without shards; PyTorch since 2.14 says that strategy position 11 mixes None "
                  "with placements across mesh dims");
    EXPECT_EQ(refusal_of(call("S(0)", "R"), set, "4"),
              std::string(kCudnnBackward) +
                  ": PyTorch since 2.14 refuses the offsets of the sequences where a tensor is "
                  "sharded");
  }
  EXPECT_EQ(refusal_of(call("RR", "RR"), Release::k2_13, "2x4"),
            std::string(kCudnnBackward) + ": PyTorch 2.13 refuses the offsets of the sequences");
}

}  // namespace families_attention_test
}  // namespace shardlab
