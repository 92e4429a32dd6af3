// The factor that flips a choice agrees with prices at many factors: up to it the choice stays the
// cheapest, and right after it another candidate is cheaper.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "costmodel/base/error.h"
#include "strategies/proof/op_sample.h"
#include "strategies/select/price_flips.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_stacks.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace price_flips_contract_test {

using namespace testing_support;

// Prices under scaled parameters, which have an evaluator of their own.
class ScaledPrices {
 public:
  explicit ScaledPrices(const Stack& stack) : evaluator_(stack, topology_with(4)) {}

  // How much dearer than the cheapest candidate the choice is at a factor, relative to that
  // candidate.
  double excess(const OpCall& call, const DeviceMesh& mesh, const std::string& choice,
                std::string_view parameter, double factor) {
    CostFactors factors;
    if (parameter == "latency") factors.latency = factor;
    if (parameter == "bandwidth") factors.transfer = 1.0 / factor;
    if (parameter == "launch_floor") factors.launch = factor;
    evaluator_.set_factors(factors);
    const Selection selection = evaluator_.select(call, mesh, {.search = SearchKind::kFull});
    double least = kInfinity;
    double chosen = kInfinity;
    for (const Candidate& candidate : selection.candidates) {
      least = std::min(least, candidate.total_us);
      if (layouts_text(candidate.outputs, candidate.inputs) == choice) {
        chosen = std::min(chosen, candidate.total_us);
      }
    }
    return least == 0.0 ? chosen : (chosen - least) / least;
  }

 private:
  StackEvaluator evaluator_;
};

OpCall random_call(Random& random, const DeviceMesh& mesh) {
  const std::vector<std::string> ops = {"aten.mm.default", "aten.addmm.default", "aten.add.Tensor",
                                        "aten.bmm.default", "aten.mul.Tensor"};
  OpCall call = random.pick(sample_calls_of(random.pick(ops), mesh.ndim())).call;
  const std::int64_t factor = random.pick(std::vector<std::int64_t>{4, 64, 512});
  for (TensorArg& arg : call.inputs) {
    for (TensorSpec& tensor : arg.tensors) {
      for (std::int64_t& extent : tensor.meta.shape) extent *= extent > 1 ? factor : 1;
      if (tensor.meta.ndim() == 0) continue;
      tensor.layout = random_layout(random, mesh, tensor.meta.ndim(), {.orders = false});
    }
  }
  return call;
}

struct Found {
  int flips = 0;
  int steady = 0;
};

void check_question(const Stack& stack, const OpCall& call, const DeviceMesh& mesh, Random& random,
                    Found& found) {
  StackEvaluator evaluator(stack, topology_with(4));
  PriceFlips flips(stack, topology_with(4));
  ScaledPrices prices(stack);
  const Selection selection = evaluator.select(call, mesh, {.search = SearchKind::kFull});
  if (!(selection.choice.total_us < kInfinity)) return;
  const std::string choice = layouts_text(selection.choice.outputs, selection.choice.inputs);
  const std::string where = stack.name + " " + mesh.text() + " " + call.text() + ": " + choice;
  const std::vector<PriceFlip> all = flips.of(call, mesh);
  for (const std::string_view parameter : {"latency", "bandwidth", "launch_floor"}) {
    const auto flip = std::find_if(all.begin(), all.end(),
                                   [&](const PriceFlip& f) { return f.parameter == parameter; });
    const double most = parameter == "launch_floor" ? kMostLaunchFactor : kMostFactor;
    const double reach = flip == all.end() ? std::log(most) : flip->distance();
    for (int i = 0; i < 12; ++i) {
      const double share = static_cast<double>(random.between(-999, 999)) / 1000.0;
      const double factor = std::exp(share * reach);
      EXPECT_LE(prices.excess(call, mesh, choice, parameter, factor), 1e-8)
          << parameter << " x" << factor << " of " << where;
    }
    if (flip == all.end()) {
      ++found.steady;
      continue;
    }
    ++found.flips;
    const double beyond =
        std::exp(std::log(flip->factor) * (1.0 + 1e-4) + (flip->factor < 1.0 ? -1e-6 : 1e-6));
    const double before =
        std::exp(std::log(flip->factor) * (1.0 + 1e-4) + (flip->factor < 1.0 ? 1e-6 : -1e-6));
    // A flip at 1 is a tie, which one of the two sides shows.
    const double excess =
        std::max(prices.excess(call, mesh, choice, parameter, beyond),
                 flip->factor == 1.0 ? prices.excess(call, mesh, choice, parameter, before) : 0.0);
    EXPECT_GT(excess, 0.0) << parameter << " x" << flip->factor << " of " << where;
  }
}

TEST(PriceFlips, TheChoiceIsTheCheapestUpToTheFlipAndNoFurther) {
  Random random(611);
  SHARDLAB_TRACE_SEED();
  Found found;
  const std::vector<Stack> stacks = {
      stack_with("dtensor-2.13"),
      stack_with("dtensor-v4"),
      stack_with("dtensor-v3g"),
      stack_with("alpha-beta"),
      stack_with("dtensor-v3", R"({"straggler": {"name": "percent", "percent": 20}})"),
      stack_with("dtensor-v3", R"({"compute_model": "roofline", "transition_us": 0.5})")};
  for (int i = 0; i < random_cases(600); ++i) {
    const DeviceMesh mesh = random_mesh(random, 2, 8, 32, 2);
    const OpCall call = random_call(random, mesh);
    try {
      check_question(random.pick(stacks), call, mesh, random, found);
    } catch (const InputError&) {  // shapes that do not broadcast
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(found.flips, random_cases(600) / 4);
  EXPECT_GT(found.steady, random_cases(600) / 4);
}

// A proof that nothing flips a choice saves the search, and never changes what is found.
TEST(PriceFlips, ProofsFindTheFlipsThatTheSearchFinds) {
  Random random(612);
  SHARDLAB_TRACE_SEED();
  const std::vector<Stack> stacks = {
      stack_with("alpha-beta"), stack_with("dtensor-v3g"), stack_with("nccl"),
      stack_with("dtensor-v3g", R"({"compute_model": "roofline", "transition_us": 0.5})"),
      stack_with("alpha-beta", R"({"straggler": {"name": "percent", "percent": 20}})")};
  int flips = 0;
  int proofs = 0;
  for (int i = 0; i < random_cases(200); ++i) {
    const Stack& stack = random.pick(stacks);
    const DeviceMesh mesh = random_mesh(random, 3, 4, 32, 2);
    const OpCall call = random_call(random, mesh);
    PriceFlips proved(stack, topology_with(4));
    PriceFlips searched(stack, topology_with(4));
    searched.search_everywhere();
    std::vector<PriceFlip> expected;
    try {
      expected = searched.of(call, mesh);
    } catch (const InputError&) {  // shapes that do not broadcast
      continue;
    }
    const std::string where = stack.name + " " + mesh.text() + " " + call.text();
    const std::vector<PriceFlip> found = proved.of(call, mesh);
    ASSERT_EQ(found.size(), expected.size()) << where;
    for (std::size_t f = 0; f < found.size(); ++f) {
      EXPECT_EQ(found[f].parameter, expected[f].parameter) << where;
      EXPECT_EQ(found[f].factor, expected[f].factor) << where;
      EXPECT_EQ(found[f].to, expected[f].to) << where;
    }
    const std::optional<PriceFlip> first = proved.first_of(call, mesh);
    const std::optional<PriceFlip> expected_first = searched.first_of(call, mesh);
    ASSERT_EQ(first.has_value(), expected_first.has_value()) << where;
    ASSERT_EQ(first.has_value(), !expected.empty()) << where;
    if (first) {
      EXPECT_EQ(first->factor, expected_first->factor) << where;
      EXPECT_EQ(first->parameter, expected.front().parameter) << where;
      EXPECT_NEAR(first->distance(), expected.front().distance(), kSameDistance) << where;
    }
    flips += static_cast<int>(expected.size());
    proofs += static_cast<int>(proved.ruled_out());
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(flips, random_cases(200) / 4);
  EXPECT_GT(proofs, random_cases(200));
}

// With cheap collectives and dear copies, a path over a partial can be the cheapest. But it may be
// taken only where one of its own ends has that partial, not because another target that is priced
// at the same time has it.
TEST(PriceFlips, PricesOfManyLayoutsAreThoseOfOneAtATime) {
  StackEvaluator evaluator(stack_with("alpha-beta"), topology_with(4));
  evaluator.set_factors({.latency = 0.3});
  const DeviceMesh mesh = DeviceMesh::parse("2x5");
  const TensorMeta meta = TensorMeta::parse("f32[16,24]");
  for (const char* from : {"RS(1)", "S(0)R", "P(sum)S(0)", "S(1)S(1)"}) {
    const std::vector<Layout> to =
        all_layouts(2, 2, {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax});
    std::vector<double> prices(to.size());
    evaluator.on(mesh).costs_us(meta, Layout::parse(from, 2), to, prices);
    for (std::size_t i = 0; i < to.size(); ++i) {
      EXPECT_EQ(prices[i], evaluator.on(mesh).cost_us(meta, Layout::parse(from, 2), to[i]))
          << from << " to " << to[i].text();
    }
  }
}

// mm of two inputs S(0) on 4 hosts under v3: the right one is gathered, or the left one goes
// through an all-to-all, which v3 prices as a gather of a quarter of the bytes plus 1 us. So the
// gather stays the cheaper one until three quarters of its transfer time are 1 us.
TEST(PriceFlips, AFlipNamesTheParameterTheFactorAndTheChoice) {
  PriceFlips flips(stack_with("dtensor-v3"), topology_with(1));
  const DeviceMesh mesh = DeviceMesh::parse("4");
  const OpCall call = call_of("aten.mm.default", {"f32[64,64] S(0)", "f32[64,64] S(0)"}, 1);
  const std::vector<PriceFlip> all = flips.of(call, mesh);
  ASSERT_EQ(
      all.size(),
      1U);  // both candidates have the latency of three hops, so no factor on the latency matters
  EXPECT_EQ(all[0].parameter, "bandwidth");
  EXPECT_EQ(all[0].to, "S(1), S(0) -> P(sum)");
  const double transfer_us = 64 * 64 * 4 / 1073741824.0 * 0.75 / (87.7 * 0.22) * 1e6;
  EXPECT_NEAR(all[0].factor, 0.75 * transfer_us, 1e-8);
}

}  // namespace price_flips_contract_test
}  // namespace shardlab
