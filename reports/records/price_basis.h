// What the reference's price of a choice rests on. A record says this if the reference's collective
// model has measured rows:
//
//   "rests_on": {"measured_steps": 2, "not_measured": ["all_gather of 16 ranks on 2 hosts"]}
//
// A communication step was measured if there are rows of the same collective among as many ranks on
// as many hosts, and its size lies between the smallest and the largest of these rows. For every
// other step, `not_measured` names what the rows lack. A choice without communication has no
// measured steps and nothing that was not measured. Tested by
// tests/unit/reports/records/price_basis_test.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "costmodel/base/fields.h"

namespace shardlab {
namespace reports {

struct PriceBasis {
  std::int64_t measured_steps = 0;
  std::vector<std::string> not_measured;
  friend bool operator==(const PriceBasis&, const PriceBasis&) = default;
};

// What a price rests on: the price of one choice, or the prices of several choices that are
// compared.
enum class Basis {
  kMeasured,     // there is communication, and all of its steps were measured
  kCarriedOver,  // some steps were not measured: their price comes from other groups or sizes
  kLocalWork,    // there is no communication, so no measured row is used
};
inline constexpr std::array<Basis, 3> kBases = {Basis::kMeasured, Basis::kCarriedOver,
                                                Basis::kLocalWork};

// The name as words: "carried over".
[[nodiscard]] std::string basis_text(Basis basis);

}  // namespace reports

template <>
struct EnumNames<reports::Basis> {
  static constexpr std::string_view kKind = "basis";
  static constexpr std::array kNames = {Named{reports::Basis::kMeasured, "measured"},
                                        Named{reports::Basis::kCarriedOver, "carried_over"},
                                        Named{reports::Basis::kLocalWork, "local_work"}};
};

template <>
struct Fields<reports::PriceBasis> {
  using Self = reports::PriceBasis;
  static constexpr std::string_view kName = "price_basis";
  static constexpr std::string_view kMeaning =
      "what the reference's price rests on, if there is a price and its collectives have measured "
      "rows (see reports/records/price_basis.h)";
  static constexpr auto kList =
      std::tuple(field("measured_steps", &Self::measured_steps,
                       "how many communication steps are of a measured collective, group and size"),
                 field("not_measured", &Self::not_measured,
                       "what the rows lack for the other communication steps, each text once: "
                       "all_gather of 16 ranks on 2 hosts"));
};

}  // namespace shardlab
