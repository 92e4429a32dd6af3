#include "strategies/programs/repeated_regions.h"

#include <algorithm>
#include <boost/dynamic_bitset.hpp>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "costmodel/base/error.h"
#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace {

using Bits = boost::dynamic_bitset<std::uint64_t>;
using Region = std::vector<std::uint32_t>;

// The arguments that are integers; every other argument becomes null.
nlohmann::json integers_of(const nlohmann::json& args) {
  if (args.is_array()) {
    nlohmann::json kept = nlohmann::json::array();
    for (const nlohmann::json& arg : args) kept.push_back(integers_of(arg));
    return kept;
  }
  return args.is_number_integer() || args.is_boolean() ? args : nlohmann::json();
}

class Clusters {
 public:
  Clusters(const Program& program, const ProgramStrategies& strategies)
      : program_(program), strategies_(strategies) {
    const std::size_t count = program.nodes.size();
    if (count > kMostRegionNodes) {
      throw LimitError("the program has " + std::to_string(count) +
                       " nodes, among which repeated layers are sought; valid: at most " +
                       std::to_string(kMostRegionNodes));
    }
    reads_.resize(count);
    readers_.resize(count);
    ancestors_.assign(count, Bits(count));
    for (std::uint32_t n = 0; n < count; ++n) {
      for (const ValueRef& value : values_read(program.nodes[n])) {
        const auto producer = static_cast<std::uint32_t>(value.node);
        if (std::find(reads_[n].begin(), reads_[n].end(), producer) != reads_[n].end()) continue;
        reads_[n].push_back(producer);
        readers_[producer].push_back(n);
        ancestors_[n] |= ancestors_[producer];
        ancestors_[n].set(producer);
      }
    }
    number_alike();
  }

  std::vector<std::uint32_t> run() {
    std::vector<std::uint32_t> root(program_.nodes.size());
    std::iota(root.begin(), root.end(), 0U);
    Bits seen(program_.nodes.size());
    for (auto group = members_.rbegin(); group != members_.rend(); ++group) {
      if (group->size() < 2) continue;
      if (std::any_of(group->begin(), group->end(), [&](std::uint32_t n) { return seen[n]; })) {
        continue;
      }
      std::vector<Region> regions;
      for (const std::uint32_t n : *group) regions.push_back({n});
      grow(regions, seen);
      if (regions[0].size() < 2) continue;
      for (Region& region : regions) std::sort(region.begin(), region.end());
      std::sort(regions.begin(), regions.end());
      for (std::size_t r = 1; r < regions.size(); ++r) {
        for (std::size_t i = 0; i < regions[r].size(); ++i) root[regions[r][i]] = regions[0][i];
      }
    }
    return root;
  }

 private:
  // Numbers the kinds of alike nodes, in the order of their first nodes.
  void number_alike() {
    using Key = std::pair<std::string, std::vector<std::uint32_t>>;
    std::map<Key, std::uint32_t> numbers;
    for (std::uint32_t n = 0; n < program_.nodes.size(); ++n) {
      const ProgramNode& node = program_.nodes[n];
      if (node.is_source()) {
        alike_.push_back(kNone);
        continue;
      }
      Key key{std::string(node.computes() ? node.op : kAlias) + ' ' +
                  std::string(to_string(node.phase)) + ' ' + node.trace +
                  integers_of(node.args).dump(),
              strategies_.of(n).tensors};
      for (const ValueRef& value : values_read(node)) {
        key.second.push_back(strategies_.meta(value.node, value.output));
        key.second.push_back(static_cast<std::uint32_t>(value.output));
        std::vector<LayoutListId> lists = strategies_.of(value.node).tensors;
        // For AutoParallel, a node that reads nothing reads what it makes, as an alias does.
        if (strategies_.of(value.node).inputs() == 0) lists.push_back(lists[0]);
        key.second.push_back(static_cast<std::uint32_t>(lists.size()));
        key.second.insert(key.second.end(), lists.begin(), lists.end());
      }
      const auto [it, is_new] =
          numbers.try_emplace(std::move(key), static_cast<std::uint32_t>(members_.size()));
      if (is_new) members_.emplace_back();
      alike_.push_back(it->second);
      members_[it->second].push_back(n);
    }
  }

  // A region while it grows, and the nodes that it may take next.
  struct Growing {
    Region* nodes;
    std::deque<std::uint32_t> queue;
    Bits ancestors;

    [[nodiscard]] std::optional<std::uint32_t> next() {
      if (queue.empty()) return std::nullopt;
      const std::uint32_t node = queue.front();
      queue.pop_front();
      return node;
    }
  };

  [[nodiscard]] bool closes_a_cycle(const Growing& region, std::uint32_t node) const {
    return std::any_of(readers_[node].begin(), readers_[node].end(), [&](std::uint32_t reader) {
      return region.ancestors[reader] &&
             std::find(region.nodes->begin(), region.nodes->end(), reader) == region.nodes->end();
    });
  }

  void grow(std::vector<Region>& regions, Bits& seen) const {
    std::vector<Growing> all;
    for (Region& region : regions) {
      const std::uint32_t first = region[0];
      all.push_back({&region, {reads_[first].begin(), reads_[first].end()}, ancestors_[first]});
    }
    const Phase phase = program_.nodes[regions[0][0]].phase;
    while (const std::optional<std::uint32_t> current = all[0].next()) {
      std::vector<std::uint32_t> added = {*current};
      bool fits = !closes_a_cycle(all[0], *current);
      for (std::size_t r = 1; r < all.size(); ++r) {
        const std::optional<std::uint32_t> candidate = all[r].next();
        fits = fits && candidate && !seen[*candidate] &&
               std::find(added.begin(), added.end(), *candidate) == added.end() &&
               alike_[*candidate] != kNone && alike_[*candidate] == alike_[*current] &&
               program_.nodes[*candidate].phase == phase && !closes_a_cycle(all[r], *candidate);
        if (candidate) added.push_back(*candidate);
      }
      if (!fits) continue;
      for (std::size_t r = 0; r < all.size(); ++r) {
        const std::uint32_t node = added[r];
        all[r].nodes->push_back(node);
        all[r].queue.insert(all[r].queue.end(), reads_[node].begin(), reads_[node].end());
        all[r].ancestors |= ancestors_[node];
        seen.set(node);
      }
    }
  }

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  const Program& program_;
  const ProgramStrategies& strategies_;
  std::vector<std::vector<std::uint32_t>> reads_;    // by node: each producer once
  std::vector<std::vector<std::uint32_t>> readers_;  // by node: each reader once
  std::vector<Bits> ancestors_;
  std::vector<std::uint32_t> alike_;                 // by node: its kind, or kNone for a source
  std::vector<std::vector<std::uint32_t>> members_;  // by kind
};

}  // namespace

std::vector<std::uint32_t> repeated_regions(const Program& program,
                                            const ProgramStrategies& strategies) {
  return Clusters(program, strategies).run();
}

}  // namespace shardlab
