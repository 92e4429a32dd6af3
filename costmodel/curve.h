// How the time of one collective among one group grows with its size: a latency floor, a bandwidth
// plateau, a rounded bend between them, and kinks where the protocol changes.
//
//   ln t(S) = ln a + phi(ln S - ln(a b)) + kinks(ln S)
//   phi(u) = ln(1 + e^(p u)) / p + shape(u)
//   S the full_bytes of the collective; t its time in us; a the time of an empty message, in us; b
//   the bandwidth of a huge message, in bytes/us; p the sharpness of the bend; shape the mean
//   departure of measured curves from that bend; kinks straight lines in (ln S, ln t) between the
//   points of one curve, level beyond the outermost points
// Source: the bend is the p-norm of the two asymptotes. p = 1 is Hockney's straight line; p = 1/2
// is optimal pipelining, (sqrt(a) + sqrt(S/b))^2. The shapes are fitted to configs/measurements:
// they are the mean residuals of the smooth bend by u, over all healthy sets of at least 12 rows,
// smoothed by a Gaussian kernel of width 1 in u, shrunk towards zero as if by 20 more rows, and
// then by 0.7.
// Valid: sizes and groups near those measured. Status: fitted.
#pragma once

#include <vector>

#include "costmodel/collective.h"

namespace shardlab {

struct Kink {
  Bytes bytes = 0.0;
  double factor = 1.0;  // ratio of the curve's time to that of the smooth curve
};

struct Curve {
  double latency_us = 1.0;    // a
  double bytes_per_us = 1.0;  // b
  double sharpness = 0.7;     // p
  std::vector<Kink> kinks;    // by rising bytes
};

// ln t without kinks, at ln S = log_bytes.
[[nodiscard]] double smooth_log_us(Collective kind, const Curve& curve, double log_bytes);

// A curve made fast (a price takes one logarithm, one exponential and a table) and monotone: the
// greatest rising curve that lies nowhere above the given one. If a larger size took less time than
// a smaller one, something else delayed the smaller one (a cold start, a busy host), so the time of
// the larger one is used for both.
class TabulatedCurve {
 public:
  TabulatedCurve(Collective kind, const Curve& curve);

  [[nodiscard]] double us(Bytes bytes) const;

 private:
  std::vector<double> log2_us_;  // at log2(bytes) = 0, 1/8, 2/8, ...
};

}  // namespace shardlab
