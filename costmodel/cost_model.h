// The interface of a cost model: a query about one collective in, a price with its parts out.
//
//   const auto model = make_collective_model(read_model_choice("alpha_beta", place), topology);
//   model->price({Collective::kAllGather, 1 << 20, {.ranks = 8}}).total   // microseconds
//
// A model does not know about tensors, placements or meshes. It is immutable and safe to share
// between threads. A new model is one new file in costmodel/models/, such as alpha_beta.cpp.
#pragma once

#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/collective.h"
#include "costmodel/measured_ranges.h"

namespace shardlab {

// The time that a collective or a kernel takes. `total` is the price, to the last digit; the parts
// explain it, and sum to it up to rounding. An impossible price is above every other price, and a
// sum that contains one is impossible.
struct Price {
  Micros total;
  Micros latency;
  Micros transfer;
  Micros compute;
  Micros straggler;
  std::string_view impossible;  // the reason, a static text; empty if the price is possible

  [[nodiscard]] static constexpr Price of(Micros latency, Micros transfer) {
    return {latency + transfer, latency, transfer, Micros(), Micros(), {}};
  }
  [[nodiscard]] static constexpr Price of_compute(Micros compute) {
    return {compute, Micros(), Micros(), compute, Micros(), {}};
  }
  [[nodiscard]] static constexpr Price make_impossible(std::string_view reason) {
    Price price;
    price.total = Micros(std::numeric_limits<double>::infinity());
    price.impossible = reason;
    return price;
  }
  [[nodiscard]] constexpr bool is_possible() const { return impossible.empty(); }

  constexpr Price& operator+=(const Price& other) {
    total += other.total;
    latency += other.latency;
    transfer += other.transfer;
    compute += other.compute;
    straggler += other.straggler;
    if (impossible.empty()) impossible = other.impossible;
    return *this;
  }
  friend constexpr Price operator+(Price a, const Price& b) { return a += b; }
};

// One way to run a collective, and its price.
struct Alternative {
  std::string_view algorithm;  // NCCL's name, such as "RING"
  std::string_view protocol;   // NCCL's name, such as "LL128"
  Price price;
};

class CostModel {
 public:
  CostModel() = default;
  CostModel(const CostModel&) = delete;
  CostModel& operator=(const CostModel&) = delete;
  virtual ~CostModel() = default;

  // The price is impossible, or finite and not negative, for every query with group.ranks >= 1 and
  // full_bytes >= 0. Only a function of the user's throws (collective_function.h).
  [[nodiscard]] virtual Price price(const CollectiveQuery& query) const = 0;
  // Every alternative that the model weighs, cheapest first; empty for a model that has one
  // formula.
  [[nodiscard]] virtual std::vector<Alternative> alternatives(const CollectiveQuery&) const {
    return {};
  }
  // The standard deviation of ln t over clusters like those that the model was fitted to: how
  // unlike they are, and how few rows there were. Nothing for a model that does not know its error.
  [[nodiscard]] virtual std::optional<double> log_error(const CollectiveQuery&) const {
    return std::nullopt;
  }
  // How alike the errors of two prices are on one cluster, from -1 to 1: of what both log_error()
  // tell.
  [[nodiscard]] virtual double error_correlation(const CollectiveQuery& a,
                                                 const CollectiveQuery& b) const {
    return a == b ? 1.0 : 0.0;
  }
  // The collectives, groups and sizes that the model's rows cover; empty for a model without rows.
  [[nodiscard]] virtual std::vector<MeasuredRange> measured() const { return {}; }
};

}  // namespace shardlab
