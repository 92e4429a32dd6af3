// Placements beside those that placement.h lists: each is one file that says how it is written,
// which part of a tensor each rank holds, and which changes to other placements it allows.
// Everything else follows from that: plans, prices, simulations, runs on virtual ranks, and rules.
//
//   PLACEMENT(ragged_shard){.name = "ragged_shard", .form = "RG(DIMS:UNITS)", ..., .parse = parse};
//
// stands in sim/placements/ragged_shard.cpp and is registered by being there
// (cmake/registry.cmake). A program or a test that is linked to the library registers an entry of
// its own:
//
//   const PlacementEntry kEntry = {.name = "block_cyclic", ..., .parse = parse};
//   register_placement(kEntry);                   // before the first text is read
//   Layout::parse("BC(0:2)R", 2);
//
// A placement cuts some adjacent tensor dims, which count as one dim of as many rows as they have
// elements together (the extent). Each coordinate of the mesh dim holds some of the rows, and every
// row has one holder. A rank's local tensor has its rows in ascending order, in one dim.
//
// Changes. R becomes a registered placement by a local cut, and the way back is an all-gather.
// Whatever else is allowed says the entry; every other change is planned as a way over R.
//
// Prices. Parts may be unequal, and the cost models price equal ones. An all_gather and a
// reduce_scatter are priced like those of equal parts whose ranks receive as many bytes as the
// busiest one here, which holds the smallest part: (W - smallest) n/(n-1) for a tensor of W bytes
// among n ranks, which is W where parts are equal. Source: PyTorch runs collectives of unequal
// parts as one group of broadcasts or reductions, one per rank, without padding (ProcessGroupNCCL,
// NVIDIA/nccl#773, pytorch/pytorch#198344), so each rank receives whatever it lacks. Status:
// derived; that a group of n broadcasts takes no longer to start than one all-gather is assumed. An
// all_to_all counts the largest part of either side, as it does for shards.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/text.h"
#include "costmodel/base/units.h"
#include "sim/mesh.h"
#include "sim/placement.h"
#include "sim/tensor_spec.h"

namespace shardlab {

struct PlacementEntry;

// Rows from `begin` to before `end`.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// One placement with its arguments. Immutable, and safe to share between threads.
class RegisteredPlacement {
 public:
  // Cuts the `dims` tensor dims from `dim` on. The entry must outlive the object.
  RegisteredPlacement(const PlacementEntry& entry, int dim, int dims)
      : entry_(entry), dim_(dim), dims_(dims) {}
  RegisteredPlacement(const RegisteredPlacement&) = delete;
  RegisteredPlacement& operator=(const RegisteredPlacement&) = delete;
  virtual ~RegisteredPlacement() = default;

  [[nodiscard]] const PlacementEntry& entry() const { return entry_; }
  [[nodiscard]] int dim() const { return dim_; }
  [[nodiscard]] int dims() const { return dims_; }
  [[nodiscard]] bool cuts(int tensor_dim) const {
    return dim_ <= tensor_dim && tensor_dim < dim_ + dims_;
  }

  // The text that the entry reads back as the same placement. Equal texts mean equal placements.
  [[nodiscard]] virtual std::string text() const = 0;
  // The same as Python writes it, for --torch-names.
  [[nodiscard]] virtual std::string torch_text() const { return text(); }

  // What forbids to cut so many rows among so many ranks, as a sentence's end: "has 3 units, which
  // do not divide 16 rows; valid: ..."; empty when nothing does.
  [[nodiscard]] virtual std::string why_not(std::int64_t /*extent*/, std::int64_t /*ranks*/) const {
    return "";
  }
  // The rows that one coordinate holds, ascending and not empty. Assumes why_not() is empty.
  [[nodiscard]] virtual std::vector<RowRange> rows(std::int64_t extent, std::int64_t ranks,
                                                   std::int64_t index) const = 0;

  // The largest and the smallest part of a rank, as shares of the whole. Prices use them for every
  // extent, as they divide bytes by the number of shards whether or not it divides the rows.
  struct Shares {
    double largest = 1.0;
    double smallest = 1.0;
  };
  [[nodiscard]] virtual Shares shares(std::int64_t ranks) const {
    const double equal = 1.0 / static_cast<double>(ranks);
    return {equal, equal};
  }
  // Whether every rank's rows lie next to each other. Where they do not, gathered parts are
  // interleaved by a copy, which some edge semantics price.
  [[nodiscard]] virtual bool is_contiguous() const { return true; }

 private:
  const PlacementEntry& entry_;
  int dim_;
  int dims_;
};

// The changes that one step makes, beside R -> the placement and back.
struct PlacementChanges {
  bool from_partial = false;  // P(op) -> the placement: reduce_scatter
  bool to_shard = false;      // the placement -> S(d): all_to_all
  bool from_shard = false;    // S(d) -> the placement: all_to_all
  bool among_own = false;     // from one set of arguments to another: all_to_all
};

struct PlacementEntry {
  std::string_view name;     // in snake_case, for `shardlab list placements`
  std::string_view form;     // how it is written, with its arguments in capitals
  std::string_view example;  // a text that can be read
  std::string_view summary;
  std::string_view source;
  // What texts of it begin with: "RG(", and other openings that parse() reads as well.
  std::span<const std::string_view> openings = {};
  PlacementChanges changes = {};
  // Whether pointwise ops run on the local parts and leave outputs in the same placement.
  bool passes_pointwise = false;
  // Reads what follows the opening, up to and with the closing parenthesis. Throws TextError.
  std::unique_ptr<const RegisteredPlacement> (*parse)(TextCursor& cursor,
                                                      std::string_view opening) = nullptr;
  // Placements that can cut a tensor of this shape among so many ranks, for proofs and contract
  // tests; none where the shape allows none.
  std::vector<Placement> (*samples)(const Shape& shape, std::int64_t ranks) = nullptr;
};

// The entries of sim/placements, sorted by file name.
[[nodiscard]] std::span<const PlacementEntry* const> all_registered_placements();
// Those, and then all that were registered, in that order.
[[nodiscard]] std::vector<const PlacementEntry*> registered_entries();
[[nodiscard]] const PlacementEntry* find_placement_entry(std::string_view name);
// Adds an entry, which must outlive every use. Adding it again changes nothing. Throws
// ContractError for a second entry of a name or an opening, for an opening that built-in placements
// have, and for one without parse().
void register_placement(const PlacementEntry& entry);

// Reads a registered placement if one begins here; returns false, and reads nothing, if none does.
[[nodiscard]] bool parse_registered(TextCursor& cursor, Placement& placement);

// How many rows there are in all.
[[nodiscard]] std::int64_t count_rows(std::span<const RowRange> rows);
// The number of rows that the dims have together. Assumes that the shape has the dims.
[[nodiscard]] std::int64_t extent_of(const RegisteredPlacement& placement, const Shape& shape);

// Whether one step makes this change; one of the two is registered. Both are on one mesh dim.
[[nodiscard]] bool is_one_step(const Placement& from, const Placement& to);

}  // namespace shardlab

#define PLACEMENT(id)                                     \
  extern const PlacementEntry registered_placements_##id; \
  constinit const PlacementEntry registered_placements_##id
