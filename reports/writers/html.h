// Writes a report as one HTML file that needs nothing else: style, script, data and Chart.js are
// inside, and its content security policy forbids the network. The page works from file://, in
// light and dark mode, on paper and by keyboard; without JavaScript the tables show their first
// rows.
//
// The page stays below the limit: it embeds as many charts and rows of long tables as fit, and says
// how many are missing. If the page is still too long, it is written again with smaller budgets.
// Everything from a record is escaped. Tested by tests/unit/reports/html_test.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "reports/section.h"

namespace shardlab::reports {

inline constexpr std::size_t kHtmlLimit = 5'000'000;  // bytes

[[nodiscard]] std::string write_html(const RenderedReport& report);

// `text` with & < > " ' written as entities and control characters replaced.
[[nodiscard]] std::string html_escape(std::string_view text);

}  // namespace shardlab::reports
