#include "strategies/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include "costmodel/error.h"
#include "costmodel/text.h"

namespace shardlab {
namespace {

constexpr double kSameTotal = 1e-12;

bool same_total(double a, double b) { return a == b || a - b <= kSameTotal * std::abs(b); }

double minimum(std::span<const double> totals) {
  double least = std::numeric_limits<double>::infinity();
  for (const double total : totals) least = std::min(least, total);
  return least;
}

}  // namespace

std::string_view to_string(Policy policy) {
  return policy == Policy::kFirstListed ? "first-listed" : "keep-input";
}

std::optional<Policy> policy_from_name(std::string_view name) {
  for (const Policy policy : {Policy::kFirstListed, Policy::kKeepInput}) {
    if (to_string(policy) == name) return policy;
  }
  return std::nullopt;
}

std::size_t select(Policy policy, const PricedCandidates& candidates) {
  const auto totals = candidates.totals;
  SHARDLAB_CHECK(!totals.empty(), "no candidate to select from");
  const auto first_least =
      static_cast<std::size_t>(std::min_element(totals.begin(), totals.end()) - totals.begin());
  if (policy == Policy::kFirstListed || totals.size() == 1) return first_least;
  if (totals[first_least] < 0) return first_least;
  std::optional<std::size_t> unchanged;
  std::optional<std::size_t> first_zero;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    if (totals[i] != 0) continue;
    if (candidates.keeps_inputs[i] != 0) {
      unchanged = i;
    } else if (!first_zero) {
      first_zero = i;
    }
  }
  if (unchanged) return *unchanged;
  return first_zero.value_or(first_least);
}

std::vector<std::size_t> ties_at_minimum(std::span<const double> totals) {
  const double least = minimum(totals);
  std::vector<std::size_t> ties;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    if (same_total(totals[i], least)) ties.push_back(i);
  }
  return ties;
}

std::optional<double> margin_us(std::span<const double> totals) {
  const double least = minimum(totals);
  double next = std::numeric_limits<double>::infinity();
  for (const double total : totals) {
    if (!same_total(total, least)) next = std::min(next, total);
  }
  if (next == std::numeric_limits<double>::infinity()) return std::nullopt;
  return next - least;
}

bool flips_with_order(Policy policy, const PricedCandidates& candidates) {
  const auto totals = candidates.totals;
  if (totals.size() < 2) return false;
  // A policy compares bit for bit, so only equal totals can swap.
  const double least = minimum(totals);
  const auto at_least = static_cast<std::size_t>(std::count(totals.begin(), totals.end(), least));
  if (policy == Policy::kFirstListed || least != 0) return at_least > 1;
  std::size_t unchanged = 0;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    unchanged += totals[i] == 0 && candidates.keeps_inputs[i] != 0 ? 1U : 0U;
  }
  return unchanged > 0 ? unchanged > 1 : at_least > 1;
}

CandidateOrder CandidateOrder::parse(std::string_view text) {
  TextCursor cursor("order", text);
  CandidateOrder order;
  const std::string_view word = cursor.word();
  if (word == "reversed") {
    order.kind = Kind::kReversed;
  } else if (word == "shuffled") {
    order.kind = Kind::kShuffled;
    cursor.expect(":", "\":\" and a seed");
    order.seed = static_cast<std::uint64_t>(
        cursor.integer("a seed", 0, std::numeric_limits<std::int64_t>::max()));
  } else if (word != "listed") {
    cursor.fail_at(0, "listed, reversed or shuffled:SEED");
  }
  if (!cursor.at_end()) cursor.fail("the end of the order");
  return order;
}

std::string CandidateOrder::text() const {
  switch (kind) {
    case Kind::kListed:
      return "listed";
    case Kind::kReversed:
      return "reversed";
    case Kind::kShuffled:
      return "shuffled:" + std::to_string(seed);
  }
  return "";
}

std::vector<std::size_t> CandidateOrder::permutation(std::size_t size) const {
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (kind == Kind::kReversed) std::reverse(order.begin(), order.end());
  if (kind == Kind::kShuffled) {
    // Fisher-Yates with our own modulo: std::shuffle differs between libraries.
    std::mt19937_64 rng(seed);
    for (std::size_t i = size; i > 1; --i) std::swap(order[i - 1], order[rng() % i]);
  }
  return order;
}

}  // namespace shardlab
