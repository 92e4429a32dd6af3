// The order in which Python walks a set of placements, in which PyTorch lists what it tries.
//
//   PythonSet set;
//   set.add(Placement::replicate());
//   set.add(Placement::shard(0));
//   set.in_order()                      // S(0), R
//
// The order follows the hashes of the placements alone, which are the same in every process: -2 for
// R, the dim for a shard, and the hash of the tuple (dim, split factor) for a strided one. Only a
// partial's hash comes from a text, which Python draws anew in each process unless PYTHONHASHSEED
// is set; here it is the one of PYTHONHASHSEED=0. Partials of masks and norms are taken for sums.
// Sources: PyTorch 2.13.0, 2.14.1 and 2.15.0, __hash__ of the placement types; CPython 3.11 to
// 3.13, Objects/setobject.c (how a set grows and probes) and Objects/tupleobject.c (the hash of a
// tuple).
#pragma once

#include <optional>
#include <vector>

#include "sim/placement.h"

namespace shardlab {

class PythonSet {
 public:
  PythonSet() : table_(kSmallest) {}

  // set.add(placement)
  void add(const Placement& placement);
  // set |= other. Into an empty set this is set(other), which may change the order.
  void add_all(const PythonSet& other);

  [[nodiscard]] std::vector<Placement> in_order() const;

 private:
  static constexpr std::size_t kSmallest = 8;

  struct Entry {
    Placement placement;
    std::int64_t hash = 0;
  };
  using Table = std::vector<std::optional<Entry>>;

  // The slot of the entry, or the free one where it belongs.
  [[nodiscard]] static std::size_t slot_of(const Table& table, const Entry& entry);
  void insert(const Entry& entry);
  void resize(std::size_t more_than);

  Table table_;  // a power of two
  std::size_t used_ = 0;
};

}  // namespace shardlab
