// The nodes of the graph planner's search, and the queue and the table that hold them. Only the
// files graph* include this.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "costmodel/base/units.h"

namespace shardlab::graph_search {

// A layout as a number of 128 bits. Each mesh dim has a field of 16: 12 bits for the code that its
// placement has in this search, and 4 for its position in the shard order.
struct Key {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  [[nodiscard]] std::uint32_t field(int i) const {
    const std::uint64_t half = i < 4 ? low : high;
    return static_cast<std::uint32_t>(half >> (16U * static_cast<unsigned>(i & 3))) & 0xffffU;
  }
  void set(int i, std::uint32_t value) {
    std::uint64_t& half = i < 4 ? low : high;
    const unsigned shift = 16U * static_cast<unsigned>(i & 3);
    half = (half & ~(std::uint64_t{0xffff} << shift)) | (std::uint64_t{value} << shift);
  }
  [[nodiscard]] std::size_t hash() const {
    std::uint64_t x = low * 0x9e3779b97f4a7c15ULL ^ (high + 0x7f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 29U;
    x *= 0x94d049bb133111ebULL;
    return static_cast<std::size_t>(x ^ (x >> 32U));
  }
  friend bool operator==(const Key&, const Key&) = default;
};

constexpr std::uint32_t field_of(std::uint32_t code, std::uint32_t position) {
  return code | position << 12U;
}
constexpr std::uint32_t code_of(std::uint32_t field) { return field & 0xfffU; }
constexpr std::uint32_t position_of(std::uint32_t field) { return field >> 12U; }

constexpr std::uint32_t kNone = 0xffffffffU;
struct Node {
  Key key;
  double cost = kInfinity;
  std::uint32_t parent = kNone;
  std::int8_t moved = -1;  // the mesh dim that changed between the parent and this node
  bool visited = false;
};

// A queue of nodes by ascending cost. Among equal costs either the first or the last that was
// pushed comes out first. Most edges cost nothing, so most nodes that are pushed cost as much as
// the node that was popped last. Those wait in a list of their own instead of the heap.
enum class Among : std::uint8_t { kFirstIn, kLastIn };
template <Among kEquals>
class Queue {
 public:
  struct Entry {
    double cost;
    std::uint32_t node;
  };

  void clear() {
    heap_.clear();
    equals_.clear();
    taken_ = 0;
    counter_ = 0;
    now_ = -1.0;
  }
  [[nodiscard]] bool empty() const { return heap_.empty() && taken_ == equals_.size(); }

  void push(double cost, std::uint32_t node) {
    if (cost == now_) {
      equals_.push_back(node);
      return;
    }
    heap_.push_back({cost, kEquals == Among::kFirstIn ? counter_++ : counter_--, node});
    std::push_heap(heap_.begin(), heap_.end());
  }

  // Assumes !empty().
  Entry pop() {
    // Nodes in the list were pushed later than all nodes in the heap.
    const bool older_in_heap = !heap_.empty() && heap_.front().cost == now_;
    if (taken_ < equals_.size() && !(kEquals == Among::kFirstIn && older_in_heap)) {
      if (kEquals == Among::kFirstIn) return {now_, equals_[taken_++]};
      const std::uint32_t node = equals_.back();
      equals_.pop_back();
      return {now_, node};
    }
    if (taken_ == equals_.size()) {
      equals_.clear();
      taken_ = 0;
    }
    const Item item = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    now_ = item.cost;
    return {item.cost, item.node};
  }

 private:
  struct Item {
    double cost;
    std::int32_t counter;
    std::uint32_t node;
    // The order is inverted, because std::push_heap keeps the largest item on top.
    friend bool operator<(const Item& a, const Item& b) {
      return a.cost > b.cost || (!(a.cost < b.cost) && a.counter > b.counter);
    }
  };

  std::vector<Item> heap_;
  std::vector<std::uint32_t> equals_;
  std::size_t taken_ = 0;  // how many of equals_ were popped
  std::int32_t counter_ = 0;
  double now_ = -1.0;  // cost of the node that was popped last
};

// The nodes of one search by key: a hash table with open addressing. It keeps its memory when it is
// cleared for the next search.
class NodeTable {
 public:
  void clear(std::size_t expected) {
    std::size_t wanted = 64;
    while (wanted < expected * 2) wanted *= 2;
    if (slots_.size() < wanted) slots_.resize(wanted);
    for (const std::uint32_t slot : used_) slots_[slot] = kNone;
    if (fresh_ != slots_.size()) {
      std::fill(slots_.begin(), slots_.end(), kNone);
      fresh_ = slots_.size();
    }
    used_.clear();
    nodes.clear();
  }

  std::uint32_t find_or_add(const Key& key) {
    if (nodes.size() * 2 >= slots_.size()) grow();
    std::size_t slot = key.hash() & (slots_.size() - 1);
    while (slots_[slot] != kNone) {
      if (nodes[slots_[slot]].key == key) return slots_[slot];
      slot = (slot + 1) & (slots_.size() - 1);
    }
    const auto index = static_cast<std::uint32_t>(nodes.size());
    slots_[slot] = index;
    used_.push_back(static_cast<std::uint32_t>(slot));
    nodes.push_back({.key = key});
    return index;
  }

  [[nodiscard]] std::uint32_t find(const Key& key) const {
    if (slots_.empty()) return kNone;
    std::size_t slot = key.hash() & (slots_.size() - 1);
    while (slots_[slot] != kNone) {
      if (nodes[slots_[slot]].key == key) return slots_[slot];
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return kNone;
  }

  std::vector<Node> nodes;

 private:
  void grow() {
    slots_.assign(slots_.size() * 2, kNone);
    fresh_ = slots_.size();
    used_.clear();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      std::size_t slot = nodes[i].key.hash() & (slots_.size() - 1);
      while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<std::uint32_t>(i);
      used_.push_back(static_cast<std::uint32_t>(slot));
    }
  }

  std::vector<std::uint32_t> slots_;
  std::vector<std::uint32_t> used_;
  std::size_t fresh_ = 0;
};

}  // namespace shardlab::graph_search
