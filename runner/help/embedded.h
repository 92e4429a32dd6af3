// Files of this folder that cmake/embed_file.cmake compiles into the program: what `shardlab
// completion SHELL` prints.
#pragma once

#include <span>
#include <string_view>

namespace shardlab::help {

// A file is stored as several strings, since a compiler need not accept a string literal above
// 65,536 characters.
using EmbeddedFile = std::span<const std::string_view>;

[[nodiscard]] EmbeddedFile embedded_shardlab_bash();
[[nodiscard]] EmbeddedFile embedded_shardlab_fish();
[[nodiscard]] EmbeddedFile embedded_shardlab_zsh();

}  // namespace shardlab::help
