// The prices of edges in the graph planner's search. Only the files graph* include this.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "costmodel/base/index.h"
#include "sim/transition.h"

namespace shardlab::graph_search {

enum class EdgeKind : std::uint8_t {
  kGather0,      // S(0)->R
  kGather,       // S(d)->R
  kAllToAll0,    // S(0)->S(d)
  kAllToAllTo0,  // S(d)->S(0)
  kAllToAll,     // S(d)->S(e)
  kAllReduce,
  kScatter0,  // P->S(0)
  kScatter,
  kChunk,
  kPartition,      // R->P(op) that divides
  kPartitionFree,  // R->P(op) that keeps the value
};
constexpr std::size_t kEdgeKinds = 11;

// Prices of edges without strided shards. A price depends on the kind of edge, the mesh dim and the
// local bytes before it. The bytes depend only on the product of the sizes of the mesh dims that
// shard, so sets of mesh dims with equal products share their prices: together they are one level.
// The 32 sets of a mesh 2x2x2x2x2 make 6 levels. The pricer is asked for each price once, as
// long as the tensor's bytes and dtype stay the same.
class EdgePrices {
 public:
  explicit EdgePrices(const TransitionPricer& pricer) : pricer_(pricer) {
    const auto ndim = static_cast<unsigned>(pricer.mesh_ndim());
    for (std::uint32_t mask = 0; mask < 1U << ndim; ++mask) {
      std::int64_t product = 1;
      for (unsigned m = 0; m < ndim; ++m) {
        if ((mask >> m & 1U) != 0) product *= pricer.mesh_size(static_cast<int>(m));
      }
      const auto level = std::find(products_.begin(), products_.end(), product) - products_.begin();
      if (level == std::ssize(products_)) products_.push_back(product);
      level_.push_back(static_cast<std::uint16_t>(level));
    }
  }

  // Prices of a tensor with as many bytes stay known: many searches may ask about one tensor.
  void begin(const TensorMeta& meta) {
    if (bytes_ == meta.bytes() && dtype_ == meta.dtype && !prices_.empty()) return;
    bytes_ = meta.bytes();
    dtype_ = meta.dtype;
    prices_.assign(kEdgeKinds * static_cast<std::size_t>(pricer_.mesh_ndim()) * products_.size(),
                   kUnknown);
  }

  // Every price is asked for again from here on.
  void forget() { prices_.clear(); }

  // The price of an edge out of a state in which the mesh dims of the bit set `mask` shard.
  [[nodiscard]] double price(EdgeKind kind, int mesh_dim, std::uint32_t mask) {
    const std::size_t level = level_[mask];
    double& price =
        prices_[(static_cast<std::size_t>(kind) * static_cast<std::size_t>(pricer_.mesh_ndim()) +
                 static_cast<std::size_t>(mesh_dim)) *
                    products_.size() +
                level];
    if (price == kUnknown) {
      const auto& [from, to] = kExamples[to_index(kind)];
      price = ask(from, to, mesh_dim, level);
    }
    return price;
  }

  // The price of an edge with a strided shard, which has no EdgeKind.
  [[nodiscard]] double opaque_price(const Placement& from, const Placement& to, int mesh_dim,
                                    std::uint32_t mask) const {
    return ask(from, to, mesh_dim, level_[mask]);
  }

 private:
  static constexpr double kUnknown = -1.0;
  static constexpr std::array<std::pair<Placement, Placement>, kEdgeKinds> kExamples = {{
      {Placement::shard(0), Placement::replicate()},
      {Placement::shard(1), Placement::replicate()},
      {Placement::shard(0), Placement::shard(1)},
      {Placement::shard(1), Placement::shard(0)},
      {Placement::shard(1), Placement::shard(2)},
      {Placement::partial(), Placement::replicate()},
      {Placement::partial(), Placement::shard(0)},
      {Placement::partial(), Placement::shard(1)},
      {Placement::replicate(), Placement::shard(0)},
      {Placement::replicate(), Placement::partial(ReduceOp::kSum)},
      {Placement::replicate(), Placement::partial(ReduceOp::kMax)},
  }};

  [[nodiscard]] double ask(const Placement& from, const Placement& to, int mesh_dim,
                           std::size_t level) const {
    const Bytes local = bytes_ / static_cast<double>(products_[level]);
    return pricer_.price(from, to, mesh_dim, local, dtype_).price.total.value();
  }

  const TransitionPricer& pricer_;
  std::vector<std::int64_t> products_;  // by level
  std::vector<std::uint16_t> level_;    // by set of mesh dims
  Bytes bytes_ = 0.0;
  DType dtype_ = DType::kF32;
  std::vector<double> prices_;
};

}  // namespace shardlab::graph_search
