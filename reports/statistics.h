// The statistics of a report, each with its definition. All of them return an empty optional if
// there are no values, and assume that no value is NaN (infinity is allowed in rank correlation,
// where only the order counts).
//
// Cost: percentile and kendall_tau_b copy and sort, O(n log n); the others are one pass.
// Tested by tests/unit/reports/statistics_test.cpp, tau against a quadratic twin.
#pragma once

#include <optional>
#include <span>

namespace shardlab::reports {

[[nodiscard]] std::optional<double> mean(std::span<const double> values);

// sum(w x) / sum(w). Assumes as many weights as values, none negative. Empty if the weights sum to
// 0.
[[nodiscard]] std::optional<double> weighted_mean(std::span<const double> values,
                                                  std::span<const double> weights);

[[nodiscard]] std::optional<double> maximum(std::span<const double> values);

// As costmodel/base/percentile.h defines it: percentile({1, 2, 4}, 0.75) is 3. Assumes that p is
// from 0 to 1.
[[nodiscard]] std::optional<double> percentile(std::span<const double> values, double p);

// percentile(values, 0.5).
[[nodiscard]] std::optional<double> median(std::span<const double> values);

// Kendall's rank correlation tau-b, in [-1, 1]: (C - D) / sqrt((n0 - n1) (n0 - n2))
//   C, D concordant and discordant pairs; n0 = n (n - 1) / 2 all pairs; n1, n2 pairs tied in
//   `left`, in `right`
// Source: Kendall 1945, "The treatment of ties in ranking problems"; counted by merge sort as in
// Knight 1966. Valid: any order, ties included. Status: derived. Empty for fewer than two values,
// and if all values of one side are tied, because there is no order to compare then. Assumes two
// spans of the same length.
[[nodiscard]] std::optional<double> kendall_tau_b(std::span<const double> left,
                                                  std::span<const double> right);

}  // namespace shardlab::reports
