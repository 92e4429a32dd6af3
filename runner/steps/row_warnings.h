// Says which rows of step times are priced on other hardware than they name.
//
//   for (const std::string& warning : row_warnings(loaded.steps.steps)) ...
//   // no topology of the GPU "H100 PCIe" is shipped; h100 is used instead, for 3 rows
//
// One sentence stands for all rows of one GPU, and one for all rows whose column inter_host states
// no rate that can be read (stated_network.h), so that they have the network of a topology. Rows
// whose ranks are on one host, or in one NVLink domain, use no network.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/steps/step_validation.h"

namespace shardlab {

[[nodiscard]] std::vector<std::string> row_warnings(std::span<const ExpressedStep> steps);

}  // namespace shardlab
