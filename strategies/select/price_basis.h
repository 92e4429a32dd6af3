// What a reference's price of one choice rests on: how many of the choice's communication steps are
// of a collective, group and size that the reference knows from measured rows, and which are not.
//
//   reports::PriceBasis basis;
//   add_steps(basis, redistributor.repriced(plan), redistributor, measured);
//   basis.not_measured.empty()          // every collective of the plan was measured
//
// A step counts as it runs: merged where the stack merges it, and with the bytes that the reference
// prices. Steps without communication (local changes, groups of one rank) rest on no row and are
// left out, and so is the kernel of the op itself.
#pragma once

#include "costmodel/measured_ranges.h"
#include "reports/records/price_basis.h"
#include "sim/redistribute.h"

namespace shardlab {

// Adds the steps of a plan as `reference` prices it.
void add_steps(reports::PriceBasis& basis, const Plan& repriced, const Redistributor& reference,
               const MeasuredRanges& measured);
void add_basis(reports::PriceBasis& basis, const reports::PriceBasis& other);

}  // namespace shardlab
