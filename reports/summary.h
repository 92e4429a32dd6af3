// The answer of a comparison in two or three sentences, the first thing a maintainer reads. Time
// comes first (reports/time_text.h), then the flips, then relative regret:
//
//   "Changing `dtensor-v3` to `mine` shortens `ops-small` by 2.09 %: its choices take 206.5 us less
//   than the 9.876 ms that they took before, by the reference (`alpha-beta`: datasheet, not
//   measured). It flips 132 of 1,204 decisions (11.0 %): 120 of them are improvements, 4 are
//   regressions and 8 cost as much as before; mean regret falls from 3.2 % to 1.1 %."
//
// Names stand in backticks, as every writer's text does (reports/document.h).
// Tested by tests/unit/reports/summary_test.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reports/comparison.h"
#include "reports/records/plan_record.h"
#include "reports/records/record.h"
#include "reports/records/simulation_record.h"
#include "reports/records/solution_record.h"
#include "reports/records/step_record.h"
#include "reports/records/ties_record.h"
#include "reports/records/validation_record.h"

namespace shardlab::reports {

[[nodiscard]] std::string summary_sentence(const ComparisonRecord& record,
                                           const Comparison& comparison);

// "Under `dtensor-v4`, a step of `llama3-8b` on `2x4` takes 148.4 ms, which is 1.941 ms (1.29 %)
// shorter than under `dtensor-v3`, and 22.5 GB of memory at its peak, 1.29 GB less." A sentence for
// each step; "" if the record has none.
[[nodiscard]] std::string steps_sentence(const ComparisonRecord& record);

// "`dtensor-v3` has exact ties in 12 of 816 decisions (1.5 %), and ..."
[[nodiscard]] std::string ties_sentence(const TiesRecord& record);

// "`alpha-beta` is off by 23.1 % in the median of 2,646 measured times (nine in ten are within
// 61.0 %), ..."
[[nodiscard]] std::string validation_sentence(const ValidationRecord& record);

// "`mlp` on `2x4` takes 1.234 ms under `alpha-beta`, proved optimal: 80.1 % are kernels and 19.9 %
// communication."
[[nodiscard]] std::string solution_sentence(const SolutionRecord& record);

// "`S(0)R->RR` on 8 ranks takes 15.60 us in the median under `dtensor-v3`; its data is right."
[[nodiscard]] std::string simulation_sentence(const SimulationRecord& record);

// "`llama3-8b` on 8 ranks of `h100` (`fsdp=8`) is predicted to run at 6,667 tokens per second and
// GPU: a step takes 2.457 s, 43.2 % of the peak rate in bf16."
[[nodiscard]] std::string step_sentence(const StepRecord& record);

// "`bf16[8192,4096]` on `2x4` goes from `S(0)S(0)` to `RS(0)` in 315.5 us under `dtensor-v3g`: 3
// collectives move 117 MB between devices."
[[nodiscard]] std::string plan_sentence(const PlanRecord& record);

// "`dtensor-v3` to `dtensor-v4`", or "`dtensor-v3` against 3 candidates".
[[nodiscard]] std::string report_title(const ComparisonRecord& record);

// "120 better, 4 worse and 8 equal": verdicts that do not occur are left out; "" without flips.
[[nodiscard]] std::string verdicts_text(const FlipCounts& counts);

// "12 of 30 priced flips and 402 of 816 priced decisions rest on measured groups; no flips and 200
// decisions rest on local work alone; the prices of the others are carried over from other groups
// or sizes".
[[nodiscard]] std::string basis_sentence(const BasisGroup& basis);

// "a", "a and b", "a, b and c".
[[nodiscard]] std::string listed(const std::vector<std::string>& parts);

// `name`, in backticks; a backtick within becomes an apostrophe.
[[nodiscard]] std::string code(std::string_view name);

}  // namespace shardlab::reports
