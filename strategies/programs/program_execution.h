// Runs a whole program on virtual ranks in the layouts of a plan, and compares every node with the
// result of the same kernels on whole tensors.
//
//   const std::vector<NodePlan> plans =
//       plan_program(program, placements_of(strategies, solution.assignment), evaluator.on(mesh));
//   const ProgramExecution done = execute_program(executor, program, plans, {.data = {.seed = 7}});
//   done.verified, done.max_abs_error, done.wrong    // wrong nodes, ascending
//
// Sources are sharded tensors of given or made-up data (program_data.h). The steps of the plan,
// with real collectives, bring what a node reads from its producer's layout to the one that the
// node's strategy wants. Each rank then runs the node's reference kernel on what it holds, and the
// result counts as that rank's part of the output in the strategy's layout. All of this is in
// double precision (wide_program.h).
//
// The judge runs the program once more, unsharded. A tensor is right when no element, with partial
// contributions reduced, differs from the judge's by more than kProgramTolerance times the judge's
// largest magnitude (at least 1); integers have to be equal. Rounding that is allowed in one node
// may grow in the next, by far in a norm of nearly equal numbers. A tensor that differs by more is
// therefore judged once more, by what the kernel makes of what the ranks read; if it is right then,
// the judge goes on from there, and `judged_again` says so. A node that is wrong, or that cannot be
// run, is named, and the nodes that read it get the judge's value in its place, so that each node
// is judged on its own. If no node is wrong, nothing of the ranks' is replaced: the outputs are
// those of the plan from end to end.
//
// Each value is kept, sharded and whole, until its last reader is done.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/executor.h"
#include "sim/redistribute.h"
#include "strategies/programs/program.h"
#include "strategies/programs/program_strategies.h"
#include "strategies/proof/op_execution.h"

namespace shardlab {

// The relative error in f64 that is put down to rounding, for chains of some hundred ops whose sums
// have up to some hundred thousand terms. Status: assumed.
inline constexpr double kProgramTolerance = 1e-10;

struct NodePlan {
  std::vector<Layout> outputs;
  std::vector<Plan> moves;  // for each tensor that the node reads, from its producer's layout
};
// The redistributor's plan, unless it changes a shard while another shard of the same tensor dim
// still lies inside it, which scrambles rows (DTensor's greedy planner does so with strided
// shards). In that case, the greedy plan that changes the inner shard first.
[[nodiscard]] Plan plan_move(Redistributor& redistributor, const TensorMeta& meta,
                             const Layout& from, const Layout& to);
// Throws InputError, which names the node, if the number of layouts differs from that of tensors,
// or if a layout shards a dim that the tensor does not have.
[[nodiscard]] std::vector<NodePlan> plan_program(const Program& program,
                                                 std::span<const NodePlacements> placements,
                                                 Redistributor& redistributor);

struct ProgramRunOptions {
  DataOptions data = {};
  // Values of sources, by node, in double precision (wide_meta()); other sources get made-up ones.
  std::map<std::size_t, HostTensor> given = {};
  // Called with the outputs of each node once they are judged: the ranks' parts, and the judge's
  // value as `global`.
  std::function<void(std::size_t node, std::span<const DistributedTensor> outputs)> observe = {};
};

struct NodeExecution {
  std::vector<ExecutionResult>
      moves;               // the moves of the node's inputs, with bytes of the program's dtypes
  OpExecution op;          // the run of the op, without its outputs
  double magnitude = 0.0;  // the largest magnitude in the judge's outputs
  bool replicas_bitwise_equal = true;
  bool judged_again = false;  // right by what the ranks read, and not by the judge's own inputs

  [[nodiscard]] bool is_right() const;
  // Whether the node is right to the last bit of f64, by the judge's own inputs.
  [[nodiscard]] bool is_exact() const {
    return is_right() && op.max_abs_error == 0.0 && !judged_again;
  }
};

struct ProgramExecution {
  std::vector<NodeExecution> nodes;
  bool verified = true;
  double max_abs_error = 0.0;
  bool replicas_bitwise_equal = true;
  std::int64_t bytes_moved = 0;
  std::vector<std::size_t> wrong;  // the wrong nodes, ascending
  std::string mismatch;            // what is wrong with the first of them, or why it cannot be run
};

// Throws InputError, which names the node, if its op has no kernel, if a result has another shape
// than in the program, or if a given value has another dtype or shape. Throws LimitError.
[[nodiscard]] ProgramExecution execute_program(const Executor& executor, const Program& program,
                                               std::span<const NodePlan> plans,
                                               const ProgramRunOptions& options = {});

}  // namespace shardlab
