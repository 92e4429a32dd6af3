// How sure a fitted price is: the interval in which the times of 95 of 100 clusters lie that are like
// those that the model was fitted to.
//
//   const auto interval = interval_of(plan, evaluator.on(mesh), evaluator.collective_model());
//   if (interval) interval->low_us, interval->high_us
//
// A collective of price t lies between t exp(-1.96 s) and t exp(1.96 s), where s is the model's own
// standard deviation of ln t (CostModel::log_error). The steps of a plan run on one cluster, which is
// faster or slower than others in all of them alike, so the bounds of a plan are the sums of the bounds
// of its steps. Local steps have no error. Status: derived; reports/scoreboard.md says how many measured
// times lie within.
#pragma once

#include <optional>

#include "costmodel/cost_model.h"
#include "sim/redistribute.h"

namespace shardlab {

struct PriceInterval {
  double low_us = 0.0;
  double high_us = 0.0;

  PriceInterval& operator+=(const PriceInterval& other) {
    low_us += other.low_us;
    high_us += other.high_us;
    return *this;
  }
};

// The 97.5 % quantile of the standard normal distribution.
inline constexpr double kNormalQuantile = 1.959963984540054;

// Nothing for a model that does not know its error.
[[nodiscard]] std::optional<PriceInterval> interval_of(const CollectiveQuery& query, double us,
                                                       const CostModel& model);
[[nodiscard]] std::optional<PriceInterval> interval_of(const PlanStep& step,
                                                       const Redistributor& redistributor,
                                                       const CostModel& model);
// Nothing, too, for a plan that is impossible and for one without a collective.
[[nodiscard]] std::optional<PriceInterval> interval_of(const Plan& plan,
                                                       const Redistributor& redistributor,
                                                       const CostModel& model);

}  // namespace shardlab
