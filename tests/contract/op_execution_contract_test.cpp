// What a stack selects for an op computes the op, on virtual ranks: every op that has a rule and a
// reference kernel, on sample calls in many layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "costmodel/error.h"
#include "sim/tensor_kernels.h"
#include "strategies/evaluator.h"
#include "strategies/op_execution.h"
#include "strategies/op_sample.h"
#include "tests/support/op_samples.h"
#include "tests/support/reference_stacks.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace {

using namespace testing_support;

// Of PyTorch 2.13.0's rules, kept by the set dtensor-2.13.
struct KnownFault {
  std::string_view op;
  std::string_view what;
};
constexpr KnownFault kFaults[] = {
    {"aten._scaled_mm.default", "partials of a matrix and of its scales are multiplied"},
    {"aten._scaled_mm.out", "partials of a matrix and of its scales are multiplied"},
    {"aten.binary_cross_entropy_backward.default", "a rank divides by the count of its shard"},
    {"aten.binary_cross_entropy_with_logits.default", "means of uneven shards are averaged"},
    {"aten.huber_loss.default", "the mean of an empty shard is averaged with the others"},
    {"aten.huber_loss_backward.default", "a rank divides by the count of its shard"},
    {"aten.l1_loss.default", "the mean of an empty shard is averaged with the others"},
    {"aten.margin_ranking_loss.default", "the mean of an empty shard is averaged with the others"},
    {"aten.mse_loss_backward.default", "a rank divides by the count of its shard"},
    {"aten.smooth_l1_loss.default", "the mean of an empty shard is averaged with the others"},
    {"aten.smooth_l1_loss_backward.default", "a rank divides by the count of its shard"},
    {"aten.soft_margin_loss.default", "the mean of an empty shard is averaged with the others"},
    {"aten.soft_margin_loss_backward.default", "a rank divides by the count of its shard"},
};
bool has_fault(std::string_view op) {
  return std::any_of(std::begin(kFaults), std::end(kFaults),
                     [&](const KnownFault& fault) { return fault.op == op; });
}

struct Tally {
  int executed = 0;
  int wrong = 0;  // by a known fault
};

// Indices below a limit, all different along the last dim where there are as many; else any values.
DistributedTensor distributed(const Executor& executor, const TensorSpec& spec, const Layout& start,
                              const SampleCall::Values& values, std::uint64_t seed) {
  const DataOptions data{.seed = seed, .values = DataValues::kUniform};
  if (values.limit == 0) return executor.distribute(spec.meta, start, data);
  HostTensor global = HostTensor::make(executor.memory(), spec.meta.dtype, spec.meta.shape);
  for (std::int64_t i = 0; i < global.elements(); ++i) {
    set_element(global, i, static_cast<double>(i % values.limit));
  }
  return executor.distribute(spec.meta, start, global, data);
}

void check_call(StackEvaluator& evaluator, const DeviceMesh& mesh, const OpCall& call,
                const std::vector<SampleCall::Values>& values, Tally& tally) {
  const Executor executor(mesh, evaluator.topology(), {});
  Candidate choice;
  try {
    choice = evaluator.select(call, mesh).choice;
  } catch (const InputError&) {
    return;  // not a call of this op, or an in-place op that would have to move
  }
  std::vector<DistributedTensor> tensors;
  const auto specs = call.tensors();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Plan plan =
        evaluator.on(mesh).plan(specs[i]->meta, specs[i]->layout, Layout(choice.inputs[i]));
    if (!plan.impossible.empty() || !plan.unexecutable.empty()) return;
    tensors.push_back(distributed(executor, *specs[i], plan.start, values[i], 7 + i));
    ASSERT_TRUE(executor.run(plan, tensors.back()).verified) << plan.path();
  }
  std::vector<Layout> outputs;
  for (const Placements& p : choice.outputs) outputs.emplace_back(p);
  const OpExecution done = execute_op(executor, call, tensors, outputs);
  std::string chosen;
  for (const Placements& p : choice.inputs) chosen += Layout(p).text() + " ";
  for (const Placements& p : choice.outputs) chosen += "-> " + Layout(p).text();
  // A fault of PyTorch 2.13.0's rules: they keep a shard of a reduced dim although some rank has no
  // rows of it, and its kernel refuses to find a maximum there.
  const bool empty = done.mismatch.find("of an empty tensor has no result") != std::string::npos;
  if (empty && evaluator.stack().rules == kDTensor213) return;
  ++tally.executed;
  if (!done.verified && evaluator.stack().rules == kDTensor213 && has_fault(call.op)) {
    ++tally.wrong;
    return;
  }
  EXPECT_TRUE(done.verified) << call.text() << " as " << chosen << ": " << done.mismatch;
}

class ExecutedOp : public testing::TestWithParam<std::string_view> {};

TEST_P(ExecutedOp, ComputesTheOpInEveryLayoutThatIsSelected) {
  const OpKernel* kernel = find_op_kernel(GetParam());
  ASSERT_NE(kernel, nullptr) << "no reference kernel";
  const Topology topology = topology_with(4);
  Tally tally;
  for (const char* stack : {"dtensor-2.13", "shardlab"}) {
    StackEvaluator evaluator(stack_with(stack), topology);
    for (const OpRuleFamily* family : all_op_rules()) {
      for (const OpRule& rule : family->rules) {
        if (rule.op != GetParam() || (rule.sets & evaluator.stack().rules) == 0) continue;
        for (const char* mesh_text : {"2", "3", "2x2"}) {
          const DeviceMesh mesh = DeviceMesh::parse(mesh_text);
          const std::vector<SampleCall> samples = sample_calls_of(rule.op, mesh.ndim());
          const std::vector<OpCall> calls = sample_calls(rule.op, mesh.ndim());
          for (std::size_t i = 0; i < calls.size() && !rule.is_foreach(); ++i) {
            const SampleCall& sample = samples[i * samples.size() / calls.size()];
            check_call(evaluator, mesh, calls[i], sample.values, tally);
          }
        }
      }
    }
  }
  const bool foreach = GetParam().find("_foreach_") != std::string_view::npos;
  EXPECT_TRUE(foreach || tally.executed > 0);
  EXPECT_EQ(tally.wrong > 0, has_fault(GetParam())) << "a fault that does not show is none";
}

std::string name_of(const testing::TestParamInfo<std::string_view>& op) {
  std::string name;
  for (const char c : op.param) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, ExecutedOp, testing::ValuesIn(all_op_names()), name_of);

}  // namespace
}  // namespace shardlab
