// Quantities with their unit in the type. Time is in microseconds, sizes in bytes, bandwidth in
// decimal GB/s (1 GB = 1e9 bytes), compute in TFLOP/s. transfer_time() and compute_time() turn
// bytes or operations, and a rate, into a time.
//
// Bytes are a plain double, which holds the exact quotient of a split: published DTensor figures
// depend on it. A model that needs whole bytes rounds down itself.
//
//   const Micros time = latency + transfer_time(bytes, GBps(450.0));
#pragma once

#include <compare>
#include <limits>
#include <optional>

namespace shardlab {

// A double with a unit in its type. Numbers go in and out explicitly; quantities of one unit can be
// compared, added and scaled.
template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}
  [[nodiscard]] constexpr double value() const { return value_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value_ + b.value_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value_ - b.value_);
  }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity(k * a.value_); }
  constexpr Quantity& operator+=(Quantity b) {
    value_ += b.value_;
    return *this;
  }

 private:
  double value_ = 0.0;
};

using Bytes = double;
using Micros = Quantity<struct MicrosTag>;
using GBps = Quantity<struct GBpsTag>;      // decimal: 1 GB = 1e9 bytes
using Tflops = Quantity<struct TflopsTag>;  // 1e12 floating point operations a second

// An impossible price, wherever prices are plain numbers.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// The price, or nothing if it is impossible.
[[nodiscard]] constexpr std::optional<double> finite(double us) {
  return us < kInfinity ? std::optional(us) : std::nullopt;
}

inline constexpr double kBytesPerGiB = 1024.0 * 1024.0 * 1024.0;

// 1 GB/s moves 1000 bytes per microsecond.
[[nodiscard]] constexpr Micros transfer_time(Bytes bytes, GBps bandwidth) {
  return Micros(bytes / (bandwidth.value() * 1e3));
}

// 1 TFLOP/s does 1e6 operations per microsecond.
[[nodiscard]] constexpr Micros compute_time(double flops, Tflops rate) {
  return Micros(flops / (rate.value() * 1e6));
}

}  // namespace shardlab
