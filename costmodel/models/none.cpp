// Kernels cost nothing, as DTensor's redistribute cost assumes. Status: assumed.
#include "costmodel/registry.h"

namespace shardlab {
namespace {

class FreeKernels final : public ComputeModel {
 public:
  [[nodiscard]] Price price(const KernelQuery& /*query*/) const override { return {}; }
};

}  // namespace

COST_MODEL(none){
    .name = "none",
    .summary = "kernels and local copies cost nothing",
    .formula = "0",
    .source = "PyTorch 2.13.0, redistribute_cost: \"only consider communication cost\" (restated)",
    .valid_range = "what DTensor decides",
    .make_compute = [](const ModelInput& /*input*/) -> std::unique_ptr<ComputeModel> {
      return std::make_unique<FreeKernels>();
    },
};

}  // namespace shardlab
