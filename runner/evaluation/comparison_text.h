// A comparison as `compare` prints it: the sentence that sums it up, its
// tables, and what a reader should know beside them. The sentence and the cells
// are those of the report (reports/summary.h).
//
//   session.print(comparison_text(record, {.shown = arguments.shown},
//   session.style()));
#pragma once

#include <string>

#include "reports/comparison.h"
#include "reports/records/record.h"
#include "runner/base/text_style.h"
#include "strategies/steps/recomputation.h"

namespace shardlab {

struct ComparisonTextOptions {
  reports::ComparisonOptions shown = {};
  // Whether to say after how many choices replicas may differ.
  bool has_replica_gate = false;
  // Whether to say what each flip of a step changes with all that follows from
  // it.
  bool downstream = false;
  Recomputation recomputation = {};  // of the steps
};

// Lines, each with its line break.
[[nodiscard]] std::string comparison_text(const reports::ComparisonRecord& record,
                                          const ComparisonTextOptions& options,
                                          const TextStyle& style);

}  // namespace shardlab
