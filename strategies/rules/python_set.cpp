#include "strategies/rules/python_set.h"

#include <bit>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// Objects/setobject.c: how many slots after the first one are tried before the search jumps on
// (LINEAR_PROBES), and by how many bits of the hash the next jump differs (PERTURB_SHIFT).
constexpr std::size_t kNeighbours = 9;
constexpr int kPerturbShift = 5;

// hash((dim, factor)): CPython's variant of xxHash. The constants are _PyHASH_XXPRIME_1, _2 and _5
// of Objects/tupleobject.c, and 3527539 is the number that it mixes with the length.
std::int64_t hash_of_pair(std::int64_t dim, std::int64_t factor) {
  constexpr std::uint64_t kPrime1 = 11400714785074694791U;
  constexpr std::uint64_t kPrime2 = 14029467366897019727U;
  constexpr std::uint64_t kPrime5 = 2870177450012600261U;
  std::uint64_t hash = kPrime5;
  for (const std::int64_t item : {dim, factor}) {
    hash += static_cast<std::uint64_t>(item) * kPrime2;
    hash = std::rotl(hash, 31) * kPrime1;
  }
  return static_cast<std::int64_t>(hash + (2U ^ (kPrime5 ^ 3527539U)));
}

// 1 + hash(name of the op), with PYTHONHASHSEED=0.
std::int64_t hash_of_partial(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return -8474663593505626638;
    case ReduceOp::kAvg:
      return -8735798916851054570;
    case ReduceOp::kMax:
      return -8547758369677143136;
    case ReduceOp::kMin:
      return -7571550297259199965;
    case ReduceOp::kProduct:
      return -2607318637830267426;
    case ReduceOp::kBand:
      return 2549681034157591845;
    case ReduceOp::kBor:
      return -1011428023753604185;
    case ReduceOp::kBxor:
      return -1415519461181237531;
  }
  SHARDLAB_CHECK(false, "no such reduce op");
  return 0;
}

std::int64_t hash_of(const Placement& p) {
  if (p.is_strided()) return hash_of_pair(p.dim(), p.split_factor());
  if (p.is_shard_like()) return p.dim();
  if (p.is_partial()) return hash_of_partial(p.reduce_op());
  return -2;  // Replicate's -1, which Python keeps for errors
}

}  // namespace

std::size_t PythonSet::slot_of(const Table& table, const Entry& entry) {
  const std::size_t mask = table.size() - 1;
  auto perturb = static_cast<std::uint64_t>(entry.hash);
  std::size_t first = perturb & mask;
  while (true) {
    const std::size_t more = first + kNeighbours <= mask ? kNeighbours : 0;
    for (std::size_t slot = first; slot <= first + more; ++slot) {
      if (!table[slot] || table[slot]->placement == entry.placement) return slot;
    }
    perturb >>= kPerturbShift;
    first = (first * 5 + 1 + perturb) & mask;
  }
}

void PythonSet::insert(const Entry& entry) {
  std::optional<Entry>& slot = table_[slot_of(table_, entry)];
  if (slot) return;
  slot = entry;
  ++used_;
  if (used_ * 5 >= (table_.size() - 1) * 3) resize(used_ * 4);
}

void PythonSet::resize(std::size_t more_than) {
  std::size_t size = kSmallest;
  while (size <= more_than) size *= 2;
  Table larger(size);
  for (const std::optional<Entry>& entry : table_) {
    if (entry) larger[slot_of(larger, *entry)] = entry;
  }
  table_ = std::move(larger);
}

void PythonSet::add(const Placement& placement) { insert({placement, hash_of(placement)}); }

void PythonSet::add_all(const PythonSet& other) {
  if (other.used_ == 0) return;
  if ((used_ + other.used_) * 5 >= (table_.size() - 1) * 3) resize((used_ + other.used_) * 2);
  if (used_ == 0 && table_.size() == other.table_.size()) {
    *this = other;
    return;
  }
  for (const std::optional<Entry>& entry : other.table_) {
    if (entry) insert(*entry);
  }
}

std::vector<Placement> PythonSet::in_order() const {
  std::vector<Placement> placements;
  for (const std::optional<Entry>& entry : table_) {
    if (entry) placements.push_back(entry->placement);
  }
  return placements;
}

}  // namespace shardlab
