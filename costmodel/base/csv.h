// Tables in CSV (RFC 4180): fields may be quoted, and hold commas, quotes and line breaks then.
//
//   const CsvTable table = read_csv(text, "rows.csv");
//   table.header, table.records[0].fields[2], table.records[0].line
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

struct CsvRecord {
  std::vector<std::string> fields;  // as many as the header has
  int line = 0;                     // the line of the file on which the record begins
};

struct CsvTable {
  std::vector<std::string> header;
  std::map<std::string, std::size_t> columns;  // index of each name in the header
  std::vector<CsvRecord> records;

  // The field of a record in the column of this name; empty if there is no such column.
  [[nodiscard]] std::string_view field(const CsvRecord& record, std::string_view column) const;
};

// Blanks around fields and inside quotes at their ends are dropped, empty lines are skipped, and a
// byte order mark is ignored. Lines end with LF, CRLF or CR. Throws ConfigError with the line for
// an empty file, a column that stands there twice, a quote that is not closed, and a record with
// more or fewer fields than there are columns.
[[nodiscard]] CsvTable read_csv(std::string_view text, std::string_view file);

}  // namespace shardlab
