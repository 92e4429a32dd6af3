// The sentences that answer the reports of the other commands, which compare no stacks.
#include <cmath>

#include "reports/errors.h"
#include "reports/number_text.h"
#include "reports/summary.h"

namespace shardlab::reports {
namespace {

// " under recipe fsdp-tp, 1 pin and a parameter budget of 0.015625"; "" if nothing is constrained.
std::string constraints_text(const SolutionConstraints& constraints) {
  std::vector<std::string> parts;
  if (!constraints.recipe.empty()) parts.push_back("recipe " + code(constraints.recipe));
  if (constraints.pins > 0) parts.push_back(counted(constraints.pins, "pin", "pins"));
  if (!constraints.pin_inputs.empty()) {
    parts.push_back("inputs as " + code(constraints.pin_inputs));
  }
  if (!constraints.pin_outputs.empty()) {
    parts.push_back("outputs as " + code(constraints.pin_outputs));
  }
  if (constraints.parameter_budget) {
    parts.push_back("a parameter budget of " + exact(*constraints.parameter_budget));
  }
  if (constraints.memory_budget_bytes) {
    parts.push_back("a memory budget of " + bytes_text(*constraints.memory_budget_bytes));
  }
  return parts.empty() ? std::string() : " under " + listed(parts);
}

}  // namespace

std::string ties_sentence(const TiesRecord& record) {
  const std::int64_t answered = record.questions - record.not_asked;
  std::string text = code(record.stack) + " has exact ties in " + grouped(record.exact_ties) +
                     " of " + counted(answered, "decision", "decisions");
  if (answered > 0) {
    text += " (" + percent(static_cast<double>(record.exact_ties) / static_cast<double>(answered)) +
            ")";
  }
  text += record.order_dependent == 0
              ? ", and none of its choices depends on the order of the candidates"
              : ", and the order of the candidates decides " + grouped(record.order_dependent) +
                    " of its choices";
  return text + "; " + grouped(record.near_ties) + " more come within " +
         exact(record.within_percent) + " % of a tie.";
}

std::string step_sentence(const StepRecord& record) {
  return code(record.model) + " on " + counted(record.ranks, "rank", "ranks") + " of " +
         code(record.topology) + " (" + code(record.mesh) + ") is predicted to run at " +
         fixed(record.tokens_per_s_per_gpu, record.tokens_per_s_per_gpu < 10.0 ? 2 : 0) +
         " tokens per second per GPU: a step takes " + duration_text(record.step_ms * 1e3) + ", " +
         fixed(record.mfu_percent, 1) + " % of the peak rate in bf16" +
         (record.memory.fits ? "." : ", but it does not fit into the device's memory.");
}

std::string validation_sentence(const ValidationRecord& record) {
  const ErrorFigures all = error_figures(record, [](const PredictedRow&) { return true; });
  if (!all.median_percent) return code(record.stack) + " has no price for any measured time.";
  std::string text = code(record.stack) + " is off by " + fixed(*all.median_percent, 1) +
                     " % in the median of " +
                     counted(all.points, "measured time", "measured times") +
                     " (nine in ten are within " + fixed(*all.p90_percent, 1) + " %)";
  if (std::abs(*all.median_signed_percent) < 0.05) return text + ", on neither side.";
  return text + ", and predicts " + (*all.median_signed_percent > 0.0 ? "too much" : "too little") +
         " by " + fixed(std::abs(*all.median_signed_percent), 1) + " % in the median.";
}

std::string solution_sentence(const SolutionRecord& record) {
  const std::string what = code(record.program) + " on " + code(record.mesh);
  if (!record.objective_us) {
    return what + " got no plan under " + code(record.stack) + ": " + record.infeasible + ".";
  }
  const std::string proof = (record.optimal ? ", proved optimal" : ", not proved optimal") +
                            constraints_text(record.constraints);
  std::string text = what;
  if (record.runs_as_priced()) {
    text +=
        " takes " + duration_text(*record.objective_us) + " under " + code(record.stack) + proof;
  } else {
    text += (record.executed_us ? " takes " + duration_text(*record.executed_us) + " as executed"
                                : std::string(" cannot run as planned")) +
            " under " + code(record.stack) + ", and " + duration_text(*record.objective_us) +
            " by " + record.objective_name + proof;
  }
  if (*record.objective_us <= 0.0) return text + ".";
  const SolutionBreakdown& parts = *record.breakdown;
  const auto share = [&](double us) { return percent(us / *record.objective_us); };
  text += ": " + share(parts.compute_us) + " are kernels";
  return text + (parts.transition_us > 0.0
                     ? ", " + share(parts.communication_us) + " communication and " +
                           share(parts.transition_us) + " transitions."
                     : " and " + share(parts.communication_us) + " communication.");
}

std::string simulation_sentence(const SimulationRecord& record) {
  const std::string what = code(record.what) + " on " + counted(record.ranks, "rank", "ranks");
  if (!record.refused.empty()) {
    return what + " does not run under " + code(record.stack) + ": " + record.refused + ".";
  }
  std::string text = what;
  if (record.time.p50_us) {
    text += " takes " + duration_text(*record.time.p50_us) +
            (record.has_one_time() ? "" : " in the median") + " under " + code(record.stack);
    if (!record.unpriced.empty()) text += ", which prices no kernels: communication alone";
  } else {
    text += " has no time under " + code(record.stack) + ", which prices no kernels";
  }
  if (!record.verified) return text + "; no data went with it.";
  text += *record.verified ? "; its data is right" : "; its data is wrong";
  if (record.replicas_bitwise_equal && !*record.replicas_bitwise_equal) {
    text += *record.verified ? ", but its replicas differ bit by bit"
                             : ", and its replicas differ bit by bit";
  }
  return text + ".";
}

std::string plan_sentence(const PlanRecord& record) {
  const std::string what = code(record.tensor) + " on " + code(record.mesh);
  const std::string way = " from " + code(record.from) + " to " + code(record.to);
  if (record.has_no_plan()) {
    return what + " does not get" + way + " under " + code(record.stack) + ": " +
           record.impossible + ".";
  }
  if (record.steps.empty()) return what + " stays as it is: it has its layout already.";
  std::string text = what + " goes" + way;
  if (record.runs_unpriced) {
    text += " in " + duration_text(record.executed_us.value_or(0.0)) + ", the sum of its steps; " +
            code(record.stack) + " has no price for it (" + record.impossible + "): ";
  } else {
    text += " in " + duration_text(record.price_us.value_or(0.0)) + " under " + code(record.stack) +
            ": ";
  }
  const std::int64_t collectives = record.collectives();
  if (collectives == 0) {
    text += "each device makes its part from what it holds, and nothing is sent";
  } else {
    text += counted(collectives, "collective", "collectives");
    if (const auto bytes = record.bytes_moved()) {
      text += (collectives == 1 ? " moves " : " move ") + bytes_text(static_cast<double>(*bytes)) +
              " between devices";
    }
  }
  if (!record.unexecutable.empty()) text += ". The plan cannot run: " + record.unexecutable;
  return text + ".";
}

}  // namespace shardlab::reports
