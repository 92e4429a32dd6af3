#include "reports/writers/markdown.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <variant>
#include <vector>

#include "costmodel/base/printable.h"
#include "reports/number_text.h"
#include "reports/writers/html.h"
#include "reports/writers/inline_text.h"

namespace shardlab::reports {
namespace {

// How much of the report is written. Levels of detail are tried in turn, the fullest first, until
// the text fits.
struct Detail {
  std::size_t browser_rows;
  std::size_t table_rows;
  std::size_t charts;
  std::size_t chart_points;
  std::size_t listing_bytes;
  std::size_t cell_bytes;
};

constexpr std::array<Detail, 6> kDetails = {{
    {60, 60, 6, 8, 4000, 400},
    {40, 40, 6, 8, 1500, 240},
    {25, 30, 4, 8, 0, 160},
    {12, 20, 2, 6, 0, 100},
    {6, 10, 0, 0, 0, 60},
    {0, 4, 0, 0, 0, 40},
}};

constexpr std::array<Detail, 4> kSummaryDetails = {{
    {8, 8, 0, 0, 0, 80},
    {4, 8, 0, 0, 0, 60},
    {2, 8, 0, 0, 0, 40},
    {0, 3, 0, 0, 0, 30},
}};

// Cuts a text without splitting a UTF-8 character.
std::string shortened(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

bool opens_html(std::string_view text, std::size_t at) {
  if (text[at] != '<' || at + 1 >= text.size()) return false;
  const char next = text[at + 1];
  return std::isalpha(static_cast<unsigned char>(next)) != 0 || next == '/' || next == '!' ||
         next == '?';
}

// Whether the character is an underscore that opens emphasis; one between letters or digits does
// not.
bool opens_emphasis(std::string_view text, std::size_t at) {
  const auto is_word = [&](std::size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  return text[at] == '_' && !(at > 0 && is_word(at - 1) && is_word(at + 1));
}

std::string one_line(std::string_view text, std::string_view separator) {
  std::string line;
  for (const char c : printable_lines(text)) {
    if (c == '\n') {
      line += separator;
    } else {
      line += c == '\t' ? ' ' : c;
    }
  }
  return line;
}

// Whether the character would make a link or an image of what stands around it: "[x](y)", "[x][y]",
// "[x]: y", "https://y" or "www.y".
bool opens_link(std::string_view text, std::size_t at) {
  const std::string_view next = text.substr(at + 1);
  if (text[at] == ']')
    return next.starts_with('(') || next.starts_with('[') || next.starts_with(':');
  if (text[at] == ':') return next.starts_with("//");
  return text[at] == '.' && at >= 3 && text.substr(at - 3, 3) == "www";
}

// Whether the character begins the name of a person or a number of an issue, which GitHub turns
// into links, and tells those who are named. A backslash does not prevent that.
bool opens_mention(std::string_view text, std::size_t at) {
  return (text[at] == '@' || text[at] == '#') && at + 1 < text.size() &&
         std::isalnum(static_cast<unsigned char>(text[at + 1])) != 0;
}

bool opens_entity(std::string_view text, std::size_t at) {
  return text[at] == '&' && at + 1 < text.size() &&
         (text[at + 1] == '#' || std::isalpha(static_cast<unsigned char>(text[at + 1])) != 0);
}

constexpr std::string_view kNothing = "&#8203;";  // a blank without width

std::string escape_plain(std::string_view text, bool is_in_table) {
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_markup = c == '*' || c == '\\' || c == '`' || opens_html(text, i) ||
                           opens_emphasis(text, i) || opens_link(text, i) ||
                           opens_entity(text, i) || (c == '|' && is_in_table);
    if (is_markup) escaped += '\\';
    escaped += c;
    if (opens_mention(text, i)) escaped += kNothing;
  }
  return escaped;
}

// The text for a place where Markdown has no meaning, but HTML, addresses and mentions have.
std::string summary_html(std::string_view text) {
  std::string html;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_code = text[i] == '`';
    if (!is_code && !opens_mention(text, i) && !opens_link(text, i)) continue;
    html += html_escape(text.substr(begin, i - begin));
    html += is_code ? "&#96;" : text[i] + std::string(kNothing);
    begin = i + 1;
  }
  return html + html_escape(text.substr(begin));
}

// A bar must be escaped in a table, even within code: `P(sum)\|R`.
std::string code_span(std::string_view text, bool is_in_table) {
  std::string escaped;
  std::size_t backticks = 0;  // in a row
  std::size_t most = 0;
  for (const char c : text) {
    backticks = c == '`' ? backticks + 1 : 0;
    most = std::max(most, backticks);
    if (c == '|' && is_in_table) escaped += '\\';
    escaped += c;
  }
  const std::string fence(most + 1, '`');
  return most > 0 ? fence + " " + escaped + " " + fence : fence + escaped + fence;
}

std::string inline_markdown(std::string_view text, bool is_in_table) {
  const std::string line = one_line(text, "; ");
  std::string markdown;
  for (const InlineRun& run : inline_runs(line)) {
    markdown +=
        run.is_code ? code_span(run.text, is_in_table) : escape_plain(run.text, is_in_table);
  }
  return markdown;
}

std::string cell_text(const Column& column, const Cell& cell, const Detail& detail) {
  std::string text = "-";
  if (const auto* number = std::get_if<double>(&cell.value)) {
    text = number_text(column, *number);
  } else if (const auto* words = std::get_if<std::string>(&cell.value)) {
    const std::string line = shortened(one_line(*words, "; "), detail.cell_bytes);
    if (column.kind == ColumnKind::kVerdict) {
      text = std::string(verdict_symbol(line)) + " " + line;
    } else if (column.kind == ColumnKind::kCode || column.kind == ColumnKind::kName) {
      text = line.empty() ? "" : code_span(line, true);
    } else {
      text = inline_markdown(line, true);
    }
  }
  if (!cell.note.empty())
    text += " (" + inline_markdown(shortened(cell.note, detail.cell_bytes), true) + ")";
  return text;
}

template <class RowAt>
std::string table_text(const std::vector<Column>& columns, std::size_t rows, const RowAt& row_at,
                       const Detail& detail) {
  std::string text = "|";
  for (const Column& column : columns) text += " " + inline_markdown(column.title, true) + " |";
  text += "\n|";
  for (const Column& column : columns) text += is_numeric(column.kind) ? " ---: |" : " --- |";
  text += "\n";
  for (std::size_t i = 0; i < rows; ++i) {
    const Row& row = row_at(i);
    text += "|";
    for (std::size_t j = 0; j < columns.size(); ++j) {
      text += " " + cell_text(columns[j], j < row.size() ? row[j] : Cell(), detail) + " |";
    }
    text += "\n";
  }
  return text;
}

std::string more_text(std::size_t left, std::string_view one, std::string_view many) {
  return "\nand " +
         counted(static_cast<std::int64_t>(left), "more " + std::string(one),
                 "more " + std::string(many)) +
         " in report.json\n";
}

// The tiles of a stage as lines of "rank: part", with the contributions to a reduction below them.
std::string stage_text(const LayoutStage& stage, std::size_t columns) {
  std::size_t rank_width = 0;
  std::size_t width = 0;
  bool is_partial = false;
  for (const HeldTile& tile : stage.tiles) rank_width = std::max(rank_width, tile.name.size());
  for (const HeldTile& tile : stage.tiles) {
    width =
        std::max({width, rank_width + 2 + tile.part.size(), rank_width + 2 + tile.partial.size()});
    is_partial = is_partial || !tile.partial.empty();
  }
  std::string text = stage.name + ": " + stage.note + "\n";
  for (std::size_t row = 0; row < stage.tiles.size(); row += columns) {
    const std::size_t end = std::min(row + columns, stage.tiles.size());
    for (int line = 0; line < (is_partial ? 2 : 1); ++line) {
      std::string cells;
      for (std::size_t i = row; i < end; ++i) {
        const HeldTile& tile = stage.tiles[i];
        std::string cell = line == 0 ? std::string(rank_width - tile.name.size(), ' ') + tile.name +
                                           ": " + tile.part
                                     : std::string(rank_width + 2, ' ') + tile.partial;
        if (i + 1 < end) cell += std::string(width + 2 - cell.size(), ' ');
        cells += cell;
      }
      text += "  " + cells + "\n";
    }
  }
  for (const auto& [label, slice] : stage.parts) text += "  " + label + " is " + slice + "\n";
  return text;
}

std::string layouts_text(const LayoutPicture& picture) {
  std::string text;
  for (std::size_t s = 0; s < picture.stages.size(); ++s) {
    if (s > 0 && s <= picture.moves.size()) {
      const LayoutMove& move = picture.moves[s - 1];
      text += "    |\n    |  " + move.name;
      for (const std::string& note : move.notes) text += "; " + note;
      text += "\n    v\n";
    }
    text += stage_text(picture.stages[s], std::max<std::size_t>(picture.columns, 1));
  }
  return text;
}

class MarkdownBlockWriter {
 public:
  explicit MarkdownBlockWriter(const Detail& detail) : detail_(detail) {}

  std::string operator()(const Paragraph& paragraph) const {
    return inline_markdown(paragraph.text, false) + "\n";
  }

  std::string operator()(const Figures& figures) const {
    std::string text;
    for (const Figure& figure : figures.figures) {
      text += "- " + inline_markdown(figure.label, false) + ": **" +
              inline_markdown(figure.value, false) + "** (" + inline_markdown(figure.note, false) +
              ")\n";
    }
    return text;
  }

  std::string operator()(const Table& table) const {
    const std::size_t shown = std::min(table.rows.size(), detail_.table_rows);
    std::string text = caption(table.caption);
    text += table_text(
        table.columns, shown, [&](std::size_t i) -> const Row& { return table.rows[i]; }, detail_);
    if (shown < table.rows.size()) text += more_text(table.rows.size() - shown, "row", "rows");
    return text;
  }

  std::string operator()(const Browser& browser) const {
    const std::size_t shown = std::min(browser.rows.size(), detail_.browser_rows);
    std::vector<const BrowserRow*> rows;
    for (std::size_t i = 0; i < shown; ++i) rows.push_back(&browser.rows[i]);
    std::sort(rows.begin(), rows.end(), [](const BrowserRow* left, const BrowserRow* right) {
      return left->place < right->place;
    });
    std::string text = caption(browser.caption + ", " + browser.order_text);
    if (shown > 0) {
      text += table_text(
          browser.columns, shown, [&](std::size_t i) -> const Row& { return rows[i]->cells; },
          detail_);
    }
    if (shown < browser.total) {
      text += more_text(browser.total - shown, browser.noun_one, browser.noun_many);
      if (shown > 0) text += "(shown: " + browser.cut_text + ")\n";
    }
    if (!browser.note.empty()) text += "\n" + inline_markdown(browser.note, false) + "\n";
    return text;
  }

  std::string operator()(const Charts& charts) const {
    std::string text;
    std::size_t written = 0;
    std::size_t left_out = 0;
    for (const Chart& chart : charts.charts) {
      if (chart.is_tabulated) continue;
      if (written == detail_.charts) {
        ++left_out;
        continue;
      }
      ++written;
      for (const Table& table : chart_tables(chart, detail_.chart_points)) {
        text += (text.empty() ? "" : "\n") + (*this)(table);
      }
    }
    if (left_out > 0) text += more_text(left_out, "chart", "charts");
    return text;
  }

  std::string operator()(const Timeline& timeline) const {
    return (*this)(picture_table(timeline));
  }

  std::string operator()(const HostPicture& picture) const {
    return (*this)(picture_table(picture));
  }

  std::string operator()(const AreaPicture& picture) const {
    return (*this)(picture_table(picture));
  }

  std::string operator()(const LayoutPicture& picture) const {
    const std::string text = printable_lines(layouts_text(picture));
    std::string fence = "```";
    while (text.find(fence) != std::string::npos) fence += '`';
    return caption(picture.title) + fence + "\n" + text + fence + "\n";
  }

  std::string operator()(const Listing& listing) const {
    if (listing.text.size() > detail_.listing_bytes) return {};
    // The fence must be longer than any run of backticks inside it.
    std::string fence = "```";
    while (listing.text.find(fence) != std::string::npos) fence += '`';
    return "<details><summary>" + summary_html(one_line(listing.title, " ")) + "</summary>\n\n" +
           fence + "\n" + printable_lines(listing.text) + "\n" + fence + "\n\n</details>\n";
  }

 private:
  static std::string caption(const std::string& text) {
    if (text.empty()) return {};
    const std::string_view title(text.data(), text.size() - (text.ends_with('.') ? 1 : 0));
    return inline_markdown(title, false) + ":\n\n";
  }

  const Detail& detail_;
};

std::string section_text(const RenderedSection& rendered, const Detail& detail) {
  std::string text = "## " + std::string(rendered.section->title) + "\n\n*" +
                     std::string(rendered.section->question) + "*\n\n";
  const MarkdownBlockWriter writer(detail);
  for (const Block& block : rendered.content.blocks) {
    const std::string block_text = std::visit(writer, block);
    if (!block_text.empty()) text += block_text + "\n";
  }
  text += "**Answer.** " + inline_markdown(rendered.content.answer, false) + "\n";
  return text;
}

std::string heading(const RenderedReport& report) {
  return "# shardlab: " + inline_markdown(report.title, false) + "\n\n**" +
         inline_markdown(report.sentence, false) + "**\n";
}

// Cuts a text that is too long even at the lowest level of detail, at the end of a line.
std::string cut(std::string text, std::size_t limit) {
  constexpr std::string_view kNote = "\n\n(cut here; the rest is in report.json)\n";
  if (text.size() < limit) return text;
  text = shortened(text, limit - kNote.size() - 4);
  const std::size_t line = text.rfind('\n');
  if (line != std::string::npos && line > 0) text.resize(line);
  return text + std::string(kNote);
}

}  // namespace

std::string write_markdown(const RenderedReport& report) {
  std::string text;
  for (const Detail& detail : kDetails) {
    text = heading(report);
    for (const RenderedSection& section : report.sections)
      text += "\n" + section_text(section, detail);
    if (text.size() < kMarkdownLimit) return text;
  }
  return cut(std::move(text), kMarkdownLimit);
}

std::string write_markdown_summary(const RenderedReport& report) {
  std::string text;
  for (const Detail& detail : kSummaryDetails) {
    text = heading(report);
    const MarkdownBlockWriter writer(detail);
    bool has_table = false;
    bool has_browser = false;
    for (const RenderedSection& section : report.sections) {
      for (const Block& block : section.content.blocks) {
        const auto* table = std::get_if<Table>(&block);
        const bool is_wanted = (table != nullptr && (table->leads || !has_table)) ||
                               (std::holds_alternative<Browser>(block) && !has_browser);
        if (!is_wanted) continue;
        has_table = has_table || table != nullptr;
        has_browser = has_browser || std::holds_alternative<Browser>(block);
        text += "\n" + std::visit(writer, block);
      }
    }
    if (text.size() < kMarkdownSummaryLimit) return text;
  }
  return cut(std::move(text), kMarkdownSummaryLimit);
}

}  // namespace shardlab::reports
