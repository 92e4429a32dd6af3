#include "runner/write_file.h"

#include <fstream>

#include "costmodel/error.h"

namespace shardlab {

void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw EnvironmentError(path.string() + ": can't be written");
}

}  // namespace shardlab
