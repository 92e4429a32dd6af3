// Programs on virtual ranks: what is right, what is wrong and where, and what cannot be run.
#include "strategies/programs/program_execution.h"

#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/base/error.h"
#include "strategies/programs/program_builder.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/select/evaluator.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace program_execution_test {

using testing_support::stack_with;
using testing_support::topology_with;
using Names = std::vector<std::string>;

// The program y = x w, s = the sums of y over its columns, doubled.
Program product() {
  ProgramBuilder b("product", "");
  const Value x = b.source(NodeKind::kInput, meta_of(DType::kBF16, {8, 16}));
  const Value w = b.source(NodeKind::kParameter, meta_of(DType::kBF16, {16, 8}));
  const Value y = b.mm(x, w);
  const Value s = b.reduce("aten.sum.dim_IntList", y, {1});
  const Value d = b.unary("aten.mul.Scalar", s, nlohmann::json::array({2.0}));
  b.returns(d, NodeKind::kOutput, x);
  return with_aliases(std::move(b).build());
}

// Reads "S(0)<-S(0),R": what a node makes, and what it wants.
NodePlacements placements(std::string_view text, int ndim) {
  const auto read = [&](std::string_view list) {
    std::vector<Placements> out;
    while (!list.empty()) {
      const std::size_t end = std::min(list.find(", "), list.size());
      out.push_back(Layout::parse(list.substr(0, end), ndim).placements);
      list.remove_prefix(std::min(end + 2, list.size()));
    }
    return out;
  };
  const std::size_t arrow = text.find("<-");
  return {.outputs = read(text.substr(0, arrow)),
          .inputs = arrow == std::string_view::npos ? std::vector<Placements>()
                                                    : read(text.substr(arrow + 2))};
}

struct Outcome {
  ProgramExecution done;
  Names wrong;
};
class ProgramOnRanks : public testing::Test {
 protected:
  [[nodiscard]] std::vector<NodePlan> plans(const Program& program, const char* mesh,
                                            const std::vector<const char*>& layouts) const {
    std::vector<NodePlacements> all;
    const DeviceMesh on = DeviceMesh::parse(mesh);
    for (const char* text : layouts) all.push_back(placements(text, on.ndim()));
    StackEvaluator evaluator(stack_with("ap-nccl"), topology_with(8));
    return plan_program(program, all, evaluator.on(on));
  }
  [[nodiscard]] Outcome run(const Program& program, const char* mesh,
                            const std::vector<const char*>& layouts,
                            const ProgramRunOptions& options = {}) const {
    const Executor executor(DeviceMesh::parse(mesh), topology_with(8), {});
    Outcome outcome{
        .done = execute_program(executor, program, plans(program, mesh, layouts), options),
        .wrong = {}};
    for (const std::size_t n : outcome.done.wrong) {
      outcome.wrong.push_back(program.nodes[n].name);
    }
    return outcome;
  }
};

TEST_F(ProgramOnRanks, APlanThatIsRightIsExact) {
  // The rows of x are sharded over the first mesh dim, and the inner dim of the product over the
  // second.
  const Outcome outcome = run(product(), "2x4",
                              {"S(0)R", "RS(0)", "S(0)P(sum)<-S(0)S(1), RS(0)",
                               "S(0)P(sum)<-S(0)P(sum)", "S(0)R<-S(0)R", "RR<-RR"});
  EXPECT_TRUE(outcome.done.verified) << outcome.done.mismatch;
  EXPECT_EQ(outcome.done.max_abs_error, 0.0);
  EXPECT_TRUE(outcome.done.replicas_bitwise_equal);
  for (const NodeExecution& node : outcome.done.nodes) EXPECT_TRUE(node.is_exact());
  EXPECT_GT(outcome.done.nodes[2].magnitude, 1.0);
  // The sum, bf16[8,1], is reduced in two rings of 4 ranks on parts of 4 rows, and then gathered by
  // 4 pairs of ranks.
  EXPECT_EQ(outcome.done.bytes_moved, 2 * 2 * 3 * 4 * 2 + 4 * 8 * 2);
}

// PyTorch's decoder layer in f32 has such a node: beside the output and the logsumexp, it returns
// the seed and the offset of the random numbers, which its backward pass reads.
TEST_F(ProgramOnRanks, EfficientAttentionReturnsTheStateOfRandomNumbers) {
  const Program program = Program::from_json(nlohmann::json::parse(R"({
    "schema": "shardlab/program/1", "name": "attention", "source": "", "pairs": [], "nodes": [
      {"name": "q", "kind": "input", "phase": "forward",
       "outputs": [{"dtype": "f32", "shape": [4, 4, 32, 8], "stride": [1024, 256, 8, 1]}]},
      {"name": "attention", "op": "aten._scaled_dot_product_efficient_attention.default",
       "inputs": ["q", "q", "q"], "args": {"positional": [true, 0.0, false]}, "phase": "forward",
       "outputs": [{"dtype": "f32", "shape": [4, 4, 32, 8], "stride": [1024, 256, 8, 1]},
                   {"dtype": "f32", "shape": [4, 4, 32], "stride": [128, 32, 1]},
                   {"dtype": "i64", "shape": [], "stride": []},
                   {"dtype": "i64", "shape": [], "stride": []}]}]})"),
                                             {"attention.json", ""});
  const Outcome outcome = run(program, "4", {"S(1)", "S(1), S(1), R, R<-S(1), S(1), S(1)"});
  EXPECT_TRUE(outcome.done.verified) << outcome.done.mismatch;
  EXPECT_EQ(outcome.done.bytes_moved, 0);
}

// Two sums of the same large numbers, one of them in parts, differ in the last bits only. Their
// difference is nothing else than rounding, which is no fault of the node that takes it.
TEST_F(ProgramOnRanks, RoundingThatGrewIsNoFault) {
  ProgramBuilder b("cancels", "");
  const Value x = b.source(NodeKind::kInput, meta_of(DType::kF32, {512}));
  const Value parts = b.reduce("aten.sum.dim_IntList", x, {0});
  const Value whole = b.reduce("aten.sum.dim_IntList", x, {0});
  const Value nothing = b.binary("aten.sub.Tensor", parts, whole);
  static_cast<void>(b.unary("aten.add.Scalar", nothing, nlohmann::json::array({1.0})));
  const Program program = std::move(b).build().program;
  const auto memory = HostMemory::make(1 << 20U);
  std::vector<double> values;
  for (int i = 0; i < 512; ++i) values.push_back(1e8 * std::sin(1.0 + i));
  const auto run_with = [&](const char* last) {
    return run(program, "8", {"S(0)", "P(sum)<-S(0)", "R<-R", "R<-R, R", last},
               {.given = {{0, from_doubles(*memory, DType::kF64, {512}, values)}}});
  };
  const Outcome right = run_with("R<-R");
  EXPECT_TRUE(right.done.verified) << right.done.mismatch;
  EXPECT_GT(right.done.nodes[1].op.max_abs_error, kProgramTolerance);
  EXPECT_FALSE(right.done.nodes[1].judged_again);
  EXPECT_TRUE(right.done.nodes[3].judged_again);
  EXPECT_FALSE(right.done.nodes[3].is_exact());
  // A fault behind it is found all the same.
  EXPECT_EQ(run_with("P(sum)<-R").wrong, Names{"add"});
}

TEST_F(ProgramOnRanks, RandomNumbersAreTheSameInEveryLayout) {
  ProgramBuilder b("random", "");
  static_cast<void>(b.op("aten.rand.default", {}, nlohmann::json::parse("[[8, 6]]"),
                         {meta_of(DType::kF32, {8, 6})}));
  const Program program = std::move(b).build().program;
  for (const char* layout : {"RR", "S(0)R", "S(1)S(0)", "S(0)S(0)"}) {
    const Outcome outcome = run(program, "2x2", {layout});
    EXPECT_TRUE(outcome.done.verified) << layout << ": " << outcome.done.mismatch;
  }
}

TEST_F(ProgramOnRanks, ADroppedPartialIsWrongThereAndNowhereElse) {
  const Outcome outcome =
      run(product(), "4", {"R", "S(0)", "R<-S(1), S(0)", "S(0)<-S(0)", "S(0)<-S(0)", "R<-R"});
  EXPECT_FALSE(outcome.done.verified);
  EXPECT_EQ(outcome.wrong, Names{"mm"});
  EXPECT_TRUE(outcome.done.mismatch.starts_with("node mm: R: rank 0, element [0,0]: found "))
      << outcome.done.mismatch;
  EXPECT_GT(outcome.done.max_abs_error, 0.1);
}

TEST_F(ProgramOnRanks, AShardThatIsNoShardIsWrong) {
  const Outcome outcome =
      run(product(), "4", {"R", "R", "S(0)<-R, R", "S(0)<-S(0)", "S(0)<-S(0)", "R<-R"});
  EXPECT_EQ(outcome.wrong, Names{"mm"});
  EXPECT_EQ(outcome.done.mismatch, "node mm: S(0): rank 0: found f64[8,8], expected f64[2,8]");
}

TEST_F(ProgramOnRanks, AKernelThatFailsOnARankIsToldWithTheRank) {
  // The inner dims of the product differ.
  const Outcome outcome =
      run(product(), "4", {"R", "R", "P(sum)<-S(1), R", "S(0)<-S(0)", "S(0)<-S(0)", "R<-R"});
  EXPECT_EQ(outcome.wrong, Names{"mm"});
  EXPECT_TRUE(outcome.done.mismatch.starts_with("node mm: rank 0: aten.mm.default: "))
      << outcome.done.mismatch;
}

TEST_F(ProgramOnRanks, AMoveThatNoCollectiveMakesIsRefusedAndTheRestJudged) {
  const Outcome outcome = run(
      product(), "4", {"R", "S(0)", "P(sum)<-S(1), S(0)", "P(avg)<-P(avg)", "S(0)<-S(0)", "R<-R"});
  EXPECT_EQ(outcome.wrong, Names{"sum_1"});
  EXPECT_EQ(
      outcome.done.mismatch,
      "node sum_1, input 0, P(sum) to P(avg): P(sum)->P(avg) is refused by the executor since "
      "pytorch/pytorch#172041");
}

// AutoParallel's row P(avg)<-S(1) is right only for even shards.
TEST_F(ProgramOnRanks, AMeanOfUnevenShardsIsNoAverageOfMeans) {
  for (const std::int64_t columns : {8, 6}) {
    ProgramBuilder b("mean", "");
    const Value x = b.source(NodeKind::kInput, meta_of(DType::kF32, {4, columns}));
    static_cast<void>(b.reduce("aten.mean.dim", x, {1}));
    const Outcome outcome =
        run(std::move(b).build().program, "4", {"S(1)", "P(avg)<-S(1)"}, {.data = {.seed = 3}});
    EXPECT_EQ(outcome.wrong, columns == 8 ? Names{} : Names{"mean"});
  }
}

TEST_F(ProgramOnRanks, ComplexNumbersTurn) {
  ProgramBuilder b("turn", "");
  const Value x = b.source(NodeKind::kInput, meta_of(DType::kF32, {4, 8, 2}));
  const Value table = b.source(NodeKind::kBuffer, meta_of(DType::kC64, {1, 8}));
  const Value pairs = b.op("aten.view_as_complex.default", {x}, nlohmann::json::array(),
                           {meta_of(DType::kC64, {4, 8})});
  const Value turned = b.binary("aten.mul.Tensor", pairs, table);
  static_cast<void>(b.op("aten.view_as_real.default", {turned}, nlohmann::json::array(),
                         {meta_of(DType::kF32, {4, 8, 2})}));
  const Outcome outcome = run(
      std::move(b).build().program, "2x2",
      {"S(0)S(1)", "RR", "S(0)S(1)<-S(0)S(1)", "S(1)S(0)<-S(1)S(0), S(1)R", "S(1)S(0)<-S(1)S(0)"});
  EXPECT_TRUE(outcome.done.verified) << outcome.done.mismatch;
  EXPECT_EQ(outcome.done.max_abs_error, 0.0);
  // A complex number (c64) counts as 8 bytes, however it is held.
  EXPECT_GT(outcome.done.bytes_moved, 0);
  EXPECT_EQ(outcome.done.bytes_moved % 8, 0);
}

TEST_F(ProgramOnRanks, GivenDataIsUsedAndOutputsAreShown) {
  const Program program = product();
  const auto memory = HostMemory::make(std::int64_t{1} << 20U);
  const std::vector<double> ones(128, 1.0);
  ProgramRunOptions options;
  options.given[0] = from_doubles(*memory, DType::kF64, {8, 16}, ones);
  options.given[1] = from_doubles(*memory, DType::kF64, {16, 8}, ones);
  std::vector<double> last;
  std::vector<double> local;
  options.observe = [&](std::size_t n, std::span<const DistributedTensor> outputs) {
    if (n == 4) last = as_doubles(outputs[0].global);
    if (n == 2) local = as_doubles(outputs[0].locals[0]);
  };
  const Outcome outcome =
      run(program, "4",
          {"R", "S(0)", "P(sum)<-S(1), S(0)", "P(sum)<-P(sum)", "P(sum)<-P(sum)", "R<-R"}, options);
  EXPECT_TRUE(outcome.done.verified) << outcome.done.mismatch;
  EXPECT_EQ(last, std::vector<double>(8, 2.0 * 8 * 16));
  EXPECT_EQ(local, std::vector<double>(64, 4.0));  // the sum over a quarter of the inner dim
  options.given[0] = from_doubles(*memory, DType::kF64, {16, 8}, ones);
  EXPECT_THROW_MSG(run(program, "4", {"R", "R", "R<-R, R", "R<-R", "R<-R", "R<-R"}, options),
                   InputError, "node primals_1: found a value f64[16,8]; valid: f64[8,16]");
}

TEST_F(ProgramOnRanks, APlanThatDoesNotFitTheProgramIsRefused) {
  const Program program = product();
  EXPECT_THROW_MSG(plans(program, "4", {"R", "R", "R<-R", "R<-R", "R<-R", "R<-R"}), InputError,
                   "node mm: found layouts for 1 outputs and 1 inputs; valid: layouts for 1 and 2");
  EXPECT_THROW_MSG(plans(program, "4", {"S(2)", "R", "R<-R, R", "R<-R", "R<-R", "R<-R"}),
                   InputError,
                   "node primals_1: S(2) of f64[8,16]: S(2) names a dim that the tensor lacks");
  ProgramBuilder b("sort", "");
  const Value x = b.source(NodeKind::kInput, meta_of(DType::kF32, {4}));
  static_cast<void>(b.unary("aten.unheard_of.default", x));
  EXPECT_THROW_MSG(run(std::move(b).build().program, "4", {"R", "R<-R"}), InputError,
                   "node unheard_of: aten.unheard_of.default has no reference kernel, so it can't "
                   "be executed");
}

TEST_F(ProgramOnRanks, MemoryIsLimited) {
  const Program program = product();
  const Executor executor(DeviceMesh::parse("4"), topology_with(8), {.memory_limit_bytes = 1024});
  EXPECT_THROW(
      static_cast<void>(execute_program(
          executor, program, plans(program, "4", {"R", "R", "R<-R, R", "R<-R", "R<-R", "R<-R"}))),
      LimitError);
}

}  // namespace program_execution_test
}  // namespace shardlab
