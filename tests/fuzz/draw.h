// Makes meshes, tensors and layouts out of a fuzzer's bytes: everything that the text forms can
// say, mostly small and sometimes huge.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "costmodel/base/index.h"
#include "sim/tensor_spec.h"
#include "tests/fuzz/fuzz.h"

namespace shardlab::testing_support {

constexpr std::int64_t kMaxDrawnRanks = std::int64_t{1} << 40;  // the limit of DeviceMesh::parse
constexpr double kMaxDrawnBytes = 9007199254740992.0;           // the limit of TensorMeta::parse

// Bytes below 250 give small numbers; the others give the largest that a text form takes.
inline std::int64_t draw_size(Bytes8& input, int small, std::int64_t least, std::int64_t most) {
  const int byte = input.byte();
  if (byte < 250) return least + byte % small;
  constexpr int kShifts[] = {0, 1, 13, 20, 33, 39};
  return std::max<std::int64_t>(least, most >> kShifts[byte - 250]);
}

inline DeviceMesh draw_mesh(Bytes8& input, int max_ndim) {
  const int ndim = 1 + input.below(max_ndim);
  const bool named = input.below(2) == 1;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  std::int64_t ranks = 1;
  for (int i = 0; i < ndim; ++i) {
    sizes.push_back(std::min(draw_size(input, 5, 1, kMaxDrawnRanks), kMaxDrawnRanks / ranks));
    ranks *= sizes.back();
    if (named) names.emplace_back(1, static_cast<char>('a' + i));
  }
  DeviceMesh mesh = DeviceMesh::make(sizes, names);
  for (int i = named ? input.below(3) : 0; i > 0; --i) {
    const int mask = input.byte();
    std::vector<std::string> axes;
    for (int d = 0; d < ndim; ++d) {
      if ((mask >> d & 1) != 0) axes.push_back(names[to_index(d)]);
    }
    if (axes.size() > 1) mesh = mesh.flatten(axes, "flat" + std::to_string(i));
  }
  return mesh;
}

inline TensorMeta draw_tensor(Bytes8& input) {
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kI8, DType::kF64};
  TensorMeta meta;
  meta.dtype = kTypes[input.below(4)];
  const int ndim = input.below(4);
  for (int i = 0; i < ndim; ++i) {
    meta.shape.push_back(draw_size(input, 26, 0, std::int64_t{1} << 53));
    if (meta.bytes() > kMaxDrawnBytes) meta.shape.back() = 1;
  }
  return meta;
}

inline Placement draw_placement(Bytes8& input, const TensorMeta& meta) {
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin,
                               ReduceOp::kProduct};
  const int pick = input.below(9);
  const int argument = input.byte();
  if (pick > 5 || (meta.ndim() == 0 && pick < 4)) return Placement::replicate();
  if (pick < 3) return Placement::shard(argument % meta.ndim());
  if (pick == 3) {
    const int factor = argument < 250 ? 1 + argument / 40 : 1 << (argument - 250) * 6;
    return Placement::strided_shard(argument % meta.ndim(), factor);
  }
  if (argument == 0) return Placement::mask_partial();
  if (argument == 1) return Placement::norm_partial(2.0);
  return Placement::partial(kOps[argument % 5]);
}

// A legal layout: partials of one kind, any order of the mesh dims that shard one tensor dim.
inline Layout draw_layout(Bytes8& input, const DeviceMesh& mesh, const TensorMeta& meta) {
  Placements placements;
  for (int m = 0; m < mesh.ndim(); ++m) {
    placements.push_back(draw_placement(input, meta));
    if (has_mixed_partials(placements)) placements.back() = Placement::replicate();
  }
  Layout layout(placements);
  const int shuffle = input.byte();
  for (int d = 0; d < meta.ndim() && shuffle % 2 == 1; ++d) {
    auto dims = layout.mesh_dims_of(d);
    if (dims.size() < 2) continue;
    std::rotate(dims.begin(), dims.begin() + shuffle / 2 % static_cast<int>(dims.size()),
                dims.end());
    for (std::size_t i = 0; i < dims.size(); ++i) layout.order.set(dims[i], static_cast<int>(i));
  }
  return layout;
}

}  // namespace shardlab::testing_support
