// Stragglers: what waiting for the slowest member adds to a collective. A decorator of any cost
// model.
//
//   {"name": "none"}                                       adds nothing
//   {"name": "percent", "percent": 5}                      adds 5 % of the collective's own price
//   {"name": "fixed", "fixed_us": 3}                       adds 3 us to each collective
//   {"name": "order_statistics", "sigma": 0.1}             each of n members takes the price times
//                                                          exp(sigma z), z standard normal, and the
//                                                          collective takes the expected maximum
//                                                          (jitter:SIGMA of sim/slowdown.h)
//   {"name": "order_statistics", "delays_us": [0, 2, 9]}   each of n members comes late by a draw
//                                                          from the list, and the collective starts
//                                                          after the expected maximum
//
// Free collectives (one rank, local) stay free. Pricing never throws.
// Source: order statistics, David and Nagaraja 2003, chapter 3. Status: derived; sigma and delays
// are measured (fit_straggler) or assumed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "costmodel/base/json_reader.h"
#include "costmodel/cost_model.h"

namespace shardlab {

enum class StragglerKind : std::uint8_t { kNone, kPercent, kFixed, kOrderStatistics };
template <>
struct EnumNames<StragglerKind> {
  static constexpr std::string_view kKind = "straggler model";
  static constexpr std::array kNames = {Named{StragglerKind::kNone, "none"},
                                        Named{StragglerKind::kPercent, "percent"},
                                        Named{StragglerKind::kFixed, "fixed"},
                                        Named{StragglerKind::kOrderStatistics, "order_statistics"}};
};

struct Straggler {
  StragglerKind kind = StragglerKind::kNone;
  double percent = 0.0;
  double fixed_us = 0.0;
  double sigma = 0.0;
  std::vector<double> delays_us = {};  // if not empty, used instead of sigma

  // Reads an object, or just the name as a text. Throws ConfigError.
  [[nodiscard]] static Straggler from_json(const nlohmann::json& json, const JsonPlace& place);
  [[nodiscard]] nlohmann::json to_json() const;
  [[nodiscard]] std::unique_ptr<CostModel> decorate(std::unique_ptr<CostModel> model) const;
};

// The expected maximum of n factors exp(sigma z), z standard normal. It is computed by quadrature,
// to a relative error of 1e-9. Assumes n >= 1 and sigma from 0 to 5.
[[nodiscard]] double expected_max_lognormal(double sigma, std::int64_t n);
// The expected maximum of n draws from a list, exactly. Assumes that the list is sorted and not
// empty.
[[nodiscard]] double expected_max_of_draws(std::span<const double> sorted, std::int64_t n);

// The parameters of order statistics, found from the times of equal iterations.
struct StragglerFit {
  double median_us = 0.0;  // what one member takes
  double sigma = 0.0;
  double sigma_standard_error = 0.0;
};
// `times_us` are the times of one member, or, with `members` > 1, the times of collectives that
// last as long as the slowest of so many members. The logarithm of the slowest is mu + sigma * M_n,
// with M_n the largest of n standard normals, so that sigma = sd(log t) / sd(M_n) and mu = mean(log
// t) - sigma * E[M_n]. This is the moment estimator; for one member it is the maximum likelihood
// estimator, except that k times give a variance over k - 1.
// Throws InputError for fewer than two times, and for a time that is not positive and finite.
[[nodiscard]] StragglerFit fit_straggler(std::span<const double> times_us,
                                         std::int64_t members = 1);

}  // namespace shardlab
