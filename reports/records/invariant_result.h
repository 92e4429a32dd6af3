// How often the prices of one stack break one invariant, and the case that breaks it by the largest
// amount (strategies/select/invariants.h checks them).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/base/fields.h"

namespace shardlab {
namespace reports {

struct InvariantWitness {
  std::string witness;
  double amount_us = 0.0;
  std::optional<double> amount_percent;
  friend bool operator==(const InvariantWitness&, const InvariantWitness&) = default;
};

struct InvariantResult {
  std::string stack;
  std::string name;
  std::int64_t checked = 0;
  std::int64_t violated = 0;
  std::optional<InvariantWitness> worst;
  friend bool operator==(const InvariantResult&, const InvariantResult&) = default;
};

}  // namespace reports

template <>
struct Fields<reports::InvariantWitness> {
  using Self = reports::InvariantWitness;
  static constexpr std::string_view kName = "witness";
  static constexpr auto kList =
      std::tuple(field("witness", &Self::witness, "S(0)R to RS(1) by way of RR on 2x4, f32[64,32]"),
                 field("amount_us", &Self::amount_us, "by how much the price is too high"),
                 field("amount_percent", &Self::amount_percent, "null if the fair price is 0"));
};

template <>
struct Fields<reports::InvariantResult> {
  using Self = reports::InvariantResult;
  static constexpr std::string_view kName = "invariant";
  static constexpr auto kList = std::tuple(
      field("stack", &Self::stack, ""),
      field("name", &Self::name, "triangle, monotone, zero_same_layout, ..."),
      field("checked", &Self::checked, ""), field("violated", &Self::violated, ""),
      field("worst", &Self::worst,
            "the case that breaks it by the largest amount; null if, and only if, no case does"));
};

}  // namespace shardlab
