#include "runner/simulate/drawn_plan.h"

#include <gtest/gtest.h>

namespace shardlab {
namespace drawn_plan_test {

// A plan whose steps each change one mesh dim and take 1 us.
Plan plan_of(const DeviceMesh& mesh, const char* tensor, const std::vector<std::string>& layouts,
             const std::vector<std::pair<Collective, MeshDims>>& steps) {
  const TensorMeta meta = TensorMeta::parse(tensor);
  std::vector<Layout> parsed;
  for (const std::string& text : layouts) parsed.push_back(parse_layout(text, mesh.ndim(), meta));
  Plan plan(meta, parsed.front(), parsed.back());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    PlanStep step;
    step.collective = steps[i].first;
    step.mesh_dims = steps[i].second;
    step.from = parsed[i][steps[i].second[0]];
    step.to = parsed[i + 1][steps[i].second[0]];
    step.full_bytes = meta.bytes();
    step.price.total = Micros(1.0);
    step.after = parsed[i + 1];
    plan.steps.push_back(std::move(step));
  }
  return plan;
}

std::string text_of(const Plan& plan, const DeviceMesh& mesh) {
  const Session session;
  return drawn_text(drawn_plan(plan, mesh), plan, mesh, LayoutNames(session));
}

TEST(DrawnPlan, GridsSayWhoHoldsWhatBetweenTheSteps) {
  const DeviceMesh mesh = DeviceMesh::parse("dp=2,tp=4");
  const Plan plan = plan_of(mesh, "f32[8,6]", {"S(0)P", "S(0)S(1)", "RS(1)"},
                            {{Collective::kReduceScatter, {1}}, {Collective::kAllGather, {0}}});
  EXPECT_EQ(
      text_of(plan, mesh),
      "Each entry is a rank and the part of f32[8,6] that it holds; rows go along mesh dim 0 "
      "(dp), columns along mesh dim 1 (tp).\n"
      "  S(0)P(sum): 4 partial sums of each of 2 parts of f32[4,6], one for each device\n"
      "    0: part 1   1: part 1   2: part 1   3: part 1\n"
      "       sum 1/4     sum 2/4     sum 3/4     sum 4/4\n"
      "    4: part 2   5: part 2   6: part 2   7: part 2\n"
      "       sum 1/4     sum 2/4     sum 3/4     sum 4/4\n"
      "    part 1 is [0:4, :], part 2 is [4:8, :]\n"
      "      |\n"
      "      |  step 1, reduce_scatter P(sum)->S(1) along mesh dim 1 (tp): 2 groups of 4 "
      "devices, 576 B moved, 1.000 us\n"
      "      v\n"
      "  S(0)S(1): 8 parts of at most f32[4,2], one for each device\n"
      "    0: part 1  1: part 2  2: part 3  3: none\n"
      "    4: part 5  5: part 6  6: part 7  7: none\n"
      "    part 1 is [0:4, 0:2], part 2 is [0:4, 2:4], part 3 is [0:4, 4:6], part 4 is [0:4, "
      "none],\n"
      "    part 5 is [4:8, 0:2], part 6 is [4:8, 2:4], part 7 is [4:8, 4:6], part 8 is [4:8, "
      "none]\n"
      "      |\n"
      "      |  step 2, all_gather S(0)->R along mesh dim 0 (dp): 4 groups of 2 devices, 192 B "
      "moved, 1.000 us\n"
      "      v\n"
      "  RS(1): 4 parts of at most f32[8,2], each held by 2 devices\n"
      "    0: part 1  1: part 2  2: part 3  3: none\n"
      "    4: part 1  5: part 2  6: part 3  7: none\n"
      "    part 1 is [:, 0:2], part 2 is [:, 2:4], part 3 is [:, 4:6], part 4 is [:, none]\n");
}

// Of a large mesh the dims that the steps change are drawn, with eight devices along each.
TEST(DrawnPlan, ALargeMeshIsDrawnAsASliceAndSaysSo) {
  const DeviceMesh mesh = DeviceMesh::parse("4x1x16x2");
  const Plan plan =
      plan_of(mesh, "f32[256]", {"S(0)RS(0)R", "S(0)RRR"}, {{Collective::kAllGather, {2}}});
  const DrawnPlan drawn = drawn_plan(plan, mesh);
  EXPECT_EQ(drawn.row_dim, 0);
  EXPECT_EQ(drawn.column_dim, 2);
  EXPECT_EQ(drawn.rows, 4);
  EXPECT_EQ(drawn.columns, 8);
  EXPECT_EQ(
      drawn.left_out,
      "Only 32 devices of 128 are drawn: those with coordinate 0 on mesh dim 3 and the first 8 "
      "of 16 along mesh dim 2.");
  EXPECT_EQ(drawn.layouts[0].devices[9].rank, 34);  // coordinate 1,0,1,0
  EXPECT_EQ(slice_text(plan.meta, drawn.layouts[0].devices[9].held), "[68:72]");
  EXPECT_EQ(drawn.layouts[0].holds, "64 parts of f32[4], each held by 2 devices");
  EXPECT_EQ(drawn.moves[0].groups, 8);
  EXPECT_EQ(drawn.moves[0].group_size, 16);
  EXPECT_EQ(drawn.moves[0].first_group, (std::vector<std::int64_t>{0, 2, 4, 6, 8, 10, 12, 14}));
}

TEST(DrawnPlan, AMeshOfOneDimIsARowAndOneDeviceHoldsAll) {
  const DeviceMesh row = DeviceMesh::parse("4");
  const Plan plan = plan_of(row, "f32[]", {"P", "R"}, {{Collective::kAllReduce, {0}}});
  EXPECT_EQ(
      text_of(plan, row),
      "Each entry is a rank and the part of f32[] that it holds; columns go along mesh dim 0.\n"
      "  P(sum): 4 partial sums of the whole tensor, one for each device\n"
      "    0: all      1: all      2: all      3: all\n"
      "       sum 1/4     sum 2/4     sum 3/4     sum 4/4\n"
      "      |\n"
      "      |  step 1, all_reduce P(sum)->R along mesh dim 0: 1 group of 4 devices, 24 B "
      "moved, 1.000 us\n"
      "      v\n"
      "  R: every device holds all of it\n"
      "    0: all  1: all  2: all  3: all\n");
  const DeviceMesh one = DeviceMesh::parse("1");
  EXPECT_EQ(text_of(plan_of(one, "f32[4]", {"S(0)"}, {}), one),
            "Each entry is a rank and the part of f32[4] that it holds.\n"
            "  S(0): the device holds all of it\n"
            "    0: all\n");
}

TEST(DrawnPlan, EqualRowsAreDrawnOnceAndALocalStepHasNoTime) {
  const DeviceMesh mesh = DeviceMesh::parse("5x2");
  Plan plan = plan_of(mesh, "bf16[8]", {"RR", "RS(0)"}, {{Collective::kLocal, {1}}});
  plan.steps[0].price = {};
  EXPECT_EQ(text_of(plan, mesh),
            "Each entry is a rank and the part of bf16[8] that it holds; rows go along mesh dim 0, "
            "columns along mesh dim 1.\n"
            "  RR: every device holds all of it\n"
            "    0: all  1: all\n"
            "    and 4 more rows that hold the same, up to rank 9\n"
            "      |\n"
            "      |  step 1, local R->S(0) along mesh dim 1: each device keeps or makes its part, "
            "and nothing is sent\n"
            "      v\n"
            "  RS(0): 2 parts of bf16[4], each held by 5 devices\n"
            "    0: part 1  1: part 2\n"
            "    and 4 more rows that hold the same, up to rank 9\n"
            "    part 1 is [0:4], part 2 is [4:8]\n");
}

// The drawing adds up: the parts of final values cover the tensor once, times their copies.
TEST(DrawnPlan, TheDrawnPartsCoverTheTensor) {
  const DeviceMesh mesh = DeviceMesh::parse("4x3");
  for (const char* layout : {"S(0)S(1)", "S(0)S(0)", "S(0)[1]S(0)[0]", "_S(1,3)S(1)", "S(1)R"}) {
    const Plan plan = plan_of(mesh, "f32[7,5]", {layout}, {});
    const nlohmann::json json = drawing_json(drawn_plan(plan, mesh), plan, mesh);
    double elements = 0.0;
    double parts = 0.0;
    for (const auto& device : json["layouts"][0]["devices"]) {
      double extents[] = {0.0, 0.0};
      for (const auto& range : device["ranges"]) {
        extents[range["dim"].get<int>()] +=
            range["end"].get<double>() - range["begin"].get<double>();
      }
      elements += extents[0] * extents[1];
      parts = device["parts"].get<double>();
    }
    EXPECT_EQ(elements, 35.0 * 12.0 / parts) << layout;
  }
}

TEST(DrawnPlan, TrafficIsThatOfAllSteps) {
  const DeviceMesh mesh = DeviceMesh::parse("2x4");
  const Plan plan = plan_of(mesh, "f32[8,8]", {"S(0)P", "S(0)S(1)", "RS(1)", "S(1)S(1)"},
                            {{Collective::kReduceScatter, {1}},
                             {Collective::kAllGather, {0}},
                             {Collective::kLocal, {0}}});
  const PlanTraffic traffic = plan_traffic(plan, mesh);
  EXPECT_EQ(traffic.collectives, 2);
  // Each of 2 groups reduces 128 B among 4 ranks, then each of 4 groups gathers 64 B among 2.
  EXPECT_EQ(traffic.bytes_moved, 2 * 3 * 128 + 4 * 1 * 64);
}

}  // namespace drawn_plan_test
}  // namespace shardlab
