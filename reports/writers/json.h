// A comparison as JSON, "shardlab/report/1": what `compare --format json` prints and report.json
// holds.
//
//   {"schema", "summary", "questions": 1204, "baseline", "candidates": [...],
//    "reference": {name, label},
//    "suites": [{"name", "stack", "total_us": {baseline, candidate}, "delta_us", ...}],
//    "stacks": [{"name", "regret": {mean, p50, p99, max, ...}, "kendall_tau",
//                "invariants": {name: {checked, violated, worst}}, "ties", "flips", ...}],
//    "flips": [{"question", "stack", "baseline", "candidate", "baseline_us", "candidate_us",
//               "reference_us": {baseline, candidate, best}, "verdict", "gain_us", ...}],
//    "other_steps": [...], "order_dependent": [...], "curves": [...], "context", "configuration",
//    "timing"}
//
// Regret is a fraction: 0.032 means 3.2 %. `baseline` and `candidate` of a flip are the two
// choices. All flips are listed, in the order of Comparison::flips. A missing number is null, with
// its reason beside it. The keys "programs", "not_measured", "steps", "not_asked" and "provenance"
// are there too if the record says anything about them.
// Tested by tests/unit/reports/json_test.cpp.
#pragma once

#include <string>
#include <string_view>

#include "reports/comparison.h"
#include "reports/records/record.h"

namespace shardlab::reports {

inline constexpr std::string_view kReportSchema = "shardlab/report/1";

[[nodiscard]] std::string write_json(const ComparisonRecord& record, const Comparison& comparison);

}  // namespace shardlab::reports
