// What a command line got wrong, in our own words: CLI11's messages name neither the valid values
// nor the nearest word.
#pragma once

#include <span>
#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace shardlab {

// One line, without a full stop: `plan: unknown option "--plannr" (did you mean "--planner"?);
// valid: ...`. `words`: the command line after the program's name.
[[nodiscard]] std::string usage_message(const CLI::App& app, const CLI::ParseError& error,
                                        std::span<const std::string> words);

}  // namespace shardlab
