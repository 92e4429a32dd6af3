// Checks a run by its bus bandwidths. The ratio of busbw to algbw follows from the collective and
// the number of ranks, so if a file names either wrongly, the columns contradict it.
//
//   BusBandwidths bus;
//   bus.check(Collective::kAllReduce, 8, {26.21, 0.005}, {45.88, 0.005}, 12)   // "": it is 1.75
//   bus.mistake()   // after all rows: whether the file names the collective or the ranks wrongly
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

// busbw over algbw: 2 (n - 1) / n for an all-reduce, 1 for a broadcast and for send-receive, (n -
// 1) / n for the others. Assumes two ranks or more.
[[nodiscard]] double bus_factor(Collective kind, std::int64_t ranks);

// A printed figure and half a unit of its last digit, which is the largest error by rounding.
struct PrintedFigure {
  double value = 0.0;
  double half_digit = 0.0;

  // Reads {26.21, 0.005} from "26.21", and {1.5e6, 5e4} from "1.5e+06". Assumes that the text is a
  // number.
  [[nodiscard]] static PrintedFigure parse(std::string_view text);
};

class BusBandwidths {
 public:
  struct Mistake {
    std::size_t place;  // the place of the first row that contradicts the file
    std::string message;
  };

  // Returns why a row is refused: its bandwidths (GB/s) contradict each other by more than their
  // rounding. Returns "" if they agree. `place` is any number by which the caller finds the row
  // again.
  [[nodiscard]] std::string check(Collective kind, std::int64_t ranks, PrintedFigure algbw,
                                  PrintedFigure busbw, std::size_t place);
  // The mistake of the whole file. If at least as many rows of a collective contradict as clearly
  // agree, the error is not a slip in a single row: the file names the collective or the number of
  // ranks wrongly.
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
