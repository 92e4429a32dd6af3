// The layouts that a stack selects for an op compute the op on virtual ranks. This is checked for
// every op that has a rule and a reference kernel, on sample calls in many layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "costmodel/base/error.h"
#include "sim/tensor_kernels.h"
#include "strategies/proof/op_execution.h"
#include "strategies/proof/op_sample.h"
#include "strategies/rules/rule_table.h"
#include "strategies/select/evaluator.h"
#include "tests/support/op_samples.h"
#include "tests/support/random_source.h"
#include "tests/support/reference_stacks.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace op_execution_contract_test {

using namespace testing_support;

// Faults of PyTorch 2.13.0's rules, which the set dtensor-2.13 keeps, and of AutoParallel's.
struct KnownFault {
  std::string_view op;
  std::string_view what;
};
constexpr KnownFault kFaults[] = {
    {"aten._scaled_dot_product_flash_attention.default",
     "heads of queries are sharded apart from the heads of keys that they share"},
    {"aten._scaled_dot_product_flash_attention_backward.default",
     "heads of queries are sharded apart from the heads of keys that they share"},
    {"aten._scaled_mm.default", "partials of a matrix and of its scales are multiplied"},
    {"aten._scaled_mm.out", "partials of a matrix and of its scales are multiplied"},
    {"aten.any.default", "a sum of u8 that are 0 or 1 may be 2"},
    {"aten.binary_cross_entropy_backward.default", "a rank divides by the count of its shard"},
    {"aten.binary_cross_entropy_with_logits.default", "means of uneven shards are averaged"},
    {"aten.cumprod.default", "the dim is not gathered when it is counted from the end"},
    {"aten.cumsum.default", "the dim is not gathered when it is counted from the end"},
    {"aten.embedding_dense_backward.default", "gradients that are scaled by local counts"},
    {"aten.fill_.Scalar", "a partial sum stays one, so that every rank adds the number"},
    {"aten.gather.default", "shards of inputs whose extents differ"},
    {"aten.huber_loss.default", "the mean of an empty shard is averaged with the others"},
    {"aten.huber_loss_backward.default", "a rank divides by the count of its shard"},
    {"aten.l1_loss.default", "the mean of an empty shard is averaged with the others"},
    {"aten.linalg__powsum.default", "powers of parts are no parts of the power of their sum"},
    {"aten.linalg_solve_triangular.default", "batches of only one input are sharded"},
    {"aten.logcumsumexp.default", "the dim is not gathered when it is counted from the end"},
    {"aten.logsumexp.default", "keepdim is overlooked: the result's shards are of another dim"},
    {"aten.margin_ranking_loss.default", "the mean of an empty shard is averaged with the others"},
    {"aten.max_unpool2d.default", "the height of an image without a batch is sharded"},
    {"aten.mean.dim", "AutoParallel: means of uneven shards are averaged"},
    {"aten.mse_loss_backward.default", "a rank divides by the count of its shard"},
    {"aten.nll_loss2d_forward.default", "a weighted mean is no average of weighted means"},
    {"aten.nll_loss_forward.default",
     "a mean over targets that are not ignored is no average of the shards' means"},
    {"aten.scatter_add.default", "shards of inputs whose extents differ"},
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
  int wrong = 0;  // wrong because of a known fault
};

// Draws indices, and numbers that must be positive, as the sample asks for them. Indices differ
// along the last dim where there are enough.
DistributedTensor distributed(const Executor& executor, const TensorMeta& meta,
                              const Layout& layout, const SampleCall::Values& values,
                              std::uint64_t seed) {
  const DataOptions data = {.seed = seed, .values = DataValues::kUniform};
  const bool positive = values.kind == SampleValues::kPositive;
  if (values.limit == 0 && !positive) return executor.distribute(meta, layout, data);
  Random random(seed);
  HostTensor global = HostTensor::make(executor.memory(), meta.dtype, meta.shape);
  for (std::int64_t i = 0; i < global.elements(); ++i) {
    set_element(global, i,
                positive ? 1.0 + random.below(8) : static_cast<double>(i % values.limit));
  }
  return executor.distribute(meta, layout, std::move(global), data);
}

// Whether strided shards cut a dim unevenly: which rows a rank then holds depends on the steps that
// led there, since the text of a layout can't tell a strided shard from an encoded order
// (docs/limits.md).
bool is_ambiguous(const TensorMeta& meta, const Layout& layout, const DeviceMesh& mesh) {
  if (!layout.has_strided()) return false;
  for (int dim = 0; dim < meta.ndim(); ++dim) {
    std::int64_t shards = 1;
    for (int m = 0; m < mesh.ndim(); ++m) {
      if (layout[m].is_shard_like() && layout[m].dim() == dim) shards *= mesh.size(m);
    }
    if (meta.shape[to_index(dim)] % shards != 0) return true;
  }
  return false;
}

void check_call(StackEvaluator& evaluator, const DeviceMesh& mesh, const SampleCall& sample,
                Tally& tally) {
  const OpCall& call = sample.call;
  const Executor executor(mesh, evaluator.topology(), {});
  Candidate choice;
  try {
    choice = evaluator.select(call, mesh).choice;
  } catch (const InputError&) {
    return;  // no call of this op, or an in-place op that would have to move its tensor
  }
  std::vector<DistributedTensor> tensors;
  const auto specs = call.tensors();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Plan plan =
        evaluator.on(mesh).plan(specs[i]->meta, specs[i]->layout, Layout(choice.inputs[i]));
    if (!plan.impossible.empty() || !plan.unexecutable.empty()) return;
    const bool is_told_apart = !is_ambiguous(plan.meta, plan.from, mesh) &&
                               !is_ambiguous(plan.meta, plan.to, mesh) &&
                               std::ranges::none_of(plan.steps, [&](const PlanStep& step) {
                                 return is_ambiguous(plan.meta, step.after, mesh);
                               });
    if (!is_told_apart) return;
    tensors.push_back(distributed(executor, specs[i]->meta, plan.start, sample.values[i], 7 + i));
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
  // Another fault: the rules take a shard of a flattened dim for a shard of the first dim that it
  // is split into.
  const bool misfit = done.mismatch.find("elements can't be seen as one of") != std::string::npos;
  if ((empty || misfit) && evaluator.stack().rules != kShardlab) return;
  ++tally.executed;
  // This test holds whole tensors in double precision, which have other bytes.
  if (call.op == "aten.view.dtype") return;
  if (!done.verified && evaluator.stack().rules != kShardlab && has_fault(call.op)) {
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
  for (const char* stack : {"dtensor-2.13", "shardlab", "ap-nccl"}) {
    StackEvaluator evaluator(stack_with(stack), topology);
    for (const OpRule& rule : rule_table(evaluator.stack().rules.set()).rules()) {
      if (rule.op != GetParam() || is_foreach(rule.op)) continue;
      for (const char* mesh_text : {"2", "3", "2x2"}) {
        const DeviceMesh mesh = DeviceMesh::parse(mesh_text);
        for (const SampleCall& sample : sample_calls_with_values(rule.op, mesh.ndim())) {
          check_call(evaluator, mesh, sample, tally);
        }
      }
    }
  }
  EXPECT_TRUE(is_foreach(GetParam()) || tally.executed > 0);
  EXPECT_EQ(tally.wrong > 0, has_fault(GetParam())) << "a fault that does not show is none";
}

std::string name_of(const testing::TestParamInfo<std::string_view>& op) {
  std::string name;
  for (const char c : op.param) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

// Forms that a release derives have the rows of their ops, and no samples of their own.
bool is_derived(std::string_view op) {
  return std::ranges::any_of(kReleases, [&](const ReleaseEntry& entry) {
    return rule_table(entry.release).variants()->base_of(op) != nullptr;
  });
}

std::vector<std::string_view> ops_with_data() {
  std::vector<std::string_view> ops = all_op_names();
  std::erase_if(ops, [](std::string_view op) { return holds_no_data(op) || is_derived(op); });
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Ops, ExecutedOp, testing::ValuesIn(ops_with_data()), name_of);

}  // namespace op_execution_contract_test
}  // namespace shardlab
