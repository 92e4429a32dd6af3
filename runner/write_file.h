// Writes a whole file.
#pragma once

#include <filesystem>
#include <string_view>

namespace shardlab {

// Throws EnvironmentError.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace shardlab
