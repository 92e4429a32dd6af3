// Runs a whole program on virtual ranks as a plan of its layouts says, and judges every node by the same
// kernels on whole tensors.
//
//   const std::vector<NodePlan> plans =
//       plan_program(program, placements_of(strategies, solution.assignment), evaluator.on(mesh));
//   const ProgramExecution done = execute_program(executor, program, plans, {.data = {.seed = 7}});
//   done.verified, done.max_abs_error, done.wrong    // nodes, the first one first
//
// Sources hold shards of given or of made-up data (program_data.h). What a node reads is taken from its producer's
// layout to the one that the node's strategy wants, by the plan's steps: real collectives. Each rank then
// runs the node's reference kernel on what it holds, and its result counts as the rank's part of the output
// in the strategy's layout. All in double precision (wide_program.h).
//
// The judge runs the program once more, unsharded. A tensor is right when no element, partial contributions
// reduced, is further from the judge's than kProgramTolerance times the judge's largest magnitude (at least
// 1); whole numbers must be equal. A node that is wrong, or that can't be run so, is named, and those that
// read it go on with the judge's value in its layout: each node's verdict is its own. Where none is wrong,
// nothing is replaced: the outputs are those of the plan from end to end.
//
// Memory: each value, sharded and whole, until its last reader is done.
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

// Of f64, for chains of some hundred ops whose sums have up to some hundred thousand terms. Status: assumed.
inline constexpr double kProgramTolerance = 1e-10;

struct NodePlan {
  std::vector<Layout> outputs;
  std::vector<Plan> moves;  // by tensor that the node reads, from where its producer leaves it
};
// The redistributor's plan. Where that takes a mesh dim from under a strided shard, as DTensor's greedy planner
// does, scrambling rows: the greedy plan that does not.
[[nodiscard]] Plan plan_move(Redistributor& redistributor, const TensorMeta& meta,
                             const Layout& from, const Layout& to);
// Throws InputError, naming the node: another number of layouts than tensors, a shard of a dim that one lacks.
[[nodiscard]] std::vector<NodePlan> plan_program(const Program& program,
                                                 std::span<const NodePlacements> placements,
                                                 Redistributor& redistributor);

struct ProgramRunOptions {
  DataOptions data = {};
  // Values of sources, by node; else they are made up. In double precision (wide_meta()).
  std::map<std::size_t, HostTensor> given = {};
  // Called with the outputs of each node once they are judged: the locals, and the judge's as global.
  std::function<void(std::size_t node, std::span<const DistributedTensor> outputs)> observe = {};
};

struct NodeExecution {
  std::vector<ExecutionResult> moves;  // bytes moved and written are those of the program's dtypes
  OpExecution op;                      // outputs left out
  double magnitude = 0.0;              // the judge's largest
  bool replicas_bitwise_equal = true;

  [[nodiscard]] bool is_right() const;
  // To the last bit of f64.
  [[nodiscard]] bool is_exact() const { return is_right() && op.max_abs_error == 0.0; }
};

struct ProgramExecution {
  std::vector<NodeExecution> nodes;
  bool verified = true;
  double max_abs_error = 0.0;
  bool replicas_bitwise_equal = true;
  std::int64_t bytes_moved = 0;
  std::vector<std::size_t> wrong;  // nodes, ascending
  std::string mismatch;            // of the first: where, found, expected; or why it can't be run
};

// Throws InputError, naming the node: no kernel for its op, a result of another shape than the program's,
// a given value of another dtype or shape; LimitError.
[[nodiscard]] ProgramExecution execute_program(const Executor& executor, const Program& program,
                                               std::span<const NodePlan> plans,
                                               const ProgramRunOptions& options = {});

}  // namespace shardlab
