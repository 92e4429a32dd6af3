// A report as one HTML file that needs nothing else: style, script, data and Chart.js are inside,
// and its content security policy forbids the network. Works from file://, in light and dark, on
// paper, by keyboard; without JavaScript the tables show their first rows.
//
// Below the limit: long tables embed as many rows as fit, charts as many as fit, and both say how
// many there are; tried again with less where a record is longer than that foresees. Everything
// from a record is escaped. Tested by tests/unit/reports/html_test.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "reports/section.h"

namespace shardlab::reports {

inline constexpr std::size_t kHtmlLimit = 5'000'000;  // bytes

[[nodiscard]] std::string write_html(const RenderedReport& report);

// `text` with & < > " ' as entities and control characters replaced.
[[nodiscard]] std::string html_escape(std::string_view text);

}  // namespace shardlab::reports
