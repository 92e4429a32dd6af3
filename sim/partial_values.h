// The values behind partial placements: contributions that reduce to a given value (Contributions),
// and the value to which given contributions reduce (Reduction).
//
// Reduction judges executed plans. It therefore works in double precision, element by element, and
// shares no code with the collectives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/base/dtype.h"
#include "sim/counter_hash.h"
#include "sim/mesh.h"
#include "sim/placement.h"

namespace shardlab {

using Coordinate = std::vector<std::int64_t>;

// The elements of made-up tensors. They depend on the seed, and on the layout only where a dtype
// has too few digits for numbers that its averages divide.
enum class DataValues : std::uint8_t {
  // Small whole numbers, whose sums are exact in every dtype. Averages and partitions are exact
  // where the dtype has enough digits, which bf16 has not on a mesh of 2x5.
  kWholeNumbers,
  kUniform,  // floating point: any value in (-1, 1), so that sums round; integers: as above
};

struct DataOptions {
  std::uint64_t seed = 0;
  DataValues values = DataValues::kWholeNumbers;
};

// The mesh dims of a layout that have partial placements.
struct PartialDims {
  PartialDims(const Layout& layout, const DeviceMesh& mesh);
  [[nodiscard]] bool any() const { return !dims.empty(); }
  [[nodiscard]] bool is_norm() const {
    return any() && placement.kind() == Placement::Kind::kNormPartial;
  }
  // Index of a rank's contribution among those to one element, row-major over the partial mesh
  // dims.
  [[nodiscard]] std::int64_t index_of(const Coordinate& coordinate, const DeviceMesh& mesh) const;
  // Whether the coordinate is 0 on every partial mesh dim that does not average.
  [[nodiscard]] bool is_first_of_sums(const Coordinate& coordinate, const Layout& layout) const;

  std::vector<int> dims;
  Placement placement;           // the placement on the last of these mesh dims
  ReduceOp op = ReduceOp::kSum;  // kSum if sums and averages are mixed
  std::int64_t ranks = 1;        // product of the sizes of these mesh dims
  std::int64_t averaged = 1;     // product of the sizes of the averaging ones
};

// Reduces one element's contributions, in double precision or as integers that wrap around: mesh
// dim by mesh dim, the last one first.
class Reduction {
 public:
  Reduction(const PartialDims& partial, const Layout& layout, const DeviceMesh& mesh, DType dtype);

  // The contributions of all ranks, row-major over the partial mesh dims, for the caller to fill
  // in.
  [[nodiscard]] std::span<double> contributions() { return values_; }
  // The value to which they reduce. This overwrites the contributions.
  [[nodiscard]] double result();

 private:
  struct Fold {
    Placement placement;
    std::int64_t size;
  };
  [[nodiscard]] double folded(const Fold& fold, std::span<const double> x) const;
  [[nodiscard]] std::int64_t join_whole(ReduceOp op, std::int64_t a, std::int64_t b) const;

  DType dtype_;
  std::vector<double> values_;
  std::vector<Fold> folds_;
};

// Makes up all contributions to one element, so that they reduce to a given value. Assumes partials
// that one layout may combine. Keeps references to its arguments.
class Contributions {
 public:
  // Whole numbers are multiples of `unit`.
  Contributions(const PartialDims& partial, DType dtype, const DataOptions& data, double unit);

  // The largest sum, in units, of any of the contributions to a value of at most 3 units if each
  // rank contributes. Each of them is at most 1, but for the last, which is the rest.
  [[nodiscard]] static double largest_sum(const PartialDims& partial) {
    return 3.0 * static_cast<double>(partial.averaged) +
           2.0 * static_cast<double>(partial.ranks - 1);
  }

  // Returns the error that rounding leaves: the last contribution is the rest that the others
  // leave, rounded to the dtype.
  double fill(std::uint64_t element, double value, std::span<double> out) const;

 private:
  [[nodiscard]] bool fits(double x) const;
  [[nodiscard]] double rounded(double x) const;  // x rounded to the dtype

  const PartialDims& partial_;
  DType dtype_;
  const DataOptions& data_;
  double unit_;
  // One rank in so many contributes a whole number other than 0, so that no sum of contributions
  // needs more digits than the dtype has.
  std::int64_t ranks_per_number_ = 1;
};

}  // namespace shardlab
