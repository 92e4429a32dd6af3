#include "reports/records/plan_record.h"

#include "costmodel/base/error.h"
#include "reports/records/result_reader.h"

namespace shardlab {
namespace {

// A range that lies outside of the tensor, or nothing. The pointer is relative to the drawing.
std::optional<Contradiction> range_outside(const reports::PlanDrawing& drawing) {
  for (std::size_t l = 0; l < drawing.layouts.size(); ++l) {
    const auto& devices = drawing.layouts[l].devices;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      for (std::size_t r = 0; r < devices[d].ranges.size(); ++r) {
        const auto& [dim, begin, end] = devices[d].ranges[r];
        const auto fail = [&](const char* key, std::int64_t found, const std::string& valid) {
          return Contradiction{"/layouts/" + std::to_string(l) + "/devices/" + std::to_string(d) +
                                   "/ranges/" + std::to_string(r) + key,
                               "found " + std::to_string(found) + "; valid: " + valid};
        };
        const auto dims = static_cast<std::int64_t>(drawing.shape.size());
        if (dim < 0 || dim >= dims) {
          return fail("/dim", dim, "a dim of the tensor, which has " + std::to_string(dims));
        }
        const std::int64_t extent = drawing.shape[static_cast<std::size_t>(dim)];
        if (end < 0 || end > extent) {
          return fail("/end", end, "at most the extent of the dim, " + std::to_string(extent));
        }
        if (begin < 0 || begin > end) {
          return fail("/begin", begin, "from 0 to the end of the range, " + std::to_string(end));
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace

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
  if (drawing.layouts.size() == drawing.moves.size() + 1) return range_outside(drawing);
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
