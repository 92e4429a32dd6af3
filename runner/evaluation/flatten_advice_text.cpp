#include "runner/evaluation/flatten_advice_text.h"

#include <cmath>

#include "costmodel/base/text.h"
#include "costmodel/process_group.h"
#include "reports/number_text.h"
#include "runner/base/terminal.h"

namespace shardlab {
namespace {

reports::FromLeastToMost record_of(const CostSpread& spread) {
  return {.least = spread.least, .median = spread.median, .most = spread.most};
}

// How many steps it takes until `saved_us` of each are as much as these seconds.
reports::FromLeastToMost steps_to_save(const CostSpread& seconds, double saved_us) {
  const auto steps = [&](double of) { return std::ceil(of * 1e6 / saved_us); };
  return {steps(seconds.least), steps(seconds.median), steps(seconds.most)};
}

}  // namespace

reports::FlattenedMeshes record_of(const FlattenAdvice& advice, const std::string& stack) {
  const CostSpread seconds = spread_of(process_group_times());
  reports::FlattenedMeshes record{.stack = stack,
                                  .step_us = advice.step_us,
                                  .tried = advice.tried,
                                  .worth = {},
                                  .group_seconds = record_of(seconds),
                                  .group_bytes = record_of(spread_of(process_group_memory()))};
  for (const FlattenedMeshGain& gain : advice.worth) {
    record.worth.push_back({.axes = gain.axes,
                            .ranks = gain.ranks,
                            .saved_us = gain.saved_us,
                            .break_even_steps = steps_to_save(seconds, gain.saved_us)});
  }
  return record;
}

std::string flatten_advice_text(const reports::FlattenedMeshes& advice, const TextStyle& style) {
  const std::string of = "  flattened meshes for " + printable(advice.stack) + ": ";
  if (advice.tried == 0) return of + "the mesh has no more dims to flatten\n";
  if (advice.worth.empty()) {
    return of + "none of " + std::to_string(advice.tried) + " that the mesh could have shortens " +
           "the step of " + style.figure(advice.step_us) + " us\n";
  }
  double saved_us = 0.0;
  for (const reports::FlattenedMesh& one : advice.worth) saved_us += one.saved_us;
  std::string text = of + std::to_string(advice.worth.size()) + " of " +
                     std::to_string(advice.tried) + " that the mesh could have " +
                     (advice.worth.size() == 1 ? "shortens" : "shorten") + " the step of " +
                     style.figure(advice.step_us) + " us by " + style.figure(saved_us) + " us\n";
  for (const reports::FlattenedMesh& one : advice.worth) {
    const reports::FromLeastToMost& steps = one.break_even_steps;
    text += "    --flatten " + printable(join(one.axes, ",")) + ", groups of " +
            std::to_string(one.ranks) + ": saves " + style.figure(one.saved_us) +
            " us a step, which has paid for its process group after " +
            style.rounded(steps.median, 0) + " steps (" + style.rounded(steps.least, 0) + " to " +
            style.rounded(steps.most, 0) + ")\n";
  }
  const auto seconds = [](double s) { return reports::duration_text(s * 1e6); };
  return text + "    a process group takes " + seconds(advice.group_seconds.median) +
         " to make (published: " + seconds(advice.group_seconds.least) + " to " +
         seconds(advice.group_seconds.most) + ") and " +
         reports::bytes_text(advice.group_bytes.median) + " of each GPU\n";
}

}  // namespace shardlab
