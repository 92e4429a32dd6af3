// What nccl-tests' bus bandwidths say about the run: busbw over algbw is a factor of the collective
// and its ranks, so a collective or ranks that a file names wrongly contradict the column.
//
//   BusBandwidths bus;
//   bus.check(Collective::kAllReduce, 8, {26.21, 0.005}, {45.88, 0.005}, place)   // "": 1.75 times
//   bus.mistake()   // after all rows: the file's names are wrong, and where that shows first
//
// Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md and the GetBw of src/*.cu. Status: ported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/collective.h"

namespace shardlab {

// busbw over algbw: 2 (n - 1) / n of an all-reduce, 1 of a broadcast and of send-receive, (n - 1) / n
// of the rest. Assumes two ranks or more.
[[nodiscard]] double bus_factor(Collective kind, std::int64_t ranks);

// A figure, and half the last digit that it is printed with.
struct PrintedFigure {
  double value = 0.0;
  double half_digit = 0.0;

  // "26.21" is {26.21, 0.005}, "1.5e+06" {1.5e6, 5e4}. Assumes a number.
  [[nodiscard]] static PrintedFigure parse(std::string_view text);
};

class BusBandwidths {
 public:
  struct Mistake {
    std::size_t place;  // of the first row that contradicts
    std::string message;
  };

  // Why a row is refused, whose bandwidths (GB/s) contradict each other by more than their rounding;
  // else "". `place` is any number that tells where the row stands.
  [[nodiscard]] std::string check(Collective kind, std::int64_t ranks, PrintedFigure algbw,
                                  PrintedFigure busbw, std::size_t place);
  // Where as many rows of a collective contradict as clearly agree, it is no slip of a row: the
  // collective, or its ranks, are others.
  [[nodiscard]] std::optional<Mistake> mistake() const;

 private:
  struct Counts {
    std::size_t agreed = 0;
    std::size_t contradicted = 0;
    Mistake first;
  };
  std::map<Collective, Counts> counts_;
};

}  // namespace shardlab
