// Text tables for people.
//
//   TextTable table(session.style(), {"op", "us"});
//   table.add({"aten.mm.default", style.figure(12.5)});
//   table.paint(0, Tone::kGood);      // the first cell of the last row
//   session.print(table.text());
//
// Columns of figures are aligned at their decimal points, other numbers to the right, words to the
// left. Cells are made printable(), and their width is counted in columns of the terminal. If the
// lines are wider than the terminal, cells of words continue on further lines, and a word that is
// too long for its column is shortened in the middle; numbers are never cut. Tested by
// tests/unit/runner/base/text_table_test.cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runner/base/text_style.h"

namespace shardlab {

class TextTable {
 public:
  TextTable(const TextStyle& style, std::vector<std::string> header);
  // A table without a header, whose first columns are numbers and all others are words.
  explicit TextTable(const TextStyle& style, std::size_t number_columns = 0)
      : style_(style), number_columns_(number_columns) {}

  void add(std::vector<std::string> row);
  // Gives a cell of the last row a tone.
  void paint(std::size_t column, Tone tone);
  [[nodiscard]] std::string text(const std::string& indent = "  ") const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::vector<std::pair<std::size_t, Tone>> tones = {};
  };
  TextStyle style_;
  bool has_header_ = false;
  std::size_t number_columns_ = 0;  // without a header
  std::vector<Row> rows_;
};

}  // namespace shardlab
