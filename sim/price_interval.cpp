#include "sim/price_interval.h"

#include <algorithm>
#include <cmath>
#include <utility>

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
  if (plan.is_impossible()) return std::nullopt;
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

void add_unsure_prices(std::vector<UnsurePrice>& prices, const Plan& plan,
                       const Redistributor& redistributor, const CostModel& model) {
  if (plan.is_impossible()) return;
  for (const PlanStep& step : plan.steps) {
    const std::optional<PriceInterval> interval = interval_of(step, redistributor, model);
    if (!interval) continue;
    prices.push_back({{step.collective, step.full_bytes, redistributor.span(step)},
                      0.5 * (interval->high_us - interval->low_us)});
  }
}

double error_of_difference_us(std::span<const UnsurePrice> a, std::span<const UnsurePrice> b,
                              const CostModel& model) {
  std::vector<UnsurePrice> all(a.begin(), a.end());
  for (const UnsurePrice& price : b) all.push_back({price.query, -price.half_us});
  double squares = 0.0;
  for (const UnsurePrice& one : all) {
    for (const UnsurePrice& other : all) {
      squares += one.half_us * other.half_us * model.error_correlation(one.query, other.query);
    }
  }
  return std::sqrt(std::max(squares, 0.0));
}

ScheduledKernel at_bound(ScheduledKernel kernel, PriceBound bound,
                         const Redistributor& redistributor, const CostModel& model) {
  if (kernel.mesh_dims.empty()) return kernel;
  PlanStep step;
  step.collective = *from_name<Collective>(kernel.name);
  step.mesh_dims = kernel.mesh_dims;
  const CollectiveQuery query{step.collective, kernel.full_bytes, redistributor.span(step)};
  const Price price = model.price(query);
  const double us = price.total.value();
  const std::optional<PriceInterval> interval = interval_of(query, us, model);
  if (!interval || !(us > 0.0)) return kernel;
  const double bounded = bound == PriceBound::kLow ? interval->low_us : interval->high_us;
  kernel.price += Micros(bounded - us);
  kernel.transfer = (bounded / us) * kernel.transfer;
  return kernel;
}

Schedule at_bound(Schedule schedule, PriceBound bound, const Redistributor& redistributor,
                  const CostModel& model) {
  for (ScheduledKernel& kernel : schedule.kernels) {
    kernel = at_bound(std::move(kernel), bound, redistributor, model);
  }
  return schedule;
}

}  // namespace shardlab
