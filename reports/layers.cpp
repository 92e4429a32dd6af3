#include "reports/layers.h"

#include <unordered_map>

namespace shardlab::reports {
namespace {

constexpr std::size_t kShortest = 4;  // ops; a shorter sequence may repeat by chance

}  // namespace

Layers layers_of(const std::vector<std::string>& ops) {
  std::unordered_map<std::string, int> numbers;
  std::vector<int> text;
  for (const std::string& op : ops) {
    text.push_back(numbers.try_emplace(op, static_cast<int>(numbers.size())).first->second);
  }
  Layers best;
  for (std::size_t length = kShortest; 2 * length <= text.size(); ++length) {
    std::size_t run = 0;  // positions in a row whose op comes again `length` later
    for (std::size_t i = 0; i + length < text.size(); ++i) {
      run = text[i] == text[i + length] ? run + 1 : 0;
      if (run < length) continue;
      const std::size_t repeats = run / length + 1;
      if (repeats * length > best.repeats * best.length) best = {i + 1 - run, length, repeats};
    }
  }
  // A sequence that covers less than half of the ops repeats within a layer and is no layer itself.
  return 2 * best.repeats * best.length < text.size() ? Layers() : best;
}

}  // namespace shardlab::reports
