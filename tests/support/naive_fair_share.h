// Max-min fair speeds by their definition, slowly: what sim/flows/fair_share.h is compared with.
#pragma once

#include <span>
#include <vector>

#include "sim/flows/fair_share.h"

namespace shardlab::testing_support {

struct NaiveFlow {
  std::vector<ResourceUse> uses;
  double cap = 1.0;
};

// Finds by bisection the highest speed that all flows can reach together, fixes the flows that
// cannot go on alone, and repeats. No two resources and no two flows are told apart.
inline std::vector<double> naive_speeds(std::span<const double> capacities,
                                        std::span<const NaiveFlow> flows) {
  constexpr double kClose = 1e-10;
  std::vector<double> fixed(flows.size(), -1.0);
  const auto speeds_at = [&](double level) {
    std::vector<double> speeds;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      speeds.push_back(fixed[f] >= 0.0 ? fixed[f] : std::min(level, flows[f].cap));
    }
    return speeds;
  };
  // By how much the fullest resource (among those of one flow, or among all) exceeds its capacity.
  const auto excess = [&](const std::vector<double>& speeds, const NaiveFlow* of) {
    std::vector<double> used(capacities.size(), 0.0);
    for (std::size_t f = 0; f < flows.size(); ++f) {
      for (const auto& [resource, amount] : flows[f].uses) {
        used[static_cast<std::size_t>(resource)] += amount * speeds[f];
      }
    }
    double worst = -1.0;
    const auto look = [&](std::size_t r) {
      worst = std::max(worst, used[r] / capacities[r] - 1.0);
    };
    if (of == nullptr) {
      for (std::size_t r = 0; r < capacities.size(); ++r) look(r);
    } else {
      for (const ResourceUse& use : of->uses) {
        if (use.amount > 0.0) look(static_cast<std::size_t>(use.resource));
      }
    }
    return worst;
  };
  double highest = 0.0;
  for (const NaiveFlow& flow : flows) highest = std::max(highest, flow.cap);
  while (true) {
    double low = 0.0;
    double high = highest;
    for (int i = 0; i < 100; ++i) {
      const double middle = (low + high) / 2;
      (excess(speeds_at(middle), nullptr) <= 0.0 ? low : high) = middle;
    }
    const std::vector<double> speeds = speeds_at(low);
    bool is_done = true;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (fixed[f] >= 0.0) continue;
      if (speeds[f] >= flows[f].cap * (1 - kClose) || excess(speeds, &flows[f]) > -kClose) {
        fixed[f] = speeds[f];
      } else {
        is_done = false;
      }
    }
    if (is_done) return speeds;
  }
}

}  // namespace shardlab::testing_support
