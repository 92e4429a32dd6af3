// How far a reference's price of one choice rests on measurements: how many of the choice's
// communication steps have a collective, group and size that the reference knows from measured
// rows, and which steps do not.
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
