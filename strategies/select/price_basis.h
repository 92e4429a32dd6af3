// What a reference's price of one choice rests on: how many of the choice's communication steps are
// of a collective, group and size that the reference knows from measured rows, and which are not.
//
//   PriceBasis basis;
//   basis.add(redistributor.repriced(plan), redistributor, measured);
//   basis.not_measured.empty()          // every collective of the plan was measured
//
// A step counts as it runs: merged where the stack merges it, and with the bytes that the reference
// prices. Steps without communication (local changes, groups of one rank) rest on no row and are
// left out, and so is the kernel of the op itself.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/measured_ranges.h"
#include "sim/redistribute.h"

namespace shardlab {

struct PriceBasis {
  std::int64_t measured_steps = 0;
  std::vector<MeasuredGap> not_measured;  // of the other steps, each gap once

  // Adds the steps of a plan as `reference` prices them.
  void add(const Plan& repriced, const Redistributor& reference, const MeasuredRanges& measured);
  void add(const PriceBasis& other);

  friend bool operator==(const PriceBasis&, const PriceBasis&) = default;
};

}  // namespace shardlab
