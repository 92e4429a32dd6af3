#include "runner/write_file.h"

#include <cerrno>
#include <fstream>
#include <system_error>

#include "costmodel/error.h"

namespace shardlab {

void write_file(const std::filesystem::path& path, std::string_view text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return;
  const int reason = errno;
  throw EnvironmentError(path.string() + ": can't be written" +
                         (reason == 0 ? "" : ": " + std::generic_category().message(reason)));
}

}  // namespace shardlab
