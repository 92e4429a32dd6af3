// Roofline of one device: a kernel takes its launch floor, its memory traffic or its arithmetic,
// whichever is longest.
//
//   t = max(launch, bytes / (bandwidth * efficiency), flops / (peak * efficiency))
//   bytes read plus written; bandwidth and peak (of the dtype) from the topology; efficiencies 0..1
// Source: Williams, Waterman, Patterson 2009, "Roofline"; the 0.70 copy efficiency is
// AutoParallel's figure. Valid: kernels that are bound by one of the three. Not: small GEMMs with
// odd shapes, fused kernels. Status: derived; figures assumed until calibrated.
#include <algorithm>

#include "costmodel/registry.h"

namespace shardlab {
namespace {

constexpr ParamSpec kParams[] = {
    {"launch_us", std::nullopt, 0.0, 1e6, "launch floor of a kernel; default: the topology's"},
    {"memory_efficiency", 0.70, 1e-6, 1.0, "share of the memory bandwidth that a kernel reaches"},
    {"flops_efficiency", 0.70, 1e-6, 1.0, "share of the peak rate that a GEMM reaches"},
};

class Roofline final : public ComputeModel {
 public:
  explicit Roofline(const ModelInput& input)
      : topology_(input.topology),
        launch_(input.params.get("launch_us").value_or(input.topology.device().launch.value())),
        bandwidth_(input.params["memory_efficiency"] * input.topology.device().memory_bandwidth),
        flops_efficiency_(input.params["flops_efficiency"]) {}

  [[nodiscard]] Price price(const KernelQuery& query) const override {
    if (query.bytes <= 0 && query.flops <= 0) return {};
    const Micros memory = transfer_time(query.bytes, bandwidth_);
    const Micros arithmetic =
        compute_time(query.flops, flops_efficiency_ * topology_.peak(query.dtype));
    return Price::of_compute(std::max({launch_, memory, arithmetic}));
  }

 private:
  Topology topology_;
  Micros launch_;
  GBps bandwidth_;
  double flops_efficiency_;
};

}  // namespace

COST_MODEL(roofline){
    .name = "roofline",
    .summary = "the longest of launch floor, memory traffic and arithmetic",
    .formula = "max(launch, bytes / (bandwidth * eff), flops / (peak * eff))",
    .source = "Williams et al. 2009; copy efficiency 0.70 of AutoParallel",
    .valid_range = "kernels bound by launch, memory or arithmetic alone",
    .params = kParams,
    .make_compute = [](const ModelInput& input) -> std::unique_ptr<ComputeModel> {
      return std::make_unique<Roofline>(input);
    },
};

}  // namespace shardlab
