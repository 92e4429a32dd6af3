#include "runner/base/hanging_text.h"

#include <algorithm>

#include "runner/base/terminal.h"

namespace shardlab {
namespace {

// The column at which the second part of a line starts, after two or more blanks. For a line of one
// part, it is the column after the indent.
std::size_t second_column_of(std::string_view line) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", indent);
  if (gap == std::string_view::npos) return indent;
  return std::min(line.find_first_not_of(' ', gap), line.size());
}

bool is_command_line(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return line.starts_with("shardlab ");
}

// A line of at most so many columns where blanks allow that, and what follows it in further lines.
std::string hanging(std::string_view line, std::size_t columns) {
  if (displayed_columns(line) <= columns || is_command_line(line)) return std::string(line);
  const std::size_t hang = std::min(second_column_of(line), columns / 2);
  std::string out;
  std::size_t least = hang;  // no line ends within its indent
  while (displayed_columns(line) + (out.empty() ? 0 : hang) > columns) {
    const std::size_t room = columns - (out.empty() ? 0 : hang);
    std::size_t end = std::string_view::npos;
    for (std::size_t blank = line.find(' ', least); blank != std::string_view::npos;
         blank = line.find(' ', blank + 1)) {
      const bool fits = displayed_columns(line.substr(0, blank)) <= room;
      if (fits || end == std::string_view::npos) end = blank;
      if (!fits) break;
    }
    if (end == std::string_view::npos) break;  // one long word is left
    out += std::string(line.substr(0, end)) + "\n" + std::string(hang, ' ');
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
    least = 0;
  }
  return out + std::string(line);
}

}  // namespace

std::string with_hanging_lines(std::string_view text, std::size_t columns) {
  if (columns == 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += hanging(text.substr(0, end), columns);
    if (end < text.size()) out += "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace shardlab
