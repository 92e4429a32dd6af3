// Which device holds which part of a tensor before, between and after the steps of a plan.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace planned_layouts_section {

using namespace reports;

constexpr std::size_t kWholeSeries = 7;  // page.css draws this series in a quiet colour
// How many parts are listed below a grid. If there are more, the first two and the last are listed.
constexpr std::size_t kMostParts = 4;
constexpr std::size_t kMostRanks = 4;  // how many ranks of the first group a note lists

// The two tensor dims that a box shows, from top to bottom and from left to right: those that are
// cut in some layout come first.
struct BoxDims {
  std::optional<std::int64_t> down, across;
  std::size_t cut = 0;  // how many tensor dims are cut
};

BoxDims box_dims(const PlanDrawing& drawing) {
  const auto ndim = static_cast<std::int64_t>(drawing.shape.size());
  std::set<std::int64_t> cut;
  for (const HeldLayout& layout : drawing.layouts) {
    for (const HoldingDevice& device : layout.devices) {
      for (const HeldRange& range : device.ranges) {
        if (range.dim < 0 || range.dim >= ndim) continue;
        const std::int64_t extent = drawing.shape[static_cast<std::size_t>(range.dim)];
        if (range.begin > 0 || range.end < extent) cut.insert(range.dim);
      }
    }
  }
  std::vector<std::int64_t> shown(cut.begin(), cut.end());
  for (std::int64_t d = 0; d < ndim; ++d) {
    if (!cut.contains(d)) shown.push_back(d);
  }
  if (shown.size() > 2) shown.resize(2);
  std::sort(shown.begin(), shown.end());
  BoxDims dims;
  dims.cut = cut.size();
  if (!shown.empty()) dims.down = shown.front();
  if (shown.size() > 1) dims.across = shown.back();
  return dims;
}

struct Share {
  double begin = 0.0, size = 1.0;
};

// What the device holds of one tensor dim, in shares of it.
std::vector<Share> shares_of(const HoldingDevice& device, const PlanDrawing& drawing,
                             const std::optional<std::int64_t>& dim) {
  if (!dim) return {Share()};
  const auto extent = static_cast<double>(drawing.shape[static_cast<std::size_t>(*dim)]);
  std::vector<Share> shares;
  for (const HeldRange& range : device.ranges) {
    if (range.dim != *dim || extent <= 0.0) continue;
    shares.push_back({static_cast<double>(range.begin) / extent,
                      static_cast<double>(range.end - range.begin) / extent});
  }
  return shares;
}

HeldTile tile_of(const HoldingDevice& device, const PlanDrawing& drawing, const BoxDims& dims) {
  HeldTile tile;
  tile.name = std::to_string(device.rank);
  // Below its box, a part has its number alone.
  constexpr std::string_view kPart = "part ";
  tile.part = device.label.starts_with(kPart) ? device.label.substr(kPart.size()) : device.label;
  tile.partial = device.partial;
  tile.series =
      device.parts == 1 ? kWholeSeries : static_cast<std::size_t>(device.part) % kWholeSeries;
  if (device.label == "none") return tile;
  for (const Share& down : shares_of(device, drawing, dims.down)) {
    for (const Share& across : shares_of(device, drawing, dims.across)) {
      tile.areas.push_back({across.begin, down.begin, across.size, down.size});
    }
  }
  return tile;
}

LayoutStage stage_of(const HeldLayout& layout, const PlanDrawing& drawing, const BoxDims& dims) {
  LayoutStage stage;
  stage.name = layout.layout;
  stage.note = layout.holds;
  std::vector<std::pair<std::int64_t, std::pair<std::string, std::string>>> parts;
  for (const HoldingDevice& device : layout.devices) {
    stage.tiles.push_back(tile_of(device, drawing, dims));
    if (device.parts > 1 && device.label != "none") {
      parts.emplace_back(device.part, std::pair(device.label, device.slice));
    }
  }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  if (parts.size() > kMostParts) parts.erase(parts.begin() + 2, parts.end() - 1);
  for (auto& part : parts) stage.parts.push_back(std::move(part.second));
  return stage;
}

// "2 groups of 4, the first: ranks 0, 1, 2, 3"
std::string group_text(const PlannedMove& move) {
  std::string text = counted(move.groups, "group", "groups") + " of " + grouped(move.group_size) +
                     (move.groups > 1 ? ", the first: ranks " : ": ranks ");
  for (std::size_t i = 0; i < std::min(move.first_group.size(), kMostRanks); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(move.first_group[i]);
  }
  const bool goes_on = static_cast<std::size_t>(move.group_size) > kMostRanks;
  return text + (goes_on ? " and so on" : "");
}

LayoutMove move_of(const PlannedStep& step, const PlannedMove& move) {
  LayoutMove drawn;
  drawn.name = step.collective;
  drawn.notes = {"along " + move.along};
  if (step.collective == kLocalStep) {
    drawn.notes.emplace_back("nothing is sent");
  } else {
    drawn.notes.push_back(group_text(move));
    if (move.bytes_moved) {
      drawn.notes.push_back(bytes_text(static_cast<double>(*move.bytes_moved)) + " moved");
    }
  }
  if (step.collective == kLocalStep && step.price_us == 0.0) return drawn;
  drawn.notes.push_back(step.price_us ? duration_text(*step.price_us) : "impossible");
  return drawn;
}

TileGroups groups_of(const PlannedStep& step, const PlannedMove& move) {
  if (step.collective == kLocalStep) return TileGroups::kNone;
  if (move.along_row_dim && move.along_column_dim) return TileGroups::kAll;
  if (move.along_row_dim) return TileGroups::kColumns;
  return move.along_column_dim ? TileGroups::kRows : TileGroups::kNone;
}

std::string legend_of(const PlanDrawing& drawing, const BoxDims& dims) {
  const auto has = [&](const auto& is) {
    return std::any_of(drawing.layouts.begin(), drawing.layouts.end(), [&](const HeldLayout& one) {
      return std::any_of(one.devices.begin(), one.devices.end(), is);
    });
  };
  std::string text = "Each square is a device with its rank.";
  if (!drawing.row_name.empty()) {
    text += " Rows of squares go along " + drawing.row_name + ", columns along " +
            drawing.column_name + ".";
  } else if (!drawing.column_name.empty()) {
    text += " The squares go along " + drawing.column_name + ".";
  }
  text += " The box in a square stands for the tensor";
  if (dims.across) {
    text += ", tensor dim " + std::to_string(*dims.down) + " from top to bottom and dim " +
            std::to_string(*dims.across) + " from left to right";
  }
  text +=
      "; what is filled is what the device holds, and devices with the same number below the box "
      "hold the same part.";
  if (dims.cut > 2) text += " Cuts of further tensor dims are not drawn.";
  if (has([](const HoldingDevice& device) { return !device.partial.empty(); })) {
    text +=
        " Stripes are values that are still to be reduced: `sum 2/4` is the second of four "
        "contributions.";
  }
  if (std::any_of(drawing.moves.begin(), drawing.moves.end(), [](const PlannedMove& move) {
        return move.group_size > 1 && (move.along_row_dim || move.along_column_dim);
      })) {
    text += " A dashed frame holds devices that the next collective joins.";
  }
  return text;
}

SectionContent render(const PlanRecord& plan) {
  SectionContent content;
  const PlanDrawing& drawing = plan.drawing;
  if (plan.has_no_plan()) return content;
  const BoxDims dims = box_dims(drawing);
  content.blocks.emplace_back(Paragraph{legend_of(drawing, dims)});
  if (!drawing.left_out.empty()) content.blocks.emplace_back(Paragraph{drawing.left_out});
  LayoutPicture picture;
  picture.id = "layouts";
  picture.title = "What each device holds of " + code(plan.tensor) + ".";
  picture.columns = static_cast<std::size_t>(drawing.columns);
  for (std::size_t i = 0; i < drawing.layouts.size(); ++i) {
    picture.stages.push_back(stage_of(drawing.layouts[i], drawing, dims));
    if (i == drawing.moves.size()) break;
    picture.stages.back().joined = groups_of(plan.steps[i], drawing.moves[i]);
    picture.moves.push_back(move_of(plan.steps[i], drawing.moves[i]));
  }
  content.blocks.emplace_back(std::move(picture));
  const HeldLayout& first = drawing.layouts.front();
  const HeldLayout& last = drawing.layouts.back();
  content.answer = "Before: " + first.holds + " (" + code(first.layout) + ").";
  if (plan.steps.empty()) return content;
  content.answer += " After: " + last.holds + " (" + code(last.layout) + ").";
  return content;
}

}  // namespace planned_layouts_section

REPORT_SECTION(planned_layouts){
    .id = "planned_layouts",
    .title = "Layouts",
    .question = "Which device holds what, before, between and after the steps?",
    .order = 6,
    .render = planned_layouts_section::render,
};

}  // namespace shardlab
