// Pages that are laid out for a wide terminal, such as help texts, on a narrow one. A line that is
// too long goes on below the start of its last column:
//
//   --set PATH=VALUE ...        a change of the topology, such as
//                               devices_per_host=1, or of the stack
//
//   std::cout << with_hanging_lines(page, terminal_columns());
//
// Command lines stay whole, so that they can be copied. Tested by
// tests/unit/runner/base/hanging_text_test.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardlab {

// The text as it is if `columns` is 0.
[[nodiscard]] std::string with_hanging_lines(std::string_view text, std::size_t columns);

}  // namespace shardlab
