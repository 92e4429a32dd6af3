// Writes a whole file.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

namespace shardlab {

// Throws EnvironmentError if the file can't be written.
void write_file(const std::filesystem::path& path, std::string_view text);
// Writes what `write` puts into the stream, for content that is too long to hold in memory.
void write_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

// ": No such file or directory" for ENOENT, "" for 0.
[[nodiscard]] std::string reason_text(int error_number);

}  // namespace shardlab
