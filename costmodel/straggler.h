// Stragglers: what waiting for the slowest member adds to a collective. A decorator of any cost
// model.
//
//   {"name": "none"}                                       nothing
//   {"name": "percent", "percent": 5}                      5 % of the collective's own price
//   {"name": "fixed", "fixed_us": 3}                       3 us a collective
//   {"name": "order_statistics", "sigma": 0.1}             each of n members takes the price times
//                                                          exp(sigma z), z standard normal: the
//                                                          slowest takes E[max] of it (the model
//                                                          jitter:SIGMA of sim/slowdown.h)
//   {"name": "order_statistics", "delays_us": [0, 2, 9]}   each of n members comes late by a draw
//                                                          of the list: E[max of n draws]
//
// Free collectives (one rank, local) stay free. Never throws when it prices.
// Source: order statistics, David and Nagaraja 2003, chapter 3. Status: derived; sigma and delays
// are measured (fit_straggler) or assumed.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "costmodel/base/json_reader.h"
#include "costmodel/cost_model.h"

namespace shardlab {

struct Straggler {
  std::string name = "none";
  double percent = 0.0;
  double fixed_us = 0.0;
  double sigma = 0.0;
  std::vector<double> delays_us = {};  // where not empty: instead of sigma

  // Reads an object, or just the name as a text. Throws ConfigError.
  [[nodiscard]] static Straggler from_json(const nlohmann::json& json, const JsonPlace& place);
  [[nodiscard]] nlohmann::json to_json() const;
  [[nodiscard]] std::unique_ptr<CostModel> decorate(std::unique_ptr<CostModel> model) const;
};

// E[max of n factors exp(sigma z)], by quadrature, to 1e-9 relative; n from 1 on, sigma 0 to 5.
[[nodiscard]] double expected_max_lognormal(double sigma, std::int64_t n);
// E[max of n draws] of a list that is sorted and not empty. Exact.
[[nodiscard]] double expected_max_of_draws(std::span<const double> sorted, std::int64_t n);

// Parameters of order statistics out of the times of equal iterations.
struct StragglerFit {
  double median_us = 0.0;  // of one member
  double sigma = 0.0;
  double sigma_standard_error = 0.0;
};
// `times_us` are those of one member, or, with `members` > 1, of collectives that last as long as
// the slowest of so many. The logarithm of the slowest is mu + sigma * M_n, with M_n the largest of
// n standard normals, so sigma = sd(log t) / sd(M_n) and mu = mean(log t) - sigma * E[M_n]: the
// moment estimator, for one member the maximum likelihood one but for the k - 1 in the variance.
// Throws InputError: fewer than two times, or one that is not positive and finite.
[[nodiscard]] StragglerFit fit_straggler(std::span<const double> times_us,
                                         std::int64_t members = 1);

}  // namespace shardlab
