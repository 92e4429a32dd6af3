#include "sim/price_interval.h"

#include <cmath>

namespace shardlab {

std::optional<PriceInterval> interval_of(const CollectiveQuery& query, double us,
                                         const CostModel& model) {
  const std::optional<double> error = model.log_error(query);
  if (!error || !(us < kInfinity)) return std::nullopt;
  const double factor = std::exp(kNormalQuantile * *error);
  return PriceInterval{us / factor, us * factor};
}

std::optional<PriceInterval> interval_of(const PlanStep& step, const Redistributor& redistributor,
                                         const CostModel& model) {
  if (step.collective == Collective::kLocal) return std::nullopt;
  const CollectiveQuery query{step.collective, step.full_bytes, redistributor.span(step)};
  // What the step costs beside its collective, such as copies, has no error.
  const Price price = model.price(query);
  if (!price.is_possible() || !step.price.is_possible()) return std::nullopt;
  std::optional<PriceInterval> interval = interval_of(query, price.total.value(), model);
  if (!interval) return std::nullopt;
  const double beside = step.price.total.value() - price.total.value();
  interval->low_us += beside;
  interval->high_us += beside;
  return interval;
}

std::optional<PriceInterval> interval_of(const Plan& plan, const Redistributor& redistributor,
                                         const CostModel& model) {
  if (!plan.impossible.empty()) return std::nullopt;
  PriceInterval sum;
  bool is_known = false;
  for (const PlanStep& step : plan.steps) {
    const std::optional<PriceInterval> interval = interval_of(step, redistributor, model);
    is_known = is_known || interval.has_value();
    sum.low_us += interval ? interval->low_us : step.price.total.value();
    sum.high_us += interval ? interval->high_us : step.price.total.value();
  }
  return is_known ? std::optional(sum) : std::nullopt;
}

}  // namespace shardlab
