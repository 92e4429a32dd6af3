// A planned redistribution: how long it takes, what it moves, and how far it is from the bounds.
#include <algorithm>
#include <cmath>
#include <string>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace planned_redistribution_section {

using namespace reports;

std::string ratio(const std::optional<double>& value) {
  return value ? fixed(*value, 2) + " times" : "not known";
}

// "1 all_gather and 2 all_to_all".
std::string kinds_of(const PlanRecord& plan) {
  std::vector<std::pair<std::string, std::int64_t>> kinds;
  for (const PlannedStep& step : plan.steps) {
    const auto same = std::find_if(kinds.begin(), kinds.end(),
                                   [&](const auto& kind) { return kind.first == step.collective; });
    if (step.collective == kLocalStep) continue;
    if (same == kinds.end()) {
      kinds.emplace_back(step.collective, 1);
    } else {
      ++same->second;
    }
  }
  std::vector<std::string> words;
  for (const auto& [kind, count] : kinds) words.push_back(grouped(count) + " " + kind);
  return words.empty() ? "nothing is sent" : listed(words);
}

// The price, or the sum of the steps if there is none.
std::optional<double> time_of(const PlanRecord& plan) {
  return plan.runs_unpriced ? plan.executed_us : plan.price_us;
}

Figures figures_of(const PlanRecord& plan) {
  const auto bytes = plan.bytes_moved();
  const std::string interval = interval_text(plan.low_us, plan.high_us);
  return {
      {{"Time", time_of(plan) ? duration_text(*time_of(plan)) : "none",
        "under " + code(plan.stack) + " on " + code(plan.topology) +
            (interval.empty() ? "" : "; " + interval)},
       {"Collectives", grouped(plan.collectives()), kinds_of(plan)},
       {"Moved between devices", bytes ? bytes_text(static_cast<double>(*bytes)) : "not counted",
        ratio(plan.bounds.volume_ratio) + " what any plan must move"},
       {"Memory", ratio(plan.bounds.memory_ratio), "what a device must hold before or after"}}};
}

SectionContent render(const PlanRecord& plan) {
  SectionContent content;
  content.blocks.emplace_back(figures_of(plan));
  if (plan.has_no_plan()) {
    content.answer = "There is no plan: " + plan.impossible + ".";
    return content;
  }
  if (plan.runs_unpriced) {
    content.blocks.emplace_back(
        Paragraph{"The stack has no price for the redistribution: " + plan.impossible +
                  ". PyTorch runs its steps all the same."});
    const auto unpriced = std::count_if(plan.steps.begin(), plan.steps.end(), [](const auto& step) {
      return step.collective != kLocalStep && step.price_us == 0.0;
    });
    if (unpriced > 0) {
      content.blocks.emplace_back(
          Paragraph{counted(unpriced, "step counts", "steps count") +
                    " nothing in the time, because the cost function has no price for a step from "
                    "or to a strided shard."});
    }
  }
  if (!plan.unexecutable.empty()) {
    content.blocks.emplace_back(Paragraph{"The plan cannot run: " + plan.unexecutable + "."});
  }
  if (plan.executed_us && plan.price_us &&
      std::abs(*plan.executed_us - *plan.price_us) > 1e-9 * *plan.executed_us) {
    content.blocks.emplace_back(
        Paragraph{"The steps take " + duration_text(*plan.executed_us) +
                  " in sum; the stack prices the plan as a whole in another way."});
  }
  if (plan.transition_us > 0.0) {
    content.blocks.emplace_back(Paragraph{"Where a layout is selected, the stack adds " +
                                          duration_text(plan.transition_us) +
                                          " for a tensor that moves."});
  }
  for (const PlanWarning& warning : plan.warnings) {
    content.blocks.emplace_back(Paragraph{counted(warning.steps, "step", "steps") +
                                          " could not be merged: " + code(warning.reason) + "."});
  }
  if (plan.optimal_paths > 1.0) {
    content.blocks.emplace_back(Paragraph{exact(plan.optimal_paths) + " paths share this price."});
  }
  content.answer = plan.steps.empty()
                       ? "Nothing has to move."
                       : counted(static_cast<std::int64_t>(plan.steps.size()), "step", "steps") +
                             ", " + duration_text(time_of(plan).value_or(0.0)) +
                             (plan.bounds.time_ratio ? ", " + fixed(*plan.bounds.time_ratio, 2) +
                                                           " times the lower bound of its time."
                                                     : ".");
  return content;
}

}  // namespace planned_redistribution_section

REPORT_SECTION(planned_redistribution){
    .id = "planned_redistribution",
    .title = "At a glance",
    .question = "How long does the plan take, and how much does it move?",
    .order = 5,
    .render = planned_redistribution_section::render,
};

}  // namespace shardlab
