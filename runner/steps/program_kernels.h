// What one training step of a planned program runs on one rank, as kernels and collectives with
// their prices: each operator by itself in eager mode, or those that torch.compile fuses as one
// kernel.
//
//   const std::vector<ProgramTask> tasks =
//       program_tasks(step, {planned, rules, blocks}, prices, true);
//   tasks[0].us, tasks[0].kind, tasks[0].after
//
// Kernels that are neither products nor attention are priced by the bytes that they move, in both
// modes (strategies/steps/fusion.h); the forward and the backward pass are graphs of their own.
// What brings parameters to their gathers and gradients to their reductions is never fused, because
// FSDP runs it outside of the compiled graph. FSDP copies gathered weights out of a flat buffer
// before the first kernel that reads them, and gradients into one, unless a cast of the program has
// written them there. Source: PyTorch 2.13.0,
// torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py.
#pragma once

#include <string>
#include <vector>

#include "costmodel/compute_model.h"
#include "sim/redistribute.h"
#include "strategies/rules/op_rule.h"
#include "strategies/steps/model_blocks.h"
#include "strategies/steps/training_step.h"
#include "strategies/training/step_prediction.h"

namespace shardlab {

struct ProgramTask {
  std::string name;   // "all_gather", "mul", "mul and 3 more"
  std::string block;  // "layers.0", or "" outside of all blocks
  Stream stream = Stream::kCompute;
  Phase pass = Phase::kForward;
  bool is_collective = false;
  bool leaves_domain = false;  // whether a collective's group spans several scale-up domains
  KernelClass kind = KernelClass::kOther;
  double us = 0.0;              // the price under the stack and the step's factors
  std::vector<int> after = {};  // earlier tasks, by index
};

struct PlannedKernels {
  const PlannedProgram& planned;
  const std::vector<const OpRule*>& rules;  // by node
  const ModelBlocks& blocks;
};

struct ProgramPricing {
  const ComputeModel& kernels;
  const Redistributor& redistributor;
  const StepFactors& factors;

  // The price of a kernel of this class, divided by the class's factors.
  [[nodiscard]] double kernel_us(const KernelQuery& query, KernelClass kind) const;
  // The same for one that does nothing but read and write these bytes.
  [[nodiscard]] double memory_us(double bytes) const;
  // A collective's price with its transfer divided by the factor of the links that it uses.
  [[nodiscard]] double collective_us(double total_us, double transfer_us, bool leaves_domain) const;
};

[[nodiscard]] std::vector<ProgramTask> program_tasks(const TrainingStep& step,
                                                     const PlannedKernels& of,
                                                     const ProgramPricing& pricing, bool compiled);

// The class of a node's kernel: products in 8 bits are apart, attention, and all else.
[[nodiscard]] KernelClass kernel_class_of(const KernelQuery& query);

}  // namespace shardlab
