// The options of a browser's filter. Texts are numbered as they are first seen, or in alphabetical
// order.
//
//   FacetOptions meshes = sorted_options(items, [](const Item& item) { return item.mesh; });
//   meshes.add("2x4");          // its number
//   meshes.values();            // for Facet::options
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace shardlab::reports {

class FacetOptions {
 public:
  std::size_t add(const std::string& value) {
    const auto [found, is_new] = place_.try_emplace(value, values_.size());
    if (is_new) values_.push_back(value);
    return found->second;
  }
  [[nodiscard]] const std::vector<std::string>& values() const { return values_; }

 private:
  std::vector<std::string> values_;
  std::unordered_map<std::string, std::size_t> place_;
};

template <class Items, class ValueOf>
[[nodiscard]] FacetOptions sorted_options(const Items& items, const ValueOf& value_of) {
  std::vector<std::string> values;
  for (const auto& item : items) values.push_back(value_of(item));
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  FacetOptions options;
  for (const std::string& value : values) options.add(value);
  return options;
}

}  // namespace shardlab::reports
