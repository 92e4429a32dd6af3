// Reads a whole file. Nothing else opens a file that a user names.
//
//   const std::string text = read_text_file("configs/stacks/dtensor-v3.json");
//
// A file is a regular file, or a pipe that has data: a process substitution of a shell, or
// /dev/stdin. Devices, folders, sockets and pipes without a writer are refused, since reading them
// would never end or yield nothing. A file that is larger than the limit is refused too, before
// memory is taken for it. What gzip has compressed is decompressed (gunzip.h), and the limit holds
// for the size before and after.
// Tested by tests/unit/runner/base/read_file_test.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace shardlab {

inline constexpr std::uint64_t kDefaultInputLimit = 1'000'000'000;  // bytes

// The limit of --max-input. It holds for the whole process, from the next file on.
void set_input_limit(std::uint64_t bytes);

// The bytes of a file, decompressed. Throws ConfigError if the file cannot be read.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path);
// Its first line, without the line break; "" if no line of it is complete. Throws ConfigError as
// above.
[[nodiscard]] std::string read_first_line(const std::filesystem::path& path);
// Whether the regular file at this path is one that was read, under whatever name, since
// forget_read_files(), with which a command begins.
[[nodiscard]] bool was_read(const std::filesystem::path& path);
void forget_read_files();

}  // namespace shardlab
