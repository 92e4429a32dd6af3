// How long the selection of an op's strategy takes, cold: expanded, priced and decided anew in
// every iteration.
//
//   BM_SelectMm/<mesh dims>, BM_SelectAdd/<mesh dims>
//   BM_FirstFlip/proofs:0, BM_FirstFlip/proofs:1
#include "costmodel/base/error.h"
#include "strategies/select/decision_cache.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/price_flips.h"
#include "tests/bench/questions.h"

namespace shardlab {
namespace {

void select(benchmark::State& state, const std::string& op) {
  const bench::MeshQuestions questions = bench::questions_on(state.range(0));
  const OpCall& call = questions.calls.at(op);
  const Stack stack = testing_support::shipped_stack("dtensor-2.13");
  StackEvaluator evaluator(stack, bench::topology_of_questions());
  (void)evaluator.on(questions.mesh);  // warms up what belongs to the mesh and not to an answer
  std::size_t candidates = 0;
  bench::QuestionTimes times(1);
  for (auto _ : state) {
    times.time(0, [&] {
      const OpRule& rule = find_op_rule(call.op, stack.rules);
      const Expansion expansion = expand(rule, call, questions.mesh);
      const Pricing pricing = evaluator.price(expansion, &rule, call, questions.mesh);
      const Decision decision = evaluator.decide(expansion, pricing, &rule, call, questions.mesh);
      candidates = decision.candidates;
      benchmark::DoNotOptimize(decision.choice.total_us);
    });
  }
  SHARDLAB_CHECK(candidates > 0, "nothing was selected");
  times.report(state);
  state.counters["candidates"] = benchmark::Counter(static_cast<double>(candidates),
                                                    benchmark::Counter::kIsIterationInvariantRate);
}

// How long the same question takes when it is asked again.
void select_again(benchmark::State& state, const char* op) {
  const bench::MeshQuestions questions = bench::questions_on(state.range(0));
  const OpCall& call = questions.calls.at(op);
  StackEvaluator evaluator(testing_support::shipped_stack("dtensor-2.13"),
                           bench::topology_of_questions());
  DecisionCache decisions(evaluator);
  for (auto _ : state) {
    benchmark::DoNotOptimize(decisions.of(call, questions.mesh).choice.total_us);
  }
}

void BM_SelectMm(benchmark::State& state) { select(state, "aten.mm.default"); }
BENCHMARK(BM_SelectMm)->DenseRange(1, 5);

void BM_SelectAdd(benchmark::State& state) { select(state, "aten.add.Tensor"); }
BENCHMARK(BM_SelectAdd)->DenseRange(1, 5);

void BM_SelectMmAgain(benchmark::State& state) { select_again(state, "aten.mm.default"); }
BENCHMARK(BM_SelectMmAgain)->DenseRange(1, 5);

void BM_SelectAddAgain(benchmark::State& state) { select_again(state, "aten.add.Tensor"); }
BENCHMARK(BM_SelectAddAgain)->DenseRange(1, 5);

// How long it takes to find what flips a choice first, with proofs that rule flips out (1) and by
// searching everywhere (0), on a mesh of three dims. Most choices are not flipped by anything.
void BM_FirstFlip(benchmark::State& state) {
  const bench::MeshQuestions questions = bench::questions_on(3);
  const Stack stack = testing_support::shipped_stack("alpha-beta");
  PriceFlips flips(stack, bench::topology_of_questions());
  if (state.range(0) == 0) flips.search_everywhere();
  for (auto _ : state) {
    for (const auto& [op, call] : questions.calls) {
      benchmark::DoNotOptimize(flips.first_of(call, questions.mesh));
    }
  }
  state.counters["questions"] = benchmark::Counter(static_cast<double>(questions.calls.size()),
                                                   benchmark::Counter::kIsIterationInvariantRate);
  state.counters["ruled_out"] = static_cast<double>(flips.ruled_out());
}
BENCHMARK(BM_FirstFlip)->ArgName("proofs")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void BM_Memcpy(benchmark::State& state) { bench::copy_memory(state); }
BENCHMARK(BM_Memcpy);

}  // namespace
}  // namespace shardlab
