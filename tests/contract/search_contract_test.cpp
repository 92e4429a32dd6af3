// Full enumeration, best-first and depth-first search find the same minimum, the same choice and
// the same ties, on random calls of every op that has rows, on meshes of up to four dims.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/parallel.h"
#include "costmodel/base/text.h"
#include "strategies/proof/op_sample.h"
#include "strategies/select/evaluator.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_stacks.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace search_contract_test {

using namespace testing_support;

struct StackUnderTest {
  const char* base;
  const char* patch;
};
// Under the greedy planner, `dijkstra` is PyTorch's search, which prices its own steps (case R04).
// So only full enumeration and exact search must agree there.
constexpr StackUnderTest kStacks[] = {
    {"dtensor-v3g", "{}"},
    {"dtensor-2.13", "{}"},
    {"dtensor-v4", R"({"policy": "lexicographic"})"},
    {"alpha-beta", R"({"planner": "graph", "policy": "fewest-collectives", "rules": "shardlab"})"},
    {"dtensor-v3g", R"({"rules": "shardlab", "policy": "least-bytes", "transition_us": 1.0})"},
    {"dtensor-v3g",
     R"({"rules": "shardlab", "compute_model": "roofline", "policy": "compute-time"})"},
};

// A sample call with larger extents, in random layouts.
OpCall random_call(Random& random, std::string_view op, const DeviceMesh& mesh) {
  const std::vector<SampleCall> samples = sample_calls_of(op, mesh.ndim());
  if (samples.empty()) return {};
  OpCall call = random.pick(samples).call;
  const std::int64_t factor = random.pick(std::vector<std::int64_t>{1, 1, 4, 16});
  for (TensorArg& arg : call.inputs) {
    for (TensorSpec& tensor : arg.tensors) {
      for (std::int64_t& extent : tensor.meta.shape) extent *= extent > 1 ? factor : 1;
      if (tensor.meta.ndim() == 0) continue;
      const LayoutKinds kinds{.partials = true, .orders = false, .strided = random.percent(5)};
      const Layout layout = random_layout(random, mesh, tensor.meta.ndim(), kinds);
      bool reduces_all = true;
      for (const Placement& p : layout.placements) {
        reduces_all = reduces_all && (!p.is_partial() || is_floating_point(tensor.meta.dtype));
      }
      if (reduces_all && !random.percent(20)) tensor.layout = layout;
    }
  }
  return call;
}

std::string ties_text(const Selection& selection) {
  std::vector<std::string> texts;
  for (const std::size_t i : selection.ties) {
    texts.push_back(layouts_text(selection.candidates[i].outputs, selection.candidates[i].inputs));
  }
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return join(texts, " ");
}

void compare(const Selection& full, const Selection& found, const std::string& where) {
  ASSERT_EQ(full.choice.total_us, found.choice.total_us) << where;
  EXPECT_EQ(layouts_text(full.choice.outputs, full.choice.inputs),
            layouts_text(found.choice.outputs, found.choice.inputs))
      << where;
  EXPECT_EQ(ties_text(full), ties_text(found)) << where;
  EXPECT_EQ(full.ties.size(), found.ties.size()) << where;
  EXPECT_EQ(full.flips_with_order, found.flips_with_order) << where;
  ASSERT_EQ(full.margin_us.has_value(), found.margin_us.has_value()) << where;
  if (full.margin_us) {
    EXPECT_EQ(*full.margin_us, *found.margin_us) << where;
  }
}

void ask_random_questions(std::uint64_t test, int questions) {
  Random random(test);
  SHARDLAB_TRACE_SEED();
  const Topology topology = topology_with(4);
  std::vector<std::unique_ptr<StackEvaluator>> evaluators;
  for (const StackUnderTest& stack : kStacks) {
    evaluators.push_back(
        std::make_unique<StackEvaluator>(stack_with(stack.base, stack.patch), topology));
  }
  const std::vector<std::string_view> ops = all_op_names();
  int asked = 0;
  int compared = 0;
  while (asked < questions && !testing::Test::HasFailure()) {
    StackEvaluator& evaluator = *random.pick(evaluators);
    // Mesh dims are small, so that shards of small tensors are not empty. A full search on 4 mesh
    // dims with strided shards may take half a minute, so only long runs ask for many of them.
    const int deep_percent = questions > 100'000 ? 20 : 2;
    const DeviceMesh mesh = random_mesh(random, random.percent(deep_percent) ? 4 : 3, 3, 24);
    const std::string_view op = ops[to_index(random.below(static_cast<int>(ops.size())))];
    OpCall call = random_call(random, op, mesh);
    if (call.op.empty()) continue;
    if (call.op.find("_foreach_") != std::string::npos) {
      try {
        call = foreach_child(call, 0);
      } catch (const InputError&) {
        continue;
      }
    }
    ++asked;
    Selection full;
    try {
      full = evaluator.select(call, mesh, {.search = SearchKind::kFull});
    } catch (const InputError&) {  // the op, or its in-place form, does not take the call
      EXPECT_THROW(static_cast<void>(evaluator.select(call, mesh, {.search = SearchKind::kExact})),
                   InputError);
      continue;
    }
    const std::string where = evaluator.stack().name + " " + mesh.text() + " " + call.text();
    compare(full, evaluator.select(call, mesh, {.search = SearchKind::kExact}), "exact " + where);
    if (evaluator.stack().redistribution.planner == PlannerKind::kGraph) {
      compare(full, evaluator.select(call, mesh, {.search = SearchKind::kDijkstra}),
              "dijkstra " + where);
    }
    ++compared;
  }
  EXPECT_GT(compared, questions / 2);
}

TEST(SearchContract, SearchesAgreeOnRandomQuestions) {
  ask_random_questions(401, random_cases(20'000));
}

TEST(SearchContractSlow, SearchesAgreeOnAMillionRandomQuestions) {
  constexpr std::size_t kParts = 100;
  parallel_for(
      kParts, static_cast<int>(std::thread::hardware_concurrency()),
      [] { return std::make_unique<char>(); },
      [](char&, std::size_t part) {
        ask_random_questions(1000 + part, random_cases(1'000'000 / kParts));
      });
}

}  // namespace search_contract_test
}  // namespace shardlab
