#include "reports/writers/layouts_html.h"

#include <algorithm>

#include "reports/writers/html.h"
#include "reports/writers/picture_svg.h"

namespace shardlab::reports {
namespace layouts_writer {

// In pixels.
constexpr double kLeastWidth = 44.0;  // least width of a tile
constexpr double kLetter = 5.9;       // width of a letter of a label
constexpr double kTileGap = 6.0;
constexpr double kMargin = 4.0;
constexpr double kFrame = 2.5;    // how far a frame lies around its tiles
constexpr double kBoxTop = 15.0;  // top of the box that stands for the tensor, below the rank
constexpr double kBoxLeft = 5.0;
constexpr double kBoxWidth = kLeastWidth - 2 * kBoxLeft;
constexpr double kBoxHeight = 28.0;
constexpr double kLine = 13.0;  // height of a line of text below the box
constexpr double kStripe = 4.0;

std::string rect(const std::string& classes, double x, double y, double width, double height,
                 const std::string& more = "") {
  return "<rect class=\"" + classes + "\" x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) +
         "\" width=\"" + svg_number(width) + "\" height=\"" + svg_number(height) + "\"" + more +
         "/>";
}

std::string text_at(double x, double y, const std::string& classes, const std::string& text) {
  return "<text class=\"" + classes + "\" x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) +
         "\" text-anchor=\"middle\">" + html_escape(text) + "</text>";
}

struct Grid {
  std::size_t rows = 1, columns = 1;
  double tile_width = kLeastWidth, tile_height = 0.0;

  [[nodiscard]] double x(std::size_t column) const {
    return kMargin + static_cast<double>(column) * (tile_width + kTileGap);
  }
  [[nodiscard]] double y(std::size_t row) const {
    return kMargin + static_cast<double>(row) * (tile_height + kTileGap);
  }
};

std::string tile_svg(const HeldTile& tile, double x, double y, const Grid& grid) {
  const std::string colour = "series-" + std::to_string(tile.series % 8 + 1);
  const double middle = x + grid.tile_width / 2;
  const double left = middle - kBoxWidth / 2;
  const double top = y + kBoxTop;
  std::string svg = "<g><title>" +
                    html_escape("rank " + tile.name + " holds " + tile.part +
                                (tile.partial.empty() ? "" : ", " + tile.partial)) +
                    "</title>" +
                    rect("tile", x, y, grid.tile_width, grid.tile_height, " rx=\"4\"") +
                    text_at(middle, y + 11.5, "name", tile.name) +
                    rect("tensor", left, top, kBoxWidth, kBoxHeight);
  for (const HeldTile::Area& area : tile.areas) {
    // A part that is hardly there is still a pixel wide.
    const double width = std::max(1.0, area.width * kBoxWidth);
    const double high = std::max(1.0, area.height * kBoxHeight);
    const double at_x = left + std::min(area.left * kBoxWidth, kBoxWidth - width);
    const double at_y = top + std::min(area.top * kBoxHeight, kBoxHeight - high);
    svg +=
        rect(colour + (tile.partial.empty() ? " held" : " held partial"), at_x, at_y, width, high);
    if (tile.partial.empty()) continue;
    std::string stripes;
    for (double line = at_y + kStripe / 2; line < at_y + high; line += kStripe) {
      stripes += "M" + svg_number(at_x) + " " + svg_number(line) + "H" + svg_number(at_x + width);
    }
    svg += "<path class=\"stripes " + colour + "\" d=\"" + stripes + "\"/>";
  }
  double line = top + kBoxHeight + 11.5;
  svg += text_at(middle, line, "small", tile.part);
  if (!tile.partial.empty()) {
    line += kLine;
    svg += text_at(middle, line, "small", tile.partial);
  }
  return svg + "</g>\n";
}

// Around the tiles from one row and column to another one.
std::string frame_svg(const Grid& grid, std::size_t row, std::size_t column, std::size_t last_row,
                      std::size_t last_column) {
  const double x = grid.x(column) - kFrame;
  const double y = grid.y(row) - kFrame;
  return rect("frame", x, y, grid.x(last_column) + grid.tile_width + kFrame - x,
              grid.y(last_row) + grid.tile_height + kFrame - y, " rx=\"6\"");
}

std::string frames_svg(const LayoutStage& stage, const Grid& grid) {
  std::string svg;
  switch (stage.joined) {
    case TileGroups::kNone:
      break;
    case TileGroups::kRows:
      for (std::size_t r = 0; r < grid.rows; ++r) svg += frame_svg(grid, r, 0, r, grid.columns - 1);
      break;
    case TileGroups::kColumns:
      for (std::size_t c = 0; c < grid.columns; ++c) svg += frame_svg(grid, 0, c, grid.rows - 1, c);
      break;
    case TileGroups::kAll:
      svg += frame_svg(grid, 0, 0, grid.rows - 1, grid.columns - 1);
      break;
  }
  return svg.empty() ? svg : svg + "\n";
}

std::string stage_html(const LayoutStage& stage, std::size_t columns, double tile_width) {
  Grid grid;
  grid.columns = std::max<std::size_t>(columns, 1);
  grid.rows = std::max<std::size_t>(stage.tiles.size() / grid.columns, 1);
  grid.tile_width = tile_width;
  const bool is_partial = std::any_of(stage.tiles.begin(), stage.tiles.end(),
                                      [](const HeldTile& tile) { return !tile.partial.empty(); });
  grid.tile_height = kBoxTop + kBoxHeight + kLine + 3.0 + (is_partial ? kLine : 0.0);
  const double width = grid.x(grid.columns) - kTileGap + kMargin;
  const double height = grid.y(grid.rows) - kTileGap + kMargin;
  std::string html = "<div class=\"stage\"><p class=\"layout\"><code>" + html_escape(stage.name) +
                     "</code></p><p>" + html_escape(stage.note) + "</p><svg width=\"" +
                     svg_number(width) + "\" height=\"" + svg_number(height) +
                     "\" role=\"img\" aria-label=\"" + html_escape(stage.name + ": " + stage.note) +
                     "\">\n" + frames_svg(stage, grid);
  for (std::size_t i = 0; i < stage.tiles.size(); ++i) {
    html += tile_svg(stage.tiles[i], grid.x(i % grid.columns), grid.y(i / grid.columns), grid);
  }
  html += "</svg>";
  for (const auto& [label, slice] : stage.parts) {
    html += "<p>" + html_escape(label) + " is <code>" + html_escape(slice) + "</code></p>";
  }
  return html + "</div>\n";
}

std::string move_html(const LayoutMove& move) {
  std::string html =
      "<div class=\"move\"><svg class=\"arrow\" width=\"56\" height=\"14\" aria-hidden=\"true\">"
      "<path d=\"M2 7H48M42 1.5L50 7L42 12.5\"/></svg><p><strong>" +
      html_escape(move.name) + "</strong></p>";
  for (const std::string& note : move.notes) html += "<p>" + html_escape(note) + "</p>";
  return html + "</div>\n";
}

// All tiles of a picture are as wide as the longest label needs.
double tile_width_of(const LayoutPicture& picture) {
  std::size_t letters = 0;
  for (const LayoutStage& stage : picture.stages) {
    for (const HeldTile& tile : stage.tiles) {
      letters = std::max({letters, tile.name.size(), tile.part.size(), tile.partial.size()});
    }
  }
  return std::max(kLeastWidth, 6.0 + kLetter * static_cast<double>(letters));
}

}  // namespace layouts_writer

std::string layouts_html(const LayoutPicture& picture) {
  using namespace layouts_writer;
  const double width = tile_width_of(picture);
  std::string html = "<div class=\"stages\">\n";
  for (std::size_t s = 0; s < picture.stages.size(); ++s) {
    if (s > 0 && s <= picture.moves.size()) html += move_html(picture.moves[s - 1]);
    html += stage_html(picture.stages[s], picture.columns, width);
  }
  return html + "</div>";
}

}  // namespace shardlab::reports
