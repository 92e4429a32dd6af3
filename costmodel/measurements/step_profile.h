// Where the time of a training step went on one GPU, by a trace of PyTorch's profiler.
//
//   const StepProfile profile = read_step_profile(json, {"rank0.json", ""});
//   profile.step_us, profile.gemm_us, profile.idle_us
//
// The steps are those that torch.profiler marks (ProfilerStep#3, where the program calls
// profiler.step()). What the host launched from the start of the first to the end of the last
// belongs to them, whenever it ran, and they take as long as the host's marks or as the GPU's work,
// whichever is longer. A trace without marks is taken for one step, from the start of its first
// kernel to the end of its last one. All times are microseconds of one step.
//
// A kernel belongs to the operator that launched it: products (mm, addmm, bmm, ...) and
// convolutions are GEMMs, and operators whose names hold "attention" or "attn" are attention. Where
// the operator is none of these, the name of the kernel decides ("gemm", "nvjet", "cutlass",
// "xmma", "Cijk_" of AMD's Tensile, "triton_tem" of TorchInductor's templates; "flash", "fmha",
// "attn"). Pointwise kernels and reductions of TorchInductor are other kernels, whatever they are
// named after. Copies between GPUs and the kernels of symmetric memory (symm_mem) are collectives.
//
// Source: as in kineto_kernels.h.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "costmodel/base/json_reader.h"

namespace shardlab {

struct StepProfile {
  std::int64_t steps = 1;
  bool is_marked = false;  // whether the trace marks its steps
  std::string gpu;         // "" if the trace does not name it
  double step_us = 0.0;
  double gemm_us = 0.0;
  double attention_us = 0.0;
  double other_us = 0.0;        // all other kernels, and copies and fills inside the device
  double collectives_us = 0.0;  // the time of all collectives
  double exposed_us = 0.0;      // the time in which a collective runs and no kernel does
  // The time in which no kernel, collective or copy inside the device runs. Copies from and to the
  // host are idle time.
  double idle_us = 0.0;
};

// Throws ConfigError if the trace has no kernels, or kernels of several devices.
[[nodiscard]] StepProfile read_step_profile(const nlohmann::json& trace, const JsonPlace& place);

}  // namespace shardlab
