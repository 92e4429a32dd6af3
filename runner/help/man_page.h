// Manual pages, from the same table as the help texts: shardlab.1, and shardlab-COMMAND.1 for each
// command.
//
//   write_man_pages(groups, "share/man/man1")
//
// `shardlab __man FOLDER` writes them when the program is installed (cmake/install.cmake). They are
// in man(7)'s language; tests/scripts/man_pages_test.py has mandoc check them.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "runner/help/pages.h"

namespace shardlab {

inline constexpr std::string_view kManWord = "__man";

[[nodiscard]] std::string man_page(const CommandInfo& command);
[[nodiscard]] std::string program_man_page(std::span<const CommandGroup> groups);

// Makes the folder if it is missing. Throws EnvironmentError if that, or writing a page, fails.
void write_man_pages(std::span<const CommandGroup> groups, const std::filesystem::path& folder);

}  // namespace shardlab
