// Pictures: what a section draws to scale, free of any output format. The HTML writer draws them as
// SVG (writers/picture_svg.h, and writers/layouts_html.h for layouts). Markdown writes the tables
// of picture_table(), and layouts as text.
//
//   Timeline     what runs when: a lane for each stream, a bar for each task
//   HostPicture  the ranks of a mesh in boxes of hosts, with the groups of its dims
//   LayoutPicture  which device holds what of a tensor, stage by stage
//   AreaPicture  bytes over time, its parts stacked, with the peak marked
//
// A caption is a sentence. Every axis begins at 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardlab::reports {

struct Table;

// A bar that waits is drawn lighter than one that runs; its name says what it waits for.
struct Bar {
  std::string name;
  double start = 0.0, end = 0.0;
  std::size_t series = 0;  // bars of one series look alike
  bool waits = false;
  // How long tasks run in it, if it stands for several with gaps in between; otherwise all the
  // time.
  std::optional<double> busy = {};
};
struct Lane {
  std::string name;
  std::vector<Bar> bars;  // in the order of time; they do not overlap

  [[nodiscard]] double busy() const;
  [[nodiscard]] double waits() const;
};
// Lanes that belong together, such as the streams of one rank.
struct Track {
  std::string title;  // may be empty
  std::vector<Lane> lanes;
};
struct Timeline {
  std::string id;  // unique in its document
  std::string title;
  std::string unit;  // unit of the bars' ends, such as "ms"
  double end = 0.0;  // the time at which the picture ends; it begins at 0
  std::vector<Track> tracks;
  std::vector<std::string> series;  // what each series is
};

// One rank in its host. The note is a second, quieter line, such as the rank's coordinate.
struct HostRank {
  std::string name;
  std::string note;
};
struct HostBox {
  std::string title;
  std::vector<HostRank> ranks;
};
// A group of ranks that a mesh dim joins, drawn as a line through its members.
struct HostGroup {
  std::string name;  // "dim 1, tp"
  std::string note;  // "4 ranks each, over NVSwitch at 450 GB/s"
  struct Member {
    std::size_t host = 0, rank = 0;  // indices into HostPicture::hosts and HostBox::ranks
  };
  std::vector<Member> members;  // the members of the first group that are drawn
  bool goes_on = false;         // whether it has members that are not drawn
};
struct HostPicture {
  std::string id;
  std::string title;
  std::vector<HostBox> hosts;
  std::string more;  // what is not drawn: "and 126 more hosts like these"; may be empty
  std::vector<HostGroup> groups;
};

// Bytes over time. Each value holds until the next moment, the last until the end.
struct AreaPicture {
  struct Part {
    std::string name;
    std::vector<double> bytes;  // one for each moment
  };
  std::string id;
  std::string title;
  std::string unit;            // unit of time
  double end = 0.0;            // the picture begins at 0
  std::vector<double> starts;  // moments, ascending
  std::vector<Part> parts;     // the first at the bottom

  [[nodiscard]] double sum_at(std::size_t moment) const;
  [[nodiscard]] std::size_t peak()
      const;  // the moment with the largest sum, the first of equal ones
};

// Who holds what of a tensor, on a grid of devices, between the moves that change it. Devices that
// hold the same part look alike; the label says which part it is.
struct HeldTile {
  // What the device holds, in shares of the tensor's box.
  struct Area {
    double left = 0.0, top = 0.0, width = 1.0, height = 1.0;
  };
  std::string name;     // "5", the rank
  std::string part;     // "3", "all" or "none"
  std::string partial;  // "sum 2/4": the areas are striped; empty: the values are final
  std::size_t series = 0;
  std::vector<Area> areas;
};
enum class TileGroups { kNone, kRows, kColumns, kAll };
struct LayoutStage {
  std::string name;  // the layout, set as code
  std::string note;
  std::vector<HeldTile> tiles;            // row by row
  TileGroups joined = TileGroups::kNone;  // which tiles the next move frames together
  // Where parts lie in the tensor: "1/2" and "[0:4096, :]".
  std::vector<std::pair<std::string, std::string>> parts;
};
struct LayoutMove {
  std::string name;
  std::vector<std::string> notes;
};
struct LayoutPicture {
  std::string id;
  std::string title;
  std::size_t columns = 1;
  std::vector<LayoutStage> stages;
  std::vector<LayoutMove> moves;  // one between each two stages
};

// The numbers of a picture, for readers who cannot see it.
[[nodiscard]] Table picture_table(const Timeline& timeline);
[[nodiscard]] Table picture_table(const HostPicture& picture);
[[nodiscard]] Table picture_table(const AreaPicture& picture);
[[nodiscard]] Table picture_table(const LayoutPicture& picture);

// Values at which an axis from 0 to `end` has its marks: up to about `most` of them, at even steps
// of 1, 2 or 5 times a power of ten. The first is 0.
[[nodiscard]] std::vector<double> axis_marks(double end, int most);
// A mark as text, with as many digits as tell marks apart that are `step` apart.
[[nodiscard]] std::string axis_text(double mark, double step);

}  // namespace shardlab::reports
