// Values behind partial placements: contributions that reduce to a given value, and what given
// contributions reduce to. The second is the judge of executed plans: it works in double precision,
// element by element, and shares nothing with the collectives.
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

// What the elements of made-up tensors are. Either is the same for the same seed, whatever the
// layout.
enum class DataValues : std::uint8_t {
  kWholeNumbers,  // small, and divisible where averages and partitions divide: exact in every dtype
  kUniform,       // floating point: any value in (-1, 1), so that sums round; else as above
};

struct DataOptions {
  std::uint64_t seed = 0;
  DataValues values = DataValues::kWholeNumbers;
};

// Mesh dims with partial placements; how many ranks they and the averaging ones among them have.
struct PartialDims {
  PartialDims(const Layout& layout, const DeviceMesh& mesh);
  [[nodiscard]] bool any() const { return !dims.empty(); }
  [[nodiscard]] bool is_norm() const {
    return any() && placement.kind() == Placement::Kind::kNormPartial;
  }
  // Among the contributions to one element, row-major over the partial mesh dims.
  [[nodiscard]] std::int64_t index_of(const Coordinate& coordinate, const DeviceMesh& mesh) const;
  // Whether this is coordinate 0 of every mesh dim that sums.
  [[nodiscard]] bool is_first_of_sums(const Coordinate& coordinate, const Layout& layout) const;

  std::vector<int> dims;
  Placement placement;  // of the last of them
  ReduceOp op = ReduceOp::kSum;
  std::int64_t ranks = 1;
  std::int64_t averaged = 1;
};

// The reduction of one element's contributions, in double precision or as integers that wrap: mesh
// dim by mesh dim, the last one first.
class Reduction {
 public:
  Reduction(const PartialDims& partial, const Layout& layout, const DeviceMesh& mesh, DType dtype);

  // Of all ranks, row-major over the partial mesh dims; to be filled in.
  [[nodiscard]] std::span<double> contributions() { return values_; }
  // Uses the contributions up.
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

// One element's contributions, all of them: they reduce to `value`, up to the rounding of the last
// one, which is what the others leave. fill() returns that. Assumes partials that may stand in one
// layout. Keeps references.
class Contributions {
 public:
  // `unit`: whole numbers are multiples of it.
  Contributions(const PartialDims& partial, DType dtype, const DataOptions& data, double unit)
      : partial_(partial), dtype_(dtype), data_(data), unit_(unit) {}

  double fill(std::uint64_t element, double value, std::span<double> out) const;

 private:
  [[nodiscard]] bool fits(double x) const;
  [[nodiscard]] double rounded(double x) const;  // as the dtype holds it

  const PartialDims& partial_;
  DType dtype_;
  const DataOptions& data_;
  double unit_;
};

}  // namespace shardlab
