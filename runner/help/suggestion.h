// What a user may have meant by a command or an option that does not exist.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace shardlab {

// " (did you mean \"compare\"?)" for a valid word of the same meaning ("diff") if there is one,
// otherwise for one with nearly the same spelling ("compar"), or "" where none is near.
[[nodiscard]] std::string suggestion(std::string_view word,
                                     std::span<const std::string_view> valid);

}  // namespace shardlab
