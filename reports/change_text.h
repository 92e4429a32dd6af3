// Layouts that change, as one cell of a table says them: "`w1` `S(0)R` to `RR`, `w2` `S(0)R` to
// `RR`, `w3` `S(0)R` to `RR` and 5 more".
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/records/solution_answers.h"
#include "reports/summary.h"

namespace shardlab::reports {

template <class Change>
[[nodiscard]] std::string change_text(const std::vector<Change>& changes) {
  constexpr std::size_t kFew = 3;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(changes.size(), kFew); ++i) {
    parts.push_back(code(changes[i].what) + " " + code(changes[i].from) + " to " +
                    code(changes[i].to));
  }
  if (changes.size() > kFew) {
    parts.push_back(grouped(static_cast<std::int64_t>(changes.size() - kFew)) + " more");
  }
  return listed(parts);
}

}  // namespace shardlab::reports
