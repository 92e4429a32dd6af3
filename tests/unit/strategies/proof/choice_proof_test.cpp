// Choices that compute their op, choices that do not, and choices of which nothing is said.
#include "strategies/proof/choice_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardlab {
namespace choice_proof_test {

using testing::StartsWith;

struct Choice {
  const char* op;
  std::vector<const char*> inputs;  // tensors
  const char* args;
  std::vector<const char*> wanted;  // layouts
  std::vector<const char*> outputs;
};

std::string fault_of(const Choice& choice, const char* mesh_text) {
  const DeviceMesh mesh = DeviceMesh::parse(mesh_text);
  OpCall call{.op = choice.op, .inputs = {}, .args = nlohmann::json::parse(choice.args)};
  for (const char* tensor : choice.inputs) {
    call.inputs.push_back(OpCall::parse_input(
        tensor +
            (" " + Layout(Placements(static_cast<std::size_t>(mesh.ndim()), Placement::replicate()))
                       .text()),
        mesh.ndim()));
  }
  const auto read = [&](const std::vector<const char*>& texts) {
    std::vector<Placements> all;
    for (const char* text : texts) all.push_back(Layout::parse(text, mesh.ndim()).placements);
    return all;
  };
  return fault_of_choice(call, mesh, read(choice.wanted), read(choice.outputs));
}

TEST(ChoiceProof, SaysNothingOfAChoiceThatIsRight) {
  const std::vector<const char*> matrices = {"bf16[8192,4096]", "bf16[4096,1024]"};
  EXPECT_EQ(
      fault_of({"aten.mm.default", matrices, "[]", {"S(0)S(1)", "RS(0)"}, {"S(0)P(sum)"}}, "2x4"),
      "");
  EXPECT_EQ(
      fault_of(
          {"aten._softmax.default", {"f32[64,128,512]"}, "[2, false]", {"S(0)S(1)"}, {"S(0)S(1)"}},
          "2x4"),
      "");
}

TEST(ChoiceProof, NamesTheRowThatComputesSomethingElse) {
  EXPECT_THAT(fault_of({"aten.mm.default",
                        {"bf16[8192,4096]", "bf16[4096,1024]"},
                        "[]",
                        {"S(0)P(sum)", "RP(sum)"},
                        {"S(0)S(0)"}},
                       "2x4"),
              StartsWith("mesh dim 1, S(0) | P(sum), P(sum): aten.mm.default(bf16[14,12], "
                         "bf16[12,10]) on 2 ranks: "));
  // Shards that are uneven on the mesh are uneven in the proof.
  EXPECT_THAT(
      fault_of({"aten._softmax.default", {"bf16[724,724]"}, "[-1, false]", {"S(1)"}, {"S(1)"}},
               "8"),
      StartsWith("mesh dim 0, S(1) | S(1): aten._softmax.default(bf16[9,9], -1, false) on 2 "));
  // The same placements of a softmax are right along other dims.
  EXPECT_THAT(
      fault_of(
          {"aten._softmax.default", {"f32[64,128,512]"}, "[1, false]", {"S(0)S(1)"}, {"S(0)S(1)"}},
          "2x4"),
      StartsWith("mesh dim 1, S(1) | S(1): aten._softmax.default(f32[10,12,14], 1, false) "
                 "on 2 ranks: "));
}

TEST(ChoiceProof, SaysNothingOfWhatItCannotProve) {
  // An argument names an extent; the values of a tensor of indices follow from another extent; a
  // shard of 3 rows is uneven on 2 ranks, and even on the 3 of the mesh.
  EXPECT_EQ(fault_of({"aten.view.default", {"f32[64,128]"}, "[[8192]]", {"S(1)"}, {"S(0)"}}, "2"),
            "");
  EXPECT_EQ(
      fault_of(
          {"aten.embedding.default", {"f32[1000,64]", "i64[32]"}, "[]", {"S(0)", "R"}, {"P(sum)"}},
          "2"),
      "");
  EXPECT_EQ(
      fault_of({"aten._softmax.default", {"f32[3,5]"}, "[0, false]", {"S(0)"}, {"S(0)"}}, "3"), "");
}

}  // namespace choice_proof_test
}  // namespace shardlab
