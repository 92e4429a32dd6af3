#include "runner/base/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "costmodel/base/error.h"

namespace shardlab {
namespace {

// Bytes of gzip alone, with the largest window (zlib.h, inflateInit2).
constexpr int kGzipWindow = 16 + MAX_WBITS;

class Inflater {
 public:
  Inflater() { SHARDLAB_CHECK(inflateInit2(&stream_, kGzipWindow) == Z_OK); }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  [[nodiscard]] std::string all(std::string_view bytes, std::uint64_t limit) {
    std::string text;
    std::array<char, 1 << 16> buffer;
    while (true) {
      // zlib counts what it is given in 32 bits.
      const std::size_t given =
          std::min<std::size_t>(bytes.size(), std::numeric_limits<unsigned int>::max());
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream_.avail_in = static_cast<unsigned int>(given);
      stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream_.avail_out = static_cast<unsigned int>(buffer.size());
      const int state = inflate(&stream_, Z_NO_FLUSH);
      bytes.remove_prefix(given - stream_.avail_in);
      const std::size_t made = buffer.size() - stream_.avail_out;
      if (text.size() + made > limit) {
        throw GunzipError{"holds more than " + std::to_string(limit) +
                          " bytes once it is decompressed; valid: a smaller file, or a larger "
                          "--max-input"};
      }
      text.append(buffer.data(), made);
      if (state == Z_STREAM_END) {
        // gzip, too, passes over zeros that fill up a block.
        if (bytes.find_first_not_of('\0') == std::string_view::npos) return text;
        if (!is_gzip(bytes)) damaged("something other than gzip follows its end");
        SHARDLAB_CHECK(inflateReset(&stream_) == Z_OK);
      } else if (state == Z_BUF_ERROR || (state == Z_OK && bytes.empty() && made == 0)) {
        damaged("it ends too early");
      } else if (state != Z_OK) {
        damaged(stream_.msg != nullptr ? stream_.msg : "its bytes are none of gzip's");
      }
    }
  }

 private:
  [[noreturn]] static void damaged(const std::string& why) {
    throw GunzipError{"is damaged: " + why + "; valid: a file that gunzip -t accepts"};
  }

  z_stream stream_ = {};
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b\x08"); }

std::string gunzip(std::string_view bytes, std::uint64_t limit) {
  return Inflater().all(bytes, limit);
}

}  // namespace shardlab
