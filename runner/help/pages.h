// The pages that lead into the program: what `shardlab` alone prints, and what `shardlab --help`
// does.
//
//   start_page(groups)      three commands to try, all commands by purpose, where to read on
//   program_page(groups)    all commands with an example of each, options of the program, exit
//                           codes
//
// Both follow from the table of commands (runner/command_line.cpp) and from what each command says
// about itself. A command's own help ends with exit_codes_text().
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "runner/session/command.h"

namespace shardlab {

// What a user wants to do with a command.
enum class Purpose : std::uint8_t { kDecision, kComparison, kProgram, kMeasurement, kGuide };
template <>
struct EnumNames<Purpose> {
  static constexpr std::string_view kKind = "purpose of a command";
  static constexpr std::array kNames = {
      Named{Purpose::kDecision, "Look at one decision"},
      Named{Purpose::kComparison, "Compare and check stacks"},
      Named{Purpose::kProgram, "Lay out whole programs, and predict training steps"},
      Named{Purpose::kMeasurement, "Measure, fit prices, and see how far to trust them"},
      Named{Purpose::kGuide, "Find your way"}};
};

struct CommandGroup {
  std::string_view purpose;
  std::vector<CommandInfo> commands;
};

// A command line that a newcomer can run as it stands, and what it shows. It takes seconds at most.
struct Trial {
  std::string_view command;
  std::string_view shows;
};
[[nodiscard]] std::span<const Trial> things_to_try();

[[nodiscard]] std::string start_page(std::span<const CommandGroup> groups);
[[nodiscard]] std::string program_page(std::span<const CommandGroup> groups);
[[nodiscard]] std::string exit_codes_text();

// The first line of a command's help, and the lines with examples that follow, without indent.
[[nodiscard]] std::string summary_of(const CommandInfo& command);
[[nodiscard]] std::vector<std::string> examples_of(const CommandInfo& command);

}  // namespace shardlab
