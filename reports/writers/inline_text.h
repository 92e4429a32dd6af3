// Splits the text of a document into plain words and code: "`dtensor-v4` flips 2" is the code
// "dtensor-v4" and the plain text " flips 2". A backtick without a partner is plain text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardlab::reports {

struct InlineRun {
  bool is_code = false;
  std::string_view text;
};

// The runs point into `text`.
[[nodiscard]] std::vector<InlineRun> inline_runs(std::string_view text);

// The text without its backticks, for places that cannot show code: a terminal, a title.
[[nodiscard]] std::string plain_text(std::string_view text);

// "▲" for better, "▼" for worse, "=" for equal, "?" for undecided, "✓" for holds, "✗" for wrong and
// broken;
// "" for anything else.
[[nodiscard]] std::string_view verdict_symbol(std::string_view verdict);

}  // namespace shardlab::reports
