// What the reference's price of a choice rests on, in a record, where the reference's collective
// model has measured rows:
//
//   "rests_on": {"measured_steps": 2, "not_measured": ["all_gather of 16 ranks on 2 hosts"]}
//
// A communication step was measured where the rows tell the same collective among as many ranks on
// as many hosts, at sizes from the smallest of these rows to the largest. The others are named by
// what the rows lack. A choice without communication has neither. Tested by
// tests/unit/reports/records/price_basis_test.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab::reports {

struct PriceBasis {
  std::int64_t measured_steps = 0;
  std::vector<std::string> not_measured;  // of the other communication steps, each text once
  friend bool operator==(const PriceBasis&, const PriceBasis&) = default;
};

// Of one choice, or of several that are compared.
enum class Basis {
  kMeasured,     // every communication step was measured, and there is one
  kCarriedOver,  // some were not: the price is carried over from other groups or sizes
  kLocalWork,    // there is none: no measured row takes part
};
inline constexpr std::array<Basis, 3> kBases = {Basis::kMeasured, Basis::kCarriedOver,
                                                Basis::kLocalWork};

// "measured", "carried over", "local work".
[[nodiscard]] std::string_view basis_text(Basis basis);
// "measured", "carried_over", "local_work".
[[nodiscard]] std::string_view basis_key(Basis basis);

[[nodiscard]] nlohmann::ordered_json to_json(const PriceBasis& basis);

// Throws ConfigError, naming `file` and the JSON pointer, for anything else.
[[nodiscard]] PriceBasis read_price_basis(const nlohmann::json& value, std::string_view file,
                                          const std::string& pointer);

}  // namespace shardlab::reports
