// What a section says, free of any output format: blocks of text, figures, tables, charts and
// pictures (picture.h) that each writer sets in its own way. Adding an output format touches no
// section; adding a section touches no writer.
//
//   SectionContent content;
//   content.blocks.push_back(Paragraph{"Regret is ..."});
//   content.blocks.push_back(Table{.caption = "Regret", .columns = ..., .rows = ...});
//   content.answer = "`dtensor-v4` chooses best: it loses 1.1 % on average.";
//
// Text is plain, with names and layouts in backticks (`S(0)R`), which writers set as code. A table
// has at most eight columns, units in their titles, its rows sorted by the section.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "reports/picture.h"

namespace shardlab::reports {

inline constexpr std::size_t kMaxColumns = 8;

// How the values of a column look.
enum class ColumnKind {
  kText,     // words; backticks are code
  kCode,     // a choice or a layout, all of it code
  kName,     // a short name, code as well and never broken over lines
  kNumber,   // a number with fixed digits, right-aligned
  kSigned,   // the same, but its sign is always written
  kCount,    // a whole number
  kBytes,    // bytes, written as "67.1 MB"
  kVerdict,  // "better", "holds" and so on, written as a symbol and the word (verdict_symbol)
};

struct Column {
  std::string title;
  ColumnKind kind = ColumnKind::kText;
  int digits = 2;  // digits after the point, for kNumber and kSigned
};

// Whether the cells of such a column hold numbers, which are aligned to the right.
[[nodiscard]] bool is_numeric(ColumnKind kind);
// A number as the cells of the column show it.
[[nodiscard]] std::string number_text(const Column& column, double number);

// A cell holds nothing (which is written as a dash), a number or a text, and may have a second,
// quieter line.
struct Cell {
  std::variant<std::monostate, double, std::string> value;
  std::string note;

  Cell() = default;
  Cell(std::string text, std::string second = "")
      : value(std::move(text)), note(std::move(second)) {}
  Cell(const char* text) : value(std::string(text)) {}
  Cell(double number, std::string second = "") : value(number), note(std::move(second)) {}
  Cell(std::int64_t number) : value(static_cast<double>(number)) {}
  Cell(const std::optional<double>& number, std::string second = "") : note(std::move(second)) {
    if (number) value = *number;
  }
};

using Row = std::vector<Cell>;

struct Paragraph {
  std::string text;
};

// A number that is read at a glance.
struct Figure {
  std::string label;
  std::string value;
  std::string note;
};

struct Figures {
  std::vector<Figure> figures;
};

struct Table {
  std::string caption;
  std::vector<Column> columns;
  std::vector<Row> rows;
  bool leads = false;  // a summary shows it, as it shows the first table of a report
};

// "inputs", "f32[8,8] S(0)\nf32[8,8] R", set as code.
struct Fact {
  std::string label;
  std::string text;  // may hold several lines
  bool is_code = false;
};

// What opens below a row of a browser.
struct RowDetail {
  std::vector<Fact> facts;
  std::vector<std::vector<Row>>
      tables;  // one for each of Browser::details; empty ones are not shown
};

struct DetailTable {
  std::string caption;
  std::vector<Column> columns;
};

struct BrowserRow {
  Row cells;
  std::vector<std::size_t> facets;  // for each of Browser::facets, an index into its options
  std::size_t place = 0;            // where it stands in reading order
  std::optional<RowDetail> detail;  // empty if there are too many rows to open each of them
};

struct Facet {
  std::string title;
  std::vector<std::string> options;
  // The options rise, and choosing one keeps the rows of this and of all later options. The first
  // option names what every choice leaves out.
  bool keeps_later = false;
};

// A long table. A reader can sort it, filter it and open its rows where the medium allows that; a
// writer that has to cut it says so. Its rows come in the order in which they are to be kept: a
// writer takes as many as fit and shows them by `place`.
struct Browser {
  std::string id;  // unique in its document: "flips"
  std::string caption;
  std::string noun_one, noun_many;  // "flip", "flips"
  std::string order_text;  // the order of the rows shown: "losses first, the largest change first"
  std::string
      cut_text;  // which rows a cut keeps: "as many of each verdict, the largest change first"
  std::vector<Column> columns;
  std::vector<Facet> facets;
  std::vector<DetailTable> details;
  std::vector<BrowserRow> rows;
  std::size_t total = 0;  // how many rows there are; `rows` may hold only the first
  std::string note = {};  // a sentence about rows that are left out on purpose
};

struct Series {
  std::string name;
  std::vector<std::optional<double>> values;  // one for each of Chart::x or Chart::labels, or x
  std::vector<double> x = {};                 // each series of a chart of kPoints has its own
};

enum class ChartKind {
  kLines,        // values over Chart::x, both axes logarithmic
  kSteps,        // values over Chart::x, both axes linear; each value holds until the next
  kStackedBars,  // a bar for each of Chart::labels, its series stacked
  kGroupedBars,  // the series side by side
  kPoints,       // values over Series::x, both axes logarithmic and in one unit, with the diagonal
};

struct Chart {
  std::string id;  // unique in its document
  std::string title;
  ChartKind kind = ChartKind::kLines;
  std::string x_title, y_title;
  std::vector<double> x;            // in bytes; only for kLines and kSteps
  std::vector<std::string> labels;  // one for each bar
  std::vector<Series> series;       // told apart by colour and by dash or pattern
  bool is_tabulated =
      false;  // a table beside it holds the numbers; a medium without charts can skip it
  // Whether the even axes of kSteps begin at 0, so that a small change looks small. Without it they
  // begin near the least value.
  bool from_zero = true;
};

struct Charts {
  std::vector<Chart> charts;
};

// The numbers of a chart as tables, for readers who cannot see it, with up to seven series in each.
// Lines get at most `points` rows, which are evenly chosen and include the first and the last.
[[nodiscard]] std::vector<Table> chart_tables(const Chart& chart, std::size_t points);

// Something to look up, such as JSON or a command line; a writer folds it away where it can.
struct Listing {
  std::string title;
  std::string text;
};

using Block = std::variant<Paragraph, Figures, Table, Browser, Charts, Timeline, HostPicture,
                           AreaPicture, LayoutPicture, Listing>;

struct SectionContent {
  std::vector<Block> blocks;
  std::string answer;  // one sentence
};

}  // namespace shardlab::reports
