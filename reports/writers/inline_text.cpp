#include "reports/writers/inline_text.h"

namespace shardlab::reports {

std::vector<InlineRun> inline_runs(std::string_view text) {
  std::vector<InlineRun> runs;
  while (!text.empty()) {
    const std::size_t open = text.find('`');
    const std::size_t close = open == std::string_view::npos ? open : text.find('`', open + 1);
    if (close == std::string_view::npos) {
      runs.push_back({false, text});
      break;
    }
    if (open > 0) runs.push_back({false, text.substr(0, open)});
    if (close > open + 1) runs.push_back({true, text.substr(open + 1, close - open - 1)});
    text.remove_prefix(close + 1);
  }
  return runs;
}

std::string plain_text(std::string_view text) {
  std::string plain;
  for (const InlineRun& run : inline_runs(text)) plain += run.text;
  return plain;
}

std::string_view verdict_symbol(std::string_view verdict) {
  if (verdict == "better") return "\u25b2";
  if (verdict == "worse") return "\u25bc";
  if (verdict == "equal") return "=";
  if (verdict == "undecided") return "?";
  if (verdict == "wrong") return "\u2717";
  if (verdict == "holds") return "\u2713";
  if (verdict == "broken") return "\u2717";
  return "";
}

}  // namespace shardlab::reports
