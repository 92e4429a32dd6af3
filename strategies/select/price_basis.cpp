#include "strategies/select/price_basis.h"

#include <algorithm>

namespace shardlab {
namespace {

void add_once(std::vector<std::string>& gaps, const std::string& gap) {
  if (std::find(gaps.begin(), gaps.end(), gap) == gaps.end()) gaps.push_back(gap);
}

}  // namespace

void add_steps(reports::PriceBasis& basis, const Plan& repriced, const Redistributor& reference,
               const MeasuredRanges& measured) {
  for (const PlanStep& step : repriced.steps) {
    if (step.collective == Collective::kLocal) continue;
    const CollectiveQuery query{step.collective, step.full_bytes, reference.span(step)};
    if (!communicates(query)) continue;
    if (const auto gap = measured.gap(query)) {
      add_once(basis.not_measured, gap->text());
    } else {
      ++basis.measured_steps;
    }
  }
}

void add_basis(reports::PriceBasis& basis, const reports::PriceBasis& other) {
  basis.measured_steps += other.measured_steps;
  for (const std::string& gap : other.not_measured) add_once(basis.not_measured, gap);
}

}  // namespace shardlab
