// The stand-in's collectives are compared with plain sums, and its plans with the fake process
// group.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "runner/measure/kernel_run.h"
#include "runner/measure/plan_run.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace backend_cpu_test {

using testing_support::shipped;

class CpuWorld : public testing::TestWithParam<std::int64_t> {
 protected:
  CpuWorld()
      : backend_(make_cpu_backend(meeting_, {.world = GetParam(), .local = GetParam()})),
        watchdog_(meeting_, {}) {}

  [[nodiscard]] std::int64_t ranks() const { return GetParam(); }
  [[nodiscard]] MeasuringRun run() { return {*backend_, meeting_, watchdog_}; }

  // Returns what each rank receives when rank r sends `send(r)`.
  template <class Send>
  std::vector<std::vector<std::int32_t>> call(CollectiveCall call, Send&& send) {
    const auto group =
        backend_->make_group(std::vector<std::int64_t>(static_cast<std::size_t>(ranks()), 0));
    std::vector<DevicePointer> memory;
    std::vector<CallBuffers> buffers;
    const auto receive_bytes = receive_count(call, ranks()) * 4;
    for (std::int64_t r = 0; r < ranks(); ++r) {
      const std::vector<std::int32_t> values = send(r);
      EXPECT_EQ(std::ssize(values), send_count(call, ranks()));
      memory.push_back(backend_->allocate(r, std::ssize(values) * 4));
      backend_->upload(r, memory.back().get(), std::as_bytes(std::span(values)));
      memory.push_back(backend_->allocate(r, receive_bytes));
      buffers.push_back({memory[memory.size() - 2].get(), memory.back().get()});
    }
    group->run(std::vector<CollectiveCall>(static_cast<std::size_t>(ranks()), call), buffers);
    std::vector<std::vector<std::int32_t>> results;
    for (std::int64_t r = 0; r < ranks(); ++r) {
      std::vector<std::int32_t> values(static_cast<std::size_t>(receive_bytes / 4));
      backend_->download(r, std::as_writable_bytes(std::span(values)),
                         buffers[to_index(r)].receive);
      results.push_back(std::move(values));
    }
    return results;
  }

  Rendezvous meeting_;
  std::unique_ptr<Backend> backend_;
  Watchdog watchdog_;
};

// The value of element i on rank r.
std::int32_t value(std::int64_t r, std::int64_t i) {
  return static_cast<std::int32_t>(100 * r + i);
}

std::vector<std::int32_t> values_of(std::int64_t r, std::int64_t count) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(value(r, i));
  return values;
}

TEST_P(CpuWorld, CollectivesDoWhatTheirNamesSay) {
  const std::int64_t n = ranks();
  const std::int64_t part = 3;
  const std::int64_t count = n * part;
  const auto at = [](const auto& rows, std::int64_t r, std::int64_t i) {
    return rows[to_index(r)][to_index(i)];
  };
  const auto sum_at = [&](std::int64_t i) {
    std::int32_t sum = 0;
    for (std::int64_t r = 0; r < n; ++r) sum += value(r, i);
    return sum;
  };
  const auto full = [&](std::int64_t r) { return values_of(r, count); };
  const auto reduced = call({Collective::kAllReduce, DType::kI32, ReduceOp::kSum, count}, full);
  const auto most = call({Collective::kAllReduce, DType::kI32, ReduceOp::kMax, count}, full);
  const auto scattered =
      call({Collective::kReduceScatter, DType::kI32, ReduceOp::kSum, count}, full);
  const auto gathered = call({Collective::kAllGather, DType::kI32, ReduceOp::kSum, count},
                             [&](std::int64_t r) { return values_of(r, part); });
  const auto swapped = call({Collective::kAllToAll, DType::kI32, ReduceOp::kSum, count}, full);
  const auto told = call({Collective::kBroadcast, DType::kI32, ReduceOp::kSum, count, n - 1}, full);
  const auto passed = call({Collective::kSendRecv, DType::kI32, ReduceOp::kSum, count}, full);
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(at(reduced, r, i), sum_at(i));
      EXPECT_EQ(at(most, r, i), value(n - 1, i));
      EXPECT_EQ(at(gathered, r, i), value(i / part, i % part));
      EXPECT_EQ(at(swapped, r, i), value(i / part, r * part + i % part));
      EXPECT_EQ(at(told, r, i), value(n - 1, i));
      EXPECT_EQ(at(passed, r, i), value((r + n - 1) % n, i));
    }
    for (std::int64_t i = 0; i < part; ++i) EXPECT_EQ(at(scattered, r, i), sum_at(r * part + i));
  }
}

TEST_P(CpuWorld, PlansEqualTheFakeProcessGroupBitForBit) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has nobody to talk to";
  StackEvaluator evaluator(shipped().stack("shardlab"), shipped().topology("h100"));
  const VerifiedPlans result = verify_plans(run(), evaluator, {.plans = 150, .seed = 11});
  EXPECT_EQ(result.plans, 150);
  // Both sides sum in the order of the ring, so that not even floating point differs.
  EXPECT_EQ(result.bit_equal, 150) << result.first_failure;
  EXPECT_EQ(result.failed, 0);
}

TEST_P(CpuWorld, QuestionsDependOnNothingButSeedAndNumber) {
  for (std::uint64_t number = 0; number < 20; ++number) {
    const PlanQuestion a = draw_question(*backend_, 3, number);
    const PlanQuestion b = draw_question(*backend_, 3, number);
    EXPECT_EQ(a.meta, b.meta);
    EXPECT_EQ(a.from, b.from);
    EXPECT_EQ(a.to, b.to);
    EXPECT_EQ(a.mesh.size(), ranks());
  }
}

// A tenth of the placements are strided shards; most of their questions have a plan.
TEST_P(CpuWorld, QuestionsHaveStridedShardsAndNorms) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has nobody to talk to";
  StackEvaluator evaluator(shipped().stack("shardlab"), shipped().topology("h100"));
  const auto reduces_norms = [](const Plan& plan) {
    return std::any_of(plan.steps.begin(), plan.steps.end(), [](const PlanStep& step) {
      return step.from.kind() == Placement::Kind::kNormPartial;
    });
  };
  int strided = 0;
  int norms = 0;
  for (std::uint64_t number = 0; number < 300; ++number) {
    const PlanQuestion question = draw_question(*backend_, 11, number);
    const Plan plan =
        evaluator.on(question.mesh)
            .plan(question.meta, question.from, question.to, {.planner = question.planner});
    if (!plan.impossible.empty() || !plan.unexecutable.empty() || plan.steps.empty()) continue;
    strided += question.from.has_strided() || question.to.has_strided() ? 1 : 0;
    norms += reduces_norms(plan) ? 1 : 0;
  }
  EXPECT_GE(strided, 15);
  EXPECT_GE(norms, 3);
}

TEST_P(CpuWorld, MeasuresEveryCollective) {
  const CollectiveRequest request = {
      .collectives = {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
                      Collective::kAllToAll, Collective::kBroadcast, Collective::kSendRecv},
      .dtypes = {DType::kF32, DType::kBF16},
      .min_bytes = 1024,
      .max_bytes = 4096,
      .step_factor = 2.0,
      .warmup = 1,
      .iterations = 3};
  const std::vector<MeasuredRow> rows = measure_collectives(run(), request);
  EXPECT_EQ(rows.size(), 6U * 2U * 3U);
  std::map<Collective, int> seen;
  for (const MeasuredRow& row : rows) {
    ++seen[row.collective];
    EXPECT_GT(row.time_us, 0.0);
    EXPECT_LE(*row.p5_us, *row.p50_us);
    EXPECT_LE(*row.p50_us, *row.p95_us);
    EXPECT_GE(*row.wait_us, 0.0);
    EXPECT_EQ(row.iterations, 3);
    const bool can_be_in_place =
        row.collective != Collective::kAllToAll && row.collective != Collective::kSendRecv;
    EXPECT_EQ(row.in_place_time_us.has_value(), can_be_in_place) << to_string(row.collective);
  }
  EXPECT_EQ(seen.size(), 6U);
}

TEST_P(CpuWorld, MeasuresKernelsThatItHas) {
  const KernelRun result = measure_kernels(
      run(), {.kernels = {"gemm", "copy", "reshuffle", "elementwise", "reduction", "launch"},
              .max_bytes = 1 << 22,
              .warmup = 1,
              .iterations = 2});
  std::map<std::string, int> seen;
  for (const MeasuredKernel& row : result.rows) {
    ++seen[row.kernel];
    EXPECT_GT(row.time_us, 0.0);
    EXPECT_EQ(row.bytes > 0, row.kernel != "launch");
  }
  EXPECT_EQ(seen.size(), 6U);
  ASSERT_FALSE(result.left_out.empty());
  EXPECT_EQ(result.left_out.front(),
            "gemm bf16 512x512x512: the stand-in has kernels for f32 only");
}

INSTANTIATE_TEST_SUITE_P(Ranks, CpuWorld, testing::Values(1, 2, 3, 4));

TEST(PlanRun, OneRankHasNoPlanThatCommunicates) {
  Rendezvous meeting;
  const auto backend = make_cpu_backend(meeting, {});
  Watchdog watchdog(meeting, {});
  StackEvaluator evaluator(shipped().stack("shardlab"), shipped().topology("h100"));
  EXPECT_THROW((void)verify_plans({*backend, meeting, watchdog}, evaluator, {.plans = 1}),
               InputError);
}

// A backend whose sums are wrong in one bit of one rank is found out.
class FaultyGroup final : public Group {
 public:
  explicit FaultyGroup(std::unique_ptr<Group> right) : right_(std::move(right)) {}
  void run(std::span<const CollectiveCall> calls, std::span<const CallBuffers> buffers) override {
    right_->run(calls, buffers);
    const std::int64_t size = 2;
    if (receive_count(calls[1], size) > 0) buffers[1].receive[0] ^= std::byte{1};
  }
  std::vector<std::vector<double>> time_us(const CollectiveCall&, std::span<const CallBuffers>,
                                           int) override {
    return {};
  }
  std::optional<double> estimate_us(const CollectiveCall&, std::span<const CallBuffers>) override {
    return std::nullopt;
  }

 private:
  std::unique_ptr<Group> right_;
};

class FaultyBackend final : public Backend {
 public:
  explicit FaultyBackend(std::unique_ptr<Backend> right) : right_(std::move(right)) {}
  BackendFacts facts() const override { return right_->facts(); }
  const RankRange& ranks() const override { return right_->ranks(); }
  DevicePointer allocate(std::int64_t local, std::int64_t bytes) override {
    return right_->allocate(local, bytes);
  }
  void upload(std::int64_t local, std::byte* to, std::span<const std::byte> from) override {
    right_->upload(local, to, from);
  }
  void download(std::int64_t local, std::span<std::byte> to, const std::byte* from) override {
    right_->download(local, to, from);
  }
  std::unique_ptr<Group> make_group(std::span<const std::int64_t> colours) override {
    return std::make_unique<FaultyGroup>(right_->make_group(colours));
  }
  std::vector<double> time_kernel_us(const KernelShape&, int, int, std::string&) override {
    return {};
  }
  // Only whole numbers are drawn, since one wrong bit of a float may stay within the bound.
  bool reduces(ReduceOp op, DType dtype) const override {
    return !is_floating_point(dtype) && right_->reduces(op, dtype);
  }

 private:
  std::unique_ptr<Backend> right_;
};

TEST(PlanRun, ABackendThatFlipsABitIsFoundOut) {
  Rendezvous meeting;
  FaultyBackend backend(make_cpu_backend(meeting, {.world = 2, .local = 2}));
  Watchdog watchdog(meeting, {});
  StackEvaluator evaluator(shipped().stack("shardlab"), shipped().topology("h100"));
  const VerifiedPlans result =
      verify_plans({backend, meeting, watchdog}, evaluator, {.plans = 40, .seed = 1});
  EXPECT_GT(result.failed, 20);
  EXPECT_EQ(result.failed + result.bit_equal, 40);
  EXPECT_NE(result.first_failure.find("expected"), std::string::npos) << result.first_failure;
}

TEST(Iterations, TheLastToComeTellsTheTime) {
  // Rank 1 came 8 us late in the first iteration, rank 0 2 us late in the second.
  const std::vector<std::vector<double>> times = {{20.0, 10.0}, {12.0, 12.0}};
  const IterationSummary summary = summarize_iterations(times);
  EXPECT_DOUBLE_EQ(summary.mean_us, 11.0);
  EXPECT_DOUBLE_EQ(summary.p50_us, 11.0);
  EXPECT_DOUBLE_EQ(summary.wait_us, 5.0);
}

TEST(Sizes, AreMultiplesOfTheRanksAndRise) {
  const CollectiveRequest request = {
      .collectives = {}, .dtypes = {}, .min_bytes = 1, .max_bytes = 64, .step_factor = 2.0};
  EXPECT_EQ(counts_of(request, DType::kF32, 3), (std::vector<std::int64_t>{3, 6, 15}));
  EXPECT_EQ(counts_of(request, DType::kI8, 1), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 64}));
}

}  // namespace backend_cpu_test
}  // namespace shardlab
