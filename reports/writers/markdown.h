// A report as Markdown (GitHub's dialect), for a pull request comment.
//
// The text stays below the limit whatever the record holds: long tables are cut and say how many
// rows are missing, and if that is not enough, charts and listings are left out. Charts become
// tables of their numbers. Tested by tests/unit/reports/markdown_test.cpp and, word for word, by
// tests/unit/reports/golden_report_test.cpp.
#pragma once

#include <cstddef>
#include <string>

#include "reports/section.h"

namespace shardlab::reports {

inline constexpr std::size_t kMarkdownLimit = 60'000;  // bytes: GitHub takes 65,536 characters
inline constexpr std::size_t kMarkdownSummaryLimit = 4'000;  // bytes

[[nodiscard]] std::string write_markdown(const RenderedReport& report);

// The summary sentence, one row per stack and the first few flips.
[[nodiscard]] std::string write_markdown_summary(const RenderedReport& report);

}  // namespace shardlab::reports
