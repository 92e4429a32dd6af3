// JSON files, read strictly: what JSON forbids, and what it leaves open (a key that stands twice,
// nesting without end), is an error with its line and column or its pointer.
//
//   nlohmann::json json = read_json_file("configs/stacks/dtensor-v3.json");
//   nlohmann::json args = parse_json("[1,false]", "--args");
//
// Throws ConfigError.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace shardlab {

inline constexpr int kMaxJsonDepth = 64;

// The bytes of a file. Throws ConfigError for a file that cannot be read.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path);
// The value in a file. Throws ConfigError for a file that cannot be read, and as parse_json does.
[[nodiscard]] nlohmann::json read_json_file(const std::filesystem::path& path);
// The value of a text that came from `name`. Throws ConfigError for JSON that is broken (with line
// and column), a number that no double holds, a key that stands twice in its object, and more than
// kMaxJsonDepth levels.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& name);
// The value of a text; empty if the text is not JSON.
[[nodiscard]] std::optional<nlohmann::json> try_parse_json(std::string_view text);

}  // namespace shardlab
