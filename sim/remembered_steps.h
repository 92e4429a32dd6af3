// Prices the steps of plans like a TransitionPricer, each step once: the plans of a program's edges
// consist of few different steps.
//
//   RememberedSteps steps(pricer);
//   steps.price(Placement::shard(0), Placement::replicate(), 0, bytes, DType::kF32).price
//
// At most 65,536 steps are kept.
#pragma once

#include <bit>
#include <boost/container_hash/hash.hpp>
#include <cstdint>
#include <tuple>
#include <unordered_map>

#include "sim/transition.h"

namespace shardlab {

class RememberedSteps {
 public:
  struct Step {
    Micros price;
    Bytes bytes_after = 0.0;
  };

  explicit RememberedSteps(const TransitionPricer& pricer) : pricer_(pricer) {}

  const Step& price(const Placement& from, const Placement& to, int mesh_dim, Bytes bytes,
                    DType dtype) {
    const std::uint64_t where = static_cast<std::uint64_t>(mesh_dim) << 8U |
                                static_cast<std::uint64_t>(static_cast<std::uint8_t>(dtype));
    const Key key{code(from) ^ where << 4U, code(to), std::bit_cast<std::uint64_t>(bytes)};
    if (steps_.size() >= kMost) steps_.clear();
    const auto [it, is_new] = steps_.try_emplace(key);
    if (is_new) {
      const PricedTransition priced = pricer_.price(from, to, mesh_dim, bytes, dtype);
      it->second = {priced.price.total, priced.bytes_after};
    }
    return it->second;
  }
  // Every price is asked for again from here on.
  void forget() { steps_.clear(); }
  [[nodiscard]] Price copy(Bytes bytes, DType dtype, bool strided) const {
    return pricer_.copy(bytes, dtype, strided);
  }

 private:
  static constexpr std::size_t kMost = 1U << 16U;
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

  // The code holds kind, op, dim and factor. The other parts of a placement do not affect the
  // price.
  static std::uint64_t code(const Placement& p) {
    return static_cast<std::uint64_t>(p.kind()) << 60U |
           static_cast<std::uint64_t>(p.reduce_op()) << 56U |
           static_cast<std::uint64_t>(p.dim()) << 40U |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(p.split_factor()));
  }

  const TransitionPricer& pricer_;
  std::unordered_map<Key, Step, boost::hash<Key>> steps_;
};

}  // namespace shardlab
