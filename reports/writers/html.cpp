#include "reports/writers/html.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "costmodel/base/printable.h"
#include "reports/number_text.h"
#include "reports/records/json_text.h"
#include "reports/writers/assets.h"
#include "reports/writers/inline_text.h"
#include "reports/writers/layouts_html.h"
#include "reports/writers/picture_svg.h"

namespace shardlab::reports {
namespace {

using nlohmann::ordered_json;

// How much a page holds. Budgets are tried in turn, the largest first, until the page is below its
// limit. Chart.js takes 200 KB of that limit.
struct Budget {
  std::size_t browser_bytes;
  std::size_t chart_bytes;
  std::size_t table_rows;
  std::size_t listing_bytes;
};

constexpr std::array<Budget, 4> kBudgets = {{
    {3'600'000, 700'000, 300, 40'000},
    {1'800'000, 300'000, 100, 8'000},
    {400'000, 100'000, 30, 1'000},
    {0, 0, 5, 0},
}};

constexpr std::size_t kRowsWithoutScript = 25;
constexpr std::size_t kOpenCharts = 6;

// Chart.js names its licence but does not contain the text, which must accompany every copy.
constexpr std::string_view kChartLicence =
    R"(Chart.js and @kurkle/color, which it contains, are under the MIT licence:

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.)";

void append(std::string& text, EmbeddedFile file) {
  for (const std::string_view piece : file) text += piece;
}

// A browser ends a script at the first "</script", even inside a string. In a JavaScript string,
// "<\/script" means the same text.
std::string script_safe(EmbeddedFile file) {
  constexpr std::string_view kEnd = "</script";
  std::string text;
  append(text, file);
  for (std::size_t at = text.find(kEnd); at != std::string::npos; at = text.find(kEnd, at + 2)) {
    text.insert(at + 1, "\\");
  }
  return text;
}

// In JSON, "<" and letters beyond ASCII occur only within strings, where an escape of "<" means the
// same character. Letters and control characters that are not to act are shown as in html_escape().
std::string json_script_safe(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (std::string_view rest = json; !rest.empty();) {
    // The line breaks between values are the only control characters of one byte below DEL.
    const std::size_t length = rest[0] == '\x7f' ? 0 : letter_length(rest);
    const std::string_view letter = rest.substr(0, std::max<std::size_t>(1, length));
    const std::string shown = length != 1 ? printable(letter) : std::string(letter);
    if (letter == "<") {
      text += "\\u003c";
    } else {
      text += (shown == letter ? "" : "\\") + shown;
    }
    rest.remove_prefix(letter.size());
  }
  return text;
}

// Keeps a number and its percent sign on one line.
std::string with_whole_percents(std::string html) {
  for (std::size_t at = html.find(" %"); at != std::string::npos; at = html.find(" %", at)) {
    html.replace(at, 1, "&nbsp;");
  }
  return html;
}

std::string inline_html(std::string_view text) {
  std::string html;
  for (const InlineRun& run : inline_runs(text)) {
    html += run.is_code ? "<code>" + html_escape(run.text) + "</code>"
                        : with_whole_percents(html_escape(run.text));
  }
  return html;
}

// ---- cells

std::string_view kind_name(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::kText:
      return "text";
    case ColumnKind::kCode:
      return "code";
    case ColumnKind::kName:
      return "name";
    case ColumnKind::kNumber:
      return "number";
    case ColumnKind::kSigned:
      return "signed";
    case ColumnKind::kCount:
      return "count";
    case ColumnKind::kBytes:
      return "bytes";
    case ColumnKind::kVerdict:
      return "verdict";
  }
  return "text";
}

int digits_of(const Column& column) {
  return column.kind == ColumnKind::kCount ? 0 : column.digits;
}

std::string verdict_html(std::string_view verdict) {
  return "<span class=\"verdict " + html_escape(verdict) + "\"><span aria-hidden=\"true\">" +
         std::string(verdict_symbol(verdict)) + "</span> " + html_escape(verdict) + "</span>";
}

// Allows line breaks in long names only after their separators, and never inside an arrow.
std::string breakable(std::string_view text) {
  std::string html;
  std::size_t start = 0;
  const auto flush = [&](std::size_t end) {
    html += html_escape(text.substr(start, end - start));
    start = end;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "->") {
      flush(i);
      html += "<span class=\"arrow\">-&gt;</span>";
      start = i + 2;
      ++i;
    } else if (std::string_view("/,._=").find(text[i]) != std::string_view::npos) {
      flush(i + 1);
      html += "<wbr>";
    }
  }
  flush(text.size());
  return html;
}

// Keeps a unit on the line of what it measures: "price,&nbsp;us".
std::string title_html(std::string_view title) {
  std::string html = inline_html(title);
  for (std::size_t at = html.find(", "); at != std::string::npos; at = html.find(", ", at)) {
    html.replace(at, 2, ",&nbsp;");
  }
  return html;
}

std::string cell_html(const Column& column, const Cell& cell) {
  std::string html = "<span class=\"none\">&ndash;</span>";
  if (const auto* number = std::get_if<double>(&cell.value)) {
    html = number_text(column, *number);
  } else if (const auto* text = std::get_if<std::string>(&cell.value)) {
    if (column.kind == ColumnKind::kVerdict) {
      html = verdict_html(*text);
    } else if (column.kind == ColumnKind::kCode) {
      html = "<code>" + breakable(*text) + "</code>";
    } else if (column.kind == ColumnKind::kName) {
      html = "<code class=\"name\">" + html_escape(*text) + "</code>";
    } else {
      html = inline_html(*text);
    }
  }
  if (!cell.note.empty()) html += "<span class=\"note\">" + inline_html(cell.note) + "</span>";
  return html;
}

std::string head_html(const std::vector<Column>& columns) {
  std::string html = "<thead><tr>";
  for (const Column& column : columns) {
    html += std::string("<th scope=\"col\"") + (is_numeric(column.kind) ? " class=\"num\"" : "") +
            ">" + title_html(column.title) + "</th>";
  }
  return html + "</tr></thead>";
}

std::string row_html(const std::vector<Column>& columns, const Row& row) {
  std::string html = "<tr>";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    html += std::string("<td") + (is_numeric(columns[i].kind) ? " class=\"num\"" : "") + ">" +
            cell_html(columns[i], i < row.size() ? row[i] : Cell()) + "</td>";
  }
  return html + "</tr>\n";
}

// Opens a table that scrolls sideways on its own, also by keyboard.
std::string open_table(std::string_view caption) {
  return "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" +
         html_escape(plain_text(caption)) + "\"><table><caption><span>" + inline_html(caption) +
         "</span></caption>";
}

// ---- data for the page's script

// Keeps each text once; rows refer to a text by its index.
class TextTable {
 public:
  std::size_t add(const std::string& text) {
    const auto [found, is_new] = places_.try_emplace(text, texts_.size());
    if (is_new) {
      texts_.push_back(text);
      bytes_ += text.size() + 4;
    }
    return found->second;
  }
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::size_t> places_;
  std::size_t bytes_ = 0;
};

// A number, rounded as the page shows it, so that script and tables agree.
std::string data_number(const Column& column, double number) {
  if (column.kind == ColumnKind::kBytes) return exact(number);
  std::string text = fixed(number, digits_of(column));
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  return text;
}

// Takes as many rows as fit, and then, in the same order, as many of their details as still fit.
class BrowserData {
 public:
  BrowserData(const Browser& browser, std::size_t budget) : browser_(browser) {
    for (const BrowserRow& row : browser.rows) {
      std::string text = row_text(row);
      bytes_ += text.size() + 6;
      if (bytes_ + texts_.bytes() > budget) break;
      rows_.push_back({row.place, std::move(text), "0,0"});
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!browser.rows[i].detail) continue;
      std::string text = detail_text(*browser.rows[i].detail);
      bytes_ += text.size();
      if (bytes_ + texts_.bytes() > budget) break;
      rows_[i].detail = std::move(text);
      ++detailed_;
    }
    std::sort(rows_.begin(), rows_.end(),
              [](const Packed& left, const Packed& right) { return left.place < right.place; });
  }

  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] std::size_t detailed() const { return detailed_; }

  // {"id": ..., "columns": [...], "texts": [...], "sizes": {...}, "rows": [...]}
  [[nodiscard]] std::string text() const {
    ordered_json value = {{"id", browser_.id},
                          {"one", browser_.noun_one},
                          {"many", browser_.noun_many},
                          {"order", browser_.order_text},
                          {"total", browser_.total},
                          {"columns", columns_json(browser_.columns)},
                          {"details", ordered_json::array()},
                          {"facets", ordered_json::array()},
                          {"texts", texts_.texts()},
                          {"sizes", sizes_}};
    for (const DetailTable& table : browser_.details) {
      value["details"].push_back(
          {{"caption", table.caption}, {"columns", columns_json(table.columns)}});
    }
    for (const Facet& facet : browser_.facets) {
      value["facets"].push_back({{"title", facet.title}, {"options", facet.options}});
      if (facet.keeps_later) value["facets"].back()["keepsLater"] = true;
    }
    std::string text = json_line(value);
    text.pop_back();
    text += ",\"rows\":[";
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      text += i == 0 ? "\n[" : ",\n[";
      text += rows_[i].row + "," + rows_[i].detail + "]";
    }
    return text + "\n]}";
  }

 private:
  static ordered_json columns_json(const std::vector<Column>& columns) {
    ordered_json value = ordered_json::array();
    for (const Column& column : columns) {
      value.push_back({{"title", column.title},
                       {"kind", kind_name(column.kind)},
                       {"digits", digits_of(column)}});
    }
    return value;
  }

  // A number, the index of a text in `texts`, or null. With a note: [value, index of the note].
  std::string cell_text(const Column& column, const Cell& cell) {
    std::string text = "null";
    if (const auto* number = std::get_if<double>(&cell.value)) {
      text = data_number(column, *number);
      if (column.kind == ColumnKind::kBytes) sizes_[text] = bytes_text(*number);
    } else if (const auto* words = std::get_if<std::string>(&cell.value)) {
      text = std::to_string(texts_.add(*words));
    }
    if (cell.note.empty()) return text;
    return "[" + text + "," + std::to_string(texts_.add(cell.note)) + "]";
  }

  std::string cells_text(const std::vector<Column>& columns, const Row& row) {
    std::string text = "[";
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) text += ",";
      text += cell_text(columns[i], i < row.size() ? row[i] : Cell());
    }
    return text + "]";
  }

  // The cells of the row, then its facets.
  std::string row_text(const BrowserRow& row) {
    std::string text = cells_text(browser_.columns, row.cells) + ",[";
    for (std::size_t i = 0; i < row.facets.size(); ++i) {
      text += (i == 0 ? "" : ",") + std::to_string(row.facets[i]);
    }
    return text + "]";
  }

  // The facts as (label, text, whether it is code, label, ...), then the rows of the tables.
  std::string detail_text(const RowDetail& detail) {
    std::string text = "[";
    for (std::size_t i = 0; i < detail.facts.size(); ++i) {
      const Fact& fact = detail.facts[i];
      text += (i == 0 ? "" : ",") + std::to_string(texts_.add(fact.label)) + "," +
              std::to_string(texts_.add(fact.text)) + "," + (fact.is_code ? "1" : "0");
    }
    text += "],[";
    for (std::size_t table = 0; table < detail.tables.size(); ++table) {
      text += table == 0 ? "[" : ",[";
      for (std::size_t i = 0; i < detail.tables[table].size(); ++i) {
        text += (i == 0 ? "" : ",") +
                cells_text(browser_.details[table].columns, detail.tables[table][i]);
      }
      text += "]";
    }
    return text + "]";
  }

  struct Packed {
    std::size_t place;
    std::string row;
    std::string detail;
  };

  const Browser& browser_;
  TextTable texts_;
  ordered_json sizes_ = ordered_json::object();
  std::vector<Packed> rows_;
  std::size_t detailed_ = 0;
  std::size_t bytes_ = 0;
};

std::string_view chart_kind_name(ChartKind kind) {
  switch (kind) {
    case ChartKind::kLines:
      return "lines";
    case ChartKind::kSteps:
      return "steps";
    case ChartKind::kStackedBars:
      return "stacked";
    case ChartKind::kGroupedBars:
      return "grouped";
    case ChartKind::kPoints:
      return "points";
  }
  return "lines";
}

ordered_json chart_json(const Chart& chart) {
  ordered_json series = ordered_json::array();
  for (const Series& one : chart.series) {
    ordered_json values = ordered_json::array();
    for (const std::optional<double>& value : one.values) {
      values.push_back(value ? ordered_json(*value) : ordered_json(nullptr));
    }
    series.push_back({{"name", one.name}, {"values", std::move(values)}});
    if (!one.x.empty()) series.back()["x"] = one.x;
  }
  ordered_json sizes = ordered_json::array();
  for (const double bytes : chart.x) sizes.push_back(bytes_text(bytes));
  return {{"id", chart.id},
          {"kind", chart_kind_name(chart.kind)},
          {"xTitle", chart.x_title},
          {"yTitle", chart.y_title},
          {"fromZero", chart.from_zero},
          {"x", chart.x},
          {"labels", chart.x.empty() ? ordered_json(chart.labels) : std::move(sizes)},
          {"series", std::move(series)}};
}

// ---- blocks

class HtmlBlockWriter {
 public:
  explicit HtmlBlockWriter(const Budget& budget) : left_(budget) {}

  std::string operator()(const Paragraph& paragraph) {
    return "<p class=\"prose\">" + inline_html(paragraph.text) + "</p>\n";
  }

  std::string operator()(const Figures& figures) {
    std::string html = "<dl class=\"figures\">\n";
    for (const Figure& figure : figures.figures) {
      html += "<div><dt>" + inline_html(figure.label) + "</dt><dd><span class=\"value\">" +
              inline_html(figure.value) + "</span><span class=\"note\">" +
              inline_html(figure.note) + "</span></dd></div>\n";
    }
    return html + "</dl>\n";
  }

  std::string operator()(const Table& table) {
    const std::size_t shown = std::min(table.rows.size(), left_.table_rows);
    std::string html = open_table(table.caption) + head_html(table.columns) + "<tbody>\n";
    for (std::size_t i = 0; i < shown; ++i) html += row_html(table.columns, table.rows[i]);
    html += "</tbody></table></div>\n";
    if (shown < table.rows.size()) {
      html +=
          "<p class=\"cut\">" + more(table.rows.size() - shown, "row") + " in report.json</p>\n";
    }
    return html;
  }

  std::string operator()(const Browser& browser) {
    const BrowserData data(browser, left_.browser_bytes);
    browsers_.push_back(data.text());
    left_.browser_bytes -= std::min(left_.browser_bytes, browsers_.back().size());
    std::string html = "<div class=\"browser\" id=\"browser-" + html_escape(browser.id) + "\">\n";
    if (data.size() < browser.total) {
      html +=
          "<p class=\"cut\">This page holds " + grouped(static_cast<std::int64_t>(data.size())) +
          " of " +
          counted(static_cast<std::int64_t>(browser.total), browser.noun_one, browser.noun_many) +
          ": " + html_escape(browser.cut_text) + ". All of them are in report.json.</p>\n";
    }
    if (!browser.note.empty()) {
      html += "<p class=\"cut\">" + html_escape(browser.note) + "</p>\n";
    }
    if (!browser.details.empty() && data.detailed() < data.size()) {
      html +=
          "<p class=\"cut\">" +
          counted(static_cast<std::int64_t>(data.detailed()), browser.noun_one, browser.noun_many) +
          " can be opened here; the details of the others are in report.json.</p>\n";
    }
    // Without JavaScript, only the first rows in reading order are shown.
    std::vector<const BrowserRow*> first;
    for (std::size_t i = 0; i < data.size(); ++i) first.push_back(&browser.rows[i]);
    std::sort(first.begin(), first.end(), [](const BrowserRow* left, const BrowserRow* right) {
      return left->place < right->place;
    });
    if (first.size() > kRowsWithoutScript) first.resize(kRowsWithoutScript);
    html += open_table(browser.caption + ", " + browser.order_text) + head_html(browser.columns) +
            "<tbody>\n";
    for (const BrowserRow* row : first) html += row_html(browser.columns, row->cells);
    html += "</tbody></table></div>\n";
    if (first.size() < data.size()) {
      html += "<noscript><p class=\"cut\">These are the first " + std::to_string(first.size()) +
              "; with JavaScript the page shows them all.</p></noscript>\n";
    }
    return html + "</div>\n";
  }

  std::string operator()(const Charts& charts) {
    std::vector<std::string> figures;
    for (const Chart& chart : charts.charts) {
      ordered_json data = chart_json(chart);
      std::string figure = figure_html(chart);
      const std::size_t bytes = json_line(data).size() + figure.size();
      if (bytes > left_.chart_bytes) break;
      left_.chart_bytes -= bytes;
      charts_.push_back(std::move(data));
      figures.push_back(std::move(figure));
    }
    const std::size_t open = std::min(figures.size(), kOpenCharts);
    std::string html = "<div class=\"charts\">\n";
    for (std::size_t i = 0; i < open; ++i) html += figures[i];
    html += "</div>\n";
    if (open < figures.size()) {
      html += "<details class=\"more\"><summary>" + more(figures.size() - open, "chart") +
              "</summary><div class=\"charts\">\n";
      for (std::size_t i = open; i < figures.size(); ++i) html += figures[i];
      html += "</div></details>\n";
    }
    if (figures.size() < charts.charts.size()) {
      html += "<p class=\"cut\">" + more(charts.charts.size() - figures.size(), "chart") +
              " in report.json</p>\n";
    }
    return html;
  }

  std::string operator()(const Timeline& timeline) {
    return picture_html("timeline", timeline.id, timeline.title, timeline_svg(timeline),
                        timeline_legend(timeline), picture_table(timeline));
  }

  std::string operator()(const HostPicture& picture) {
    return picture_html("hosts", picture.id, picture.title, host_svg(picture), host_legend(picture),
                        picture_table(picture));
  }

  std::string operator()(const AreaPicture& picture) {
    return picture_html("area", picture.id, picture.title, area_svg(picture), area_legend(picture),
                        picture_table(picture));
  }

  std::string operator()(const LayoutPicture& picture) {
    return picture_html("layouts", picture.id, picture.title, layouts_html(picture), "",
                        picture_table(picture));
  }

  std::string operator()(const Listing& listing) {
    std::string text = listing.text;
    std::string cut;
    if (text.size() > left_.listing_bytes) {
      const std::size_t line = text.rfind('\n', left_.listing_bytes);
      text.resize(line == std::string::npos ? 0 : line);
      cut = "<p class=\"cut\">Cut here; the rest is in report.json.</p>";
    }
    return "<details class=\"listing\"><summary>" + html_escape(listing.title) +
           "</summary><pre tabindex=\"0\"><code>" + html_escape(text) + "</code></pre>" + cut +
           "</details>\n";
  }

  // {"browsers": [...], "charts": [...]}
  [[nodiscard]] std::string data() const {
    std::string text = "{\"browsers\":[";
    for (std::size_t i = 0; i < browsers_.size(); ++i) text += (i == 0 ? "" : ",") + browsers_[i];
    return text + "],\"charts\":" + json_line(charts_) + "}";
  }

 private:
  // A picture scrolls inside its box where the window is too narrow for it.
  std::string picture_html(const std::string& kind, const std::string& id, const std::string& title,
                           const std::string& svg, const std::string& legend,
                           const Table& numbers) {
    return "<figure class=\"chart picture " + kind + "\" id=\"picture-" + html_escape(id) +
           "\"><figcaption>" + inline_html(title) +
           "</figcaption><div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" +
           html_escape(plain_text(title)) + "\">" + svg +
           "</div><p class=\"hint\">The picture goes on to the right: scroll it sideways.</p>" +
           legend + "<details class=\"numbers\"><summary>Numbers</summary>" + (*this)(numbers) +
           "</details></figure>\n";
  }

  // "12 more charts".
  static std::string more(std::size_t number, const std::string& one) {
    return counted(static_cast<std::int64_t>(number), "more " + one, "more " + one + "s");
  }

  [[nodiscard]] std::string figure_html(const Chart& chart) const {
    const std::string id = html_escape(chart.id);
    const std::string description =
        plain_text(chart.title) + ": " + chart.y_title + " by " + chart.x_title + ", " +
        counted(static_cast<std::int64_t>(chart.series.size()), "series", "series");
    std::string html = "<figure class=\"chart\"><figcaption>" + inline_html(chart.title) +
                       "</figcaption><div class=\"plot\"><canvas id=\"chart-" + id +
                       "\" role=\"img\" aria-label=\"" + html_escape(description) +
                       "\"></canvas></div><ul class=\"legend\" id=\"legend-" + id + "\"></ul>";
    if (!chart.is_tabulated) html += numbers_html(chart);
    return html + "</figure>\n";
  }

  [[nodiscard]] std::string numbers_html(const Chart& chart) const {
    std::string html = "<details class=\"numbers\"><summary>Numbers</summary>";
    for (const Table& table : chart_tables(chart, left_.table_rows)) {
      html += open_table(table.caption) + head_html(table.columns) + "<tbody>\n";
      for (const Row& row : table.rows) html += row_html(table.columns, row);
      html += "</tbody></table></div>";
    }
    return html + "</details>";
  }

  Budget left_;
  std::vector<std::string> browsers_;
  ordered_json charts_ = ordered_json::array();
};

std::string section_html(const RenderedSection& rendered, HtmlBlockWriter& writer) {
  const std::string id = html_escape(rendered.section->id);
  std::string html = "<section id=\"" + id + "\" aria-labelledby=\"" + id + "-title\">\n<h2 id=\"" +
                     id + "-title\">" + html_escape(rendered.section->title) +
                     "</h2>\n<p class=\"question\">" + html_escape(rendered.section->question) +
                     "</p>\n";
  for (const Block& block : rendered.content.blocks) html += std::visit(writer, block);
  return html + "<p class=\"answer\"><strong>Answer</strong> " +
         inline_html(rendered.content.answer) + "</p>\n</section>\n";
}

std::string navigation_html(const RenderedReport& report) {
  std::string html = "<nav aria-label=\"Sections\"><ol>\n";
  for (const RenderedSection& section : report.sections) {
    html += "<li><a href=\"#" + html_escape(section.section->id) + "\">" +
            html_escape(section.section->title) + "</a></li>\n";
  }
  return html + "</ol></nav>\n";
}

std::string page_html(const RenderedReport& report, const Budget& budget) {
  HtmlBlockWriter writer(budget);
  std::string body;
  for (const RenderedSection& section : report.sections) body += section_html(section, writer);

  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n<title>shardlab: " +
      html_escape(plain_text(report.title)) + "</title>\n<style>\n";
  append(html, embedded_page_css());
  html +=
      "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#content\">Skip to the report</a>\n"
      "<header class=\"masthead\"><p class=\"kicker\">shardlab &middot; " +
      html_escape(report.kind) + "</p>\n<h1>" + inline_html(report.title) +
      "</h1>\n<p class=\"lede\">" + inline_html(report.sentence) + "</p></header>\n" +
      navigation_html(report) + "<main id=\"content\">\n" + body + "</main>\n";
  html += "<script type=\"application/json\" id=\"report-data\">" +
          json_script_safe(writer.data()) + "</script>\n";
  html += "<script>\n/*\n" + std::string(kChartLicence) + "\n*/\n" +
          script_safe(embedded_chart_js()) + "\n</script>\n<script>\n" +
          script_safe(embedded_page_js()) + "</script>\n</body>\n</html>\n";
  return html;
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string html;
  html.reserve(text.size());
  for (const char c : printable_lines(text)) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string write_html(const RenderedReport& report) {
  std::string html;
  for (const Budget& budget : kBudgets) {
    html = page_html(report, budget);
    if (html.size() < kHtmlLimit) break;
  }
  return html;
}

}  // namespace shardlab::reports
