// How sure a fitted price is: the interval in which the times of 95 of 100 clusters lie that are
// like those that the model was fitted to.
//
//   const auto interval = interval_of(plan, evaluator.on(mesh), evaluator.collective_model());
//   if (interval) interval->low_us, interval->high_us
//
// A collective of price t lies between t exp(-1.96 s) and t exp(1.96 s), where s is the model's own
// standard deviation of ln t (CostModel::log_error). The steps of a plan run on one cluster, which
// is faster or slower than others in all of them alike, so the bounds of a plan are the sums of the
// bounds of its steps. Local steps have no error. Status: derived; reports/scoreboard.md says how
// many measured times lie within.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "costmodel/cost_model.h"
#include "sim/redistribute.h"
#include "sim/simulator.h"

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

// A price that is not sure, and half the width of its interval.
struct UnsurePrice {
  CollectiveQuery query;
  double half_us = 0.0;
};
// Adds those of the plan's steps.
void add_unsure_prices(std::vector<UnsurePrice>& prices, const Plan& plan,
                       const Redistributor& redistributor, const CostModel& model);
// How far the difference between the sums of two lists of prices may be off on one cluster: half
// the width of its interval. What both lists have in common cancels, and so does, in part, what is
// off alike (CostModel::error_correlation).
[[nodiscard]] double error_of_difference_us(std::span<const UnsurePrice> a,
                                            std::span<const UnsurePrice> b, const CostModel& model);

// Which end of the interval.
enum class PriceBound : std::uint8_t { kLow, kHigh };

// The kernel at one bound of its price. Kernels of one rank have no error and stay as they are.
// Assumes that `redistributor` prices with `model`.
[[nodiscard]] ScheduledKernel at_bound(ScheduledKernel kernel, PriceBound bound,
                                       const Redistributor& redistributor, const CostModel& model);
// All kernels of the schedule at one bound, as on a cluster that is faster or slower than others in
// all of them alike.
[[nodiscard]] Schedule at_bound(Schedule schedule, PriceBound bound,
                                const Redistributor& redistributor, const CostModel& model);

}  // namespace shardlab
