// Files that gzip has compressed, as PyTorch's profiler writes its traces under a name that ends in
// .gz.
//
//   if (is_gzip(bytes)) text = gunzip(bytes, limit);
//
// Source: RFC 1952; the work is zlib's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardlab {

// Whether the bytes begin as every file of gzip does. No text and no JSON does.
[[nodiscard]] bool is_gzip(std::string_view bytes);

// What all members of the file hold, one after the other. Throws GunzipError for bytes that are not
// whole members of gzip, and for more than `limit` bytes of content, before memory is taken for
// them.
[[nodiscard]] std::string gunzip(std::string_view bytes, std::uint64_t limit);

// What is wrong, to follow the name of a file: "is damaged: ...; valid: ...".
struct GunzipError {
  std::string message;
};

}  // namespace shardlab
