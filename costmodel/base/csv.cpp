#include "costmodel/base/csv.h"

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

// The records of a CSV text (RFC 4180), each with the line on which it begins.
class CsvText {
 public:
  CsvText(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  [[nodiscard]] bool at_end() const { return position_ >= text_.size(); }
  [[nodiscard]] int line() const { return line_; }

  [[nodiscard]] std::vector<std::string> record() {
    std::vector<std::string> fields;
    while (true) {
      skip_blanks();
      fields.emplace_back(trimmed(field()));
      if (at_end()) return fields;
      const char c = text_[position_++];
      if (c == ',') continue;
      if (c == '\r' && !at_end() && text_[position_] == '\n') ++position_;
      ++line_;
      return fields;
    }
  }

 private:
  void skip_blanks() {
    while (!at_end() && (text_[position_] == ' ' || text_[position_] == '\t')) ++position_;
  }

  std::string field() {
    std::string value;
    if (at_end() || text_[position_] != '"') {
      while (!at_end() && text_[position_] != ',' && text_[position_] != '\n' &&
             text_[position_] != '\r') {
        value += text_[position_++];
      }
      return value;
    }
    const int begins = line_;
    ++position_;
    while (true) {
      if (at_end()) {
        throw ConfigError(file_, "line " + std::to_string(begins),
                          "a field begins with a quote that nothing closes");
      }
      const char c = text_[position_++];
      if (c == '\n') ++line_;
      if (c != '"') {
        value += c;
      } else if (!at_end() && text_[position_] == '"') {
        value += text_[position_++];
      } else {
        break;
      }
    }
    skip_blanks();
    if (!at_end() && text_[position_] != ',' && text_[position_] != '\n' &&
        text_[position_] != '\r') {
      throw ConfigError(
          file_, "line " + std::to_string(line_),
          "a quoted field is followed by more text; valid: a comma or the line's end");
    }
    return value;
  }

  std::string_view text_;
  std::string_view file_;
  std::size_t position_ = 0;
  int line_ = 1;
};

}  // namespace

std::string_view CsvTable::field(const CsvRecord& record, std::string_view column) const {
  const auto found = columns.find(std::string(column));
  return found == columns.end() ? std::string_view() : record.fields[found->second];
}

CsvTable read_csv(std::string_view text, std::string_view file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  CsvText csv(text, file);
  CsvTable table;
  int header_line = 1;
  do {
    if (csv.at_end()) {
      throw ConfigError(file, "", "the file is empty; valid: a line of column names");
    }
    header_line = csv.line();
    table.header = csv.record();
  } while (table.header.size() == 1 && table.header.front().empty());
  for (std::size_t i = 0; i < table.header.size(); ++i) {
    if (!table.columns.emplace(table.header[i], i).second) {
      throw ConfigError(file, "line " + std::to_string(header_line),
                        "column \"" + table.header[i] + "\" stands there twice");
    }
  }
  while (!csv.at_end()) {
    CsvRecord record;
    record.line = csv.line();
    record.fields = csv.record();
    if (record.fields.size() == 1 && record.fields.front().empty()) continue;
    if (record.fields.size() != table.header.size()) {
      throw ConfigError(file, "line " + std::to_string(record.line),
                        "found " + std::to_string(record.fields.size()) + " fields; valid: " +
                            std::to_string(table.header.size()) + ", as many as there are columns");
    }
    table.records.push_back(std::move(record));
  }
  return table;
}

}  // namespace shardlab
