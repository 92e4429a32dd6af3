#include "sim/placement_text.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "sim/tensor_spec.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace placement_text_test {

struct Form {
  const char* text;
  const char* shardlab;
};

// Besides these, tests/differential/torch_texts_test.cpp reads what PyTorch itself printed.
TEST(TypedLayouts, OfTwoMeshDimsAreRead) {
  for (const Form& form : {
           Form{"S(0) R", "S(0)R"},
           {"[Shard(0), Replicate()]", "S(0)R"},
           {"(Shard(dim=0), Partial('sum'))", "S(0)P(sum)"},
           {"(Shard(0), Replicate())", "S(0)R"},
           {"Shard(0), Replicate()", "S(0)R"},
           {"Shard(0) Replicate", "S(0)R"},
           {"Shard(0)Replicate()", "S(0)R"},
           {"[S(0), R]", "S(0)R"},
           {"(S(0), R,)", "S(0)R"},
           {"[ Shard( 1 ) , Partial ]", "S(1)P(sum)"},
           {"[Partial(), Partial(\"avg\")]", "P(sum)P(avg)"},
           {"(Partial(sum), Partial(reduce_op='sum'))", "P(sum)P(sum)"},
           {"[_StridedShard(0, split_factor=4), Shard(0)]", "_S(0,4)S(0)"},
           {"(_StridedShard(dim=0, sf=4), Shard(dim=0))", "_S(0,4)S(0)"},
           {"_S(0, 4)S(0)", "_S(0,4)S(0)"},
           {"_NormP(2)_NormPartial(norm_type=2)", "NP(2)NP(2)"},
           {"[S(0)[1], S(0)[0]]", "S(0)[1]S(0)[0]"},
           {"(Shard(dim=0), Shard(dim=0)), shard_order=(ShardOrderEntry(tensor_dim=0, "
            "mesh_dims=(1, 0)),)",
            "S(0)[1]S(0)[0]"},
           {"(Shard(dim=0), Replicate()), shard_order=()", "S(0)R"},
           {"[Shard(0), Replicate()], shard_order=None", "S(0)R"},
       }) {
    SCOPED_TRACE(form.text);
    EXPECT_EQ(Layout::parse(form.text, 2).text(), form.shardlab);
  }
}

TEST(TypedLayouts, CountDimsFromTheLastOneOfAKnownTensor) {
  const TensorMeta meta = TensorMeta::parse("f32[8,8,8]");
  EXPECT_EQ(parse_layout("S(-1)S(-3)", 2, meta).text(), "S(2)S(0)");
  EXPECT_EQ(parse_layout("[Shard(dim=-2), Replicate()]", 2, meta).text(), "S(1)R");
  EXPECT_EQ(parse_layout("S(-0)R", 2, meta).text(), "S(0)R");
  EXPECT_EQ(parse_layout("_S(-1,2)R", 2, meta).text(), "_S(2,2)R");
  EXPECT_EQ(TensorSpec::parse("bf16[4,6] [Shard(-1), Partial()]", 2).text(),
            "bf16[4,6] S(1)P(sum)");
}

TEST(TypedLayouts, OfTensorsAreRead) {
  for (const char* text :
       {"f32[8,8] S(0)R", "f32[8, 8](S(0)R)", "Spec(f32[8, 8](S(0)R))", "float32[8,8] S(0),R",
        "torch.float32[8, 8] (Shard(dim=0), Replicate())", "fp32[8,8] [Shard(-2), Replicate()]"}) {
    EXPECT_EQ(TensorSpec::parse(text, 2).text(), "f32[8,8] S(0)R") << text;
  }
}

struct Mistake {
  const char* name;
  const char* text;
  const char* message;
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.text; }
class TypedLayoutErrors : public testing::TestWithParam<Mistake> {};

TEST_P(TypedLayoutErrors, AreTheseWordForWord) {
  const TensorMeta meta = TensorMeta::parse("f32[8,8]");
  EXPECT_THROW_MSG(parse_layout(GetParam().text, 2, meta), TextError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    OfATensorOfTwoDims, TypedLayoutErrors,
    testing::Values(
        Mistake{"DimBeforeTheFirst", "S(-3)R",
                "layout \"S(-3)R\": at position 2: expected a tensor dim from -2 to 1"},
        Mistake{"ListNotClosed", "[Shard(0), R",
                "layout \"[Shard(0), R\": at position 12: expected \"]\" at the end of the layout"},
        Mistake{"OtherBracket", "[Shard(0), R)",
                "layout \"[Shard(0), R)\": at position 12: expected a placement: R, S(d), _S(d,f), "
                "P(op), MP or NP(p); or one that is registered: RG(DIMS:UNITS)"},
        Mistake{"MoreBehindTheList", "[Shard(0), R]R",
                "layout \"[Shard(0), R]R\": at position 13: expected the end of the layout"},
        Mistake{"TooFewInTheList", "[Shard(0)]",
                "layout \"[Shard(0)]\": at position 9: expected 2 placements, one per mesh dim"},
        Mistake{"QuoteNotClosed", "[Partial('sum), R]",
                "layout \"[Partial('sum), R]\": at position 13: expected the quote that closes the "
                "reduce op"},
        Mistake{"UnknownReduceOp", "[Partial('mean'), R]",
                "layout \"[Partial('mean'), R]\": at position 10: expected a reduce op: sum, avg, "
                "max, min, product, band, bor, bxor"},
        Mistake{
            "OrderOfAMeshDimThatDoesNotShard",
            "(Shard(0), Replicate()), shard_order=(ShardOrderEntry(tensor_dim=0, mesh_dims=(1,)),)",
            "layout \"(Shard(0), Replicate()), shard_order=(ShardOrderEntry(tensor_dim=0, "
            "mesh_dims=(1,)),)\": at position 79: expected a mesh dim that shards tensor dim 0 "
            "and was not named before"},
        Mistake{"TwoOrders", "(S(0)[1], S(0)[0]), shard_order=()",
                "layout \"(S(0)[1], S(0)[0]), shard_order=()\": at position 32: expected one shard "
                "order; the placements have order indices already"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(TypedTensorErrors, OfASpecWithStridesSayThatTextsHaveNone) {
  EXPECT_THROW_MSG(
      TensorSpec::parse("DTensorSpec(mesh=DeviceMesh((2,), 'cpu', stride=(1,)), "
                        "placements=(Replicate(),), tensor_meta=TensorMeta(shape=torch.Size([4, "
                        "8]), stride=(1, 4), dtype=torch.float32))",
                        1),
      TextError,
      "tensor and layout \"DTensorSpec(mesh=DeviceMesh((2,), 'cpu', stride=(1,)), "
      "placements=(Replicate(),), tensor_meta=TensorMeta(shape=torch.Size([4, 8]), stride=(1, 4), "
      "dtype=torch.float32))\": at position 139: expected the stride of a contiguous tensor, "
      "because "
      "texts of tensors have no strides");
}

TEST(TorchText, IsReadBackForEveryOrderOfRandomLayouts) {
  testing_support::Random random(22);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < testing_support::random_cases(2000); ++i) {
    const DeviceMesh mesh = testing_support::random_mesh(random, 5, 3);
    Layout layout =
        testing_support::random_layout(random, mesh, 3, {.strided = random.percent(30)});
    layout.own_strided = layout.has_strided();  // others have no order beside their split factors
    for (const bool always_order : {false, true}) {
      const std::string text = torch_text(layout, always_order);
      EXPECT_EQ(Layout::parse(text, mesh.ndim()), layout) << text;
    }
  }
}

TEST(TorchText, WritesATupleAndTheOrderWhereItIsNotTheDefault) {
  EXPECT_EQ(torch_text(Layout::parse("R", 1)), "(Replicate(),)");
  EXPECT_EQ(torch_text(Layout::parse("_S(0,2)[0]", 1)),
            "(_StridedShard(dim=0, sf=2),), "
            "shard_order=(ShardOrderEntry(tensor_dim=0, mesh_dims=(0,)),)");
  EXPECT_EQ(torch_text(Layout::parse("S(0)P(avg)", 2)), "(Shard(dim=0), Partial(avg))");
  EXPECT_EQ(torch_text(Layout::parse("S(0)S(0)", 2)), "(Shard(dim=0), Shard(dim=0))");
  EXPECT_EQ(torch_text(Layout::parse("S(0)S(0)", 2), true),
            "(Shard(dim=0), Shard(dim=0)), shard_order=(ShardOrderEntry(tensor_dim=0, "
            "mesh_dims=(0, 1)),)");
}

TEST(CandidatePlacements, MayMixPartialsOfDifferentKinds) {
  const Placements mixed = parse_candidate_placements("P(max)P(sum)", 2);
  EXPECT_TRUE(has_mixed_partials(mixed));
  EXPECT_EQ(Layout(mixed).text(), "P(max)P(sum)");
  EXPECT_EQ(parse_candidate_placements("S(0)R", 2), Layout::parse("S(0)R", 2).placements);
  EXPECT_THROW((void)Layout::parse("P(max)P(sum)", 2), TextError);
  EXPECT_THROW((void)parse_candidate_placements("P(max)", 2), TextError);
}

}  // namespace placement_text_test
}  // namespace shardlab
