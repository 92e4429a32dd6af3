// Which ranks are slow in a simulated run, and by how much: turns a kernel's price into the time
// that one rank takes.
//
//   none               Every rank takes the price.
//   percent:P          Every rank takes P % longer.
//   host:H:FACTOR      All kernels on host H take FACTOR times as long.
//   link:H:FACTOR      The network link of host H is FACTOR times slower, and with it the transfer
//                      part of collectives whose groups leave the NVLink domain of host H, which is
//                      host H unless the topology's domains have several hosts.
//   jitter:SIGMA       Each kernel on each rank takes the price times a log-normal factor of its
//                      own, exp(SIGMA z) with z standard normal. The median rank takes the price.
//
// A collective lasts as long as its slowest member takes. Jitter therefore shows the order
// statistics of n ranks: on average a collective takes the price times E[max of n factors]. The
// factors depend only on the seed, the repetition, the kernel and the rank. Immutable.
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
  // Throws TextError for an unknown form and for a number out of range: percent 0 to 1e6, factor 1
  // to 1e6, sigma 0 to 5.
  [[nodiscard]] static Slowdown parse(std::string_view text);
  [[nodiscard]] std::string text() const;

  [[nodiscard]] Kind kind() const { return kind_; }
  // Whether every rank takes the same time for the same kernel.
  [[nodiscard]] bool treats_ranks_alike() const {
    return kind_ == Kind::kNone || kind_ == Kind::kPercent;
  }
  // Whether repetitions of a run differ.
  [[nodiscard]] bool is_random() const { return kind_ == Kind::kJitter; }
  // The slow host, or the host whose link is slow. Assumes one of these two kinds.
  [[nodiscard]] std::int64_t host() const { return host_; }

  // One kernel on one rank, for which a time is asked.
  struct Draw {
    std::uint64_t seed;  // the seed of the repetition
    std::int64_t kernel;
    std::int64_t rank;
    std::int64_t host;
    bool leaves_domain;  // whether a collective has members in other NVLink domains
  };
  friend bool operator==(const Slowdown&, const Slowdown&) = default;

  // How long one rank takes for a kernel of this price, of which `transfer` is spent on the wire.
  [[nodiscard]] Micros time(Micros price, Micros transfer, const Draw& draw) const;

 private:
  Kind kind_ = Kind::kNone;
  std::int64_t host_ = 0;
  double amount_ = 0.0;  // percent, factor or sigma
};

}  // namespace shardlab
