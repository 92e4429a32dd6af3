#include "costmodel/curve.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace shardlab {
namespace {

constexpr int kStepsPerOctave = 8;
constexpr int kOctaves = 50;  // up to 1 PiB

// The shape of the header's formula at u = -9, -8, ..., 9. Collectives without a shape of their own
// use that of all_gather.
using Shape = std::array<double, 19>;
constexpr double kShapeBegin = -9.0;
constexpr Shape kGatherShape = {-0.015, -0.020, -0.019, -0.011, 0.010,  0.045,  0.077,
                                0.081,  0.055,  0.009,  -0.031, -0.041, -0.025, -0.002,
                                0.009,  0.010,  0.008,  0.007,  0.003};
constexpr Shape kAllReduceShape = {-0.012, 0.004, 0.025, 0.040,  0.051,  0.056,  0.047,
                                   0.027,  0.013, 0.005, -0.009, -0.025, -0.027, -0.014,
                                   0.003,  0.013, 0.013, 0.008,  0.005};
constexpr Shape kAllToAllShape = {0.049,  0.053, 0.045, 0.014, -0.021, -0.038, -0.037,
                                  -0.017, 0.018, 0.037, 0.023, -0.002, -0.012, -0.007,
                                  0.000,  0.004, 0.003, 0.001, 0.000};

const Shape& shape_of(Collective kind) {
  switch (kind) {
    case Collective::kAllReduce:
      return kAllReduceShape;
    case Collective::kAllToAll:
      return kAllToAllShape;
    default:
      return kGatherShape;
  }
}

double interpolate(const Shape& shape, double u) {
  const double x = std::clamp(u - kShapeBegin, 0.0, static_cast<double>(shape.size() - 1));
  const std::size_t i = std::min(static_cast<std::size_t>(x), shape.size() - 2);
  const double part = x - static_cast<double>(i);
  return shape[i] + part * (shape[i + 1] - shape[i]);
}

// ln(1 + e^x) without overflow.
double softplus(double x) {
  return x > 0.0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

double log_kink(const std::vector<Kink>& kinks, double log_bytes) {
  if (kinks.empty()) return 0.0;
  const auto log_at = [](const Kink& kink) { return std::log(std::max(kink.bytes, 1.0)); };
  if (log_bytes <= log_at(kinks.front())) return std::log(kinks.front().factor);
  if (log_bytes >= log_at(kinks.back())) return std::log(kinks.back().factor);
  const auto upper = std::upper_bound(kinks.begin(), kinks.end(), log_bytes,
                                      [&](double x, const Kink& k) { return x < log_at(k); });
  const Kink& right = *upper;
  const Kink& left = *(upper - 1);
  const double part = (log_bytes - log_at(left)) / (log_at(right) - log_at(left));
  return std::log(left.factor) + part * (std::log(right.factor) - std::log(left.factor));
}

}  // namespace

double smooth_log_us(Collective kind, const Curve& curve, double log_bytes) {
  const double u = log_bytes - std::log(curve.latency_us) - std::log(curve.bytes_per_us);
  return std::log(curve.latency_us) + softplus(curve.sharpness * u) / curve.sharpness +
         interpolate(shape_of(kind), u);
}

TabulatedCurve::TabulatedCurve(Collective kind, const Curve& curve) {
  constexpr double kLn2 = 0.693147180559945309417;
  for (int i = 0; i <= kOctaves * kStepsPerOctave; ++i) {
    const double log_bytes = kLn2 * i / kStepsPerOctave;
    const double log_us = smooth_log_us(kind, curve, log_bytes) + log_kink(curve.kinks, log_bytes);
    log2_us_.push_back(log_us / kLn2);
  }
  for (std::size_t i = log2_us_.size() - 1; i-- > 0;) {
    log2_us_[i] = std::min(log2_us_[i], log2_us_[i + 1]);
  }
}

double TabulatedCurve::us(Bytes bytes) const {
  if (!(bytes > 1.0)) return std::exp2(log2_us_.front());
  const double x = std::log2(bytes) * kStepsPerOctave;
  const double last = static_cast<double>(log2_us_.size() - 1);
  if (x >= last) return std::exp2(log2_us_.back() + (x - last) / kStepsPerOctave);
  const auto i = static_cast<std::size_t>(x);
  const double part = x - static_cast<double>(i);
  return std::exp2(log2_us_[i] + part * (log2_us_[i + 1] - log2_us_[i]));
}

}  // namespace shardlab
