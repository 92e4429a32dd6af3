// The parameters of a stack that what-if questions scale: what would the choices be if a parameter
// were f times as large?
//
//   factors.*parameter.factor = parameter.inverse ? 1.0 / f : f;    // costmodel/cost_factors.h
#pragma once

#include <array>
#include <string_view>

#include "costmodel/cost_factors.h"

namespace shardlab {

struct ScaledParameter {
  std::string_view name;
  double CostFactors::*factor;
  bool inverse;  // whether the factor scales a time, which a larger parameter makes shorter
};

inline constexpr std::array<ScaledParameter, 3> kScaledParameters = {{
    {"latency", &CostFactors::latency, false},
    {"bandwidth", &CostFactors::transfer, true},
    {"launch_floor", &CostFactors::launch, false},
}};

}  // namespace shardlab
