// How long a redistribution plan takes, cold: the redistributor's workspace is warm, but no answer
// is kept.
//
//   BM_PlanGraph/<mesh dims>     the minimum-cost planner's whole plan: steps, shapes, price
//   BM_PlanGreedy/<mesh dims>    the same with the greedy planner, for the pairs in default shard
//                                order
//   BM_SearchGraph/<mesh dims>   the search alone
//
// An iteration asks every pair of questions.json once.
#include "strategies/select/evaluator.h"
#include "tests/bench/questions.h"

namespace shardlab {
namespace {

// The stack without merging, as PyTorch's planner is timed without it.
Stack unmerged() {
  Stack stack = testing_support::shipped_stack("dtensor-2.13");
  stack.redistribution.merge = MergeMode::kOff;
  return stack;
}

void plan(benchmark::State& state, PlannerKind planner) {
  bench::MeshQuestions questions = bench::questions_on(state.range(0));
  if (planner == PlannerKind::kGreedy) {
    std::erase_if(questions.pairs, [](const bench::Pair& pair) {
      return !pair.from.has_default_order() || !pair.to.has_default_order();
    });
  }
  StackEvaluator evaluator(unmerged(), bench::topology_of_questions());
  Redistributor& redistributor = evaluator.on(questions.mesh);
  PlanOptions options;
  options.planner = planner;
  bench::QuestionTimes times(questions.pairs.size());
  for (auto _ : state) {
    for (std::size_t i = 0; i < questions.pairs.size(); ++i) {
      const bench::Pair& pair = questions.pairs[i];
      times.time(i, [&] {
        benchmark::DoNotOptimize(redistributor.plan(questions.meta, pair.from, pair.to, options));
      });
    }
  }
  times.report(state);
  state.counters["plans"] = benchmark::Counter(static_cast<double>(questions.pairs.size()),
                                               benchmark::Counter::kIsIterationInvariantRate);
}

void BM_PlanGraph(benchmark::State& state) { plan(state, PlannerKind::kGraph); }
BENCHMARK(BM_PlanGraph)->DenseRange(1, 5);

void BM_PlanGreedy(benchmark::State& state) { plan(state, PlannerKind::kGreedy); }
BENCHMARK(BM_PlanGreedy)->DenseRange(1, 5);

void BM_SearchGraph(benchmark::State& state) {
  const bench::MeshQuestions questions = bench::questions_on(state.range(0));
  StackEvaluator evaluator(unmerged(), bench::topology_of_questions());
  GraphPlanner planner(evaluator.on(questions.mesh).pricer());
  bench::QuestionTimes times(questions.pairs.size());
  double states = 0.0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < questions.pairs.size(); ++i) {
      const bench::Pair& pair = questions.pairs[i];
      times.time(i, [&] {
        states +=
            static_cast<double>(planner.search(questions.meta, pair.from, pair.to).states_visited);
      });
    }
  }
  times.report(state);
  const auto pairs = static_cast<double>(questions.pairs.size());
  state.counters["plans"] =
      benchmark::Counter(pairs, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["states"] = benchmark::Counter(states / pairs, benchmark::Counter::kAvgIterations);
}
BENCHMARK(BM_SearchGraph)->DenseRange(1, 5);

void BM_Memcpy(benchmark::State& state) { bench::copy_memory(state); }
BENCHMARK(BM_Memcpy);

}  // namespace
}  // namespace shardlab
