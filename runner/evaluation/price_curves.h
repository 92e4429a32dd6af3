// Curves of the price of collectives against their bytes, for the report of a
// comparison.
//
//   record.curves = price_curves(stacks, reference, topology);
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/topology.h"
#include "reports/records/record.h"
#include "strategies/select/stack.h"

namespace shardlab {

// The four collectives that redistributions use, among the devices of one host
// and among those of eight, under each stack and under the reference. Prices
// are in microseconds, and absent where they are impossible; bytes are those of
// the whole tensor.
[[nodiscard]] std::vector<reports::PriceCurve> price_curves(std::span<const Stack> stacks,
                                                            const Stack& reference,
                                                            const Topology& topology);

}  // namespace shardlab
