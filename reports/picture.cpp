#include "reports/picture.h"

#include <algorithm>
#include <cmath>

#include "reports/document.h"
#include "reports/number_text.h"

namespace shardlab::reports {

double Lane::busy() const {
  double sum = 0.0;
  for (const Bar& bar : bars) {
    if (!bar.waits) sum += bar.busy.value_or(bar.end - bar.start);
  }
  return sum;
}

double Lane::waits() const {
  double sum = 0.0;
  for (const Bar& bar : bars) {
    if (bar.waits) sum += bar.end - bar.start;
  }
  return sum;
}

Table picture_table(const Timeline& timeline) {
  const bool has_titles = std::any_of(timeline.tracks.begin(), timeline.tracks.end(),
                                      [](const Track& track) { return !track.title.empty(); });
  bool has_waits = false;
  for (const Track& track : timeline.tracks) {
    for (const Lane& lane : track.lanes) has_waits = has_waits || lane.waits() > 0.0;
  }
  Table table;
  table.caption = timeline.title;
  if (has_titles) table.columns.push_back({"rank", ColumnKind::kText});
  table.columns.push_back({"stream", ColumnKind::kText});
  table.columns.push_back({"bars", ColumnKind::kCount});
  table.columns.push_back({"busy, " + timeline.unit, ColumnKind::kNumber, 2});
  table.columns.push_back({"busy, %", ColumnKind::kNumber, 1});
  if (has_waits) table.columns.push_back({"waits, " + timeline.unit, ColumnKind::kNumber, 2});
  for (const Track& track : timeline.tracks) {
    for (const Lane& lane : track.lanes) {
      const auto runs = std::count_if(lane.bars.begin(), lane.bars.end(),
                                      [](const Bar& bar) { return !bar.waits; });
      Row row;
      if (has_titles) row.emplace_back(track.title);
      row.emplace_back(lane.name);
      row.emplace_back(static_cast<std::int64_t>(runs));
      row.emplace_back(lane.busy());
      std::optional<double> busy;
      if (timeline.end > 0.0) busy = 100.0 * lane.busy() / timeline.end;
      row.emplace_back(busy);
      if (has_waits) row.emplace_back(lane.waits());
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

Table picture_table(const HostPicture& picture) {
  Table table;
  table.caption = picture.title;
  table.columns = {{"mesh dim", ColumnKind::kText},
                   {"its groups", ColumnKind::kText},
                   {"the first of them", ColumnKind::kText}};
  for (const HostGroup& group : picture.groups) {
    std::string members;
    for (const HostGroup::Member& member : group.members) {
      members +=
          (members.empty() ? "ranks " : ", ") + picture.hosts[member.host].ranks[member.rank].name;
    }
    if (group.goes_on) members += " and more";
    table.rows.push_back({Cell(group.name), Cell(group.note), Cell(members)});
  }
  return table;
}

double AreaPicture::sum_at(std::size_t moment) const {
  double sum = 0.0;
  for (const Part& part : parts) sum += part.bytes[moment];
  return sum;
}

std::size_t AreaPicture::peak() const {
  std::size_t peak = 0;
  for (std::size_t i = 1; i < starts.size(); ++i) {
    if (sum_at(i) > sum_at(peak)) peak = i;
  }
  return peak;
}

Table picture_table(const AreaPicture& picture) {
  Table table;
  table.caption = picture.title;
  table.columns = {{"part", ColumnKind::kText},
                   {"when the step begins", ColumnKind::kBytes},
                   {"at the peak", ColumnKind::kBytes},
                   {"when the step ends", ColumnKind::kBytes}};
  if (picture.starts.empty()) return table;
  const std::size_t peak = picture.peak();
  const std::size_t last = picture.starts.size() - 1;
  for (const AreaPicture::Part& part : picture.parts) {
    table.rows.push_back(
        {Cell(part.name), Cell(part.bytes[0]), Cell(part.bytes[peak]), Cell(part.bytes[last])});
  }
  table.rows.push_back({Cell("all"), Cell(picture.sum_at(0)), Cell(picture.sum_at(peak)),
                        Cell(picture.sum_at(last))});
  return table;
}

Table picture_table(const LayoutPicture& picture) {
  Table table;
  table.caption = picture.title;
  table.columns = {{"after", ColumnKind::kText},
                   {"layout", ColumnKind::kName},
                   {"part", ColumnKind::kText},
                   {"values", ColumnKind::kText},
                   {"ranks", ColumnKind::kText}};
  for (std::size_t s = 0; s < picture.stages.size(); ++s) {
    const LayoutStage& stage = picture.stages[s];
    // Each tile, and the ranks that hold it.
    std::vector<std::pair<const HeldTile*, std::string>> parts;
    for (const HeldTile& tile : stage.tiles) {
      const auto same = std::find_if(parts.begin(), parts.end(), [&](const auto& each) {
        return each.first->part == tile.part && each.first->partial == tile.partial;
      });
      if (same == parts.end()) {
        parts.emplace_back(&tile, tile.name);
      } else {
        same->second += ", " + tile.name;
      }
    }
    const std::string after =
        s == 0 ? "before" : "step " + std::to_string(s) + ", " + picture.moves[s - 1].name;
    for (const auto& [tile, ranks] : parts) {
      table.rows.push_back({Cell(after), Cell(stage.name), Cell(tile->part),
                            Cell(tile->partial.empty() ? "final" : tile->partial), Cell(ranks)});
    }
  }
  return table;
}

std::vector<double> axis_marks(double end, int most) {
  std::vector<double> marks = {0.0};
  if (!(end > 0.0) || !std::isfinite(end) || most < 1) return marks;
  const double wanted = end / most;
  double step = std::pow(10.0, std::floor(std::log10(wanted)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (factor * step >= wanted * (1.0 - 1e-9)) {
      step *= factor;
      break;
    }
  }
  for (int i = 1; i * step <= end * (1.0 + 1e-9); ++i) marks.push_back(i * step);
  return marks;
}

std::string axis_text(double mark, double step) {
  const int digits = step > 0.0 ? static_cast<int>(std::ceil(-std::log10(step) - 1e-9)) : 0;
  return fixed(mark, std::clamp(digits, 0, 9));
}

}  // namespace shardlab::reports
