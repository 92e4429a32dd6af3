// Selection: which candidate an op takes, given a price for each.
//
// Policies:
//   first-listed   the first candidate of least total (PyTorch before #161882)
//   keep-input     the least total if it is negative; else, among totals of exactly 0, the last
//                  candidate that leaves every input as it is, or the first one if none does; else
//                  the first candidate of least total (#161882)
//   fewest-collectives  among the candidates of least total, the one whose inputs need the fewest
//                  collectives
//   least-bytes    the one whose inputs move the fewest bytes between ranks, all ranks together
//   compute-time   the one whose local kernel is fastest (the tie-break discussed in #172282)
//   lexicographic  the one whose layouts come first as text: inputs, then outputs
// The last four do not depend on the order of the candidates: text decides between candidates that
// still tie. Source: PyTorch 2.13.0, _sharding_prop.py, _select_min_cost_strategy.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"

namespace shardlab {

enum class Policy : std::uint8_t {
  kFirstListed,
  kKeepInput,
  kFewestCollectives,
  kLeastBytes,
  kComputeTime,
  kLexicographic
};
template <>
struct EnumNames<Policy> {
  static constexpr std::string_view kKind = "policy";
  static constexpr std::array kNames = {Named{Policy::kFirstListed, "first-listed"},
                                        Named{Policy::kKeepInput, "keep-input"},
                                        Named{Policy::kFewestCollectives, "fewest-collectives"},
                                        Named{Policy::kLeastBytes, "least-bytes"},
                                        Named{Policy::kComputeTime, "compute-time"},
                                        Named{Policy::kLexicographic, "lexicographic"}};
};
[[nodiscard]] constexpr std::string_view to_string(Policy policy) { return name_of(policy); }

// Measures candidates at the minimum for policies that look beyond prices. A candidate is given by
// its position among those that the policy sees.
class TieBreaker {
 public:
  TieBreaker() = default;
  TieBreaker(const TieBreaker&) = delete;
  TieBreaker& operator=(const TieBreaker&) = delete;
  virtual ~TieBreaker() = default;

  [[nodiscard]] virtual double collectives(std::size_t candidate) = 0;
  [[nodiscard]] virtual double bytes(std::size_t candidate) = 0;
  [[nodiscard]] virtual double compute_us(std::size_t candidate) = 0;
  [[nodiscard]] virtual std::string text(std::size_t candidate) = 0;
};

// Candidates as a policy sees them, in the order in which it sees them.
struct PricedCandidates {
  std::span<const double> totals;              // microseconds; infinity where impossible
  std::span<const std::uint8_t> keeps_inputs;  // 1 where no input changes its placements
  TieBreaker* tie_breaker = nullptr;           // the last four policies need it
};

// The position of the chosen candidate. Assumes that there is one.
[[nodiscard]] std::size_t select(Policy policy, const PricedCandidates& candidates);

// Whether a total ties with the least one: it is larger by at most 1e-12 relative, since the same
// prices summed in another order may differ by that much.
[[nodiscard]] bool is_same_total(double total, double least);
// The positions of the candidates at the minimum, by is_same_total().
[[nodiscard]] std::vector<std::size_t> ties_at_minimum(std::span<const double> totals);
// The distance from the minimum to the best total that differs from it; nothing when all others are
// equal or impossible.
[[nodiscard]] std::optional<double> margin_us(std::span<const double> totals);
// Whether another order of the same candidates can make the policy choose another candidate.
[[nodiscard]] bool flips_with_order(Policy policy, const PricedCandidates& candidates);

// The order in which candidates are listed: as the rules list them, reversed, or shuffled by a
// seed.
struct CandidateOrder {
  enum class Kind : std::uint8_t { kListed, kReversed, kShuffled };
  Kind kind = Kind::kListed;
  std::uint64_t seed = 0;

  // Reads "listed", "reversed" or "shuffled:SEED". Throws TextError.
  [[nodiscard]] static CandidateOrder parse(std::string_view text);
  [[nodiscard]] std::string text() const;
  // The positions in the rules' list, in the order in which the policy sees the candidates.
  [[nodiscard]] std::vector<std::size_t> permutation(std::size_t size) const;
};
template <>
struct EnumNames<CandidateOrder::Kind> {
  static constexpr std::string_view kKind = "order";
  static constexpr std::array kNames = {Named{CandidateOrder::Kind::kListed, "listed"},
                                        Named{CandidateOrder::Kind::kReversed, "reversed"},
                                        Named{CandidateOrder::Kind::kShuffled, "shuffled"}};
};

}  // namespace shardlab
