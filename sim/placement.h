// A placement says what one mesh dim does to a tensor. A layout has one placement for every mesh
// dim, and the order in which they shard.
//
//   Placement::parse("S(0)")
//   Layout::parse("S(0)[1]S(0)[0]R", 3)    // mesh dim 1 shards tensor dim 0 first, then mesh dim 0
//
// Text forms of placements: R, S(d), _S(d,f), P(op), MP and NP(p); P is read as P(sum). A layout is
// printed without separators, and read with or without commas and blanks. Source of the semantics:
// PyTorch 2.13.0, torch/distributed/tensor/placement_types.py.
//
// Further placements are registered, each with a text form of its own (registered_placement.h). A
// Placement then holds the number of an immutable object, so that it is as cheap to copy and to
// compare as any other.
#pragma once

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "costmodel/base/enum_names.h"
#include "costmodel/base/index.h"
#include "sim/mesh.h"

namespace shardlab {

enum class ReduceOp : std::uint8_t { kSum, kAvg, kMax, kMin, kProduct, kBand, kBor, kBxor };
template <>
struct EnumNames<ReduceOp> {
  static constexpr std::string_view kKind = "reduce op";
  static constexpr std::array kNames = {
      Named{ReduceOp::kSum, "sum"},         Named{ReduceOp::kAvg, "avg"},
      Named{ReduceOp::kMax, "max"},         Named{ReduceOp::kMin, "min"},
      Named{ReduceOp::kProduct, "product"}, Named{ReduceOp::kBand, "band"},
      Named{ReduceOp::kBor, "bor"},         Named{ReduceOp::kBxor, "bxor"}};
};
[[nodiscard]] constexpr std::string_view to_string(ReduceOp op) { return name_of(op); }
[[nodiscard]] constexpr bool is_linear(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kAvg;
}

inline constexpr int kMaxTensorDims = 16;

class RegisteredPlacement;  // registered_placement.h

// A small value that is cheap to copy and compare.
class Placement {
 public:
  enum class Kind : std::uint8_t {
    kReplicate,
    kShard,         // S(dim): chunks
    kStridedShard,  // _S(dim, factor): chunks of each of `factor` pieces, because a mesh dim to the
                    // right has sharded the tensor dim first
    kRegistered,    // cuts a tensor in a way of its own (registered_placement.h)
    kPartial,       // P(op): contributions that are still to be reduced
    kMaskPartial,   // MP: rows that an embedding masks; reduces by sum, but is not a plain partial
    kNormPartial,   // NP(p): p-norms of the local parts
  };

  constexpr Placement() = default;  // R
  [[nodiscard]] static constexpr Placement replicate() { return {}; }
  [[nodiscard]] static constexpr Placement shard(int dim) {
    return {Kind::kShard, ReduceOp::kSum, dim, 1, 0};
  }
  [[nodiscard]] static constexpr Placement strided_shard(int dim, int factor) {
    return {Kind::kStridedShard, ReduceOp::kSum, dim, factor, 0};
  }
  [[nodiscard]] static constexpr Placement partial(ReduceOp op = ReduceOp::kSum) {
    return {Kind::kPartial, op, 0, 1, 0};
  }
  // `extent` is the number of rows of the embedding that the mask chunks along `dim`; 0 when
  // unknown.
  [[nodiscard]] static constexpr Placement mask_partial(int dim = 0, std::int64_t extent = 0) {
    return {Kind::kMaskPartial, ReduceOp::kSum, dim, 1, static_cast<double>(extent)};
  }
  [[nodiscard]] static constexpr Placement norm_partial(double p) {
    return {Kind::kNormPartial, ReduceOp::kSum, 0, 1, p};
  }
  // The placement that the object describes. Objects of one text are kept once for the whole
  // process. Throws LimitError when there would be more than kMostRegistered of them.
  [[nodiscard]] static Placement registered(std::unique_ptr<const RegisteredPlacement> object);
  static constexpr int kMostRegistered = 4096;
  [[nodiscard]] static Placement parse(std::string_view text);  // throws TextError

  [[nodiscard]] constexpr Kind kind() const { return kind_; }
  [[nodiscard]] constexpr bool is_replicate() const { return kind_ == Kind::kReplicate; }
  [[nodiscard]] constexpr bool is_shard() const { return kind_ == Kind::kShard; }
  [[nodiscard]] constexpr bool is_strided() const { return kind_ == Kind::kStridedShard; }
  [[nodiscard]] constexpr bool is_shard_like() const { return is_shard() || is_strided(); }
  [[nodiscard]] constexpr bool is_registered() const { return kind_ == Kind::kRegistered; }
  // Whether each coordinate of the mesh dim holds a part of the tensor: S, _S and those registered.
  [[nodiscard]] constexpr bool cuts() const {
    return kind_ >= Kind::kShard && kind_ <= Kind::kRegistered;
  }
  // True for all three kinds of partials.
  [[nodiscard]] constexpr bool is_partial() const { return kind_ >= Kind::kPartial; }
  [[nodiscard]] constexpr bool is_shard_of(int dim) const { return is_shard() && dim_ == dim; }

  // For S, _S and MP; the first tensor dim that a registered placement cuts.
  [[nodiscard]] constexpr int dim() const { return dim_; }
  [[nodiscard]] constexpr int split_factor() const { return factor_; }  // for _S
  [[nodiscard]] constexpr ReduceOp reduce_op() const { return op_; }    // for all partials
  [[nodiscard]] constexpr double norm() const { return value_; }        // for NP
  [[nodiscard]] constexpr std::int64_t mask_extent() const {            // for MP
    return static_cast<std::int64_t>(value_);
  }
  // What the placement does. Assumes is_registered().
  [[nodiscard]] const RegisteredPlacement& registered() const;
  // The same kind of shard on another tensor dim. Assumes is_shard_like().
  [[nodiscard]] constexpr Placement with_dim(int dim) const {
    Placement other = *this;
    other.dim_ = static_cast<std::int16_t>(dim);
    return other;
  }

  [[nodiscard]] std::string text() const;

  friend constexpr bool operator==(const Placement&, const Placement&) = default;
  friend constexpr std::partial_ordering operator<=>(const Placement& a, const Placement& b) {
    // Two registered placements are ordered by their texts, not by which was met first.
    if (a.is_registered() && b.is_registered()) return order_of_registered(a, b);
    return std::tuple(a.kind_, a.dim_, a.factor_, a.op_, a.value_) <=>
           std::tuple(b.kind_, b.dim_, b.factor_, b.op_, b.value_);
  }

 private:
  static std::partial_ordering order_of_registered(const Placement& a, const Placement& b);

  constexpr Placement(Kind kind, ReduceOp op, int dim, int factor, double value)
      : kind_(kind),
        op_(op),
        dim_(static_cast<std::int16_t>(dim)),
        factor_(factor),
        value_(value) {}

  Kind kind_ = Kind::kReplicate;
  ReduceOp op_ = ReduceOp::kSum;
  std::int16_t dim_ = 0;
  std::int32_t factor_ = 1;  // the split factor, or the number of a registered placement
  double value_ = 0.0;
};

using Placements = boost::container::static_vector<Placement, kMaxMeshDims>;

[[nodiscard]] inline bool is_replicated(const Placements& placements) {
  return std::all_of(placements.begin(), placements.end(),
                     [](const Placement& p) { return p.is_replicate(); });
}
[[nodiscard]] inline bool has_strided(const Placements& placements) {
  return std::any_of(placements.begin(), placements.end(),
                     [](const Placement& p) { return p.is_strided(); });
}
[[nodiscard]] inline bool has_registered(const Placements& placements) {
  return std::any_of(placements.begin(), placements.end(),
                     [](const Placement& p) { return p.is_registered(); });
}
[[nodiscard]] inline bool has_partial(const Placements& placements) {
  return std::any_of(placements.begin(), placements.end(),
                     [](const Placement& p) { return p.is_partial(); });
}

// The order in which mesh dims shard each tensor dim: for every mesh dim its position in the list
// of those that shard the same tensor dim, and 0 for mesh dims that do not shard.
class ShardOrder {
 public:
  ShardOrder() = default;
  // The default order: mesh dims ascend.
  [[nodiscard]] static ShardOrder default_of(const Placements& placements);

  [[nodiscard]] int position(int mesh_dim) const { return position_[to_index(mesh_dim)]; }
  void set(int mesh_dim, int position) {
    position_[to_index(mesh_dim)] = static_cast<std::uint8_t>(position);
  }

  friend bool operator==(const ShardOrder&, const ShardOrder&) = default;

 private:
  std::array<std::uint8_t, kMaxMeshDims> position_{};
};

struct Layout {
  Placements placements;
  ShardOrder order;
  // Whether strided shards are placements of their own, as views make them, with a place in the
  // shard order like any shard. Otherwise they encode the order in which plain shards were cut.
  // Source: DTensorSpec.use_strided_shard_as_shard_order, of which this is the opposite; PyTorch
  // 2.13.0. Without strided shards it means nothing.
  bool own_strided = false;

  Layout() = default;
  // A layout in default shard order.
  explicit Layout(Placements p)
      : placements(std::move(p)), order(ShardOrder::default_of(placements)) {}
  Layout(Placements p, ShardOrder o) : placements(std::move(p)), order(o) {}
  [[nodiscard]] static Layout replicated(int mesh_ndim);
  // Reads `mesh_ndim` placements. A strided shard with an order index, such as _S(0,2)[0], is a
  // placement of its own (own_strided). Throws TextError for an unknown placement, a wrong number
  // of them, a forbidden mix of partials, and order indices that are not a permutation, or that
  // only some shards of a tensor dim have.
  [[nodiscard]] static Layout parse(std::string_view text, int mesh_ndim);

  [[nodiscard]] int ndim() const { return static_cast<int>(placements.size()); }
  [[nodiscard]] const Placement& operator[](int mesh_dim) const {
    return placements[to_index(mesh_dim)];
  }
  [[nodiscard]] bool is_replicated() const { return shardlab::is_replicated(placements); }
  [[nodiscard]] bool has_strided() const { return shardlab::has_strided(placements); }
  // Whether strided shards encode a shard order.
  [[nodiscard]] bool encodes_order() const { return !own_strided && has_strided(); }
  [[nodiscard]] bool has_registered() const { return shardlab::has_registered(placements); }
  [[nodiscard]] bool has_default_order() const;
  // The mesh dims that shard tensor dim `dim`, strided ones included, in shard order.
  [[nodiscard]] boost::container::static_vector<int, kMaxMeshDims> mesh_dims_of(int dim) const;

  // Order indices are printed where the order is not the default one, and where strided shards are
  // placements of their own. With `always_order`, as PyTorch prints plans, they are printed
  // wherever a tensor dim is sharded more than once.
  [[nodiscard]] std::string text(bool always_order = false) const;

  friend bool operator==(const Layout& a, const Layout& b) {
    return a.placements == b.placements && a.order == b.order &&
           (a.own_strided == b.own_strided || !a.has_strided());
  }
};

// Whether the layout has partials of different kinds, which is forbidden. Plain partials of sum and
// avg may be mixed, because they commute.
[[nodiscard]] bool has_mixed_partials(const Placements& placements);

}  // namespace shardlab
