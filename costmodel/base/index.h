// Indexes containers with the signed integers and enumerators that the domain counts in, and
// computes with them.
//
//   latency_us[to_index(mesh_dim)]          // in place of static_cast<std::size_t>(mesh_dim)
//   to_real(tokens) * flops_per_token       // in place of static_cast<double>(tokens)
//
// Ranks, mesh dims, tensor dims and variables are signed in this project, since their differences
// are; the containers of the standard library count in std::size_t. Assumes that the index is not
// negative.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace shardlab {

template <class Index>
requires std::integral<Index> || std::is_enum_v<Index>
[[nodiscard]] constexpr std::size_t to_index(Index index) {
  return static_cast<std::size_t>(index);
}

// A count as the real number that prices are made of.
[[nodiscard]] constexpr double to_real(std::signed_integral auto count) {
  return static_cast<double>(count);
}

}  // namespace shardlab
