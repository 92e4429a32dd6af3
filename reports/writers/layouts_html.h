// Draws who holds what of a tensor for the HTML report: a grid of devices for each stage, and an
// arrow with the collective between two of them.
//
//   layouts_html(picture)    <div class="stages"><div class="stage">...</div><div class="move">...
//
// Each device is a tile with its rank, a box that stands for the tensor, the part of the box that
// it holds, and the name of that part. Values that are still to be reduced are striped, and a frame
// surrounds the devices that the next collective joins, so no difference is one of colour alone.
// The stages flow like words: they share a line where the window is wide enough.
// Tested by tests/unit/reports/picture_test.cpp and tests/browser/pictures_test.py.
#pragma once

#include <string>

#include "reports/picture.h"

namespace shardlab::reports {

[[nodiscard]] std::string layouts_html(const LayoutPicture& picture);

}  // namespace shardlab::reports
