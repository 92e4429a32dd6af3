#include "strategies/proof/op_execution.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "costmodel/base/error.h"
#include "sim/tensor_kernels.h"

namespace shardlab {
namespace {

// For each element, the larger one of its own magnitude and the sum of its contributions'
// magnitudes. What is not finite counts as 0.
std::vector<double> magnitudes_of(const Executor& executor, const DistributedTensor& tensor) {
  const auto magnitude = [](double value) { return std::isfinite(value) ? std::abs(value) : 0.0; };
  DistributedTensor magnitudes = tensor;
  std::map<const std::byte*, HostTensor> known;
  for (HostTensor& local : magnitudes.locals) {
    const auto [slot, is_new] = known.try_emplace(local.data());
    if (is_new) {
      std::vector<double> values = as_doubles(local);
      for (double& value : values) value = magnitude(value);
      slot->second = from_doubles(executor.memory(), local.dtype(), local.shape(), values);
    }
    local = slot->second;
  }
  std::vector<double> sums = as_doubles(executor.assemble(magnitudes));
  const std::vector<double> expected = as_doubles(tensor.global);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = std::max(magnitude(sums[i]), magnitude(expected[i]));
  }
  return sums;
}

void set_tolerances(const Executor& executor, DistributedTensor& output) {
  double ranks = 1.0;
  for (int m = 0; m < output.layout.ndim(); ++m) {
    if (output.layout[m].is_partial()) ranks *= static_cast<double>(executor.mesh().size(m));
  }
  std::vector<double> tolerances = magnitudes_of(executor, output);
  for (double& each : tolerances) {
    output.magnitude = std::max(output.magnitude, each);
    each = (ranks + 1) *
           (unit_roundoff(output.meta.dtype) * each + underflow_error(output.meta.dtype));
  }
  output.tolerances =
      from_doubles(executor.memory(), DType::kF64, output.global.shape(), tolerances);
}

[[noreturn]] void throw_not_pointwise(const OpCall& call, const Layout& layout) {
  throw InputError(
      call.op + ": found " + layout.text() +
      "; valid: R, S, _S and P, because only pointwise ops run on the local parts of a "
      "registered placement");
}

// Kernels of other ops know the dims of their tensors, which a registered placement may join.
void expect_pointwise_if_registered(const OpCall& call, std::span<const DistributedTensor> inputs,
                                    std::span<const Layout> outputs) {
  const OpKernel* kernel = find_op_kernel(call.op);
  if (kernel == nullptr || kernel->element != nullptr) return;
  for (const DistributedTensor& input : inputs) {
    if (input.layout.has_registered()) throw_not_pointwise(call, input.layout);
  }
  for (const Layout& layout : outputs) {
    if (layout.has_registered()) throw_not_pointwise(call, layout);
  }
}

}  // namespace

RankResults run_on_ranks(const Executor& executor, const OpCall& call,
                         std::span<const DistributedTensor> inputs,
                         std::span<const Shape> output_shapes, std::span<const Layout> outputs) {
  RankResults results;
  const auto is_shared = [&](int m) {
    const auto replicates = [&](const Layout& layout) { return !layout[m].cuts(); };
    return std::all_of(outputs.begin(), outputs.end(), replicates) &&
           std::all_of(inputs.begin(), inputs.end(),
                       [&](const DistributedTensor& input) { return replicates(input.layout); });
  };
  std::map<std::pair<std::vector<const std::byte*>, Coordinate>, std::size_t> known;
  for (std::size_t i = 0; i < executor.coordinates().size(); ++i) {
    Coordinate coordinate = executor.coordinates()[i];
    for (std::size_t m = 0; m < coordinate.size(); ++m) {
      if (is_shared(static_cast<int>(m))) coordinate[m] = 0;
    }
    std::vector<const std::byte*> bytes;
    for (const DistributedTensor& input : inputs) bytes.push_back(input.locals[i].data());
    const auto [found, is_new] = known.emplace(std::pair(std::move(bytes), coordinate), i);
    if (!is_new) {
      results.by_rank.push_back(results.by_rank[found->second]);
      continue;
    }
    std::vector<HostTensor> locals;
    std::vector<RowLists> rows;
    std::vector<Shape> shapes;
    std::vector<Shape> viewed;
    std::vector<RowLists> made;
    for (const DistributedTensor& input : inputs) {
      locals.push_back(input.locals[i]);
      viewed.push_back(viewed_shape(input.meta.shape, input.layout.placements));
      rows.push_back(rows_of(input.meta, input.layout, executor.mesh(), coordinate));
    }
    for (std::size_t o = 0; o < output_shapes.size(); ++o) {
      shapes.push_back(local_shape(output_shapes[o], outputs[o], executor.mesh(), coordinate));
      if (!inputs.empty()) continue;
      const TensorMeta meta{.shape = output_shapes[o], .strides = {}};
      made.push_back(rows_of(meta, outputs[o], executor.mesh(), coordinate));
    }
    try {
      results.by_rank.push_back(run_op_kernel({.call = call,
                                               .memory = executor.memory(),
                                               .inputs = locals,
                                               .input_rows = rows,
                                               .output_shapes = shapes,
                                               .input_shapes = viewed,
                                               .output_rows = made}));
    } catch (const LimitError&) {
      throw;
    } catch (const InputError& error) {
      results.failure = "rank " + std::to_string(executor.ranks()[i]) + ": " + error.what();
      return results;
    }
  }
  return results;
}

DistributedTensor output_of(const OpCall& call, const RankResults& results, std::size_t o,
                            const Layout& layout, HostTensor global) {
  DistributedTensor output;
  output.layout = layout;
  output.global = std::move(global);
  output.meta.dtype = results.by_rank[0].outputs[o].dtype();
  output.meta.shape = output.global.shape();
  expect_layout(output.meta, output.layout);
  bool masks = false;
  for (const Placement& p : layout.placements) {
    masks = masks || p.kind() == Placement::Kind::kMaskPartial;
  }
  for (const LocalResult& result : results.by_rank) {
    output.locals.push_back(result.outputs[o]);
    if (masks && result.mask.data() != nullptr) output.masks.push_back(result.mask);
  }
  if (!output.masks.empty() && output.masks.size() != output.locals.size()) {
    throw InputError(call.op + ": found a mask on " + std::to_string(output.masks.size()) + " of " +
                     std::to_string(output.locals.size()) +
                     " ranks; valid: on every rank, or on none");
  }
  return output;
}

OpExecution execute_op(const Executor& executor, const OpCall& call,
                       std::span<const DistributedTensor> inputs, std::span<const Layout> outputs) {
  expect_pointwise_if_registered(call, inputs, outputs);
  OpExecution execution;
  std::vector<HostTensor> wholes;
  for (const DistributedTensor& input : inputs) wholes.push_back(executor.assemble(input));
  const std::vector<HostTensor> expected =
      run_op_kernel({.call = call, .memory = executor.memory(), .inputs = wholes}).outputs;
  if (expected.size() != outputs.size()) {
    throw InputError(call.op + ": found " + std::to_string(outputs.size()) +
                     " output layouts; valid: " + std::to_string(expected.size()) +
                     ", one for each output of the op");
  }
  std::vector<Shape> shapes;
  for (const HostTensor& whole : expected) shapes.push_back(whole.shape());
  const RankResults results = run_on_ranks(executor, call, inputs, shapes, outputs);
  if (!results.failure.empty()) {
    execution.mismatch = results.failure;
    return execution;
  }
  execution.verified = true;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    DistributedTensor output = output_of(call, results, o, outputs[o], expected[o]);
    const bool fits = executor.has_local_shapes(output);
    if (fits && is_floating_point(output.meta.dtype)) set_tolerances(executor, output);
    const Verification verification = executor.verify(output);
    execution.max_abs_error = std::max(execution.max_abs_error, verification.max_abs_error);
    if (!verification.verified && execution.verified) {
      execution.verified = false;
      execution.mismatch =
          (outputs.size() > 1 ? "output " + std::to_string(o) + ", " : "") + verification.mismatch;
    }
    if (!fits) {
      execution.outputs.clear();
      return execution;
    }
    execution.outputs.push_back(std::move(output));
  }
  return execution;
}

}  // namespace shardlab
