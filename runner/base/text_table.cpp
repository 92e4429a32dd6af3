#include "runner/base/text_table.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "runner/base/terminal.h"

namespace shardlab {
namespace {

constexpr std::size_t kGap = 2;               // columns between cells
constexpr std::size_t kLeastWordColumn = 12;  // columns of words get no narrower than this
constexpr std::size_t kLeastWord = 4;         // shorter ones are names, such as "x"
constexpr std::string_view kEllipsis = "\u2026";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether a cut between the two would leave a part of a number.
bool are_in_one_number(char before, char after) {
  return (is_digit(before) || before == '.') && (is_digit(after) || after == '.');
}

// The length of the longest run of digits at the start.
std::size_t digits_at(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) -
                                  text.begin());
}

// Whether the cell begins as a number does; a mesh such as 2x4 does as well.
bool begins_as_number(const std::string& cell) {
  return !cell.empty() && (cell.find_first_of("0123456789+-.") == 0 || cell == "inf");
}

// A figure's length in front of its decimal point, and from there on. A mark that refers to a
// remark below the table may follow it: "12.5*".
struct FigureParts {
  std::size_t whole = 0;
  std::size_t rest = 0;
};
std::optional<FigureParts> figure_parts(std::string_view cell) {
  std::string_view left = cell;
  const auto take = [&](std::string_view any_of) {
    const bool found = !left.empty() && any_of.find(left[0]) != std::string_view::npos;
    if (found) left.remove_prefix(1);
    return found;
  };
  const auto take_digits = [&] {
    const std::size_t digits = digits_at(left);
    left.remove_prefix(digits);
    return digits > 0;
  };
  take("+-");
  if (!take_digits()) return std::nullopt;
  const std::size_t whole = cell.size() - left.size();
  if (take(".") && !take_digits()) return std::nullopt;
  if (take("e")) {
    take("+-");
    if (!take_digits()) return std::nullopt;
  }
  take("*!");
  if (!left.empty()) return std::nullopt;
  return FigureParts{whole, cell.size() - whole};
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::size_t longest_word_of(std::string_view text) {
  std::size_t longest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    longest = std::max(longest, displayed_columns(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return longest;
}

std::string_view without_blanks_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// The letters at the start of a text that take at most so many columns, in bytes.
std::size_t prefix_within(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    std::size_t next = bytes + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xc0U) == 0x80U) ++next;
    if (displayed_columns(text.substr(0, next)) > columns) break;
    bytes = next;
  }
  return bytes;
}

// "layers.0.at…wq.weight": the start and the end of a word. A number is never cut: what is left of
// it would be read as another number.
std::string shortened(std::string_view word, std::size_t columns) {
  if (displayed_columns(word) <= columns) return std::string(word);
  const std::size_t kept = columns - 1;
  std::size_t head = prefix_within(word, (kept + 1) / 2);
  std::size_t tail = word.size();
  while (tail > head) {
    std::size_t before = tail - 1;
    while (before > head && (static_cast<unsigned char>(word[before]) & 0xc0U) == 0x80U) --before;
    if (displayed_columns(word.substr(before)) > kept / 2) break;
    tail = before;
  }
  while (head > 0 && are_in_one_number(word[head - 1], word[head])) --head;
  while (tail < word.size() && are_in_one_number(word[tail - 1], word[tail])) ++tail;
  return std::string(word.substr(0, head)).append(kEllipsis).append(word.substr(tail));
}

// The lines of a cell in a column of words.
std::vector<std::string> wrapped_cell(const std::string& cell, std::size_t columns) {
  if (displayed_columns(cell) <= columns) return {cell};
  std::vector<std::string> lines = {""};
  for (const std::string_view word : words_of(cell)) {
    const std::string shown = shortened(word, columns);
    std::string& line = lines.back();
    if (line.empty()) {
      line = shown;
    } else if (displayed_columns(line) + 1 + displayed_columns(shown) <= columns) {
      line += " " + shown;
    } else {
      lines.push_back(shown);
    }
  }
  return lines;
}

struct Column {
  std::size_t width = 0;         // what the cells take, later what they get
  std::size_t body_width = 0;    // what they take if the header's words stand one below the other
  std::size_t longest_word = 0;  // below the header
  FigureParts figure;            // the longest of each, if this is a column of figures
  bool is_figures = false;
  bool is_right = false;  // aligned to the right
};

// What the cells of one column below the header have in common.
class ColumnReader {
 public:
  void read(const std::string& cell) {
    if (cell.empty()) return;
    longest_word_ = std::max(longest_word_, longest_word_of(cell));
    const bool has_digit = std::any_of(cell.begin(), cell.end(), is_digit);
    if (const auto parts = figure_parts(cell)) {
      ++figures_;
      figure_.whole = std::max(figure_.whole, parts->whole);
      figure_.rest = std::max(figure_.rest, parts->rest);
    } else if (begins_as_number(cell)) {
      ++numbers_;
      has_other_numbers_ = has_other_numbers_ || has_digit;
    } else if (has_digit || displayed_columns(cell) < kLeastWord) {
      has_text_ = true;
    } else {
      ++words_;
      is_one_word_ = words_ == 1 || (is_one_word_ && cell == word_);
      word_ = cell;
    }
  }

  // Words such as "none" and "impossible" may stand among figures and among other numbers.
  void finish(Column& column) const {
    const bool is_one_word = words_ == 0 || (is_one_word_ && figures_ + numbers_ > 0);
    column.is_figures =
        figures_ > 0 && !has_text_ && !has_other_numbers_ && (is_one_word || figures_ >= words_);
    column.is_right = column.is_figures || (!has_text_ && is_one_word);
    column.longest_word = longest_word_;
    if (!column.is_figures) return;
    column.figure = figure_;
    column.width = std::max(column.width, figure_.whole + figure_.rest);
    column.body_width = std::max(column.body_width, figure_.whole + figure_.rest);
  }

 private:
  FigureParts figure_;
  std::size_t longest_word_ = 0;
  std::size_t figures_ = 0;
  std::size_t numbers_ = 0;  // "2x4", "64 KiB", "-": these begin as numbers do
  std::size_t words_ = 0;    // "impossible"
  std::string word_;
  bool is_one_word_ = false;
  bool has_other_numbers_ = false;
  bool has_text_ = false;  // "S(0)R"
};

// Narrows the widest columns until a line fits, but no column below its floor.
template <class Floor>
void narrow(std::vector<Column>& columns, std::size_t& total, std::size_t most,
            const Floor& floor_of) {
  while (total > most) {
    Column* widest = nullptr;
    for (Column& column : columns) {
      if (column.width <= floor_of(column)) continue;
      if (widest == nullptr || column.width > widest->width) widest = &column;
    }
    if (widest == nullptr) return;
    --widest->width;
    --total;
  }
}

void fit(std::vector<Column>& columns, std::size_t indent, std::size_t most) {
  std::size_t total = indent + kGap * (columns.empty() ? 0 : columns.size() - 1);
  for (const Column& column : columns) total += column.width;
  // First headers give way, then cells of words, and words are cut only if nothing else helps.
  narrow(columns, total, most, [](const Column& column) { return column.body_width; });
  narrow(columns, total, most, [](const Column& column) {
    return column.is_right ? column.body_width : std::max(column.longest_word, kLeastWordColumn);
  });
  narrow(columns, total, most, [](const Column& column) {
    return column.is_right ? column.body_width : kLeastWordColumn;
  });
}

// How many blanks stand in front of a cell's line.
std::size_t blanks_before(const Column& column, const std::string& line, bool is_header) {
  if (!column.is_right) return 0;
  if (column.is_figures && !is_header) {
    if (const auto parts = figure_parts(line)) {
      return column.width - column.figure.rest - parts->whole;
    }
  }
  return column.width - std::min(column.width, displayed_columns(line));
}

class TableWriter {
 public:
  TableWriter(const TextStyle& style, const std::vector<Column>& columns, std::size_t indent)
      : style_(style), columns_(columns), indent_(indent) {}

  // Writes a row, in several lines if a cell does not fit its column.
  void write(const std::vector<std::string>& cells, const std::vector<Tone>& tones,
             bool is_header) {
    if (style_.columns == 0) return write_line(cells, tones, is_header);
    std::vector<std::vector<std::string>> lines;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::vector<std::string> wrapped = wrapped_cell(cells[c], columns_[c].width);
      lines.resize(std::max(lines.size(), wrapped.size()), std::vector<std::string>(cells.size()));
      for (std::size_t i = 0; i < wrapped.size(); ++i) lines[i][c] = wrapped[i];
    }
    for (const std::vector<std::string>& line : lines) write_line(line, tones, is_header);
  }
  [[nodiscard]] const std::string& text() const { return out_; }

 private:
  void write_line(const std::vector<std::string>& cells, const std::vector<Tone>& tones,
                  bool is_header) {
    // Blanks are written only in front of what follows them, so that no line ends in blanks.
    std::size_t blanks = indent_;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string_view ink = without_blanks_behind(cells[c]);
      const std::size_t before = blanks_before(columns_[c], cells[c], is_header);
      const std::size_t taken = before + displayed_columns(ink);
      blanks += before;
      if (!ink.empty()) {
        out_.append(blanks, ' ');
        out_ += style_.painted(tones[c], ink);
        blanks = 0;
      }
      blanks += columns_[c].width - std::min(columns_[c].width, taken) + kGap;
    }
    out_ += "\n";
  }

  const TextStyle& style_;
  const std::vector<Column>& columns_;
  std::size_t indent_;
  std::string out_;
};

}  // namespace

TextTable::TextTable(const TextStyle& style, std::vector<std::string> header)
    : style_(style), has_header_(true) {
  add(std::move(header));
}

void TextTable::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(cell);
  rows_.push_back({std::move(row)});
}

void TextTable::paint(std::size_t column, Tone tone) {
  rows_.back().tones.emplace_back(column, tone);
}

std::string TextTable::text(const std::string& indent) const {
  std::vector<Column> columns;
  std::vector<ColumnReader> readers;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const std::vector<std::string>& cells = rows_[r].cells;
    columns.resize(std::max(columns.size(), cells.size()));
    readers.resize(columns.size());
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const bool is_header = has_header_ && r == 0;
      const std::size_t width = displayed_columns(cells[c]);
      columns[c].width = std::max(columns[c].width, width);
      columns[c].body_width =
          std::max(columns[c].body_width, is_header ? longest_word_of(cells[c]) : width);
      if (!is_header) readers[c].read(cells[c]);
    }
  }
  const bool has_rows = rows_.size() > (has_header_ ? 1 : 0);
  for (std::size_t c = 0; c < columns.size() && has_rows; ++c) {
    readers[c].finish(columns[c]);
    if (has_header_) continue;
    columns[c].is_right = c < number_columns_;
    columns[c].is_figures = columns[c].is_figures && columns[c].is_right;
  }
  if (style_.columns > 0) fit(columns, indent.size(), style_.columns);
  TableWriter writer(style_, columns, indent.size());
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const bool is_header = has_header_ && r == 0;
    std::vector<Tone> tones(columns.size(), is_header ? Tone::kHeading : Tone::kPlain);
    for (const auto& [column, tone] : rows_[r].tones) tones.at(column) = tone;
    writer.write(rows_[r].cells, tones, is_header);
  }
  return writer.text();
}

}  // namespace shardlab
