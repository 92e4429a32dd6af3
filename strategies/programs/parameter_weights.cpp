#include "strategies/programs/parameter_weights.h"

#include <algorithm>
#include <cmath>

namespace shardlab {
namespace {

// How many elements the rank with the largest shards holds.
double local_elements(const Shape& shape, const Placements& placements, const DeviceMesh& mesh) {
  return element_count(largest_local_shape(shape, placements, mesh));
}

}  // namespace

ProblemBudget fraction_weights(const Program& program, const DeviceMesh& mesh,
                               const ProgramStrategies& strategies,
                               std::span<const std::size_t> left_out) {
  std::vector<std::vector<double>> ratios;
  const double ranks = static_cast<double>(mesh.size());
  bool even = true;
  ProblemBudget budget{.name = "parameters"};
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    if (program.nodes[n].kind != NodeKind::kParameter) continue;
    if (std::find(left_out.begin(), left_out.end(), n) != left_out.end()) continue;
    budget.weights.push_back({.variable = static_cast<int>(n), .of_value = {}});
    std::vector<double>& own = ratios.emplace_back();
    const Shape& shape = program.nodes[n].outputs[0].shape;
    const double whole = std::max(element_count(shape), 1.0);
    for (const LayoutId id : strategies.layouts.list_at(strategies.of(n).tensors[0])) {
      own.push_back(local_elements(shape, strategies.layouts[id], mesh) / whole);
      even = even && own.back() * ranks == std::round(own.back() * ranks);
    }
  }
  const double units = even ? ranks : 0x1p40;
  budget.unit = 1.0 / units;
  for (std::size_t p = 0; p < ratios.size(); ++p) {
    for (const double ratio : ratios[p]) {
      budget.weights[p].of_value.push_back(std::llround(ratio * units));
    }
  }
  return budget;
}

FractionLimit fraction_limit(const ProblemBudget& fractions, double fraction) {
  double limit = 0.0;
  FractionLimit result;
  for (const ProblemBudget::Weights& weights : fractions.weights) {
    const std::int64_t best = *std::min_element(weights.of_value.begin(), weights.of_value.end());
    result.least += best;
    limit += std::max(static_cast<double>(best), fraction / fractions.unit);
  }
  result.limit = static_cast<std::int64_t>(std::floor(limit + 1e-6));
  return result;
}

ProblemBudget memory_weights(const Program& program, const DeviceMesh& mesh,
                             const ProgramStrategies& strategies) {
  ProblemBudget budget{.name = "memory"};
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    if (program.nodes[n].kind != NodeKind::kParameter) continue;
    const TensorMeta& meta = program.nodes[n].outputs[0];
    double per_element = itemsize(meta.dtype);
    for (const auto& [first, second] : program.pairs) {
      if (first == n && program.nodes[second].kind == NodeKind::kGradient) {
        per_element += itemsize(program.nodes[second].outputs[0].dtype);
        per_element += adam_bytes_per_element(meta.dtype);
      }
    }
    ProblemBudget::Weights& weights = budget.weights.emplace_back();
    weights.variable = static_cast<int>(n);
    for (const LayoutId id : strategies.layouts.list_at(strategies.of(n).tensors[0])) {
      weights.of_value.push_back(static_cast<std::int64_t>(
          per_element * local_elements(meta.shape, strategies.layouts[id], mesh)));
    }
  }
  return budget;
}

}  // namespace shardlab
