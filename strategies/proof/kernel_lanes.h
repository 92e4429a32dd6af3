// Lanes: the elements of a tensor along one dim, for kernels that work along it.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {

// A 0-d tensor is one lane of one element.
struct Lanes {
  std::int64_t extent = 1;
  std::int64_t stride = 1;
  std::vector<std::size_t> firsts;  // where each lane begins, row-major

  Lanes(const Shape& shape, int dim) {
    std::int64_t elements = 1;
    for (const std::int64_t e : shape) elements *= e;
    if (!shape.empty()) {
      extent = shape[to_index(dim)];
      stride = row_major_strides(shape)[to_index(dim)];
    }
    for (std::int64_t i = 0; i < elements; ++i) {
      if (i / stride % extent == 0) firsts.push_back(static_cast<std::size_t>(i));
    }
  }
  [[nodiscard]] std::size_t at(std::size_t first, std::int64_t i) const {
    return first + static_cast<std::size_t>(i * stride);
  }
};

}  // namespace shardlab
