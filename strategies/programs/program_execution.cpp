#include "strategies/programs/program_execution.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "costmodel/base/error.h"
#include "sim/planners/greedy.h"
#include "strategies/programs/program_data.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/wide_program.h"

namespace shardlab {
namespace {

double largest_magnitude(const HostTensor& tensor) {
  double most = 0.0;
  for (const double value : as_doubles(tensor)) {
    if (std::isfinite(value)) most = std::max(most, std::abs(value));
  }
  return most;
}

class ProgramRun {
 public:
  ProgramRun(const Executor& executor, const Program& program, std::span<const NodePlan> plans,
             const ProgramRunOptions& options)
      : executor_(executor), program_(program), plans_(plans), options_(options) {}

  ProgramExecution run() {
    count_readers();
    held_.resize(program_.nodes.size());
    done_.nodes.resize(program_.nodes.size());
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      try {
        if (program_.nodes[n].is_source()) {
          run_source(n);
        } else {
          run_node(n);
        }
      } catch (const LimitError&) {
        throw;
      } catch (const InputError& error) {
        throw InputError("node " + program_.nodes[n].name + ": " + error.what());
      }
      if (options_.observe) options_.observe(n, held_[n]);
      sum_up(n);
      release(n);
    }
    return std::move(done_);
  }

 private:
  void count_readers() {
    for (const ProgramNode& node : program_.nodes) {
      readers_.emplace_back(node.outputs.size(), 0);
    }
    for (const ProgramNode& node : program_.nodes) {
      for (const ValueRef& value : values_read(node)) ++readers_[value.node][value.output];
    }
  }

  // Drops values that nothing reads any more.
  void release(std::size_t n) {
    for (const ValueRef& value : values_read(program_.nodes[n])) {
      if (--readers_[value.node][value.output] == 0) held_[value.node][value.output] = {};
    }
    for (std::size_t o = 0; o < held_[n].size(); ++o) {
      if (readers_[n][o] == 0) held_[n][o] = {};
    }
  }

  void sum_up(std::size_t n) {
    const NodeExecution& node = done_.nodes[n];
    for (const ExecutionResult& move : node.moves) {
      done_.max_abs_error = std::max(done_.max_abs_error, move.max_abs_error);
      done_.bytes_moved += move.bytes_moved;
    }
    done_.max_abs_error = std::max(done_.max_abs_error, node.op.max_abs_error);
    done_.replicas_bitwise_equal = done_.replicas_bitwise_equal && node.replicas_bitwise_equal;
    if (node.is_right()) return;
    done_.verified = false;
    done_.wrong.push_back(n);
    if (!done_.mismatch.empty()) return;
    done_.mismatch = "node " + program_.nodes[n].name + ": " + node.op.mismatch;
    for (const ExecutionResult& move : node.moves) {
      if (move.verified) continue;
      done_.mismatch = move.refused.empty() ? move.mismatch : move.refused;
      return;
    }
  }

  // Sets a tensor's tolerance for rounding errors.
  static void allow_rounding(DistributedTensor& tensor) {
    tensor.magnitude = std::max(1.0, largest_magnitude(tensor.global));
    const bool rounds = is_floating_point(tensor.meta.dtype);
    tensor.tolerance = rounds ? kProgramTolerance * tensor.magnitude : 0.0;
  }

  // Distributes a whole tensor. Mask partials are distributed as plain ones, since there are no
  // masks.
  [[nodiscard]] DistributedTensor distributed(const TensorMeta& meta, const Layout& layout,
                                              const HostTensor& global) const {
    Layout plain = layout;
    for (Placement& p : plain.placements) {
      if (p.kind() == Placement::Kind::kMaskPartial) p = Placement::partial();
    }
    DistributedTensor tensor = executor_.distribute(meta, plain, global, options_.data);
    tensor.layout = layout;
    allow_rounding(tensor);
    return tensor;
  }

  void run_source(std::size_t n) {
    const auto given = options_.given.find(n);
    const HostTensor value = given != options_.given.end()
                                 ? given->second
                                 : source_value(executor_.memory(), program_, n, options_.data);
    const TensorMeta meta = wide_meta(program_.nodes[n].outputs[0]);
    if (value.dtype() != meta.dtype || value.shape() != meta.shape) {
      const TensorMeta found{.dtype = value.dtype(), .shape = value.shape(), .strides = {}};
      throw InputError("found a value " + found.text() + "; valid: " + meta.text());
    }
    held_[n].push_back(distributed(meta, plans_[n].outputs[0], value));
    NodeExecution& node = done_.nodes[n];
    node.op.verified = true;
    node.magnitude = held_[n][0].magnitude;
  }

  // Redistributes a value to the layout that the node wants. If the steps fail, the judge's value
  // takes its place.
  DistributedTensor moved(const DistributedTensor& value, const Plan& plan, std::size_t n,
                          std::size_t input) {
    Plan wide = plan;
    wide.meta = value.meta;
    DistributedTensor tensor = value;
    tensor.layout = plan.start;
    ExecutionResult result = executor_.run(wide, tensor);
    // A complex number is held as a pair of f64.
    const int wide_bytes =
        itemsize(value.meta.dtype) * (value.meta.ndim() > plan.meta.ndim() ? 2 : 1);
    const auto as_in_program = [&](std::int64_t& bytes) {
      bytes = bytes / wide_bytes * itemsize(plan.meta.dtype);
    };
    as_in_program(result.bytes_moved);
    as_in_program(result.bytes_written);
    for (StepExecution& step : result.steps) {
      as_in_program(step.bytes_moved);
      as_in_program(step.bytes_written);
    }
    const std::string where = "node " + program_.nodes[n].name + ", input " +
                              std::to_string(input) + ", " + plan.from.text() + " to " +
                              plan.to.text() + ": ";
    if (!result.refused.empty()) result.refused = where + result.refused;
    if (!result.mismatch.empty()) result.mismatch = where + result.mismatch;
    const bool right = result.executed && result.verified;
    done_.nodes[n].moves.push_back(std::move(result));
    return right ? tensor : distributed(value.meta, plan.to, value.global);
  }

  // The judge's outputs, which the kernel computes from whole tensors.
  std::vector<HostTensor> whole_outputs(const OpCall& call, std::span<const HostTensor> wholes,
                                        std::span<const TensorMeta> metas) {
    std::vector<Shape> shapes;
    for (const TensorMeta& meta : metas) shapes.push_back(meta.shape);
    std::vector<HostTensor> outputs = run_op_kernel({.call = call,
                                                     .memory = executor_.memory(),
                                                     .inputs = wholes,
                                                     .input_rows = {},
                                                     .output_shapes = shapes})
                                          .outputs;
    if (outputs.size() != metas.size()) {
      throw InputError(call.op + ": found " + std::to_string(outputs.size()) +
                       " results from its kernel; valid: " + std::to_string(metas.size()) +
                       ", one for each output of the node");
    }
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o].shape() != metas[o].shape) {
        const TensorMeta found{
            .dtype = outputs[o].dtype(), .shape = outputs[o].shape(), .strides = {}};
        throw InputError(call.op + ": found a result " + found.text() +
                         " from its kernel; valid: " + metas[o].text() + ", the node's output " +
                         std::to_string(o));
      }
      outputs[o] = as_declared(outputs[o], metas[o]);
    }
    return outputs;
  }

  // Kernels ignore the dtype argument of an op that makes a new tensor, so results are converted to
  // it.
  [[nodiscard]] HostTensor as_declared(const HostTensor& tensor, const TensorMeta& meta) const {
    if (tensor.dtype() == meta.dtype) return tensor;
    return from_doubles(executor_.memory(), meta.dtype, tensor.shape(), as_doubles(tensor));
  }

  void run_node(std::size_t n) {
    const ProgramNode& own = program_.nodes[n];
    const NodePlan& plan = plans_[n];
    const std::vector<ValueRef> values = values_read(own);
    OpCall call = wide_call(program_, n, executor_.mesh().ndim());
    std::vector<DistributedTensor> inputs;
    std::vector<HostTensor> wholes;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const DistributedTensor& value = held_[values[i].node][values[i].output];
      inputs.push_back(moved(value, plan.moves[i], n, i));
      wholes.push_back(value.global);
    }
    done_.nodes[n].op.verified = true;
    if (own.outputs.empty())
      return;  // the node names what leaves the program, and has no tensor of its own
    std::vector<TensorMeta> metas;
    std::vector<Shape> shapes;
    for (const TensorMeta& meta : own.outputs) {
      metas.push_back(wide_meta(meta));
      shapes.push_back(metas.back().shape);
    }
    const std::vector<HostTensor> expected = whole_outputs(call, wholes, metas);
    std::size_t next = 0;
    for (TensorArg& arg : call.inputs) {
      for (TensorSpec& spec : arg.tensors) spec.layout = inputs[next++].layout;
    }
    RankResults results = run_on_ranks(executor_, call, inputs, shapes, plan.outputs);
    NodeExecution& node = done_.nodes[n];
    node.op.verified = results.failure.empty();
    node.op.mismatch = results.failure;
    if (results.failure.empty()) {
      for (LocalResult& result : results.by_rank) {
        for (std::size_t o = 0; o < metas.size(); ++o) {
          result.outputs[o] = as_declared(result.outputs[o], metas[o]);
        }
      }
    }
    const auto again = [&] {
      std::vector<HostTensor> read;
      for (const DistributedTensor& input : inputs) read.push_back(executor_.assemble(input));
      return whole_outputs(call, read, metas);
    };
    for (std::size_t o = 0; o < metas.size(); ++o) {
      if (!results.failure.empty()) {
        held_[n].push_back(distributed(metas[o], plan.outputs[o], expected[o]));
      } else {
        hold(n, o, output_of(call, results, o, plan.outputs[o], expected[o]), again);
      }
      node.magnitude = std::max(node.magnitude, held_[n][o].magnitude);
    }
  }

  // Judges an output. Keeps it if it is right, and keeps the judge's value otherwise. An output
  // that differs from the judge's is judged once more, by what the kernel makes of what the ranks
  // read: `again` returns that. If it is right then, rounding before this node has grown, and the
  // judge goes on from there.
  template <class Again>
  void hold(std::size_t n, std::size_t o, DistributedTensor output, const Again& again) {
    NodeExecution& node = done_.nodes[n];
    allow_rounding(output);
    Verification verification = executor_.verify(output);
    if (!verification.verified) {
      DistributedTensor anew = output;
      anew.global = again()[o];
      allow_rounding(anew);
      const Verification second = executor_.verify(anew);
      if (second.verified) {
        node.judged_again = true;
        output = std::move(anew);
        verification = second;
      }
    }
    node.op.max_abs_error = std::max(node.op.max_abs_error, verification.max_abs_error);
    if (verification.verified) {
      node.replicas_bitwise_equal =
          node.replicas_bitwise_equal && executor_.replicas_bitwise_equal(output);
      held_[n].push_back(std::move(output));
      return;
    }
    if (node.op.verified) {
      const std::string where =
          plans_[n].outputs.size() > 1 ? "output " + std::to_string(o) + ", " : std::string();
      node.op.mismatch = where + output.layout.text() + ": " + verification.mismatch;
    }
    node.op.verified = false;
    held_[n].push_back(distributed(output.meta, output.layout, output.global));
  }

  const Executor& executor_;
  const Program& program_;
  std::span<const NodePlan> plans_;
  const ProgramRunOptions& options_;
  std::vector<std::vector<int>> readers_;  // by node and output: how many readers are still to come
  std::vector<std::vector<DistributedTensor>> held_;
  ProgramExecution done_;
};

Layout layout_for(const Placements& placements, const TensorMeta& meta) {
  Layout layout(placements);
  expect_layout(meta, layout);
  return layout;
}

}  // namespace

bool NodeExecution::is_right() const {
  return op.verified && std::all_of(moves.begin(), moves.end(),
                                    [](const ExecutionResult& move) { return move.verified; });
}

namespace {

// Whether every shard that a step changes is the innermost one of its tensor dim at that point, and
// whether the plan ends in the shard order that was asked for.
bool nests(const Plan& plan) {
  Layout layout = plan.start;
  for (const PlanStep& step : plan.steps) {
    const int m = step.mesh_dims.front();
    for (int i = 0; i < layout.ndim() && !step.is_merged() && step.from.is_shard_like(); ++i) {
      if (i != m && layout[i].is_shard_like() && layout[i].dim() == step.from.dim() &&
          layout.order.position(i) > layout.order.position(m)) {
        return false;
      }
    }
    layout = step.after;
  }
  return layout.placements != plan.to.placements || layout == plan.to;
}

}  // namespace

Plan plan_move(Redistributor& redistributor, const TensorMeta& meta, const Layout& from,
               const Layout& to) {
  Plan plan = redistributor.plan(meta, from, to);
  const bool is_strided = from.has_strided() || to.has_strided();
  if (!is_strided || !plan.refusal().empty() || nests(plan)) return plan;
  std::vector<StepRequest> steps;
  for_each_greedy_step<Nesting::kAllShards>(
      from.placements, to.placements, num_shards(from.placements, redistributor.mesh(), true) > 1,
      [&](int mesh_dim, const Placement& before, const Placement& after) {
        steps.push_back({mesh_dim, before, after});
      });
  return redistributor.plan_of_steps(meta, from, steps);
}

std::vector<NodePlan> plan_program(const Program& program,
                                   std::span<const NodePlacements> placements,
                                   Redistributor& redistributor) {
  SHARDLAB_CHECK(placements.size() == program.nodes.size(), placements.size(), " for ",
                 program.nodes.size(), " nodes");
  std::vector<NodePlan> plans(program.nodes.size());
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    const std::vector<ValueRef> values = values_read(node);
    try {
      if (placements[n].outputs.size() != node.outputs.size() ||
          placements[n].inputs.size() != values.size()) {
        throw InputError("found layouts for " + std::to_string(placements[n].outputs.size()) +
                         " outputs and " + std::to_string(placements[n].inputs.size()) +
                         " inputs; valid: layouts for " + std::to_string(node.outputs.size()) +
                         " and " + std::to_string(values.size()));
      }
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        plans[n].outputs.push_back(
            layout_for(placements[n].outputs[o], wide_meta(node.outputs[o])));
      }
      for (std::size_t i = 0; i < values.size(); ++i) {
        const TensorMeta& meta = program.nodes[values[i].node].outputs[values[i].output];
        const Layout wanted = layout_for(placements[n].inputs[i], wide_meta(meta));
        plans[n].moves.push_back(plan_move(
            redistributor, meta, plans[values[i].node].outputs[values[i].output], wanted));
      }
    } catch (const InputError& error) {
      throw InputError("node " + node.name + ": " + error.what());
    }
  }
  return plans;
}

ProgramExecution execute_program(const Executor& executor, const Program& program,
                                 std::span<const NodePlan> plans,
                                 const ProgramRunOptions& options) {
  SHARDLAB_CHECK(plans.size() == program.nodes.size(), plans.size(), " plans for ",
                 program.nodes.size(), " nodes");
  return ProgramRun(executor, program, plans, options).run();
}

}  // namespace shardlab
