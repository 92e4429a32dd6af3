// Describes what is wrong with a command line in our own words, because CLI11's messages name
// neither the valid values nor the nearest word.
#pragma once

#include <span>
#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace shardlab {

// One line, without a full stop: `plan: unknown option "--plannr" (did you mean "--planner"?);
// valid: ...`. `words` is the command line without the program's name.
[[nodiscard]] std::string usage_message(const CLI::App& app, const CLI::ParseError& error,
                                        std::span<const std::string> words);

}  // namespace shardlab
