// Who is slow in a simulated run: what turns a kernel's price into the time that one rank takes.
//
//   none               every rank takes the price
//   percent:P          every rank takes P % longer
//   host:H:FACTOR      all kernels on host H take FACTOR times as long
//   link:H:FACTOR      host H's link to other hosts is FACTOR times slower: the transfer part of a
//                      collective of a group that leaves host H
//   jitter:SIGMA       each kernel of each rank by a log-normal factor of its own, exp(SIGMA z) with
//                      z standard normal: the median rank takes the price
//
// A collective lasts as long as its slowest member takes, so jitter shows the order statistics of n
// ranks: one collective takes price * E[max of n factors] on average. Factors depend on the seed,
// the repetition, the kernel and the rank alone. Immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "costmodel/base/units.h"

namespace shardlab {

inline constexpr std::string_view kSlowdownForms =
    "none, percent:P, host:H:FACTOR, link:H:FACTOR or jitter:SIGMA";

class Slowdown {
 public:
  enum class Kind : std::uint8_t { kNone, kPercent, kHost, kLink, kJitter };

  Slowdown() = default;
  // Throws TextError: an unknown form, or a number out of range (percent 0 to 1e6, factor 1 to 1e6,
  // sigma 0 to 5).
  [[nodiscard]] static Slowdown parse(std::string_view text);
  [[nodiscard]] std::string text() const;

  [[nodiscard]] Kind kind() const { return kind_; }
  // Every rank takes the same time for the same kernel.
  [[nodiscard]] bool treats_ranks_alike() const {
    return kind_ == Kind::kNone || kind_ == Kind::kPercent;
  }
  // Repetitions of a run differ.
  [[nodiscard]] bool is_random() const { return kind_ == Kind::kJitter; }
  // Of host and link: the slow one.
  [[nodiscard]] std::int64_t host() const { return host_; }

  struct Draw {
    std::uint64_t seed;  // of the repetition
    std::int64_t kernel;
    std::int64_t rank;
    std::int64_t host;
    bool leaves_host;  // a collective with members on other hosts
  };
  friend bool operator==(const Slowdown&, const Slowdown&) = default;

  // How long one rank takes for a kernel of this price, `transfer` of which are bytes on the wire.
  [[nodiscard]] Micros time(Micros price, Micros transfer, const Draw& draw) const;

 private:
  Kind kind_ = Kind::kNone;
  std::int64_t host_ = 0;
  double amount_ = 0.0;  // percent, factor or sigma
};

}  // namespace shardlab
