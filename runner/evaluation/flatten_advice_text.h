// The advice of --advise-flattened in records and in text: which flattened meshes are worth
// registering for a program, and after how many steps each has paid for its process group.
#pragma once

#include <string>
#include <string_view>

#include "reports/records/flattened_meshes.h"
#include "runner/base/text_style.h"
#include "strategies/steps/flatten_advice.h"

namespace shardlab {

inline constexpr std::string_view kAdviseFlattenedHelp =
    "also say which flattened meshes are worth registering: what each saves of a step, and after "
    "how many steps that is more than its process group took to make";

// `stack` is the stack whose plans were merged.
[[nodiscard]] reports::FlattenedMeshes record_of(const FlattenAdvice& advice,
                                                 const std::string& stack);
// Lines that begin with two spaces.
[[nodiscard]] std::string flatten_advice_text(const reports::FlattenedMeshes& advice,
                                              const TextStyle& style);

}  // namespace shardlab
