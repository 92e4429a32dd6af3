#include "reports/records/solution_record.h"

#include <cmath>
#include <vector>

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

std::optional<Contradiction> Fields<reports::MemoryOverStep>::contradiction(const Self& memory) {
  for (const std::vector<double>* part :
       {&memory.parameters, &memory.gradients, &memory.optimizer, &memory.activations,
        &memory.gathered, &memory.temporary}) {
    if (part->size() == memory.start_us.size()) continue;
    return Contradiction{"/start_us", "expected one value of each part for each moment"};
  }
  return std::nullopt;
}

namespace reports {

bool SolutionRecord::runs_as_priced() const {
  if (!unexecutable.empty()) return false;
  if (!executed_us || !breakdown) return true;
  const double priced = breakdown->compute_us + breakdown->communication_us;
  return std::abs(*executed_us - priced) <= 1e-9 * *executed_us;
}

SolutionRecord read_solution_record(ResultRecord record, std::string_view file) {
  return read_result<SolutionRecord>(std::move(record), file);
}

}  // namespace reports
}  // namespace shardlab
