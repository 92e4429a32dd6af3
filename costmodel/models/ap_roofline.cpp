// AutoParallel's price of a kernel: the time of its memory traffic, with a floor, or of its
// arithmetic.
//
//   views                  0
//   GEMMs, attention       max(flops / (peak * efficiency), memory)
//   all other kernels      memory
//   memory = max(launch, bytes / (bandwidth * efficiency)), in us
// A copy of no bytes still takes the floor. Bandwidths are the datasheet's TB/s taken as TiB/s (10
// % more), f32 GEMMs run as tf32, and dense rates are integer halves of the datasheet's sparse
// ones. AutoParallel refuses dtypes and devices that its table lacks; here such a dtype takes the
// f32 rate, and such a device counts as the nearest generation.
// Source: meta-pytorch/autoparallel at a54c252, cost_models/compute_estimation.py.
// Valid: for what AutoParallel decides. Status: ported; equal to its golden records to 1e-12
// relative.
#include <algorithm>

#include "costmodel/base/index.h"
#include "costmodel/models/ap_architecture.h"
#include "costmodel/registry.h"

namespace shardlab {
namespace {

struct DeviceRow {
  double tib_per_s;
  double bf16;  // TFLOP/s
  double f32;
  double f64;
  double i8;
};
constexpr std::array<DeviceRow, 3> kDevices = {{
    {.tib_per_s = 2.0, .bf16 = 312.0, .f32 = 156.0, .f64 = 19.5, .i8 = 624.0},     // A100
    {.tib_per_s = 3.35, .bf16 = 989.0, .f32 = 494.0, .f64 = 67.0, .i8 = 1979.0},   // H100
    {.tib_per_s = 7.7, .bf16 = 2250.0, .f32 = 1100.0, .f64 = 37.0, .i8 = 4500.0},  // B200
}};
constexpr double kGigabytesPerTiB = kBytesPerGiB * 1024.0 / 1e9;

constexpr ParamSpec kParams[] = {
    {"architecture", std::nullopt, 80.0, 120.0, kApArchitectureHelp},
    {"launch_us", 7.0, 0.0, 1e6, "least time that a kernel's memory traffic takes"},
    {"memory_efficiency", 0.70, 1e-6, 1.0, "share of the memory bandwidth that a kernel reaches"},
    {"flops_efficiency", 0.70, 1e-6, 1.0, "share of the peak rate that a GEMM reaches"},
};

class ApRoofline final : public ComputeModel {
 public:
  explicit ApRoofline(const ModelInput& input)
      : device_(
            kDevices[to_index(ap_architecture(input.params.get("architecture"), input.topology))]),
        launch_(input.params["launch_us"]),
        bandwidth_(input.params["memory_efficiency"] * device_.tib_per_s * kGigabytesPerTiB),
        flops_efficiency_(input.params["flops_efficiency"]) {}

  [[nodiscard]] Price price(const KernelQuery& query) const override {
    if (query.kind == Kernel::kView) return {};
    const bool computes = query.kind == Kernel::kGemm || query.kind == Kernel::kAttention;
    const Bytes bytes = query.bytes + query.unmoved_bytes - query.overwritten_bytes;
    if (query.kind != Kernel::kCopy && bytes <= 0 && query.flops <= 0) return {};
    const Micros memory = std::max(launch_, transfer_time(bytes, bandwidth_));
    if (!computes) return Price::of_compute(memory);
    return Price::of_compute(
        std::max(memory, compute_time(query.flops, flops_efficiency_ * Tflops(peak(query.dtype)))));
  }

 private:
  [[nodiscard]] double peak(DType dtype) const {
    switch (dtype) {
      case DType::kF16:
      case DType::kBF16:
        return device_.bf16;
      case DType::kF64:
        return device_.f64;
      case DType::kI8:
        return device_.i8;
      default:
        return device_.f32;
    }
  }

  DeviceRow device_;
  Micros launch_;
  GBps bandwidth_;
  double flops_efficiency_;
};

}  // namespace

COST_MODEL(ap_roofline){
    .name = "ap_roofline",
    .summary = "AutoParallel's kernels: memory time with a floor, or the arithmetic of GEMMs",
    .formula = "max(launch, bytes / (bandwidth * eff), flops / (peak * eff)); 0 for views",
    .source = "meta-pytorch/autoparallel a54c252, cost_models/compute_estimation.py",
    .valid_range =
        "what AutoParallel decides from its figures of A100, H100 and B200, with TB/s taken as "
        "TiB/s",
    .params = kParams,
    .make_compute = [](const ModelInput& input) -> std::unique_ptr<ComputeModel> {
      return std::make_unique<ApRoofline>(input);
    },
};

}  // namespace shardlab
