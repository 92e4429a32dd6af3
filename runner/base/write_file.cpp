#include "runner/base/write_file.h"

#include <cerrno>
#include <fstream>
#include <system_error>

#include "costmodel/base/error.h"

namespace shardlab {

std::string reason_text(int error_number) {
  return error_number == 0 ? "" : ": " + std::generic_category().message(error_number);
}

void write_file(const std::filesystem::path& path,
                const std::function<void(std::ostream&)>& write) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  if (out) write(out);
  out.close();
  if (!out) throw EnvironmentError(path.string() + ": can't be written" + reason_text(errno));
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  write_file(path, [&](std::ostream& out) { out << text; });
}

}  // namespace shardlab
