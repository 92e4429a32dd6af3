// The interface of a cost model: a query about one collective in, a price with its parts out.
//
//   const auto model = make_cost_model("alpha_beta", params, topology);
//   model->price({Collective::kAllGather, 1 << 20, {.ranks = 8}}).total   // microseconds
//
// A model knows no tensors, placements or meshes. It is immutable and safe to share between
// threads. To add one: one file in costmodel/models/ (see alpha_beta.cpp).
#pragma once

#include <limits>
#include <string_view>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/collective.h"
#include "costmodel/measured_ranges.h"

namespace shardlab {

// `total` is what counts, to the last digit; the parts explain it and sum to it up to rounding. An
// impossible price is above every other price and absorbs sums.
struct Price {
  Micros total;
  Micros latency;
  Micros transfer;
  Micros compute;
  Micros straggler;
  std::string_view impossible;  // the reason, a static text; empty when possible

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

struct Alternative {
  std::string_view algorithm;
  std::string_view protocol;
  Price price;
};  // algorithms and protocols by NCCL's names, e.g. "RING", "LL128"

class CostModel {
 public:
  CostModel() = default;
  CostModel(const CostModel&) = delete;
  CostModel& operator=(const CostModel&) = delete;
  virtual ~CostModel() = default;

  // Finite and non-negative for every query with group.ranks >= 1 and full_bytes >= 0; never
  // throws.
  [[nodiscard]] virtual Price price(const CollectiveQuery& query) const = 0;
  // every alternative that the model weighs, cheapest first; empty for models that have one formula
  [[nodiscard]] virtual std::vector<Alternative> alternatives(const CollectiveQuery&) const {
    return {};
  }
  // Which collectives, groups and sizes it was told of by rows; empty for models that have none.
  [[nodiscard]] virtual std::vector<MeasuredRange> measured() const { return {}; }
};

}  // namespace shardlab
