// How long one collective of one group takes against its size: a latency floor, a bandwidth
// plateau, a rounded bend between them, and kinks where the protocol changes.
//
//   ln t(S) = ln a + phi(ln S - ln(a b)) + kinks(ln S)
//   phi(u) = ln(1 + e^(p u)) / p + shape(u)
//   a us, what an empty message takes; b bytes/us, the slope of a huge one; p the sharpness of the
//   bend; shape the mean departure of measured curves from that bend; kinks straight lines in
//   (ln S, ln t) between the points of one curve, level beyond them
// Source: the bend is the p-norm of the two asymptotes (p = 1: Hockney's straight line; p = 1/2:
// optimal pipelining, (sqrt(a) + sqrt(S/b))^2). The shapes are fitted to configs/measurements: mean
// residual by u of the smooth bend, over all healthy sets of at least 12 rows, a Gaussian kernel
// of width 1 in u, shrunk by 20 rows and by 0.7. Status: fitted.
#pragma once

#include <vector>

#include "costmodel/collective.h"

namespace shardlab {

struct Kink {
  Bytes bytes = 0.0;
  double factor = 1.0;  // measured time over the smooth curve's
};

struct Curve {
  double latency_us = 1.0;
  double bytes_per_us = 1.0;
  double sharpness = 0.7;
  std::vector<Kink> kinks;  // by rising bytes
};

// The logarithm of the time in us without kinks. Assumes positive bytes.
[[nodiscard]] double smooth_log_us(Collective kind, const Curve& curve, double log_bytes);

// A curve made fast (one logarithm, one exponential, a table) and monotone: the greatest rising
// curve below it. Where a larger size took less time, the smaller one was late for a reason of its
// own (a cold start, a busy host), so that the larger one counts.
class TabulatedCurve {
 public:
  TabulatedCurve(Collective kind, const Curve& curve);

  [[nodiscard]] double us(Bytes bytes) const;

 private:
  std::vector<double> log2_us_;  // by log2(bytes) from 0, in steps of 1 / kStepsPerOctave
};

}  // namespace shardlab
