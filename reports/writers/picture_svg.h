// Draws pictures as SVG for the HTML report.
//
//   timeline_svg(timeline)       <svg class="lanes" ...>...</svg>
//   timeline_legend(timeline)    <ul class="legend">...</ul>
//
// Text keeps its size at every width: what depends on time has its place in percent of the picture,
// and all else in pixels. A name is written onto a bar only if it fits at the smallest width at
// which the page shows the picture (page.css); every bar says its name and its times in a tooltip.
// Colours are classes of page.css, so that they follow light, dark and paper.
#pragma once

#include <string>

#include "reports/picture.h"

namespace shardlab::reports {

// A number as attributes have it: at most two digits after the point, and no separators.
[[nodiscard]] std::string svg_number(double number);

[[nodiscard]] std::string timeline_svg(const Timeline& timeline);
[[nodiscard]] std::string timeline_legend(const Timeline& timeline);

[[nodiscard]] std::string host_svg(const HostPicture& picture);
[[nodiscard]] std::string host_legend(const HostPicture& picture);

[[nodiscard]] std::string area_svg(const AreaPicture& picture);
[[nodiscard]] std::string area_legend(const AreaPicture& picture);

}  // namespace shardlab::reports
