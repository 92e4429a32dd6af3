#include "strategies/rules/row_expansion.h"

#include <algorithm>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// A tensor's layout on the first few mesh dims.
struct Prefix {
  Placements placements;
  Shape extents;  // extents of the local tensor, rounded up
  bool valid = true;
};

Prefix longer(const Prefix& prefix, const Placement& next, std::int64_t ranks) {
  Prefix result = prefix;
  if (!prefix.valid) return result;
  result.placements.push_back(next);
  if (next.is_shard_like()) {
    if (next.dim() >= static_cast<int>(prefix.extents.size())) {
      result.valid = false;
      return result;
    }
    std::int64_t& extent = result.extents[to_index(next.dim())];
    if (extent < ranks) {
      result.valid = false;
      return result;
    }
    extent = (extent + ranks - 1) / ranks;
  } else if (next.is_partial()) {
    result.valid = !has_mixed_partials(result.placements);
  }
  return result;
}

// The layouts that rows give to one tensor. The number of a prefix has one digit per mesh dim.
struct TensorLayouts {
  std::vector<Placement> entries;             // the distinct placements, indexed by a digit
  std::vector<std::size_t> digit;             // the digit of each row
  std::vector<std::vector<Prefix>> by_level;  // [number of mesh dims][number of the prefix]
};

TensorLayouts layouts_of(const std::vector<std::vector<Placement>>& rows, std::size_t tensor,
                         const TensorMeta& meta, const DeviceMesh& mesh) {
  TensorLayouts layouts;
  for (const std::vector<Placement>& row : rows) {
    const auto found = std::find(layouts.entries.begin(), layouts.entries.end(), row[tensor]);
    layouts.digit.push_back(static_cast<std::size_t>(found - layouts.entries.begin()));
    if (found == layouts.entries.end()) layouts.entries.push_back(row[tensor]);
  }
  layouts.by_level.push_back({Prefix{.placements = {}, .extents = meta.shape}});
  for (int m = 0; m < mesh.ndim(); ++m) {
    std::vector<Prefix> level;
    for (const Prefix& prefix : layouts.by_level.back()) {
      for (const Placement& p : layouts.entries) level.push_back(longer(prefix, p, mesh.size(m)));
    }
    layouts.by_level.push_back(std::move(level));
  }
  return layouts;
}

class Expander {
 public:
  Expander(const std::vector<std::vector<Placement>>& rows,
           std::span<const TensorMeta* const> metas, const DeviceMesh& mesh)
      : rows_(rows.size()), mesh_ndim_(static_cast<std::size_t>(mesh.ndim())) {
    for (std::size_t t = 0; t < metas.size(); ++t) {
      tensors_.push_back(layouts_of(rows, t, *metas[t], mesh));
    }
    numbers_.assign(mesh_ndim_ + 1, std::vector<std::size_t>(metas.size(), 0));
    result_.resize(metas.size());
  }

  std::vector<std::vector<Placements>> run() {
    extend(0);
    return std::move(result_);
  }

 private:
  void extend(std::size_t level) {
    if (level == mesh_ndim_) {
      if (result_[0].size() == kMaxNodeRows) {
        throw LimitError("more than " + std::to_string(kMaxNodeRows) +
                         " strategies; valid: a mesh of fewer dims");
      }
      for (std::size_t t = 0; t < tensors_.size(); ++t) {
        result_[t].push_back(tensors_[t].by_level[level][numbers_[level][t]].placements);
      }
      return;
    }
    for (std::size_t row = 0; row < rows_; ++row) {
      bool valid = true;
      for (std::size_t t = 0; t < tensors_.size() && valid; ++t) {
        const TensorLayouts& tensor = tensors_[t];
        const std::size_t number = numbers_[level][t] * tensor.entries.size() + tensor.digit[row];
        numbers_[level + 1][t] = number;
        valid = tensor.by_level[level + 1][number].valid;
      }
      if (valid) extend(level + 1);
    }
  }

  std::size_t rows_;
  std::size_t mesh_ndim_;
  std::vector<TensorLayouts> tensors_;
  std::vector<std::vector<std::size_t>> numbers_;  // [level][tensor]: the number of the prefix
  std::vector<std::vector<Placements>> result_;
};

}  // namespace

bool is_layout_of(const TensorMeta& meta, const Placements& placements, const DeviceMesh& mesh) {
  Prefix prefix{.placements = {}, .extents = meta.shape};
  for (std::size_t m = 0; m < placements.size(); ++m) {
    prefix = longer(prefix, placements[m], mesh.size(static_cast<int>(m)));
  }
  return prefix.valid;
}

std::vector<std::vector<Placements>> expand_over_mesh(
    const std::vector<std::vector<Placement>>& rows, std::span<const TensorMeta* const> metas,
    const DeviceMesh& mesh) {
  return Expander(rows, metas, mesh).run();
}

}  // namespace shardlab
