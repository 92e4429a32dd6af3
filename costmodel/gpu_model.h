// Which GPU a name means: logs, topologies and stacks write the names of GPUs in different ways.
//
//   gpu_model("H100-SXM5-80GB")   // "h100"
//   plain_gpu("NVIDIA L40S")      // "l40s"
#pragma once

#include <string>
#include <string_view>

namespace shardlab {

// The model of GPU in the name of a GPU or a topology: "h100" for "H100-SXM5-80GB" and "h100-roce",
// "a100-pcie" for "A100-PCIE-40GB"; "" for others than NVIDIA's data-centre GPUs from V100 on and
// AMD's from MI300X on whose topology is shipped.
[[nodiscard]] std::string gpu_model(std::string_view name);

// The same, or for a GPU without a model what stands before a remark in brackets, in lower case and
// without blanks and its maker; "" for an empty name.
[[nodiscard]] std::string plain_gpu(std::string_view name);

}  // namespace shardlab
