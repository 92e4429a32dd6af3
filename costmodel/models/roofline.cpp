// Roofline of one device: a kernel takes its launch floor, its memory traffic or its arithmetic,
// whichever is longest.
//
//   t = max(launch, bytes / (bandwidth * efficiency), flops / (peak * efficiency))
//   bytes read plus written; bandwidth and peak (of the dtype) from the topology; efficiencies 0..1,
//   of a kind of kernel where given. A view counts as a copy.
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
    {"attention_efficiency", std::nullopt, 1e-6, 1.0,
     "of the peak rate, by attention; default: flops_efficiency"},
    {"copy_efficiency", std::nullopt, 1e-6, 1.0,
     "of the memory bandwidth, by copies; default: memory_efficiency"},
    {"strided_copy_efficiency", std::nullopt, 1e-6, 1.0,
     "by copies of pieces, as reshuffles make; default: copy_efficiency"},
    {"elementwise_efficiency", std::nullopt, 1e-6, 1.0,
     "of the memory bandwidth, by elementwise kernels; default: memory_efficiency"},
    {"reduction_efficiency", std::nullopt, 1e-6, 1.0,
     "of the memory bandwidth, by reductions; default: memory_efficiency"},
};

// The topology's bandwidth at each kind's efficiency.
class KindBandwidths {
 public:
  explicit KindBandwidths(const ModelInput& input) {
    const double general = input.params["memory_efficiency"];
    const auto share = [&](std::string_view name, double fallback) {
      return input.params.get(name).value_or(fallback) * input.topology.device().memory_bandwidth;
    };
    const double copies = input.params.get("copy_efficiency").value_or(general);
    general_ = general * input.topology.device().memory_bandwidth;
    copy_ = copies * input.topology.device().memory_bandwidth;
    strided_copy_ = share("strided_copy_efficiency", copies);
    elementwise_ = share("elementwise_efficiency", general);
    reduction_ = share("reduction_efficiency", general);
  }

  [[nodiscard]] GBps of(const KernelQuery& query) const {
    switch (query.kind) {
      case Kernel::kCopy:
      case Kernel::kView:
        return query.strided ? strided_copy_ : copy_;
      case Kernel::kElementwise:
        return elementwise_;
      case Kernel::kReduction:
        return reduction_;
      default:
        return general_;
    }
  }

 private:
  GBps general_;
  GBps copy_;
  GBps strided_copy_;
  GBps elementwise_;
  GBps reduction_;
};

class Roofline final : public ComputeModel {
 public:
  explicit Roofline(const ModelInput& input)
      : topology_(input.topology),
        launch_(input.params.get("launch_us").value_or(input.topology.device().launch.value())),
        bandwidths_(input),
        flops_efficiency_(input.params["flops_efficiency"]),
        attention_efficiency_(
            input.params.get("attention_efficiency").value_or(flops_efficiency_)) {}

  [[nodiscard]] Price price(const KernelQuery& query) const override {
    if (query.bytes <= 0 && query.flops <= 0) return {};
    const Micros memory = transfer_time(query.bytes, bandwidths_.of(query));
    const double efficiency =
        query.kind == Kernel::kAttention ? attention_efficiency_ : flops_efficiency_;
    const Micros arithmetic = compute_time(query.flops, efficiency * topology_.peak(query.dtype));
    return Price::of_compute(std::max({launch_, memory, arithmetic}));
  }

 private:
  Topology topology_;
  Micros launch_;
  KindBandwidths bandwidths_;
  double flops_efficiency_;
  double attention_efficiency_;
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
