// The GPU generations that AutoParallel has constants for, and which of them a topology counts as.
// Source: meta-pytorch/autoparallel at a54c252, autoparallel/cost_models/nccl_cost_model.py. There
// the name of the device decides; here the dense bf16 rate does, so that every topology has a
// generation.
#pragma once

#include <optional>

#include "costmodel/topology.h"

namespace shardlab {

enum class ApArchitecture : std::uint8_t { kAmpere, kHopper, kBlackwell };

// `capability` is a CUDA compute capability times ten (80, 90, 100); a value between two of them
// counts as the lower one. If it is absent, the topology's bf16 peak in TFLOP/s decides: A100 has
// 312, H100 and H200 have 989, B200 has 2250, GB200 has 2500. The limits lie between those figures
// (status: assumed).
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
    "GPU generation: 80 is Ampere, 90 Hopper, 100 Blackwell; default: the one that the topology's "
    "bf16 peak suggests";

}  // namespace shardlab
