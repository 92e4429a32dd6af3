#include "strategies/select/price_basis.h"

#include <algorithm>

namespace shardlab {
namespace {

void add_once(std::vector<MeasuredGap>& gaps, const MeasuredGap& gap) {
  if (std::find(gaps.begin(), gaps.end(), gap) == gaps.end()) gaps.push_back(gap);
}

}  // namespace

void PriceBasis::add(const Plan& repriced, const Redistributor& reference,
                     const MeasuredRanges& measured) {
  for (const PlanStep& step : repriced.steps) {
    if (step.collective == Collective::kLocal) continue;
    const CollectiveQuery query{step.collective, step.full_bytes, reference.span(step)};
    if (!communicates(query)) continue;
    if (const auto gap = measured.gap(query)) {
      add_once(not_measured, *gap);
    } else {
      ++measured_steps;
    }
  }
}

void PriceBasis::add(const PriceBasis& other) {
  measured_steps += other.measured_steps;
  for (const MeasuredGap& gap : other.not_measured) add_once(not_measured, gap);
}

}  // namespace shardlab
