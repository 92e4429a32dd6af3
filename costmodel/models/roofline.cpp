// Roofline of one device: a kernel takes its launch floor, its memory traffic or its arithmetic,
// whichever is longest.
//
//   t = max(launch, startup + max(bytes / (bandwidth * efficiency), flops / (peak * efficiency)))
//   t, launch and startup in us; bytes read plus written; bandwidth, and the peak rate of the
//   dtype or of TF32, from the topology; efficiencies from 0 to 1
// Kinds of kernels may have start-ups and efficiencies of their own. Start-ups exist because
// filling and draining a device takes time that no traffic hides (Hockney's n_1/2, the size at
// which a kernel reaches half its rate). A view is free, and a product of complex numbers takes
// four real ones. Source: Williams, Waterman, Patterson 2009, "Roofline"; the efficiency 0.70 is
// AutoParallel's figure. Valid: for kernels that are bound by one of the three. Not: for small
// GEMMs with odd shapes or fused kernels. Status: derived; figures assumed until calibrated.
#include <algorithm>

#include "costmodel/kernel_work.h"
#include "costmodel/models/tf32.h"
#include "costmodel/registry.h"

namespace shardlab {
namespace {

constexpr ParamSpec kParams[] = {
    {"launch_us", std::nullopt, 0.0, 1e6, "launch floor of a kernel; default: the topology's own"},
    {"memory_efficiency", 0.70, 1e-6, 1.0, "share of the memory bandwidth that a kernel reaches"},
    {"flops_efficiency", 0.70, 1e-6, 1.0, "share of the peak rate that a GEMM reaches"},
    {"attention_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the peak rate that attention reaches; default: flops_efficiency"},
    {"copy_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the memory bandwidth that copies reach; default: memory_efficiency"},
    {"strided_copy_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the memory bandwidth that strided copies reach, as in a reshuffle; default: "
     "copy_efficiency"},
    {"elementwise_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the memory bandwidth that elementwise kernels reach; default: memory_efficiency"},
    {"reduction_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the memory bandwidth that reductions reach; default: memory_efficiency"},
    {"f64_flops_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the peak rate that GEMMs of f64 reach; default: flops_efficiency"},
    {"f32_flops_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the peak rate that GEMMs of f32 reach; default: flops_efficiency"},
    {"tf32_flops_efficiency", std::nullopt, 1e-6, 1.0,
     "share of TF32's peak rate that products of f32 and convolutions reach where they take it; "
     "default: flops_efficiency"},
    {"f8_flops_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the peak rate that GEMMs of 8-bit floats reach; default: flops_efficiency"},
    {"copy_startup_us", 0.0, 0.0, 1e6, "start-up of a copy, on top of its traffic"},
    {"strided_copy_startup_us", 0.0, 0.0, 1e6, "start-up of a strided copy, on top of its traffic"},
    {"elementwise_startup_us", 0.0, 0.0, 1e6,
     "start-up of an elementwise kernel, on top of its traffic"},
    {"reduction_startup_us", 0.0, 0.0, 1e6, "start-up of a reduction, on top of its traffic"},
    {"gemm_startup_us", 0.0, 0.0, 1e6, "start-up of a GEMM, on top of its traffic or arithmetic"},
    kTf32Matmul,
    kTf32Convolution,
};

// The bandwidth that each kind of kernel reaches.
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

// The start-up of each kind of kernel.
class KindStartups {
 public:
  explicit KindStartups(const Params& params)
      : copy_(params["copy_startup_us"]),
        strided_copy_(params["strided_copy_startup_us"]),
        elementwise_(params["elementwise_startup_us"]),
        reduction_(params["reduction_startup_us"]),
        gemm_(params["gemm_startup_us"]) {}

  [[nodiscard]] Micros of(const KernelQuery& query) const {
    switch (query.kind) {
      case Kernel::kCopy:
        return query.strided ? strided_copy_ : copy_;
      case Kernel::kElementwise:
        return elementwise_;
      case Kernel::kReduction:
        return reduction_;
      case Kernel::kGemm:
        return gemm_;
      default:
        return {};
    }
  }

 private:
  Micros copy_;
  Micros strided_copy_;
  Micros elementwise_;
  Micros reduction_;
  Micros gemm_;
};

class Roofline final : public ComputeModel {
 public:
  explicit Roofline(const ModelInput& input)
      : topology_(input.topology),
        launch_(input.params.get("launch_us").value_or(input.topology.device().launch.value())),
        bandwidths_(input),
        startups_(input.params),
        flops_efficiency_(input.params["flops_efficiency"]),
        f64_efficiency_(input.params.get("f64_flops_efficiency").value_or(flops_efficiency_)),
        f32_efficiency_(input.params.get("f32_flops_efficiency").value_or(flops_efficiency_)),
        tf32_(input),
        tf32_efficiency_(input.params.get("tf32_flops_efficiency").value_or(flops_efficiency_)),
        f8_efficiency_(input.params.get("f8_flops_efficiency").value_or(flops_efficiency_)),
        attention_efficiency_(
            input.params.get("attention_efficiency").value_or(flops_efficiency_)) {}

  [[nodiscard]] Price price(const KernelQuery& query) const override {
    if (query.kind == Kernel::kView || (query.bytes <= 0 && query.flops <= 0)) return {};
    const Micros memory = transfer_time(query.bytes, bandwidths_.of(query));
    Micros arithmetic;
    if (query.flops > 0) {
      const std::optional<Tflops> tf32 = tf32_.peak_of(query);
      arithmetic = compute_time(
          real_operations(query) * query.flops,
          efficiency_of(query, tf32.has_value()) * (tf32 ? *tf32 : topology_.peak(query.dtype)));
    }
    return Price::of_compute(std::max(launch_, startups_.of(query) + std::max(memory, arithmetic)));
  }

 private:
  [[nodiscard]] double efficiency_of(const KernelQuery& query, bool rounds_to_tf32) const {
    if (query.kind == Kernel::kAttention) return attention_efficiency_;
    if (query.kind != Kernel::kGemm) return flops_efficiency_;
    if (rounds_to_tf32) return tf32_efficiency_;
    switch (query.dtype) {
      case DType::kF64:
        return f64_efficiency_;
      case DType::kF32:
        return f32_efficiency_;
      case DType::kF8E4M3:
      case DType::kF8E5M2:
        return f8_efficiency_;
      default:
        return flops_efficiency_;
    }
  }

  Topology topology_;
  Micros launch_;
  KindBandwidths bandwidths_;
  KindStartups startups_;
  double flops_efficiency_;
  double f64_efficiency_;
  double f32_efficiency_;
  Tf32Settings tf32_;
  double tf32_efficiency_;
  double f8_efficiency_;
  double attention_efficiency_;
};

}  // namespace

COST_MODEL(roofline){
    .name = "roofline",
    .summary = "the longest of launch floor, memory traffic and arithmetic",
    .formula = "max(launch, startup + max(bytes / (bandwidth * eff), flops / (peak * eff)))",
    .source = "Williams et al. 2009; copy efficiency 0.70 of AutoParallel",
    .valid_range = "kernels bound by launch, memory or arithmetic alone",
    .params = kParams,
    .fits_kernels = true,
    .make_compute = [](const ModelInput& input) -> std::unique_ptr<ComputeModel> {
      return std::make_unique<Roofline>(input);
    },
};

}  // namespace shardlab
