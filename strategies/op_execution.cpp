#include "strategies/op_execution.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "costmodel/error.h"
#include "sim/tensor_kernels.h"

namespace shardlab {
namespace {

RowLists rows_of(const DistributedTensor& tensor, const DeviceMesh& mesh,
                 std::span<const std::int64_t> coordinate) {
  RowLists rows;
  for (int d = 0; d < tensor.meta.ndim(); ++d) {
    rows.push_back(local_rows(tensor.meta.shape, d, tensor.layout, mesh, coordinate));
  }
  return rows;
}

// Results of the local kernels, by index into the mesh.
struct LocalResults {
  std::vector<LocalResult> by_rank;
  std::string failure;  // of the first rank whose kernel has no result
};

// Ranks with the same bytes at the same places compute once.
LocalResults run_locally(const Executor& executor, const OpCall& call,
                         std::span<const DistributedTensor> inputs,
                         std::span<const HostTensor> expected, std::span<const Layout> outputs) {
  LocalResults results;
  using Key = std::pair<std::vector<const std::byte*>, std::vector<RowLists>>;
  std::map<Key, std::size_t> known;
  for (std::size_t i = 0; i < executor.coordinates().size(); ++i) {
    const auto& coordinate = executor.coordinates()[i];
    Key key;
    std::vector<HostTensor> locals;
    std::vector<Shape> local_shapes;
    for (const DistributedTensor& input : inputs) {
      locals.push_back(input.locals[i]);
      key.first.push_back(input.locals[i].data());
      key.second.push_back(rows_of(input, executor.mesh(), coordinate));
    }
    for (std::size_t o = 0; o < expected.size(); ++o) {
      local_shapes.push_back(
          local_shape(expected[o].shape(), outputs[o], executor.mesh(), coordinate));
    }
    const auto [found, is_new] = known.emplace(std::move(key), i);
    if (!is_new) {
      results.by_rank.push_back(results.by_rank[found->second]);
      continue;
    }
    try {
      results.by_rank.push_back(run_op_kernel({.call = call,
                                               .memory = executor.memory(),
                                               .inputs = locals,
                                               .input_rows = found->first.second,
                                               .output_shapes = local_shapes}));
    } catch (const LimitError&) {
      throw;
    } catch (const InputError& error) {
      results.failure = "rank " + std::to_string(executor.ranks()[i]) + ": " + error.what();
      return results;
    }
  }
  return results;
}

// The largest sum of magnitudes that one element's contributions have.
double magnitude_of(const Executor& executor, const DistributedTensor& tensor) {
  DistributedTensor magnitudes = tensor;
  std::map<const std::byte*, HostTensor> known;
  for (HostTensor& local : magnitudes.locals) {
    HostTensor& slot = known[local.data()];
    if (slot.data() == nullptr) {
      std::vector<double> values = as_doubles(local);
      for (double& value : values) value = std::isfinite(value) ? std::abs(value) : 0.0;
      slot = from_doubles(executor.memory(), local.dtype(), local.shape(), values);
    }
    local = slot;
  }
  double most = 0.0;
  for (const double value : as_doubles(executor.assemble(magnitudes))) {
    most = std::max(most, value);
  }
  for (const double value : as_doubles(tensor.global)) {
    if (std::isfinite(value)) most = std::max(most, std::abs(value));
  }
  return most;
}

// Sets the tolerance, once the shapes are right.
Verification judged(const Executor& executor, DistributedTensor& output) {
  for (std::size_t i = 0; i < output.locals.size(); ++i) {
    const Shape shape =
        local_shape(output.meta.shape, output.layout, executor.mesh(), executor.coordinates()[i]);
    if (output.locals[i].shape() != shape) return executor.verify(output);
  }
  if (is_floating_point(output.meta.dtype)) {
    output.magnitude = magnitude_of(executor, output);
    double ranks = 1.0;
    for (int m = 0; m < output.layout.ndim(); ++m) {
      if (output.layout[m].is_partial()) ranks *= static_cast<double>(executor.mesh().size(m));
    }
    output.tolerance = (ranks + 1) * (unit_roundoff(output.meta.dtype) * output.magnitude +
                                      underflow_error(output.meta.dtype));
  }
  return executor.verify(output);
}

}  // namespace

OpExecution execute_op(const Executor& executor, const OpCall& call,
                       std::span<const DistributedTensor> inputs, std::span<const Layout> outputs) {
  OpExecution execution;
  std::vector<HostTensor> wholes;
  for (const DistributedTensor& input : inputs) wholes.push_back(executor.assemble(input));
  const std::vector<HostTensor> expected =
      run_op_kernel({.call = call, .memory = executor.memory(), .inputs = wholes}).outputs;
  if (expected.size() != outputs.size()) {
    throw InputError(call.op + " has " + std::to_string(expected.size()) + " outputs, found " +
                     std::to_string(outputs.size()) + " layouts for them");
  }
  const LocalResults results = run_locally(executor, call, inputs, expected, outputs);
  if (!results.failure.empty()) {
    execution.mismatch = results.failure;
    return execution;
  }
  execution.verified = true;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    DistributedTensor output;
    output.layout = outputs[o];
    output.global = expected[o];
    output.meta.dtype = results.by_rank[0].outputs[o].dtype();
    output.meta.shape = expected[o].shape();
    bool masks = false;
    for (const Placement& p : outputs[o].placements) {
      masks = masks || p.kind() == Placement::Kind::kMaskPartial;
    }
    for (const LocalResult& result : results.by_rank) {
      output.locals.push_back(result.outputs[o]);
      if (masks && result.mask.data() != nullptr) output.masks.push_back(result.mask);
    }
    if (!output.masks.empty() && output.masks.size() != output.locals.size()) {
      throw InputError(call.op + ": only some ranks have a mask");
    }
    const Verification verification = judged(executor, output);
    execution.max_abs_error = std::max(execution.max_abs_error, verification.max_abs_error);
    if (!verification.verified && execution.verified) {
      execution.verified = false;
      execution.mismatch =
          (outputs.size() > 1 ? "output " + std::to_string(o) + ", " : "") + verification.mismatch;
    }
    execution.outputs.push_back(std::move(output));
  }
  return execution;
}

}  // namespace shardlab
