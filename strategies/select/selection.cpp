#include "strategies/select/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

constexpr double kSameTotal = 1e-12;

// How a policy that looks beyond prices measures candidates that tie; smaller is better. Null if it
// only compares their text.
using Measure = double (TieBreaker::*)(std::size_t);
Measure measure_of(Policy policy) {
  switch (policy) {
    case Policy::kFewestCollectives:
      return &TieBreaker::collectives;
    case Policy::kLeastBytes:
      return &TieBreaker::bytes;
    case Policy::kComputeTime:
      return &TieBreaker::compute_us;
    default:
      return nullptr;
  }
}

// Whether a policy resolves the remaining ties by the candidates' text.
bool decides_by_text(Policy policy) {
  return policy != Policy::kFirstListed && policy != Policy::kKeepInput;
}

// Chooses among the candidates of least total the one of least measure. Among those of equal
// measure, the one whose text comes first is chosen.
std::size_t select_by_text(Policy policy, const PricedCandidates& candidates) {
  SHARDLAB_CHECK(candidates.tie_breaker != nullptr, name_of(policy), " without a tie breaker");
  TieBreaker& breaker = *candidates.tie_breaker;
  std::vector<std::size_t> ties = ties_at_minimum(candidates.totals);
  const Measure measure = measure_of(policy);
  if (measure != nullptr && ties.size() > 1) {
    std::vector<double> measures;
    for (const std::size_t i : ties) measures.push_back((breaker.*measure)(i));
    std::vector<std::size_t> least;
    for (const std::size_t i : ties_at_minimum(measures)) least.push_back(ties[i]);
    ties = std::move(least);
  }
  std::size_t first = ties.front();
  std::string first_text = ties.size() > 1 ? breaker.text(first) : "";
  for (std::size_t i = 1; i < ties.size(); ++i) {
    std::string text = breaker.text(ties[i]);
    if (text >= first_text) continue;
    first = ties[i];
    first_text = std::move(text);
  }
  return first;
}

double minimum(std::span<const double> totals) {
  double least = std::numeric_limits<double>::infinity();
  for (const double total : totals) least = std::min(least, total);
  return least;
}

}  // namespace

bool is_same_total(double total, double least) {
  return total == least || total - least <= kSameTotal * std::abs(least);
}

std::size_t select(Policy policy, const PricedCandidates& candidates) {
  const auto totals = candidates.totals;
  SHARDLAB_CHECK(!totals.empty(), "no candidate to select from");
  if (decides_by_text(policy)) return select_by_text(policy, candidates);
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
    if (is_same_total(totals[i], least)) ties.push_back(i);
  }
  return ties;
}

std::optional<double> margin_us(std::span<const double> totals) {
  const double least = minimum(totals);
  double next = std::numeric_limits<double>::infinity();
  for (const double total : totals) {
    if (!is_same_total(total, least)) next = std::min(next, total);
  }
  if (next == std::numeric_limits<double>::infinity()) return std::nullopt;
  return next - least;
}

bool flips_with_order(Policy policy, const PricedCandidates& candidates) {
  const auto totals = candidates.totals;
  if (totals.size() < 2 || decides_by_text(policy)) return false;
  // Policies compare totals exactly, so the order matters only among exactly equal totals.
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
  const std::optional<Kind> kind = from_name<Kind>(word);
  if (!kind) cursor.fail_at(0, "listed, reversed or shuffled:SEED");
  order.kind = *kind;
  if (order.kind == Kind::kShuffled) {
    cursor.expect(":", "\":\" and a seed");
    order.seed = static_cast<std::uint64_t>(
        cursor.integer("a seed", 0, std::numeric_limits<std::int64_t>::max()));
  }
  if (!cursor.at_end()) cursor.fail("the end of the order");
  return order;
}

std::string CandidateOrder::text() const {
  return std::string(name_of(kind)) +
         (kind == Kind::kShuffled ? ":" + std::to_string(seed) : std::string());
}

std::vector<std::size_t> CandidateOrder::permutation(std::size_t size) const {
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (kind == Kind::kReversed) std::reverse(order.begin(), order.end());
  if (kind == Kind::kShuffled) {
    // Fisher-Yates with a modulo of our own, since std::shuffle differs between libraries.
    std::mt19937_64 rng(seed);
    for (std::size_t i = size; i > 1; --i) std::swap(order[i - 1], order[rng() % i]);
  }
  return order;
}

}  // namespace shardlab
