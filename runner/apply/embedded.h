// Files of this folder that cmake/embed_file.cmake compiles into the program: the Python that every
// written file ends with.
#pragma once

#include <span>
#include <string_view>

namespace shardlab::apply {

// A file is stored as several strings, since a compiler need not accept a string literal above
// 65,536 characters.
using EmbeddedFile = std::span<const std::string_view>;

[[nodiscard]] EmbeddedFile embedded_runtime();  // the steps of a plan, and nested arguments
[[nodiscard]] EmbeddedFile embedded_step();  // the autograd function, for programs with a backward
[[nodiscard]] EmbeddedFile embedded_forward_only();  // what stands in its place for all others
[[nodiscard]] EmbeddedFile embedded_apply();         // apply(model, mesh)
[[nodiscard]] EmbeddedFile embedded_lookups();       // lookups in tables whose rows are sharded
[[nodiscard]] EmbeddedFile
embedded_attention();  // CUDA's attention kernels, and what a CPU has instead

}  // namespace shardlab::apply
