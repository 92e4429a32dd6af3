// Files that cmake/embed_file.cmake compiles into the library, so that one HTML file needs no
// others.
#pragma once

#include <span>
#include <string_view>

namespace shardlab::reports {

// A file is stored as several strings, since a compiler need not accept a string literal above
// 65,536 characters.
using EmbeddedFile = std::span<const std::string_view>;

[[nodiscard]] EmbeddedFile embedded_page_css();
[[nodiscard]] EmbeddedFile embedded_page_js();
[[nodiscard]] EmbeddedFile
embedded_chart_js();  // Chart.js, MIT licence, from Debian's libjs-chart.js

}  // namespace shardlab::reports
