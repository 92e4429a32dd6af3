// A plan of a program as one training step runs it on one device: kernels, collectives, and the
// buffers that they read and write, in the order in which the host issues them.
//
//   const TrainingStep step =
//       make_step(planned, blocks, redistributor, {.recomputation = policy});
//   memory_of(step)                        // step_memory.h: the peak, and what it consists of
//   simulated_us(step, mesh, topology)     // with streams that overlap
//
// Order. The forward pass runs the program's forward nodes in order; before the first node that
// reads weights of a unit, it gathers the weights of that unit and of the next `prefetch` units.
// The backward pass runs the backward nodes in order. What recomputation left out runs again, block
// by block, when a backward node first reads from that block. Gradients are reduced, unit by unit,
// when the last of the unit's gradients has been computed. Collectives of a unit that are alike
// (kind, mesh dims, placements, dtype) are one collective of all their bytes. Without units, each
// move runs right before its reader, as the program has it, and no collective is merged: then the
// sum of all prices is the objective that `solve` proves.
//
// Streams. Kernels and local copies run on the compute stream. Collectives of activations run on
// the communication stream, gathers of weights and reductions of gradients on one stream each, as
// under fully_shard. A reduced gradient is cut and cast on the stream that reduced it, so that no
// kernel waits for it. Source: PyTorch 2.13.0, torch/distributed/fsdp/_fully_shard (streams,
// implicit prefetching, one unit for each wrapped module; foreach_reduce() for what follows a
// reduction).
//
// Buffers. Each output of a node is a buffer of the largest local shape; views share the buffer of
// what they view; each step of a move makes one. A buffer lives from the task that makes it to the
// last task that reads it, as PyTorch's reference counts have it. Parameters, buffers and the
// optimizer's state are always there; gradients live on to the end of the step, and what the
// forward pass returns to its end, when the tangents take its place. Under units, a gather writes a
// flat buffer, from which the weights are copied and which is freed when those of the next unit
// have been copied, and the weights of a unit go together, when the last of them has been read.
// Each buffer is allocated for one stream: what gathers and reductions write for theirs, all else
// for the compute stream. Workspaces of kernels and of NCCL, and fragmentation, are not counted.
// Source: PyTorch 2.13.0, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/redistribute.h"
#include "sim/simulator.h"
#include "strategies/programs/program_strategies.h"
#include "strategies/steps/model_blocks.h"
#include "strategies/steps/recomputation.h"

namespace shardlab {

// A program with everything that runs for each of its nodes.
struct PlannedProgram {
  const Program* program = nullptr;
  std::vector<NodePlacements> placements;  // by node
  std::vector<double> compute_us;          // by node: what its kernel costs
  std::vector<bool> is_view;  // by node: whether its output shares memory with its input
  std::vector<Plan> plans;    // the different moves
  std::vector<std::vector<std::uint32_t>> moves;  // by node, then tensor that it reads: which plan
};

// Plans each different move once. `rules` has the rule of each node, or null for a node without a
// kernel. Throws InputError as plan_program() does, and for a move that can't run.
[[nodiscard]] PlannedProgram planned_program(const Program& program,
                                             std::vector<NodePlacements> placements,
                                             std::vector<double> compute_us,
                                             const std::vector<const OpRule*>& rules,
                                             Redistributor& redistributor);

struct StepOptions {
  Recomputation recomputation = {};
  bool units = true;  // whether weights and gradients travel by units
  int prefetch = 1;   // how many units ahead weights are gathered
};

// What a buffer holds.
enum class MemoryPart : std::uint8_t {
  kParameters,  // parameters, and the model's buffers
  kGradients,
  kOptimizer,
  kActivations,  // inputs, and what the forward pass leaves for the backward pass
  kGathered,     // computed from parameters alone: casts, and what was gathered of them
  kTemporary,
};
template <>
struct EnumNames<MemoryPart> {
  static constexpr std::string_view kKind = "part of memory";
  static constexpr std::array kNames = {
      Named{MemoryPart::kParameters, "parameters"}, Named{MemoryPart::kGradients, "gradients"},
      Named{MemoryPart::kOptimizer, "optimizer"},   Named{MemoryPart::kActivations, "activations"},
      Named{MemoryPart::kGathered, "gathered"},     Named{MemoryPart::kTemporary, "temporary"}};
};
inline constexpr std::size_t kMemoryParts = 6;
[[nodiscard]] constexpr std::string_view to_string(MemoryPart part) { return name_of(part); }

struct StepBuffer {
  double bytes = 0.0;
  MemoryPart part = MemoryPart::kTemporary;
  Stream pool = Stream::kCompute;  // the stream for which it is allocated
  std::uint32_t node = 0;          // the node whose value it holds
  int made_by = 0;                 // index of the task; -1: it is there when the step begins
  int last_use = 0;  // index of the last task that reads it; the number of tasks: it stays
  // The value as which it is read last, in that value's own layout; nothing for what a move made.
  std::optional<ValueRef> read_as = {};
};

struct StepTask {
  ScheduledKernel kernel;
  std::uint32_t node = 0;  // the node that runs, or for which a value is moved
  Phase pass = Phase::kForward;
  bool runs_again = false;  // by recomputation
};

struct TrainingStep {
  std::vector<StepTask> tasks;  // in the order in which they are issued
  std::vector<StepBuffer> buffers;
  // For each node, the task before which the backward pass may gather it, if it is a weight that
  // the backward pass reads under units; otherwise the number of tasks.
  std::vector<int> gathered_again;
};

// For each element of a parameter that has a gradient, the optimizer keeps
// adam_bytes_per_element() (strategies/programs/sharding_problem.h).
[[nodiscard]] TrainingStep make_step(const PlannedProgram& planned, const ModelBlocks& blocks,
                                     Redistributor& redistributor, const StepOptions& options);

// The sum of all kernels and of the steps of all moves, each by itself and without units, in
// microseconds. What recomputation runs again counts twice.
[[nodiscard]] double executed_us(const PlannedProgram& planned, const ModelBlocks& blocks,
                                 const Recomputation& policy);

// The time until the last task is done, with one rank that stands for all, in microseconds.
[[nodiscard]] double simulated_us(const TrainingStep& step, const DeviceMesh& mesh,
                                  const Topology& topology);
// The sum of the prices of all tasks, in microseconds.
[[nodiscard]] double sum_us(const TrainingStep& step);

}  // namespace shardlab
