// The stack that prices a whole program. Choosing layouts by what they cost makes sense only where
// kernels have prices: without them, replicating everything is free.
//
//   const Stack stack = program_stack(store, "", topology);  // calibrated-h100 on h100
//   expect_kernel_prices(stack, "solve");
#pragma once

#include <string>
#include <string_view>

#include "costmodel/topology.h"
#include "runner/config/configs.h"

namespace shardlab {

// The stack `named`; if that is empty, the shipped stack that was fitted to measured times of the
// topology's GPU (calibrated-GPU), or alpha-beta, whose figures are those of the topology's
// datasheet, where none was fitted.
[[nodiscard]] Stack program_stack(const ConfigStore& store, const std::string& named,
                                  const Topology& topology);

// Throws InputError, which begins with `command`, for a stack that prices no kernels.
void expect_kernel_prices(const Stack& stack, std::string_view command);

// What an option's help says about the default.
inline constexpr std::string_view kProgramStackHelp =
    "shipped name or path; default: the calibrated stack of the topology's GPU, or else alpha-beta";

}  // namespace shardlab
