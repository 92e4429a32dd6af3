// A placement that the library does not have, registered by this file alone: a block-cyclic shard,
// as ScaLAPACK has it. Plans, prices, simulations, runs on virtual ranks and rules take it as they
// take their own; the other contracts of registered placements check it as well.
#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/base/error.h"
#include "sim/executor.h"
#include "sim/registered_placement.h"
#include "sim/simulator.h"
#include "strategies/proof/op_execution.h"
#include "strategies/proof/rule_proof.h"
#include "strategies/rules/rule_table.h"
#include "strategies/select/evaluator.h"
#include "tests/support/dtensor_ring.h"
#include "tests/support/reference_redistribution.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace outside_placement_contract_test {

using namespace testing_support;

extern const PlacementEntry kBlockCyclic;

// BC(d:b): blocks of b rows of tensor dim d are dealt to the ranks in turn.
class BlockCyclic final : public RegisteredPlacement {
 public:
  BlockCyclic(int dim, std::int64_t block)
      : RegisteredPlacement(kBlockCyclic, dim, 1), block_(block) {}

  [[nodiscard]] std::string text() const override {
    return "BC(" + std::to_string(dim()) + ":" + std::to_string(block_) + ")";
  }
  [[nodiscard]] std::vector<RowRange> rows(std::int64_t extent, std::int64_t ranks,
                                           std::int64_t index) const override {
    std::vector<RowRange> rows;
    for (std::int64_t begin = index * block_; begin < extent; begin += ranks * block_) {
      rows.push_back({begin, std::min(begin + block_, extent)});
    }
    return rows;
  }
  [[nodiscard]] bool is_contiguous() const override { return false; }

 private:
  std::int64_t block_;
};

std::unique_ptr<const RegisteredPlacement> parse_block_cyclic(TextCursor& cursor,
                                                              std::string_view /*opening*/) {
  const auto dim = static_cast<int>(cursor.integer("a tensor dim", 0, kMaxTensorDims - 1));
  cursor.expect(":", "\":\" and the rows of a block");
  const std::int64_t block = cursor.integer("the rows of a block", 1, std::int64_t{1} << 40U);
  cursor.expect(")", "\")\"");
  return std::make_unique<BlockCyclic>(dim, block);
}

std::vector<Placement> block_cyclic_samples(const Shape& shape, std::int64_t /*ranks*/) {
  std::vector<Placement> all;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    all.push_back(Placement::registered(std::make_unique<BlockCyclic>(d, 1)));
  }
  if (!shape.empty()) all.push_back(Placement::registered(std::make_unique<BlockCyclic>(0, 2)));
  return all;
}

constexpr std::string_view kOpenings[] = {"BC("};
const PlacementEntry kBlockCyclic = {
    .name = "block_cyclic",
    .form = "BC(DIM:BLOCK)",
    .example = "BC(0:2)",
    .summary = "blocks of BLOCK rows of tensor dim DIM, dealt to the ranks in turn",
    .source = "ScaLAPACK Users' Guide, 4.3",
    .openings = kOpenings,
    .changes = {.from_partial = false, .to_shard = true, .from_shard = true, .among_own = true},
    .passes_pointwise = true,
    .parse = parse_block_cyclic,
    .samples = block_cyclic_samples,
};

// Before any test runs, so that the contracts of all registered placements cover it.
const bool kIsRegistered = (register_placement(kBlockCyclic), true);

TEST(OutsidePlacement, IsFoundBesideTheLibrarysOwn) {
  EXPECT_TRUE(kIsRegistered);
  EXPECT_EQ(find_placement_entry("block_cyclic"), &kBlockCyclic);
  EXPECT_NE(find_placement_entry("ragged_shard"), nullptr);
  register_placement(kBlockCyclic);  // again, which changes nothing
  EXPECT_EQ(registered_entries().back(), &kBlockCyclic);
  EXPECT_EQ(Layout::parse("BC(1:2)R", 2).text(), "BC(1:2)R");
  try {
    (void)Placement::parse("BD(1:2)");
    ADD_FAILURE();
  } catch (const TextError& error) {
    EXPECT_NE(std::string(error.what()).find("BC(DIM:BLOCK)"), std::string::npos) << error.what();
  }
}

TEST(OutsidePlacement, IsPlannedAndPriced) {
  Bench bench({.mesh = "2x4"});
  const Plan exchange = bench.plan("f32[1024,256]", "RBC(0:8)", "RS(1)");
  EXPECT_EQ(steps_of(exchange), "1:BC(0:8)>S(1)");
  EXPECT_DOUBLE_EQ(exchange.price.total.value(), all_to_all(4, 1048576.0 / 4, kInHost) + 1.0);
  const Plan gathered = bench.plan("f32[1024,256]", "RBC(0:8)", "RR");
  EXPECT_DOUBLE_EQ(gathered.price.total.value(), gather(4, 1048576, kInHost));
  // It names no reduce_scatter, so a partial is reduced first.
  EXPECT_EQ(steps_of(bench.plan("f32[1024,256]", "RP", "RBC(0:8)")), "1:P(sum)>R 1:R>BC(0:8)");
  // One registered placement becomes another over R.
  EXPECT_EQ(steps_of(bench.plan("f32[1024,256]", "RBC(0:8)", "RRG(0:1,3,2,2)")),
            "1:BC(0:8)>R 1:R>RG(0:1,3,2,2)");
}

// Rows that do not lie next to each other are interleaved by a copy once they are gathered.
TEST(OutsidePlacement, CostsACopyWhereKernelsArePriced) {
  Bench bench({.mesh = "4", .version = "v-compute", .compute = "roofline"});
  EXPECT_GT(bench.cost("f32[4096,4096]", "BC(0:8)", "R"),
            bench.cost("f32[4096,4096]", "S(0)", "R"));
  EXPECT_EQ(bench.cost("f32[4096,4096]", "BC(1:8)", "R"),
            bench.cost("f32[4096,4096]", "S(1)", "R"));
}

TEST(OutsidePlacement, IsSimulated) {
  Bench bench({.mesh = "2x4"});
  const Plan plan = bench.plan("f32[1024,256]", "RBC(0:8)", "S(0)R");
  Schedule schedule;
  (void)add_plan(schedule, plan, {});
  const SimulationResult result = Simulator(bench.mesh(), bench.topology(), {}).run(schedule);
  EXPECT_NEAR(result.time_us.max, plan.executed_price().total.value(), 1e-5);
}

TEST(OutsidePlacement, MovesTheRightBytes) {
  Bench bench({.mesh = "2x3"});
  const Executor executor(bench.mesh(), bench.topology(), {.reduction = {.divide_last = true}});
  const TensorMeta meta = TensorMeta::parse("f32[7,5]");
  for (const auto& [from, to] :
       std::vector<std::pair<const char*, const char*>>{{"RBC(0:2)", "RS(1)"},
                                                        {"S(0)R", "RBC(1:1)"},
                                                        {"PP", "S(1)BC(0:1)"},
                                                        {"BC(0:1)S(1)", "BC(0:3)S(1)"},
                                                        {"BC(0:1)S(1)", "RG(0:3,4)R"}}) {
    const Plan plan = bench.redistributor().plan(meta, bench.layout(from), bench.layout(to));
    DistributedTensor tensor = executor.distribute(meta, plan.start, {.seed = 11});
    const ExecutionResult result = executor.run(plan, tensor);
    EXPECT_TRUE(result.executed && result.verified)
        << plan.path() << ": " << result.refused << result.mismatch;
  }
}

TEST(OutsidePlacement, PassesPointwiseOps) {
  RuleProofOptions options;
  options.registered = {&kBlockCyclic};
  const RuleProof proof = prove_rule(find_op_rule("aten.mul.Tensor", kShardlab), options);
  for (const RuleFinding& finding : proof.unsound)
    ADD_FAILURE() << finding.row << ": " << finding.detail;
  for (const RuleFinding& finding : proof.missing)
    ADD_FAILURE() << finding.row << " in " << finding.call;
}

class OutsideSelection : public testing::Test {
 protected:
  Selection select(const std::string& op, const std::vector<std::string>& inputs,
                   const std::string& mesh) {
    return evaluator_.select(call_of(op, inputs, DeviceMesh::parse(mesh).ndim()),
                             DeviceMesh::parse(mesh));
  }
  StackEvaluator evaluator_{stack_with("dtensor-2.13"), topology_with(8)};
};

// Keeping both inputs where they are is free.
TEST_F(OutsideSelection, KeepsThePlacementOfAPointwiseOp) {
  const Selection kept =
      select("aten.add.Tensor", {"f32[64,8] RBC(0:4)", "f32[64,8] RBC(0:4)"}, "2x4");
  EXPECT_EQ(layouts_text(kept.choice.outputs, kept.choice.inputs), "RBC(0:4)|RBC(0:4),RBC(0:4)");
  EXPECT_EQ(kept.choice.total_us, 0.0);
  // A replica is cut at no cost.
  const Selection cut = select("aten.add.Tensor", {"f32[64,8] RBC(0:4)", "f32[64,8] RR"}, "2x4");
  EXPECT_EQ(layouts_text(cut.choice.outputs, cut.choice.inputs), "RBC(0:4)|RBC(0:4),RBC(0:4)");
  // What is broadcast along the rows stays whole.
  const Selection bias = select("aten.add.Tensor", {"f32[64,8] RBC(0:4)", "f32[8] RR"}, "2x4");
  EXPECT_EQ(layouts_text(bias.choice.outputs, bias.choice.inputs), "RBC(0:4)|RBC(0:4),RR");
}

TEST_F(OutsideSelection, GathersBeforeAnyOtherOp) {
  using Words = std::vector<std::string>;
  const std::vector<std::pair<std::string, Words>> calls = {
      {"aten.mm.default", {"f32[64,8] RBC(0:4)", "f32[8,64] RR"}},
      {"aten._softmax.default", {"f32[64,8] RBC(0:4)"}},
      {"aten.sum.default", {"f32[64,8] RBC(0:4)"}},
      {"aten.t.default", {"f32[64,8] RBC(0:4)"}},
      {"aten.cat.default", {"[f32[64,8] RBC(0:4); f32[64,8] RBC(0:4)]"}}};
  for (const auto& [op, inputs] : calls) {
    const OpCall call = call_of(op, inputs, 2, op == "aten._softmax.default" ? "[0, false]" : "[]");
    const Selection selection = evaluator_.select(call, DeviceMesh::parse("2x4"));
    for (const Candidate& candidate : selection.candidates) {
      for (const Placements& p : candidate.inputs) EXPECT_FALSE(has_registered(p)) << op;
      for (const Placements& p : candidate.outputs) EXPECT_FALSE(has_registered(p)) << op;
    }
    EXPECT_GT(selection.choice.total_us, 0.0) << op;
  }
}

TEST_F(OutsideSelection, WritesInPlaceWhereThePlacementStays) {
  const Selection kept = select("aten.add_.Tensor", {"f32[64,8] RBC(0:4)", "f32[64,8] RR"}, "2x4");
  EXPECT_EQ(layouts_text(kept.choice.outputs, kept.choice.inputs), "RBC(0:4)|RBC(0:4),RBC(0:4)");
}

TEST(OutsidePlacement, RunsPointwiseOpsOnItsLocalPartsAlone) {
  Bench bench({.mesh = "3"});
  const Executor executor(bench.mesh(), bench.topology(), {});
  const TensorMeta meta = TensorMeta::parse("f32[7,4]");
  const std::vector<DistributedTensor> inputs = {
      executor.distribute(meta, bench.layout("BC(0:2)"), {.seed = 1}),
      executor.distribute(meta, bench.layout("BC(0:2)"), {.seed = 2})};
  const OpCall add = call_of("aten.add.Tensor", {"f32[7,4] BC(0:2)", "f32[7,4] BC(0:2)"}, 1);
  const OpExecution done = execute_op(executor, add, inputs, std::vector{bench.layout("BC(0:2)")});
  EXPECT_TRUE(done.verified) << done.mismatch;
  const OpExecution wrong = execute_op(executor, add, inputs, std::vector{bench.layout("BC(0:1)")});
  EXPECT_FALSE(wrong.verified);
  const OpCall sort = call_of("aten.sum.default", {"f32[7,4] BC(0:2)"}, 1);
  EXPECT_THROW(
      (void)execute_op(executor, sort, std::span(inputs).first(1), std::vector{bench.layout("R")}),
      InputError);
}

}  // namespace outside_placement_contract_test
}  // namespace shardlab
