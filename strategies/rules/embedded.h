// The files of this folder that cmake/embed_file.cmake compiles into the program.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

// A file is stored as several strings, since a compiler need not accept a string literal above
// 65,536 characters.
using EmbeddedFile = std::span<const std::string_view>;

[[nodiscard]] EmbeddedFile embedded_op_kinds();
[[nodiscard]] EmbeddedFile embedded_op_schemas();

[[nodiscard]] std::vector<std::string> lines_of(EmbeddedFile file);

}  // namespace shardlab
