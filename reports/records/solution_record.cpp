#include "reports/records/solution_record.h"

#include "reports/records/result_reader.h"

namespace shardlab {

std::optional<Contradiction> Fields<reports::SolutionRecord>::contradiction(const Self& solution) {
  if (solution.objective_us.has_value() == solution.infeasible.empty() &&
      solution.objective_us.has_value() == solution.breakdown.has_value()) {
    return std::nullopt;
  }
  return Contradiction{
      "/objective_us",
      "expected both objective_us and breakdown_us, or neither and a reason in infeasible"};
}

namespace reports {

SolutionRecord read_solution_record(ResultRecord record, std::string_view file) {
  return read_result<SolutionRecord>(std::move(record), file);
}

}  // namespace reports
}  // namespace shardlab
