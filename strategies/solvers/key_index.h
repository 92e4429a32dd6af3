// A hash table from 64-bit keys to small integers, for the memo tables of the solvers. It uses open
// addressing and never removes a key. The number of slots is a power of two; at most two thirds of
// them are in use.
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
    Slot& slot = slots_[position(key)];
    if (!slot.taken) {
      slot.taken = true;
      slot.key = key;
      ++used_;
    }
    return slot.value;
  }

  // The integer of the key, or -1 if the table does not have the key, which is not added.
  [[nodiscard]] int find(std::uint64_t key) const { return slots_[position(key)].value; }

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
  // The position of the slot that has the key, or that would take it.
  [[nodiscard]] std::size_t position(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = static_cast<std::size_t>(mixed(key)) & mask;
    while (slots_[slot].taken && slots_[slot].key != key) slot = (slot + 1) & mask;
    return slot;
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.taken) slots_[position(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace shardlab
