// The base of semantics that wrap others: a derived class overrides price_step(), bound_to() and
// any other question that it answers itself, and every other question goes to the wrapped
// semantics.
#pragma once

#include <memory>
#include <utility>

#include "sim/edge_semantics.h"

namespace shardlab {

class SemanticsUpon : public EdgeSemantics {
 public:
  explicit SemanticsUpon(std::shared_ptr<const EdgeSemantics> base)
      : EdgeSemantics(base->name()), base_(std::move(base)) {}

  [[nodiscard]] bool chunk_is_free() const override { return base_->chunk_is_free(); }
  [[nodiscard]] std::optional<Micros> replicate_to_partial() const override {
    return base_->replicate_to_partial();
  }
  [[nodiscard]] bool plans_sums_of_shards() const override { return base_->plans_sums_of_shards(); }
  [[nodiscard]] std::optional<KnownPrice> known_price(const Placements& from, const Placements& to,
                                                      bool hides_order) const override {
    return base_->known_price(from, to, hides_order);
  }
  [[nodiscard]] bool replicated_source_is_free() const override {
    return base_->replicated_source_is_free();
  }
  [[nodiscard]] bool prices_strided_shards() const override {
    return base_->prices_strided_shards();
  }
  [[nodiscard]] bool follows_plan() const override { return base_->follows_plan(); }
  [[nodiscard]] MeshDimWalk mesh_dim_walk(const TensorMeta& meta, const Placements& from,
                                          const Placements& to) const override {
    return base_->mesh_dim_walk(meta, from, to);
  }

 protected:
  [[nodiscard]] const std::shared_ptr<const EdgeSemantics>& base() const { return base_; }

 private:
  std::shared_ptr<const EdgeSemantics> base_;
};

}  // namespace shardlab
