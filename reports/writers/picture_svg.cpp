#include "reports/writers/picture_svg.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reports/number_text.h"
#include "reports/writers/html.h"
#include "reports/writers/inline_text.h"

namespace shardlab::reports {
namespace {

// The smallest width of a timeline, as page.css has it, and of one letter of 12 pixels.
constexpr double kLeastWidth = 704.0;
constexpr double kLetter = 6.6;

std::string percent_of(double part, double all) {
  return svg_number(all > 0.0 ? 100.0 * part / all : 0.0) + "%";
}

std::string series_class(std::size_t series) { return "series-" + std::to_string(series % 8 + 1); }

// x and y are attributes with their units: "12.5%", "40".
std::string text_at(const std::string& x, double y, const std::string& text,
                    const std::string& more = "") {
  return "<text x=\"" + x + "\" y=\"" + svg_number(y) + "\"" + more + ">" + html_escape(text) +
         "</text>\n";
}

std::string swatch(const std::string& classes, const std::string& text) {
  return "<li><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"" + classes +
         "\" width=\"12\" height=\"12\"/></svg> " + text + "</li>";
}

// ---- timelines

constexpr double kTitle = 26.0;  // height of a track's title, in pixels
constexpr double kLabel = 18.0;  // height of a lane's label
constexpr double kBar = 22.0;
constexpr double kGap = 10.0;
constexpr double kAxis = 24.0;
constexpr int kMarks = 7;

std::string span_text(const Timeline& timeline, const Bar& bar) {
  return fixed(bar.start, 2) + " to " + fixed(bar.end, 2) + " " + timeline.unit;
}

std::string bar_svg(const Timeline& timeline, const Bar& bar, double y) {
  const double share = timeline.end > 0.0 ? (bar.end - bar.start) / timeline.end : 0.0;
  const std::string name = bar.waits ? "waits for " + bar.name : bar.name;
  // A bar that is hardly there is still one tenth of a percent wide.
  std::string html = "<svg x=\"" + percent_of(bar.start, timeline.end) + "\" y=\"" + svg_number(y) +
                     "\" width=\"" + svg_number(std::max(0.1, 100.0 * share)) + "%\" height=\"" +
                     svg_number(kBar) + "\"><title>" + html_escape(name) + ", " +
                     html_escape(span_text(timeline, bar)) + "</title><rect class=\"" +
                     series_class(bar.series) + (bar.waits ? " waits" : "") +
                     "\" width=\"100%\" height=\"100%\"/>";
  const double room = share * kLeastWidth - 8.0;
  // The name in full or, if it has several words, the first of them.
  for (const std::string& text : {name, name.substr(0, name.find(' '))}) {
    if (static_cast<double>(text.size()) * kLetter > room) continue;
    html += "<text class=\"" + std::string(bar.waits ? "on-wait" : "on-bar") +
            "\" x=\"50%\" y=\"15\" text-anchor=\"middle\">" + html_escape(text) + "</text>";
    break;
  }
  return html + "</svg>\n";
}

// The marks of the axis of time in one lane, below its bars.
std::string marks_svg(const Timeline& timeline, double y) {
  std::string html;
  for (const double mark : axis_marks(timeline.end, kMarks)) {
    const std::string x = percent_of(mark, timeline.end);
    html += "<line class=\"mark\" x1=\"" + x + "\" x2=\"" + x + "\" y1=\"" + svg_number(y) +
            "\" y2=\"" + svg_number(y + kBar + 4) + "\"/>";
  }
  return html + "\n";
}

std::string axis_svg(const Timeline& timeline, double y) {
  const std::vector<double> marks = axis_marks(timeline.end, kMarks);
  const double step = marks.size() > 1 ? marks[1] : 0.0;
  std::string html;
  for (const double mark : marks) {
    const double share = timeline.end > 0.0 ? mark / timeline.end : 0.0;
    const char* anchor = share < 0.04 ? "start" : share > 0.94 ? "end" : "middle";
    html += text_at(percent_of(mark, timeline.end), y, axis_text(mark, step) + " " + timeline.unit,
                    std::string(" text-anchor=\"") + anchor + "\"");
  }
  return html;
}

// ---- hosts

constexpr double kTile = 36.0;
constexpr double kTileGap = 3.0;
constexpr double kPad = 8.0;
constexpr double kHostTitle = 22.0;
constexpr double kGroupLine = 9.0;
constexpr std::size_t kRanksPerRow = 8;

struct HostPlaces {
  double width = 0.0, height = 0.0;  // size of the whole picture
  std::vector<double> top;           // by host
  double box_width = 0.0;
  double row_height = 0.0;  // height of a row of ranks, with the lines below it

  [[nodiscard]] double x(std::size_t rank) const {
    return kPad + static_cast<double>(rank % kRanksPerRow) * (kTile + kTileGap);
  }
  [[nodiscard]] double y(std::size_t host, std::size_t rank) const {
    const std::size_t row = rank / kRanksPerRow;
    return top[host] + kHostTitle + static_cast<double>(row) * row_height;
  }
};

HostPlaces places_of(const HostPicture& picture) {
  HostPlaces places;
  std::size_t most = 1;
  for (const HostBox& host : picture.hosts) most = std::max(most, host.ranks.size());
  const auto columns = static_cast<double>(std::min(most, kRanksPerRow));
  places.box_width = 2 * kPad + columns * (kTile + kTileGap) - kTileGap;
  places.width = places.box_width + 2;
  places.row_height = kTile + 6 + kGroupLine * static_cast<double>(picture.groups.size());
  double y = 1;
  for (const HostBox& host : picture.hosts) {
    places.top.push_back(y);
    const std::size_t rows = (std::max<std::size_t>(host.ranks.size(), 1) - 1) / kRanksPerRow + 1;
    y += kHostTitle + static_cast<double>(rows) * places.row_height + 4 + 12;
  }
  places.height = y - 10 + (picture.more.empty() ? 0 : 22);
  return places;
}

// A line below the ranks of a group, with a dot for each of them: along a row of ranks, and down to
// the next row or host at the left of the first member there.
std::string group_svg(const HostPicture& picture, const HostPlaces& places, std::size_t index) {
  const HostGroup& group = picture.groups[index];
  const std::string colour = series_class(index);
  const double below = kTile + 6 + kGroupLine * static_cast<double>(index);
  const auto x_of = [&](const HostGroup::Member& member) {
    return places.x(member.rank) + kTile / 2;
  };
  const auto y_of = [&](const HostGroup::Member& member) {
    return places.y(member.host, member.rank) + below;
  };
  std::string path;
  std::string dots;
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    const HostGroup::Member& member = group.members[i];
    const double x = x_of(member);
    const double y = y_of(member);
    dots += "<circle class=\"" + colour + "\" cx=\"" + svg_number(x) + "\" cy=\"" + svg_number(y) +
            "\" r=\"3.2\"/>";
    if (i == 0) {
      path = "M" + svg_number(x) + " " + svg_number(y);
    } else if (y_of(group.members[i - 1]) == y) {
      path += "H" + svg_number(x);
    } else {
      // Down between two columns of ranks, so that no rank is crossed.
      const double lane = places.x(member.rank) - kTileGap / 2 - 1;
      path += "H" + svg_number(lane) + "V" + svg_number(y) + "H" + svg_number(x);
    }
  }
  if (group.goes_on && !group.members.empty()) {
    const HostGroup::Member& last = group.members.back();
    path += "H" + svg_number(places.x(last.rank) - kTileGap / 2 - 1) + "V" +
            svg_number(places.height - 20);
  }
  return "<path class=\"group " + colour + "\" d=\"" + path + "\"/>" + dots + "\n";
}

// ---- areas

constexpr double kPeakLabel = 22.0;  // room for the label of the peak above the areas, in pixels
constexpr double kAreaHeight = 220.0;
// Extent of the shapes in both directions; they are stretched to fit.
constexpr double kAreaScale = 1000.0;
constexpr int kByteMarks = 5;

// The top of a stack of bytes and the marks of its axis, which begins at 0. The top is the first
// mark that the peak does not exceed.
struct ByteAxis {
  std::vector<double> marks;
  double top = 1.0;
};
ByteAxis byte_axis(double peak) {
  ByteAxis axis{axis_marks(peak, kByteMarks), 1.0};
  const double step = axis.marks.size() > 1 ? axis.marks[1] : 1.0;
  if (axis.marks.back() < peak * (1.0 - 1e-9)) axis.marks.push_back(axis.marks.back() + step);
  axis.top = std::max(axis.marks.back(), 1.0);
  return axis;
}

// The outline between two heights of a stack, in units of kAreaScale.
std::string area_path(const AreaPicture& picture, const std::vector<double>& low,
                      const std::vector<double>& high, double top) {
  const auto x = [&](double at) {
    return svg_number(picture.end > 0.0 ? at / picture.end * kAreaScale : 0.0);
  };
  const auto y = [&](double bytes) { return svg_number(kAreaScale * (1.0 - bytes / top)); };
  const std::size_t moments = picture.starts.size();
  const auto until = [&](std::size_t i) {
    return i + 1 < moments ? picture.starts[i + 1] : picture.end;
  };
  std::string path = "M" + x(picture.starts[0]) + " " + y(high[0]);
  for (std::size_t i = 0; i < moments; ++i) path += "V" + y(high[i]) + "H" + x(until(i));
  for (std::size_t i = moments; i-- > 0;) path += "V" + y(low[i]) + "H" + x(picture.starts[i]);
  return path + "Z";
}

}  // namespace

std::string svg_number(double number) {
  std::string text = fixed(number, 2);
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string timeline_svg(const Timeline& timeline) {
  std::string html;
  double y = 0.0;
  double last_bar = 0.0;
  for (const Track& track : timeline.tracks) {
    if (!track.title.empty()) {
      html += text_at("0", y + kTitle - 9, plain_text(track.title), " class=\"track\"");
      y += kTitle;
    }
    for (const Lane& lane : track.lanes) {
      html += text_at("0", y + kLabel - 5, lane.name) +
              text_at("100%", y + kLabel - 5,
                      "busy " + percent(timeline.end > 0.0 ? lane.busy() / timeline.end : 0.0),
                      " text-anchor=\"end\"");
      y += kLabel;
      html += "<rect class=\"lane\" y=\"" + svg_number(y) + "\" width=\"100%\" height=\"" +
              svg_number(kBar) + "\"/>" + marks_svg(timeline, y);
      for (const Bar& bar : lane.bars) html += bar_svg(timeline, bar, y);
      y += kBar;
      last_bar = y;
      y += kGap;
    }
  }
  return "<svg class=\"lanes\" width=\"100%\" height=\"" + svg_number(last_bar + kAxis) +
         "\" role=\"img\" aria-label=\"" + html_escape(plain_text(timeline.title)) + "\">\n" +
         html + axis_svg(timeline, last_bar + 19) + "</svg>";
}

std::string timeline_legend(const Timeline& timeline) {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t s = 0; s < timeline.series.size(); ++s) {
    html += swatch(series_class(s), html_escape(timeline.series[s]));
  }
  const bool has_waits =
      std::any_of(timeline.tracks.begin(), timeline.tracks.end(), [](const Track& track) {
        return std::any_of(track.lanes.begin(), track.lanes.end(),
                           [](const Lane& lane) { return lane.waits() > 0.0; });
      });
  if (has_waits) html += swatch("series-8 waits", "waiting");
  return html + "</ul>";
}

std::string host_svg(const HostPicture& picture) {
  const HostPlaces places = places_of(picture);
  std::string html = "<svg class=\"mesh\" width=\"" + svg_number(places.width) + "\" height=\"" +
                     svg_number(places.height) + "\" role=\"img\" aria-label=\"" +
                     html_escape(plain_text(picture.title)) + "\">\n";
  for (std::size_t h = 0; h < picture.hosts.size(); ++h) {
    const HostBox& host = picture.hosts[h];
    const std::size_t rows = (std::max<std::size_t>(host.ranks.size(), 1) - 1) / kRanksPerRow + 1;
    html += "<rect class=\"host\" x=\"1\" y=\"" + svg_number(places.top[h]) + "\" width=\"" +
            svg_number(places.box_width) + "\" height=\"" +
            svg_number(kHostTitle + static_cast<double>(rows) * places.row_height + 4) +
            "\" rx=\"6\"/>" + text_at(svg_number(kPad), places.top[h] + kHostTitle - 7, host.title);
    for (std::size_t r = 0; r < host.ranks.size(); ++r) {
      const double x = places.x(r);
      const double y = places.y(h, r);
      html += "<rect class=\"tile\" x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) +
              "\" width=\"" + svg_number(kTile) + "\" height=\"" + svg_number(kTile) +
              "\" rx=\"4\"/>" +
              text_at(svg_number(x + kTile / 2), y + (host.ranks[r].note.empty() ? 23 : 16),
                      host.ranks[r].name, " class=\"name\" text-anchor=\"middle\"");
      if (host.ranks[r].note.empty()) continue;
      html += text_at(svg_number(x + kTile / 2), y + 29, host.ranks[r].note,
                      " class=\"small\" text-anchor=\"middle\"");
    }
  }
  for (std::size_t g = 0; g < picture.groups.size(); ++g) html += group_svg(picture, places, g);
  if (!picture.more.empty()) {
    html += text_at(svg_number(kPad), places.height - 6, picture.more);
  }
  return html + "</svg>";
}

std::string host_legend(const HostPicture& picture) {
  std::string html = "<ul class=\"legend lines\">";
  for (std::size_t g = 0; g < picture.groups.size(); ++g) {
    html += "<li><svg width=\"24\" height=\"12\" aria-hidden=\"true\"><path class=\"group " +
            series_class(g) + "\" d=\"M4 6H20\"/><circle class=\"" + series_class(g) +
            "\" cx=\"4\" cy=\"6\" r=\"3.2\"/><circle class=\"" + series_class(g) +
            "\" cx=\"20\" cy=\"6\" r=\"3.2\"/></svg> <strong>" +
            html_escape(picture.groups[g].name) +
            "</strong>: " + html_escape(picture.groups[g].note) + "</li>";
  }
  return html + "</ul>";
}

std::string area_svg(const AreaPicture& picture) {
  const double height = kPeakLabel + kAreaHeight + kAxis;
  std::string html = "<svg class=\"bytes\" width=\"100%\" height=\"" + svg_number(height) +
                     "\" role=\"img\" aria-label=\"" + html_escape(plain_text(picture.title)) +
                     "\">\n";
  if (picture.starts.empty()) return html + "</svg>";
  const std::size_t peak = picture.peak();
  const double most = picture.sum_at(peak);
  const ByteAxis axis = byte_axis(most);
  html += "<svg y=\"" + svg_number(kPeakLabel) + "\" width=\"100%\" height=\"" +
          svg_number(kAreaHeight) + "\" viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\">\n";
  std::vector<double> low(picture.starts.size(), 0.0);
  for (std::size_t p = 0; p < picture.parts.size(); ++p) {
    const AreaPicture::Part& part = picture.parts[p];
    std::vector<double> high = low;
    for (std::size_t i = 0; i < high.size(); ++i) high[i] += part.bytes[i];
    html += "<path class=\"area " + series_class(p) + "\" d=\"" +
            area_path(picture, low, high, axis.top) + "\"><title>" + html_escape(part.name) +
            "</title></path>\n";
    low = std::move(high);
  }
  html += "</svg>\n";
  const auto y_of = [&](double bytes) {
    return kPeakLabel + kAreaHeight * (1.0 - bytes / axis.top);
  };
  for (const double mark : axis.marks) {
    html += "<line class=\"mark\" x1=\"0\" x2=\"100%\" y1=\"" + svg_number(y_of(mark)) +
            "\" y2=\"" + svg_number(y_of(mark)) + "\"/>";
  }
  const double share = picture.end > 0.0 ? picture.starts[peak] / picture.end : 0.0;
  const std::string x = svg_number(100.0 * share) + "%";
  const char* anchor = share < 0.2 ? "start" : share > 0.8 ? "end" : "middle";
  html += "\n<line class=\"peak\" x1=\"" + x + "\" x2=\"" + x + "\" y1=\"" +
          svg_number(kPeakLabel - 6) + "\" y2=\"" + svg_number(y_of(most)) +
          "\"/><circle class=\"peak\" cx=\"" + x + "\" cy=\"" + svg_number(y_of(most)) +
          "\" r=\"4\"/>" +
          text_at(x, kPeakLabel - 9, "peak: " + bytes_text(most),
                  " class=\"name\" text-anchor=\"" + std::string(anchor) + "\"");
  const std::vector<double> times = axis_marks(picture.end, 5);
  const double step = times.size() > 1 ? times[1] : 0.0;
  for (const double mark : times) {
    const double at = picture.end > 0.0 ? mark / picture.end : 0.0;
    html += text_at(percent_of(mark, picture.end), height - 6,
                    axis_text(mark, step) + " " + picture.unit,
                    std::string(" text-anchor=\"") +
                        (at < 0.08   ? "start"
                         : at > 0.92 ? "end"
                                     : "middle") +
                        "\"");
  }
  return html + "</svg>";
}

std::string area_legend(const AreaPicture& picture) {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t p = 0; p < picture.parts.size(); ++p) {
    html += swatch(series_class(p), html_escape(picture.parts[p].name));
  }
  if (picture.starts.empty()) return html + "</ul>";
  const ByteAxis axis = byte_axis(picture.sum_at(picture.peak()));
  const double step = axis.marks.size() > 1 ? axis.marks[1] : axis.top;
  return html + "<li>one line for each " + bytes_text(step) + ", the lowest at 0</li></ul>";
}

}  // namespace shardlab::reports
