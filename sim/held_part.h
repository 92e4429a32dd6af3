// What one device holds of a distributed tensor, in terms that can be drawn: which part it is,
// where the part lies in the global tensor, and whether its values are final.
//
//   const HeldPart held = held_part(meta, Layout::parse("S(0)P", 2), mesh, coordinate);
//   held.part, held.parts     // 1 of 2 parts, counted from 0
//   held.ranges[0]            // the rows [4096, 8192) of tensor dim 0
//   held.summands             // the second of four contributions to a sum
//
// Parts are numbered in the order in which they lie in the tensor, tensor dim by tensor dim.
// Strided shards that encode a shard order are numbered in that order; others are numbered by mesh
// coordinate. The cost is one range for each piece of a strided shard, however long the tensor is.
// Tested by tests/unit/sim/held_part_test.cpp, against local_rows().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/tensor_spec.h"

namespace shardlab {

struct HeldPart {
  // Indices of one tensor dim, from `begin` to before `end`.
  struct Range {
    std::int64_t begin = 0, end = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };
  // Which contribution to a reduction the device holds. Mesh dims that reduce alike count together.
  struct Summand {
    std::string of;  // "sum", "max" and so on; "mask" for MP, "norm" for NP
    std::int64_t index = 0, count = 1;
    friend bool operator==(const Summand&, const Summand&) = default;
  };

  std::int64_t part = 0, parts = 1;
  std::vector<std::vector<Range>> ranges;  // by tensor dim, ascending; a dim without any is empty
  // False if a strided shard has more than kMostPieces pieces, or if a registered placement cuts
  // several tensor dims together; `ranges` is then empty.
  bool is_listed = true;
  bool joins_dims = false;  // whether a registered placement cuts several tensor dims together
  std::vector<Summand> summands;  // empty: the values are final

  static constexpr std::int64_t kMostPieces = 1024;
  [[nodiscard]] bool is_empty() const;  // whether the device holds no element
};

[[nodiscard]] HeldPart held_part(const TensorMeta& meta, const Layout& layout,
                                 const DeviceMesh& mesh, std::span<const std::int64_t> coordinate);

}  // namespace shardlab
