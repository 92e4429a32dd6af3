// Files built into the library by reports/embed_file.cmake, so that one HTML file is enough
// anywhere.
#pragma once

#include <span>
#include <string_view>

namespace shardlab::reports {

// A file comes in pieces, since a compiler need not accept a string literal above 65,536 characters.
using EmbeddedFile = std::span<const std::string_view>;

[[nodiscard]] EmbeddedFile embedded_page_css();
[[nodiscard]] EmbeddedFile embedded_page_js();
[[nodiscard]] EmbeddedFile
embedded_chart_js();  // Chart.js, MIT licence, from Debian's libjs-chart.js

}  // namespace shardlab::reports
