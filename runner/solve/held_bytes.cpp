#include "runner/solve/held_bytes.h"

#include "costmodel/base/index.h"
#include "strategies/programs/sharding_problem.h"

namespace shardlab {

BytesByValue bytes_held_at(const PricedProgram& priced, const ModelBlocks& blocks,
                           const TrainingStep& step, int task) {
  const ProgramStrategies& strategies = priced.strategies;
  BytesByValue weights(priced.program.nodes.size());
  for (const StepBuffer& buffer : step.buffers) {
    const bool lives = buffer.made_by >= 0 && buffer.made_by <= task && task <= buffer.last_use;
    if (!lives || !buffer.read_as) continue;
    const auto [n, output] = *buffer.read_as;
    // Once the backward pass may gather a weight, some assignments no longer need it as it was.
    if (blocks.is_weight[n] && task >= step.gathered_again[n]) continue;
    const NodeClass& own = strategies.of(n);
    std::vector<double>& bytes = weights[n];
    bytes.resize(own.strategies, 0.0);
    const TensorMeta& meta = priced.program.nodes[n].outputs[output];
    for (std::size_t v = 0; v < own.strategies; ++v) {
      const Placements& layout = strategies.layouts[strategies.layout(own, v, output)];
      bytes[v] += itemsize(meta.dtype) *
                  element_count(largest_local_shape(meta.shape, layout, priced.mesh));
    }
  }
  // Parameters, buffers and the optimizer's state.
  std::vector<double> per_element(priced.program.nodes.size(), 0.0);
  for (std::size_t n = 0; n < per_element.size(); ++n) {
    const ProgramNode& node = priced.program.nodes[n];
    if (node.kind != NodeKind::kParameter && node.kind != NodeKind::kBuffer) continue;
    per_element[n] = itemsize(node.outputs[0].dtype);
  }
  for (const auto& [source, gradient] : priced.program.pairs) {
    const bool learns = priced.program.nodes[source].kind == NodeKind::kParameter &&
                        priced.program.nodes[gradient].kind == NodeKind::kGradient;
    if (!learns) continue;
    per_element[source] += adam_bytes_per_element(priced.program.nodes[source].outputs[0].dtype);
  }
  for (std::size_t n = 0; n < per_element.size(); ++n) {
    if (per_element[n] <= 0.0) continue;
    const NodeClass& own = strategies.of(n);
    const Shape& shape = priced.program.nodes[n].outputs[0].shape;
    weights[n].resize(own.strategies, 0.0);
    for (std::size_t v = 0; v < own.strategies; ++v) {
      const Placements& layout = strategies.layouts[strategies.layout(own, v, 0)];
      weights[n][v] +=
          per_element[n] * element_count(largest_local_shape(shape, layout, priced.mesh));
    }
  }
  return weights;
}

}  // namespace shardlab
