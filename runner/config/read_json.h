// Reads JSON files strictly. What JSON forbids, and what it leaves open (a key that occurs twice,
// nesting without a limit), is an error with its line and column or its pointer.
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

// The JSON value of a file. Throws ConfigError if the file cannot be read, and whatever parse_json
// throws.
[[nodiscard]] nlohmann::json read_json_file(const std::filesystem::path& path);
// The JSON value of a text that came from `name`. Throws ConfigError for broken JSON (with line and
// column), a number too large for a double, a key that occurs twice in its object, and more than
// kMaxJsonDepth levels of nesting.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& name);
// The JSON value of a text; empty if the text is not JSON.
[[nodiscard]] std::optional<nlohmann::json> try_parse_json(std::string_view text);

}  // namespace shardlab
