// Rows of embedding bags and of transformers' products of groups; ops that make tensors from
// numbers.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace families_embedding_test {

using testing_support::call_of;
using testing_support::row_texts;
using Texts = std::vector<std::string>;

constexpr const char* kBag = "aten._embedding_bag.default";
constexpr const char* kBagBackward = "aten._embedding_bag_backward.default";

struct BagCase {
  const char* name;
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  Texts outputs;
  Texts rows;
  RuleSet set = kShardlab;
};
void PrintTo(const BagCase& c, std::ostream* out) { *out << c.op << c.args; }
class BagRows : public testing::TestWithParam<BagCase> {};

TEST_P(BagRows, AreTheseInThisOrder) {
  const BagCase& c = GetParam();
  const OpRule& rule = find_op_rule(c.op, c.set);
  const OpCall call = call_of(c.op, c.inputs, 1, c.args);
  const std::vector<TensorMeta> outputs = rule.outputs(call);
  Texts found;
  for (const TensorMeta& meta : outputs) found.push_back(meta.text());
  EXPECT_EQ(found, c.outputs);
  EXPECT_EQ(row_texts(rule.rows(call, rule), outputs.size()), c.rows);
}

INSTANTIATE_TEST_SUITE_P(
    All, BagRows,
    testing::Values(
        BagCase{"Means",
                kBag,
                {"f32[9,4] R", "i64[8] R", "i64[3] R"},
                "[false, 1, false, false, -1]",
                {"f32[3,4]", "i64[8]", "i64[3]", "i64[3]"},
                {"?1,R,R,R|?1,R,R", "P(sum),R,R,R|P(sum),R,R", "P(avg),R,R,R|P(avg),R,R"}},
        // Sums that pad nothing do not say which bag a lookup is in.
        BagCase{"SumsOfWeights",
                kBag,
                {"f32[9,4] R", "i64[8] R", "i64[3] R", "f32[8] R"},
                "[]",
                {"f32[3,4]", "i64[0]", "i64[3]", "i64[3]"},
                {"?1,R,R,R|?1,R,R,R", "P(sum),R,R,R|P(sum),R,R,R", "P(sum),R,R,R|R,R,R,P(sum)",
                 "P(avg),R,R,R|P(avg),R,R,R", "P(avg),R,R,R|R,R,R,P(avg)"}},
        BagCase{"MaximaUpToTheLastOffset",
                kBag,
                {"bf16[9,4] R", "i32[8] R", "i32[3] R"},
                "[false, 2, false, true, -1]",
                {"bf16[2,4]", "i32[8]", "i32[2]", "i32[2,4]"},
                {"?1,R,R,?1|?1,R,R"}},
        BagCase{"OfMeans",
                kBagBackward,
                {"f32[3,4] R", "i64[8] R", "i64[3] R", "i64[8] R", "i64[3] R", "i64[3] R"},
                "[9, false, 1, false, -1]",
                {"f32[9,4]"},
                {"?1|?1,R,R,R,R,R", "P(sum)|R,?0,R,?0,R,R", "P(sum)|P(sum),R,R,R,R,R",
                 "P(avg)|P(avg),R,R,R,R,R"}},
        // How often a row is looked up depends on all lookups.
        BagCase{"OfScaledMeans",
                kBagBackward,
                {"f32[3,4] R", "i64[8] R", "i64[3] R", "i64[8] R", "i64[3] R", "i64[3] R"},
                "[9, true, 1, false, -1]",
                {"f32[9,4]"},
                {"?1|?1,R,R,R,R,R", "P(sum)|P(sum),R,R,R,R,R", "P(avg)|P(avg),R,R,R,R,R"}},
        BagCase{"OfMaxima",
                kBagBackward,
                {"f32[3,4] R", "i64[8] R", "i64[3] R", "i64[8] R", "i64[3] R", "i64[3,4] R"},
                "[9, false, 2, false, -1]",
                {"f32[9,4]"},
                {"?1|?1,R,R,R,R,?1", "P(sum)|?0,R,R,R,?0,?0", "P(sum)|P(sum),R,R,R,R,R",
                 "P(avg)|P(avg),R,R,R,R,R"}},
        BagCase{"GroupedProduct",
                "transformers.grouped_mm_fallback.default",
                {"f32[8,4] R", "f32[2,4,6] R", "i32[2] R"},
                "[]",
                {"f32[8,6]"},
                {"?1|R,?2,R", "P(sum)|?1,?1,R", "P(sum)|P(sum),R,R", "P(sum)|R,P(sum),R",
                 "P(avg)|P(avg),R,R", "P(avg)|R,P(avg),R"}},
        BagCase{"EmptyPermuted",
                "aten.empty_permuted.default",
                {},
                R"([[8,6],[1,0],"i64",null,null,false])",
                {"i64[8,6]"},
                {"S(0)", "S(1)"},
                kAutoParallel}),
    [](const auto& test) { return test.param.name; });

TEST(Bags, RefuseWhatTheyDoNotTake) {
  const auto refuses = [](const char* op, const std::vector<std::string>& inputs,
                          const char* args) {
    const OpCall call = call_of(op, inputs, 1, args);
    EXPECT_THROW(static_cast<void>(find_op_rule(op, kShardlab).outputs(call)), InputError)
        << call.text();
  };
  refuses(kBag, {"f32[9,4] R", "i64[8] R", "i64[3] R"}, "[false, 3]");
  refuses(kBag, {"f32[9,4] R", "i64[8] R", "i64[3] R", "f32[8] R"}, "[false, 1]");
  refuses(kBag, {"f32[9,4] R", "i64[8] R", "i64[3] R", "f32[7] R"}, "[]");
  refuses(kBag, {"f32[9,4] R", "i64[8] R", "f32[3] R"}, "[]");
  refuses(kBag, {"f32[9] R", "i64[8] R", "i64[3] R"}, "[]");
  const std::vector<std::string> saved = {"f32[3,4] R", "i64[8] R", "i64[3] R",
                                          "i64[8] R",   "i64[3] R", "i64[3] R"};
  refuses(kBagBackward, saved, "[9, false, 1, true]");
  refuses(kBagBackward, saved, "[9, false, 2]");
  refuses(kBagBackward, saved, "[-1, false, 1]");
  refuses("transformers.grouped_mm_fallback.default", {"f32[8,4] R", "f32[2,5,6] R", "i32[2] R"},
          "[]");
  refuses("transformers.grouped_mm_fallback_backward.default",
          {"f32[8,4] R", "f32[2,4,6] R", "i32[2] R", "f32[8,5] R"}, "[]");
}

}  // namespace families_embedding_test
}  // namespace shardlab
