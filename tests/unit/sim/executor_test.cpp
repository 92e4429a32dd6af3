// The executor finds what is wrong in a tensor, shares what is equal, and stays within its memory.
// tests/contract/execution_contract_test.cpp shows that correct plans pass.
#include "sim/executor.h"

#include <gtest/gtest.h>

#include <cstring>

#include "costmodel/base/error.h"
#include "sim/tensor_kernels.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_redistribution.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace executor_test {

using namespace testing_support;

Executor executor_on(const std::string& mesh, const ExecutionOptions& options = {}) {
  return {DeviceMesh::parse(mesh), topology_with(8), options};
}

DistributedTensor distributed(const Executor& executor, const std::string& tensor,
                              const std::string& layout, const DataOptions& data = {}) {
  const TensorMeta meta = TensorMeta::parse(tensor);
  return executor.distribute(meta, parse_layout(layout, executor.mesh().ndim(), meta), data);
}

// Changes one element of one rank's shard.
void change(const Executor& executor, DistributedTensor& tensor, std::size_t rank,
            std::int64_t element, double by) {
  HostTensor copy =
      HostTensor::make(executor.memory(), tensor.locals[rank].dtype(), tensor.locals[rank].shape());
  std::memcpy(copy.writable(), tensor.locals[rank].data(), static_cast<std::size_t>(copy.bytes()));
  set_element(copy, element, element_as_double(copy, element) + by);
  tensor.locals[rank] = copy;
}

PlanStep step_of(const std::string& from, const std::string& to, int mesh_dim,
                 const std::string& after, int mesh_ndim) {
  PlanStep step;
  step.mesh_dims = {mesh_dim};
  step.from = Placement::parse(from);
  step.to = Placement::parse(to);
  step.after = Layout::parse(after, mesh_ndim);
  return step;
}

TEST(Verify, FindsOneWrongElementOfAShard) {
  const Executor executor = executor_on("2x2");
  DistributedTensor tensor = distributed(executor, "i32[5,4]", "S(0)R", {.seed = 3});
  EXPECT_TRUE(executor.verify(tensor).verified);
  const double right = element_as_double(tensor.global, 3 * 4 + 2);
  change(executor, tensor, 3, 2, 1);  // rank 3 has rows 3 and 4, so this is element [3,2]
  const Verification found = executor.verify(tensor);
  EXPECT_FALSE(found.verified);
  EXPECT_EQ(found.max_abs_error, 1.0);
  EXPECT_EQ(found.mismatch, "rank 3, element [3,2]: found " +
                                std::to_string(static_cast<int>(right) + 1) + ", expected " +
                                std::to_string(static_cast<int>(right)));
  EXPECT_FALSE(executor.replicas_bitwise_equal(tensor));
}

TEST(Verify, FindsOneWrongContribution) {
  for (const char* layout : {"P(sum)R", "P(avg)P(sum)", "P(max)P(max)", "RP(product)"}) {
    const Executor executor = executor_on("2x3");
    DistributedTensor tensor = distributed(executor, "f32[6]", layout, {.seed = 5});
    EXPECT_TRUE(executor.verify(tensor).verified) << layout;
    change(executor, tensor, 4, 1, 1000);
    EXPECT_FALSE(executor.verify(tensor).verified) << layout;
  }
}

TEST(Verify, FindsAShardOfAnotherShape) {
  const Executor executor = executor_on("2");
  DistributedTensor tensor = distributed(executor, "f32[6]", "S(0)");
  tensor.locals[1] = tensor.locals[1].narrow_rows(0, 2);
  EXPECT_EQ(executor.verify(tensor).mismatch, "rank 1: found f32[2], expected f32[3]");
}

// Rounding explains only small differences. A bf16 sum of 8 numbers that is off by more is
// reported.
TEST(Verify, ToleratesRoundingAndNoMore) {
  const Executor executor = executor_on("8");
  DistributedTensor tensor =
      distributed(executor, "bf16[64]", "P(sum)", {.seed = 1, .values = DataValues::kUniform});
  const PlanStep reduce = step_of("P(sum)", "R", 0, "R", 1);
  (void)executor.run_step(reduce, tensor);
  const Verification rounded = executor.verify(tensor);
  EXPECT_TRUE(rounded.verified) << rounded.mismatch;
  EXPECT_GT(rounded.max_abs_error, 0.0);
  EXPECT_LT(tensor.tolerance, 0.3 * tensor.magnitude);
  change(executor, tensor, 5, 7, tensor.tolerance * 2);
  EXPECT_FALSE(executor.verify(tensor).verified);
}

TEST(RunStep, RefusesChangesThatNoCollectiveMakes) {
  const Executor executor = executor_on("2");
  DistributedTensor sums = distributed(executor, "f32[4]", "P(sum)");
  EXPECT_THROW_MSG((void)executor.run_step(step_of("P(sum)", "P(avg)", 0, "P(avg)", 1), sums),
                   InputError, "no collective changes P(sum) to P(avg)");
  DistributedTensor shards = distributed(executor, "f32[4]", "S(0)");
  EXPECT_THROW_MSG((void)executor.run_step(step_of("S(0)", "P(sum)", 0, "P(sum)", 1), shards),
                   InputError, "no collective changes S(0) to P(sum)");
  DistributedTensor whole = distributed(executor, "f32[4]", "R");
  EXPECT_THROW_MSG((void)executor.run_step(step_of("R", "P(product)", 0, "P(product)", 1), whole),
                   InputError, "no collective changes R to P(product)");
}

TEST(Distribute, RefusesWhatHasNoData) {
  const Executor executor = executor_on("2");
  EXPECT_THROW_MSG((void)distributed(executor, "f32[4]", "P(band)"), InputError,
                   "P(band) of f32 does not exist: numbers of this dtype have no such reduction");
  EXPECT_THROW_MSG((void)distributed(executor, "i32[4]", "NP(2)"), InputError,
                   "NP(2) of i32 does not exist: numbers of this dtype have no such reduction");
}

// The p-norm of a whole is the p-th root of the sum of the p-th powers of its parts' norms.
TEST(NormPartials, ReduceAsPowers) {
  const Executor executor = executor_on("4");
  const PlanStep reduce = step_of("NP(2)", "R", 0, "R", 1);
  DistributedTensor tensor = distributed(executor, "f64[1]", "NP(2)");
  const std::vector<double> parts = {1, 2, 2, 4};
  for (std::size_t r = 0; r < 4; ++r) {
    tensor.locals[r] = HostTensor::make(executor.memory(), DType::kF64, {1});
    set_element(tensor.locals[r], 0, parts[r]);
  }
  (void)executor.run_step(reduce, tensor);
  EXPECT_DOUBLE_EQ(element_as_double(tensor.locals[2], 0), 5.0);
}

TEST(NormPartials, LeadThereAndBack) {
  const Executor executor = executor_on("4");
  DistributedTensor tensor = distributed(executor, "f64[9]", "R");
  // The norms that the test makes up are not negative.
  HostTensor whole = HostTensor::make(executor.memory(), DType::kF64, {9});
  for (std::int64_t i = 0; i < 9; ++i) set_element(whole, i, static_cast<double>(i));
  tensor = executor.distribute(tensor.meta, tensor.layout, whole, {});
  (void)executor.run_step(step_of("R", "NP(3)", 0, "NP(3)", 1), tensor);
  EXPECT_LT(element_as_double(tensor.locals[0], 8), 8.0);
  (void)executor.run_step(step_of("NP(3)", "S(0)", 0, "S(0)", 1), tensor);
  EXPECT_TRUE(executor.verify(tensor).verified) << executor.verify(tensor).mismatch;
}

// 13 rows on 4 ranks make shards of 4, 4, 4 and 1 rows.
TEST(BytesMoved, AreThoseThatRanksReceive) {
  const Executor executor = executor_on("4");
  const auto moved = [&](const std::string& tensor, const std::string& from,
                         const std::string& to) {
    DistributedTensor data = distributed(executor, tensor, from);
    return executor.run_step(step_of(from, to, 0, to, 1), data).bytes_moved;
  };
  EXPECT_EQ(moved("f32[13]", "S(0)", "R"), 3 * 52);
  EXPECT_EQ(moved("f32[13]", "P(sum)", "R"), 6 * 52);
  EXPECT_EQ(moved("f32[13]", "P(sum)", "S(0)"), 3 * 52);
  EXPECT_EQ(moved("f32[13]", "R", "S(0)"), 0);
  EXPECT_EQ(moved("f32[13]", "R", "P(sum)"), 0);
  // Of the 13 x 8 elements, those in 2 columns of each shard's rows stay where they are.
  EXPECT_EQ(moved("f32[13,8]", "S(0)", "S(1)"), 4 * (13 * 8 - 13 * 2));
  // Under _S(0,2) the ranks hold rows [0,4] [1,5] [2,6] [3,7], under S(0) rows [0,1] [2,3] [4,5]
  // [6,7]: ranks 0 and 3 keep one row each.
  EXPECT_EQ(moved("f32[8]", "_S(0,2)", "S(0)"), 4 * (8 - 2));
}

TEST(Replicas, OfFourThousandRanksAreOneBuffer) {
  const Executor executor = executor_on("64x64");
  DistributedTensor tensor = distributed(executor, "f32[64,64]", "S(0)R");
  const std::int64_t before = executor.memory().in_use_bytes();
  (void)executor.run_step(step_of("S(0)", "R", 0, "RR", 2), tensor);
  for (const HostTensor& local : tensor.locals) {
    ASSERT_TRUE(local.shares_bytes_with(tensor.locals[0]));
  }
  // The shards shared the rows of the global tensor. They are gone, and one gathered tensor is new.
  EXPECT_LE(executor.memory().in_use_bytes(), before + 64 * 64 * 4);
  EXPECT_TRUE(executor.verify(tensor).verified);
}

TEST(Replicas, AreBytesOfTheirOwnWhenAsked) {
  const Executor executor = executor_on("4", {.copy_replicas = true});
  DistributedTensor tensor = distributed(executor, "f32[64]", "S(0)");
  EXPECT_EQ(executor.run_step(step_of("S(0)", "R", 0, "R", 1), tensor).bytes_written, 4 * 256);
  EXPECT_FALSE(tensor.locals[0].shares_bytes_with(tensor.locals[1]));
  EXPECT_TRUE(executor.replicas_bitwise_equal(tensor));
}

TEST(Executor, StaysInItsMemory) {
  const Executor executor = executor_on("2x2", {.memory_limit_bytes = 3000});
  EXPECT_THROW_MSG((void)distributed(executor, "f32[1024]", "S(0)R"), InputError,
                   "the data of the virtual ranks needs 4 KiB beside the 0 B in use; the limit is "
                   "2.9 KiB; valid: a larger limit, a smaller tensor or mesh, or shapes only");
}

TEST(Executor, RefusesAnImpossiblePlanAndMovesNothing) {
  Bench bench({.mesh = "2", .version = "v3"});
  const Executor executor = executor_on("2");
  const TensorMeta meta = TensorMeta::parse("f32[4]");
  const Plan plan = bench.plan("f32[4]", "S(0)", "P(sum)");
  DistributedTensor tensor = executor.distribute(meta, plan.start, {});
  const ExecutionResult result = executor.run(plan, tensor);
  EXPECT_FALSE(result.executed);
  EXPECT_FALSE(result.verified);
  EXPECT_EQ(result.refused, plan.impossible);
  EXPECT_EQ(tensor.layout, plan.start);
}

// A strided shard that stands for a shard order names other rows than it holds when the shards are
// uneven (pytorch/pytorch#168134). The data is right, but its name is wrong.
TEST(Executor, NotesAStridedNameThatDoesNotFit) {
  Bench bench({.mesh = "3x2", .version = "v-compute", .planner = PlannerKind::kGraph});
  const Executor executor = executor_on("3x2");
  for (const auto& [tensor, notes] : {std::pair("i32[6]", 0U), {"i32[7]", 1U}}) {
    const Plan plan = bench.plan(tensor, "RR", "_S(0,2)S(0)");
    DistributedTensor data = executor.distribute(plan.meta, plan.start, {});
    const ExecutionResult result = executor.run(plan, data);
    EXPECT_TRUE(result.verified) << result.mismatch;
    ASSERT_EQ(result.notes.size(), notes) << tensor;
    if (notes == 0) continue;
    EXPECT_EQ(result.notes[0],
              "_S(0,2)S(0) stands for S(0)[1]S(0)[0], although the two hold different rows of this "
              "uneven shape");
  }
}

// bf16 holds whole numbers up to 256: with numbers that a mesh of 2x5 could average exactly,
// multiples of 25, a sum of eleven ones would round.
TEST(Executor, SumsOfWholeNumbersAreExactInEveryDtype) {
  for (const char* mesh : {"2x5", "7x9", "3x5x7", "16x32"}) {
    const Executor executor = executor_on(mesh);
    const int ndim = executor.mesh().ndim();
    for (const char* tensor : {"bf16[48,4]", "f16[48,4]", "f32[48,4]"}) {
      DistributedTensor sums = distributed(
          executor, tensor, std::string(ndim == 3 ? "P(sum)" : "") + "P(sum)P(sum)", {.seed = 4});
      Layout now = sums.layout;
      for (int m = 0; m < ndim; ++m) {
        now.placements[static_cast<std::size_t>(m)] = Placement::replicate();
        (void)executor.run_step(step_of("P(sum)", "R", m, now.text(), ndim), sums);
        const Verification found = executor.verify(sums);
        EXPECT_EQ(found.max_abs_error, 0.0) << tensor << " on " << mesh << ": " << found.mismatch;
      }
      double most = 0.0;
      for (std::int64_t i = 0; i < sums.global.elements(); ++i) {
        most = std::max(most, std::abs(element_as_double(sums.global, i)));
      }
      EXPECT_GE(most, 3.0) << tensor << " on " << mesh;  // the values are not all alike
    }
  }
}

TEST(Executor, MakesTheSameBytesOnAnyNumberOfThreads) {
  std::vector<DistributedTensor> tensors;
  for (const int threads : {1, 4}) {
    const Executor executor = executor_on("4x4", {.threads = threads});
    DistributedTensor tensor = distributed(executor, "f32[33,7]", "P(sum)S(0)",
                                           {.seed = 9, .values = DataValues::kUniform});
    (void)executor.run_step(step_of("P(sum)", "R", 0, "RS(0)", 2), tensor);
    (void)executor.run_step(step_of("S(0)", "R", 1, "RR", 2), tensor);
    tensors.push_back(std::move(tensor));
  }
  for (std::size_t r = 0; r < 16; ++r) {
    EXPECT_TRUE(tensors[0].locals[r].same_bits(tensors[1].locals[r]));
  }
}

// No plan has this step, but a caller may ask for it (pytorch/pytorch#191828).
TEST(Executor, PutsShardsAmongZerosOnRequest) {
  for (const char* from : {"S(0)", "S(1)", "_S(0,2)"}) {
    const Executor executor = executor_on("3", {.shard_to_partial = true});
    DistributedTensor tensor = distributed(executor, "f32[7,4]", from);
    EXPECT_EQ(executor.run_step(step_of(from, "P(sum)", 0, "P(sum)", 1), tensor).bytes_moved, 0);
    EXPECT_TRUE(executor.verify(tensor).verified) << executor.verify(tensor).mismatch;
    for (const HostTensor& local : tensor.locals) EXPECT_EQ(local.shape(), (Shape{7, 4}));
  }
}

TEST(Executor, AssemblesWhatItsRanksHold) {
  for (const char* layout : {"S(0)P", "P(avg)S(1)", "RS(0)", "S(0)[1]S(0)[0]", "P(max)P(max)"}) {
    const Executor executor = executor_on("2x3");
    const DistributedTensor tensor = distributed(executor, "f64[7,4]", layout);
    EXPECT_TRUE(executor.assemble(tensor).same_bits(tensor.global)) << layout;
  }
}

// Row 1 of rank 0 and row 0 of rank 1 count as zeros.
TEST(Executor, MasksRowsBeforeTheyAreAdded) {
  const Executor executor = executor_on("2");
  DistributedTensor tensor = distributed(executor, "f32[2,2]", "P(sum)");
  tensor.layout = Layout::parse("MP", 1);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    HostTensor local = HostTensor::make(executor.memory(), DType::kF32, {2, 2});
    HostTensor mask = HostTensor::make(executor.memory(), DType::kB8, {2});
    for (std::int64_t i = 0; i < 4; ++i) set_element(local, i, static_cast<double>(10 * rank) + 1);
    set_element(mask, 0, rank == 1 ? 1 : 0);
    set_element(mask, 1, rank == 0 ? 1 : 0);
    tensor.locals[rank] = local;
    tensor.masks.push_back(mask);
  }
  tensor.global = executor.assemble(tensor);
  EXPECT_EQ(element_as_double(tensor.global, 0), 1);
  EXPECT_EQ(element_as_double(tensor.global, 3), 11);
  EXPECT_TRUE(executor.verify(tensor).verified);
  (void)executor.run_step(step_of("MP", "R", 0, "R", 1), tensor);
  EXPECT_TRUE(tensor.masks.empty());
  EXPECT_TRUE(executor.verify(tensor).verified) << executor.verify(tensor).mismatch;
}

}  // namespace executor_test
}  // namespace shardlab
