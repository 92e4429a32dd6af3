// The version of this binary. Only one translation unit reads the generated header, so that a new
// commit recompiles only that unit.
#pragma once

#include <string_view>

namespace shardlab {

[[nodiscard]] std::string_view version();
[[nodiscard]] std::string_view git_commit();
[[nodiscard]] std::string_view compiler();
[[nodiscard]] std::string_view build_type();

}  // namespace shardlab
