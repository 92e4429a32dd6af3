// The GPU generations that AutoParallel's constants know, and which of them a topology is.
// Source: meta-pytorch/autoparallel at a54c252 (docs/autoparallel.md, "The price of a kernel"). There
// the name of the device decides; here the dense bf16 rate does, so that every topology has one.
#pragma once

#include <optional>

#include "costmodel/topology.h"

namespace shardlab {

enum class ApArchitecture : std::uint8_t { kAmpere, kHopper, kBlackwell };

// A CUDA compute capability times ten (80, 90, 100); what lies between counts as the lower one.
// None: the topology's bf16 peak decides: A100 312, H100 and H200 989, B200 2250, GB200 2500.
// Status: assumed limits, between those figures.
[[nodiscard]] inline ApArchitecture ap_architecture(std::optional<double> capability,
                                                    const Topology& topology) {
  constexpr double kFastestAmpere = 500.0;   // TFLOP/s
  constexpr double kFastestHopper = 1500.0;  // TFLOP/s
  constexpr double kHopperCapability = 90.0;
  constexpr double kBlackwellCapability = 100.0;
  if (capability) {
    if (*capability < kHopperCapability) return ApArchitecture::kAmpere;
    return *capability < kBlackwellCapability ? ApArchitecture::kHopper
                                              : ApArchitecture::kBlackwell;
  }
  const double peak = topology.peak(DType::kBF16).value();
  if (peak < kFastestAmpere) return ApArchitecture::kAmpere;
  return peak < kFastestHopper ? ApArchitecture::kHopper : ApArchitecture::kBlackwell;
}

inline constexpr std::string_view kApArchitectureHelp =
    "80 Ampere, 90 Hopper, 100 Blackwell; default: by the topology's bf16 peak";

}  // namespace shardlab
