#include "reports/records/plan_record.h"

#include "costmodel/base/error.h"
#include "reports/records/result_reader.h"

namespace shardlab {

std::optional<Contradiction> Fields<reports::PlanDrawing>::contradiction(
    const reports::PlanDrawing& drawing) {
  constexpr std::int64_t kMost = 64;
  if (drawing.rows > kMost || drawing.columns > kMost) {
    return Contradiction{"/rows", "found a grid of more than " + std::to_string(kMost) +
                                      " rows or columns; valid: a smaller one"};
  }
  const auto cells = static_cast<std::size_t>(drawing.rows * drawing.columns);
  for (std::size_t i = 0; i < drawing.layouts.size(); ++i) {
    if (drawing.layouts[i].devices.size() == cells) continue;
    return Contradiction{"/layouts/" + std::to_string(i) + "/devices",
                         "found " + std::to_string(drawing.layouts[i].devices.size()) +
                             "; valid: as many as rows x columns, " + std::to_string(cells)};
  }
  if (drawing.layouts.size() == drawing.moves.size() + 1) return std::nullopt;
  return Contradiction{"/layouts", "found " + std::to_string(drawing.layouts.size()) +
                                       "; valid: one more than moves, " +
                                       std::to_string(drawing.moves.size() + 1)};
}

namespace reports {

std::int64_t PlanRecord::collectives() const {
  std::int64_t count = 0;
  for (const PlannedStep& step : steps) count += step.collective == kLocalStep ? 0 : 1;
  return count;
}

std::optional<std::int64_t> PlanRecord::bytes_moved() const {
  std::int64_t sum = 0;
  for (const PlannedMove& move : drawing.moves) {
    if (!move.bytes_moved) return std::nullopt;
    sum += *move.bytes_moved;
  }
  return sum;
}

PlanRecord read_plan_record(ResultRecord record, std::string_view file) {
  auto read = read_result<PlanRecord>(std::move(record), file);
  if (read.steps.size() != read.drawing.moves.size()) {
    throw ConfigError(file, "/result/drawing/moves",
                      "found " + std::to_string(read.drawing.moves.size()) +
                          "; valid: one for each step, " + std::to_string(read.steps.size()));
  }
  return read;
}

}  // namespace reports
}  // namespace shardlab
