#include "sim/plan.h"

namespace shardlab {

std::string Plan::path() const {
  std::string out = start.text(true);
  for (const PlanStep& step : steps) {
    out += step.is_merged() ? "-->" : "->";
    out += step.after.text(true);
  }
  return out;
}

Price Plan::executed_price() const {
  Price sum;
  for (const PlanStep& step : steps) sum += step.price;
  return sum;
}

}  // namespace shardlab
