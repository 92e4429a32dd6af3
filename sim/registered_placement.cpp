#include "sim/registered_placement.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// The objects of the whole process by number, and their numbers by text. Objects are never removed,
// so that a number stays valid. Readers take no lock.
struct Objects {
  std::mutex mutex;
  std::map<std::string, int> number_of;
  std::vector<std::unique_ptr<const RegisteredPlacement>> owned;
  std::array<std::atomic<const RegisteredPlacement*>, Placement::kMostRegistered> by_number{};
};
Objects& objects() {
  static Objects all;
  return all;
}

// The entries that register_placement() added. The first look at `size` costs no lock.
struct Added {
  std::mutex mutex;
  std::vector<const PlacementEntry*> entries;
  std::atomic<std::size_t> size = 0;
};
Added& added() {
  static Added all;
  return all;
}

std::vector<const PlacementEntry*> added_entries() {
  Added& all = added();
  if (all.size.load(std::memory_order_acquire) == 0) return {};
  const std::lock_guard lock(all.mutex);
  return all.entries;
}

// The openings of built-in placements, which no other text may share. "R" and "P" stand alone.
constexpr std::string_view kBuiltIn[] = {"R",
                                         "Replicate",
                                         "P",
                                         "Partial",
                                         "S(",
                                         "Shard(",
                                         "_S(",
                                         "_StridedShard(",
                                         "MP",
                                         "MaskP(",
                                         "NP(",
                                         "_NormP(",
                                         "_MaskPartial(",
                                         "_NormPartial("};

bool take_opening(TextCursor& cursor, const PlacementEntry& entry, Placement& placement) {
  for (const std::string_view opening : entry.openings) {
    if (!cursor.take(opening)) continue;
    placement = Placement::registered(entry.parse(cursor, opening));
    return true;
  }
  return false;
}

}  // namespace

Placement Placement::registered(std::unique_ptr<const RegisteredPlacement> object) {
  SHARDLAB_CHECK(object != nullptr && object->dims() > 0 && object->dim() >= 0 &&
                     object->dim() + object->dims() <= kMaxTensorDims,
                 "a registered placement without tensor dims");
  Objects& all = objects();
  const std::lock_guard lock(all.mutex);
  const int dim = object->dim();
  std::string text = object->text();
  const auto known = all.number_of.find(text);
  if (known != all.number_of.end()) {
    return {Kind::kRegistered, ReduceOp::kSum, dim, known->second, 0};
  }
  const int number = static_cast<int>(all.owned.size());
  if (number == kMostRegistered) {
    throw LimitError("found more than " + std::to_string(kMostRegistered) +
                     " different registered placements, the last one " + text +
                     "; valid: at most so many in one run");
  }
  all.by_number[to_index(number)].store(object.get(), std::memory_order_release);
  all.owned.push_back(std::move(object));
  all.number_of.emplace(std::move(text), number);
  return {Kind::kRegistered, ReduceOp::kSum, dim, number, 0};
}

const RegisteredPlacement& Placement::registered() const {
  SHARDLAB_CHECK(is_registered(), "a built-in placement");
  return *objects().by_number[to_index(factor_)].load(std::memory_order_acquire);
}

std::partial_ordering Placement::order_of_registered(const Placement& a, const Placement& b) {
  if (a == b) return std::partial_ordering::equivalent;
  return a.registered().text() <=> b.registered().text();
}

std::vector<const PlacementEntry*> registered_entries() {
  const auto shipped = all_registered_placements();
  std::vector<const PlacementEntry*> entries(shipped.begin(), shipped.end());
  const std::vector<const PlacementEntry*> more = added_entries();
  entries.insert(entries.end(), more.begin(), more.end());
  return entries;
}

const PlacementEntry* find_placement_entry(std::string_view name) {
  for (const PlacementEntry* entry : registered_entries()) {
    if (entry->name == name) return entry;
  }
  return nullptr;
}

void register_placement(const PlacementEntry& entry) {
  SHARDLAB_CHECK(entry.parse != nullptr && !entry.name.empty() && !entry.openings.empty(),
                 "the placement \"", entry.name, "\" has no name, no opening or no parse()");
  for (const PlacementEntry* other : registered_entries()) {
    if (other == &entry) return;
    SHARDLAB_CHECK(other->name != entry.name, "a second placement ", entry.name);
    for (const std::string_view opening : entry.openings) {
      for (const std::string_view taken : other->openings) {
        SHARDLAB_CHECK(!opening.starts_with(taken) && !taken.starts_with(opening), entry.name,
                       " begins with ", opening, ", as ", other->name, " does");
      }
    }
  }
  for (const std::string_view opening : entry.openings) {
    SHARDLAB_CHECK(opening.size() > 1 && opening.ends_with('('), entry.name, " begins with \"",
                   opening, "\"; valid: a name and a parenthesis");
    SHARDLAB_CHECK(
        std::find(std::begin(kBuiltIn), std::end(kBuiltIn), opening) == std::end(kBuiltIn) &&
            opening != "Replicate(" && opening != "Partial(" && opening != "P(" && opening != "MP(",
        entry.name, " begins with ", opening, ", as a built-in placement does");
  }
  Added& all = added();
  const std::lock_guard lock(all.mutex);
  all.entries.push_back(&entry);
  all.size.store(all.entries.size(), std::memory_order_release);
}

bool parse_registered(TextCursor& cursor, Placement& placement) {
  for (const PlacementEntry* entry : all_registered_placements()) {
    if (take_opening(cursor, *entry, placement)) return true;
  }
  for (const PlacementEntry* entry : added_entries()) {
    if (take_opening(cursor, *entry, placement)) return true;
  }
  return false;
}

std::int64_t count_rows(std::span<const RowRange> rows) {
  std::int64_t count = 0;
  for (const RowRange& range : rows) count += range.end - range.begin;
  return count;
}

std::int64_t extent_of(const RegisteredPlacement& placement, const Shape& shape) {
  std::int64_t extent = 1;
  for (int d = 0; d < placement.dims(); ++d) extent *= shape[to_index(placement.dim() + d)];
  return extent;
}

bool is_one_step(const Placement& from, const Placement& to) {
  if (from.is_registered() && to.is_registered()) {
    const PlacementEntry& entry = from.registered().entry();
    return &entry == &to.registered().entry() && entry.changes.among_own;
  }
  if (from.is_registered()) {
    return to.is_replicate() || (to.is_shard() && from.registered().entry().changes.to_shard);
  }
  const PlacementChanges& changes = to.registered().entry().changes;
  return from.is_replicate() || (from.is_shard() && changes.from_shard) ||
         (from.is_partial() && changes.from_partial);
}

}  // namespace shardlab
