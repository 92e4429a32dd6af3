#include "strategies/rules/embedded.h"

#include <algorithm>

namespace shardlab {

std::vector<std::string> lines_of(EmbeddedFile file) {
  std::string text;
  for (const std::string_view piece : file) text += piece;
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace shardlab
