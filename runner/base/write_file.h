// Writes a whole file.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

namespace shardlab {

// Throws EnvironmentError.
void write_file(const std::filesystem::path& path, std::string_view text);
// Writes what `write` puts into the stream, for texts that are too long to hold in memory.
void write_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

// The text ": No such file or directory" for ENOENT, and "" for 0.
[[nodiscard]] std::string reason_text(int error_number);

}  // namespace shardlab
