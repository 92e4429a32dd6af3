// A hash table from 64-bit keys to small integers, for the memo tables of the solvers: open
// addressing, no removal, a power of two of slots at most two thirds full.
//
//   KeyIndex memo;
//   int& known = memo[key];   // -1 when the key is new; valid until the next call
#pragma once

#include <cstdint>
#include <vector>

namespace shardlab {

class KeyIndex {
 public:
  KeyIndex() : slots_(64) {}

  int& operator[](std::uint64_t key) {
    if (3 * used_ >= 2 * slots_.size()) grow();
    Slot& slot = find(key);
    if (!slot.taken) {
      slot.taken = true;
      slot.key = key;
      ++used_;
    }
    return slot.value;
  }

  // The finaliser of splitmix64: every bit of the key moves every bit of the result.
  // Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
  static std::uint64_t mixed(std::uint64_t key) {
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9U;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebU;
    return key ^ (key >> 31);
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    int value = -1;
    bool taken = false;
  };
  Slot& find(std::uint64_t key) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = static_cast<std::size_t>(mixed(key)) & mask;
    while (slots_[at].taken && slots_[at].key != key) at = (at + 1) & mask;
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.taken) find(slot.key) = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace shardlab
