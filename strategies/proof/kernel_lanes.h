// Lanes: the elements of a tensor along one dim, for kernels that work along it.
//
//   const Lanes lanes(input.shape(), dim);
//   for (const std::size_t first : lanes.firsts) { ... values[lanes.flat_index(first, i)] ... }
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {

// A tensor without dims is one lane of one element.
struct Lanes {
  std::int64_t extent = 1;
  std::int64_t stride = 1;
  std::vector<std::size_t> firsts;  // by lane, the flat index of its first element

  Lanes(const Shape& shape, int dim) {
    if (!shape.empty()) {
      extent = shape[to_index(dim)];
      stride = row_major_strides(shape)[to_index(dim)];
    }
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      if (i / stride % extent == 0) firsts.push_back(static_cast<std::size_t>(i));
    }
  }
  // The flat index of the lane's i-th element.
  [[nodiscard]] std::size_t flat_index(std::size_t first, std::int64_t i) const {
    return first + static_cast<std::size_t>(i * stride);
  }
};

}  // namespace shardlab
