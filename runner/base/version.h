// The version of this binary. Only one translation unit reads the generated header, so that a new
// commit recompiles only that unit.
#pragma once

#include <string>
#include <string_view>

namespace shardlab {

[[nodiscard]] std::string_view version();
[[nodiscard]] std::string_view git_commit();
[[nodiscard]] std::string_view commit_date();  // "2026-11-23"
[[nodiscard]] std::string_view compiler();
[[nodiscard]] std::string_view build_type();

// What --version prints: "shardlab 0.1.0 (commit 0123456789ab, Release build by GNU 12.2.0)".
[[nodiscard]] std::string version_text();

}  // namespace shardlab
