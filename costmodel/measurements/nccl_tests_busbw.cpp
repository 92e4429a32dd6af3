#include "costmodel/measurements/nccl_tests_busbw.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "costmodel/base/text.h"

namespace shardlab {
namespace {

// A relative error that is allowed on top of rounding, for figures that were retyped by hand.
// Status: assumed; the shipped logs agree within a tenth of it.
constexpr double kSlack = 1e-3;
// A row agrees clearly if the relative error that rounding may cause is below this: the ratios of
// other collectives and other numbers of ranks are then ruled out. Status: assumed.
constexpr double kClear = 0.02;

std::string among(Collective kind, std::int64_t ranks) {
  return std::string(to_string(kind)) + " among " + std::to_string(ranks) + " ranks";
}

}  // namespace

double bus_factor(Collective kind, std::int64_t ranks) {
  const double n = static_cast<double>(ranks);
  switch (kind) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kBroadcast:
    case Collective::kSendRecv:
      return 1.0;
    default:
      return (n - 1) / n;
  }
}

PrintedFigure PrintedFigure::parse(std::string_view text) {
  PrintedFigure figure;
  std::from_chars(text.data(), text.data() + text.size(), figure.value);
  const std::size_t exponent = std::min(text.find_first_of("eE"), text.size());
  int digits = 0;  // after the point
  if (const std::size_t point = text.find('.'); point < exponent) {
    digits = static_cast<int>(exponent - point - 1);
  }
  int power = 0;
  if (exponent < text.size()) {
    std::string_view tail = text.substr(exponent + 1);
    if (tail.starts_with('+')) tail.remove_prefix(1);
    std::from_chars(tail.data(), tail.data() + tail.size(), power);
  }
  figure.half_digit = 0.5 * std::pow(10.0, power - digits);
  return figure;
}

std::string BusBandwidths::check(Collective kind, std::int64_t ranks, PrintedFigure algbw,
                                 PrintedFigure busbw, std::size_t place) {
  const double factor = bus_factor(kind, ranks);
  const double expected = factor * algbw.value;
  const double open = factor * algbw.half_digit + busbw.half_digit + kSlack * std::abs(expected);
  Counts& counts = counts_[kind];
  if (std::abs(busbw.value - expected) <= open) {
    if (open < kClear * expected) ++counts.agreed;
    return "";
  }
  if (counts.contradicted++ == 0) {
    counts.first = {place,
                    "found a busbw of " + format_double(busbw.value) + " GB/s for an algbw of " +
                        format_double(algbw.value) + " GB/s; valid: " + format_fixed(expected, 2) +
                        ", which is " + format_fixed(factor, 3) + " times the algbw, for " +
                        among(kind, ranks) + "; another collective or another number of ranks ran"};
  }
  return "columns contradict each other: an algbw of " + format_double(algbw.value) +
         " GB/s means a busbw of " + format_fixed(expected, 2) + " for " + among(kind, ranks) +
         ", but the busbw column says " + format_double(busbw.value);
}

std::optional<BusBandwidths::Mistake> BusBandwidths::mistake() const {
  std::optional<Mistake> earliest;
  for (const auto& [kind, counts] : counts_) {
    if (counts.contradicted == 0 || counts.contradicted < counts.agreed) continue;
    if (!earliest || counts.first.place < earliest->place) earliest = counts.first;
  }
  return earliest;
}

}  // namespace shardlab
