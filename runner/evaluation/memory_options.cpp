#include "runner/evaluation/memory_options.h"

#include <span>
#include <vector>

#include "costmodel/base/text.h"

namespace shardlab {

std::string memory_options(const Recomputation& in_use) {
  std::vector<std::string> options;
  if (in_use.kind == Recomputation::Kind::kNone) options.emplace_back("--recompute selective");
  if (!in_use.reshards_weights) options.emplace_back("--reshard-after-forward");
  if (!options.empty()) return join(std::span<const std::string>(options), " ");
  const bool recomputes_all = in_use.text() == "full" || in_use.text() == "every:1";
  return recomputes_all ? "more ranks" : "--recompute full, or more ranks";
}

}  // namespace shardlab
