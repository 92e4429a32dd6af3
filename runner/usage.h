// What a command line got wrong, in our own words: CLI11's name neither the valid values nor the
// nearest word.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

namespace shardlab {

// One line, without a full stop: `plan: unknown option "--plannr" (did you mean "--planner"?);
// valid: ...`. `words`: the command line after the program's name.
[[nodiscard]] std::string usage_message(const CLI::App& app, const CLI::ParseError& error,
                                        std::span<const std::string> words);

}  // namespace shardlab
