#include "reports/flattened_table.h"

#include <algorithm>

#include "costmodel/base/text.h"
#include "reports/number_text.h"
#include "reports/summary.h"

namespace shardlab::reports {

Table flattened_table(const FlattenedMeshes& advice) {
  Table table;
  table.caption = "Flattened meshes that shorten the step under " + advice.stack;
  table.columns = {{"axes", ColumnKind::kName},
                   {"ranks of a group", ColumnKind::kCount},
                   {"saved in each step, us", ColumnKind::kNumber, 2},
                   {"paid for after steps", ColumnKind::kCount},
                   {"at least", ColumnKind::kCount},
                   {"at most", ColumnKind::kCount}};
  const auto steps = [](double number) { return Cell(static_cast<std::int64_t>(number)); };
  for (const FlattenedMesh& one : advice.worth) {
    table.rows.push_back({Cell(join(one.axes, ",")), Cell(one.ranks), Cell(one.saved_us),
                          steps(one.break_even_steps.median), steps(one.break_even_steps.least),
                          steps(one.break_even_steps.most)});
  }
  return table;
}

std::string flattened_sentence(const FlattenedMeshes& advice) {
  const std::string stack = code(advice.stack);
  if (advice.tried == 0) return "The mesh has no more dims to flatten for " + stack + ".";
  if (advice.worth.empty()) {
    return "No flattened mesh shortens the step under " + stack + "; " +
           counted(advice.tried, "was", "were") + " tried.";
  }
  double saved_us = 0.0;
  double steps = 0.0;
  for (const FlattenedMesh& one : advice.worth) {
    saved_us += one.saved_us;
    steps = std::max(steps, one.break_even_steps.median);
  }
  const bool is_one = advice.worth.size() == 1;
  return counted(static_cast<std::int64_t>(advice.worth.size()), "flattened mesh shortens",
                 "flattened meshes shorten") +
         " the step under " + stack + " by " + duration_text(saved_us) + " of " +
         duration_text(advice.step_us) + ", and " +
         (is_one ? "has paid for its process group" : "have paid for their process groups") +
         " after " + counted(static_cast<std::int64_t>(steps), "step", "steps") + ", if " +
         (is_one ? "it" : "each") + " takes " + duration_text(advice.group_seconds.median * 1e6) +
         " to make.";
}

}  // namespace shardlab::reports
