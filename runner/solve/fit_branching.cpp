#include "runner/solve/fit_branching.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// How many peaks are looked at to drop a part. Status: assumed; more of them cost more time than
// they save.
constexpr std::size_t kMostPeaks = 16;

double least_of(const std::vector<double>& bytes, const std::vector<int>& values) {
  double least = kForbidden;
  for (const int value : values) least = std::min(least, bytes[to_index(value)]);
  return least;
}

}  // namespace

std::optional<FitBranching::Part> FitBranching::solve(std::vector<std::vector<int>> values) {
  std::vector<Restriction> restrictions;
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (values[n].size() == to_index(network_.values(static_cast<int>(n)))) continue;
    restrictions.push_back({.variable = static_cast<int>(n), .allowed = values[n]});
  }
  ExactSolution found = solver_.solve({.restrictions = std::move(restrictions),
                                       .jobs = options_.jobs,
                                       .explain = false,
                                       .patience = options_.patience});
  if (!found.feasible) return std::nullopt;
  return Part{.bound = found.lower_bound,
              .is_solved = found.optimal,
              .values = std::move(values),
              .cheapest = std::move(found.assignment)};
}

bool FitBranching::may_fit(const Part& part) const {
  return std::ranges::all_of(held_, [&](const BytesByValue& held) {
    double bytes = 0.0;
    for (std::size_t n = 0; n < held.size(); ++n) {
      if (!held[n].empty()) bytes += least_of(held[n], part.values[n]);
    }
    return bytes <= planner_.most_bytes();
  });
}

std::optional<FitBranching::Split> FitBranching::split_of(const Part& part, const TriedPlan& plan) {
  std::optional<Split> split;
  if (plan.step && plan.step->memory.peak_task >= 0) {
    const BytesByValue held =
        bytes_held_at(priced_, planner_.blocks(), planner_.step(part.cheapest, step_options_),
                      plan.step->memory.peak_task);
    double most_saved = 0.0;
    for (std::size_t n = 0; n < held.size(); ++n) {
      if (held[n].empty()) continue;
      const double own = held[n][to_index(part.cheapest[n])];
      const double saved = own - least_of(held[n], part.values[n]);
      if (saved <= most_saved) continue;
      most_saved = saved;
      split = {.node = n, .lighter = {}, .others = {}};
      for (const int value : part.values[n]) {
        (held[n][to_index(value)] < own ? split->lighter : split->others).push_back(value);
      }
    }
    if (held_.size() < kMostPeaks && std::ranges::find(held_, held) == held_.end()) {
      held_.push_back(held);
    }
  }
  // What is too much there is made by moves, or the plan can't run: another value may change that.
  for (std::size_t n = 0; !split && n < part.values.size(); ++n) {
    if (part.values[n].size() < 2) continue;
    split = {.node = n, .lighter = part.values[n], .others = {part.cheapest[n]}};
    std::erase(split->lighter, part.cheapest[n]);
  }
  return split;
}

FitBranching::Result FitBranching::run(TriedPlans& tried) {
  const auto is_dearer = [](const Part& a, const Part& b) { return a.bound > b.bound; };
  std::priority_queue<Part, std::vector<Part>, decltype(is_dearer)> open(is_dearer);
  const auto add = [&](std::optional<Part> part) {
    if (!part || !may_fit(*part)) return;
    tried.add(part->cheapest);
    open.push(std::move(*part));
  };
  std::vector<std::vector<int>> all(to_index(network_.variables()));
  for (int v = 0; v < network_.variables(); ++v) {
    for (int x = 0; x < network_.values(v); ++x) {
      if (network_.costs(v)[to_index(x)] < kForbidden) all[to_index(v)].push_back(x);
    }
  }
  add(solve(std::move(all)));
  int solves = 1;
  while (!open.empty()) {
    Part part = open.top();
    const double best = tried.best() != nullptr ? tried.best()->objective : kForbidden;
    if (part.bound >= best * (1.0 - 1e-9)) break;
    if (solves >= options_.most_solves || options_.patience.seconds_left() <= 0.0 ||
        (!part.is_solved && tried.add(part.cheapest).fits())) {
      return {.is_complete = false, .lower_bound = part.bound};
    }
    open.pop();
    if (!may_fit(part)) continue;
    const TriedPlan plan = tried.add(part.cheapest);
    if (plan.fits()) continue;
    std::optional<Split> split = split_of(part, plan);
    if (!split) continue;
    std::vector<std::vector<int>> lighter = part.values;
    lighter[split->node] = std::move(split->lighter);
    add(solve(std::move(lighter)));
    ++solves;
    part.values[split->node] = std::move(split->others);
    add(std::move(part));
  }
  return {.is_complete = true,
          .lower_bound = tried.best() != nullptr ? tried.best()->objective : kForbidden};
}

}  // namespace shardlab
