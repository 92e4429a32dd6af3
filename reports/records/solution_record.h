// The record of a solved program: the JSON that `solve` prints, with the phase of every node,
// checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/run_header.h"
#include "reports/records/solution_answers.h"

namespace shardlab {
namespace reports {

inline constexpr std::string_view kSolveKind = "solve";

// An input whose producer gives it in another layout than its reader needs.
struct SolvedMove {
  std::int64_t input = 0;
  std::string of;
  std::string tensor;
  std::string from, to;
  double us = 0.0;
  std::optional<double> bytes_moved;
};

// The tensor of a node that the program is given: a parameter, a buffer, an input or a tangent.
struct SolvedTensor {
  std::string label;
  std::string tensor;
  double bytes = 0.0;
  double bytes_per_rank = 0.0;
};

struct SolvedNode {
  std::string node;
  std::string kind;
  std::string phase;
  std::string op;
  std::optional<std::int64_t> layer;
  std::vector<std::string> layout_in;
  std::string layout_out;
  double compute_us = 0.0;
  double communication_us = 0.0;
  double transition_us = 0.0;
  std::vector<SolvedMove> moves;
  std::optional<double> margin_us;
  std::optional<SolvedTensor> given;

  [[nodiscard]] double moves_us() const { return communication_us + transition_us; }
};

// The constraints that the plan satisfies.
struct SolutionConstraints {
  std::string recipe;
  std::int64_t pins = 0;
  std::string pin_inputs;
  std::string pin_outputs;
  std::optional<double> parameter_budget;
  std::optional<double> memory_budget_bytes;
};

// What a step of the plan takes of a device's memory at its peak, in bytes.
struct SolvedMemoryParts {
  double parameters = 0.0;
  double gradients = 0.0;
  double optimizer = 0.0;
  double activations = 0.0;
  double gathered = 0.0;
  double temporary = 0.0;
};
struct SolvedMemory {
  double peak_bytes = 0.0;
  double device_bytes = 0.0;
  double reserved_bytes = 0.0;
  bool fits = true;
  std::string peak_at;
  SolvedMemoryParts parts;
};

// The memory of a device over a step: one value of each list for each moment.
struct MemoryOverStep {
  double end_us = 0.0;
  std::vector<double> start_us;
  std::vector<double> parameters, gradients, optimizer, activations, gathered, temporary;  // bytes
};

struct SolutionRecord : ResultRecord {
  std::string program;
  std::string mesh;
  std::string stack;
  SolutionConstraints constraints;
  std::int64_t nodes = 0;
  std::int64_t edges = 0;
  std::int64_t strategies = 0;
  std::optional<double> objective_us;
  std::optional<double> lower_bound_us;
  bool optimal = false;
  std::optional<double> optima;
  std::string infeasible;
  std::vector<std::string> notes;
  std::optional<SolutionBreakdown> breakdown;
  std::vector<SolvedNode> assignment;
  std::optional<double> executed_us;
  std::string unexecutable;
  std::string objective_name = "objective";
  std::string recompute = "none";
  bool reshard_after_forward = false;
  std::optional<double> step_us;
  // The 95 % intervals of executed_us and step_us, if the stack's model of collectives knows its
  // error.
  std::optional<double> low_us = {}, high_us = {}, step_low_us = {}, step_high_us = {};
  std::optional<SolvedMemory> memory;
  std::optional<MemoryOverStep> memory_over_step;
  SolutionAnswers answers;

  // Whether the plan takes as long as the objective says; false if it can't run.
  [[nodiscard]] bool runs_as_priced() const;
};

// Throws ConfigError, which names `file` and a JSON pointer that begins with /result.
[[nodiscard]] SolutionRecord read_solution_record(ResultRecord record, std::string_view file);

}  // namespace reports

template <>
struct Fields<reports::SolvedMove> {
  using Self = reports::SolvedMove;
  static constexpr auto kList = std::tuple(
      field("input", &Self::input, ""), field("of", &Self::of, "the node that produces it"),
      field("tensor", &Self::tensor, "the whole tensor, such as bf16[8192,4096]"),
      field("from", &Self::from, ""), field("to", &Self::to, ""),
      field("us", &Self::us, "price of communication and transition"),
      optional_field("bytes_moved", &Self::bytes_moved,
                     "between ranks, all of them together; missing in older records, and where the "
                     "plan can't run",
                     kAmount));
};

template <>
struct Fields<reports::SolvedTensor> {
  using Self = reports::SolvedTensor;
  static constexpr std::string_view kName = "solved_tensor";
  static constexpr auto kList =
      std::tuple(field("label", &Self::label, "what the model calls it; may be empty"),
                 field("tensor", &Self::tensor, "the whole tensor, such as bf16[8192,4096]"),
                 field("bytes", &Self::bytes, "of the whole tensor", kAmount),
                 field("bytes_per_rank", &Self::bytes_per_rank,
                       "of the largest part that a rank holds", kAmount));
};

template <>
struct Fields<reports::SolvedNode> {
  using Self = reports::SolvedNode;
  static constexpr std::string_view kName = "solved_node";
  static constexpr auto kList = std::tuple(
      field("node", &Self::node, ""),
      field("kind", &Self::kind, "op, parameter, buffer, input, tangent, output or gradient"),
      field("phase", &Self::phase, "forward or backward"),
      field("op", &Self::op, "empty unless the node is of kind op"),
      optional_or_null("layer", &Self::layer,
                       "layer of the model, from 0; null: outside of all layers"),
      field("layout_in", &Self::layout_in, ""), field("layout_out", &Self::layout_out, ""),
      field("compute_us", &Self::compute_us, ""),
      field("communication_us", &Self::communication_us,
            "price of bringing its inputs into layout_in"),
      optional_field(
          "transition_us", &Self::transition_us,
          "price of transitions between layouts; older records include it in communication_us"),
      optional_field("moves", &Self::moves,
                     "redistributions of the node's inputs; missing in older records"),
      field("margin_us", &Self::margin_us, ""),
      optional_field("given", &Self::given,
                     "its tensor, if the program is given it; missing in older records"));
};

template <>
struct Fields<reports::SolutionConstraints> {
  using Self = reports::SolutionConstraints;
  static constexpr auto kList =
      std::tuple(nullable_text("recipe", &Self::recipe, ""), field("pins", &Self::pins, ""),
                 nullable_text("pin_inputs", &Self::pin_inputs, "a layout; null: free"),
                 nullable_text("pin_outputs", &Self::pin_outputs, "a layout; null: free"),
                 field("parameter_budget", &Self::parameter_budget, ""),
                 field("memory_budget_bytes", &Self::memory_budget_bytes, "", kAmount));
};

template <>
struct Fields<reports::SolvedMemoryParts> {
  using Self = reports::SolvedMemoryParts;
  static constexpr auto kList = std::tuple(
      field("parameters", &Self::parameters, "the model's buffers among them", kAmount),
      field("gradients", &Self::gradients, "", kAmount),
      field("optimizer", &Self::optimizer, "", kAmount),
      field("activations", &Self::activations, "inputs, and what the backward pass reads", kAmount),
      field("gathered", &Self::gathered, "what is computed from parameters alone", kAmount),
      field("temporary", &Self::temporary, "", kAmount));
};

template <>
struct Fields<reports::SolvedMemory> {
  using Self = reports::SolvedMemory;
  static constexpr auto kList =
      std::tuple(field("peak_bytes", &Self::peak_bytes, "", kAmount),
                 field("device_bytes", &Self::device_bytes, "what the plan may take", kAmount),
                 field("reserved_bytes", &Self::reserved_bytes,
                       "what PyTorch's allocator reserves, with a pool for each stream", kAmount),
                 field("fits", &Self::fits, ""),
                 field("peak_at", &Self::peak_at, "the pass and the node that runs at the peak"),
                 field("parts", &Self::parts, "bytes at the peak"));
};

template <>
struct Fields<reports::MemoryOverStep> {
  using Self = reports::MemoryOverStep;
  static constexpr std::string_view kName = "memory_over_step";
  static constexpr std::string_view kMeaning =
      "bytes of a device over the simulated step; of tasks that are close together, the one with "
      "the most bytes";
  static constexpr auto kList =
      std::tuple(field("end_us", &Self::end_us, "of the step"),
                 field("start_us", &Self::start_us, "from when on the bytes are there"),
                 field("parameters", &Self::parameters, "the model's buffers among them", kAmount),
                 field("gradients", &Self::gradients, "", kAmount),
                 field("optimizer", &Self::optimizer, "", kAmount),
                 field("activations", &Self::activations, "", kAmount),
                 field("gathered", &Self::gathered, "", kAmount),
                 field("temporary", &Self::temporary, "", kAmount));
  static std::optional<Contradiction> contradiction(const Self& memory);
};

// The part of the record that is under "result".
template <>
struct Fields<reports::SolutionRecord> {
  using Self = reports::SolutionRecord;
  static constexpr std::string_view kName = "solution";
  static constexpr std::string_view kMeaning = "what `solve` prints of a program";
  static constexpr auto kList = std::tuple(
      field("program", &Self::program, ""), field("mesh", &Self::mesh, ""),
      field("stack", &Self::stack, ""),
      optional_field("constraints", &Self::constraints, "the constraints on the plan"),
      field("nodes", &Self::nodes, ""), field("edges", &Self::edges, ""),
      field("strategies", &Self::strategies, ""),
      field("objective_us", &Self::objective_us, "null: infeasible"),
      field("lower_bound_us", &Self::lower_bound_us, ""), field("optimal", &Self::optimal, ""),
      field("optima", &Self::optima,
            "how many assignments share the objective; null: they were not counted"),
      nullable_text("infeasible", &Self::infeasible, "why there is no plan"),
      field("notes", &Self::notes, ""), field("breakdown_us", &Self::breakdown, ""),
      field("assignment", &Self::assignment, ""),
      optional_or_null("executed_us", &Self::executed_us,
                       "time of the kernels and of the steps of all moves; null: a move can't run"),
      optional_or_null("unexecutable", &Self::unexecutable,
                       "the first move that can't run, and why"),
      optional_field("objective_name", &Self::objective_name,
                     "whose objective it is: \"AutoParallel's objective\", or \"objective\""),
      optional_field("recompute", &Self::recompute, "what the backward pass computes again"),
      optional_field("reshard_after_forward", &Self::reshard_after_forward,
                     "whether the backward pass gathers weights again"),
      optional_or_null("step_us", &Self::step_us,
                       "simulated time of a step, in which streams overlap; null: it can't run"),
      optional_field("low_us", &Self::low_us,
                     "with high_us: where executed_us lies on 95 of 100 clusters that are like "
                     "those fitted to"),
      optional_field("high_us", &Self::high_us, ""),
      optional_field("step_low_us", &Self::step_low_us, "with step_high_us: where step_us lies"),
      optional_field("step_high_us", &Self::step_high_us, ""),
      optional_or_null("memory", &Self::memory, "null: the plan can't run"),
      optional_field("memory_over_step", &Self::memory_over_step,
                     "missing in older records, and where the plan can't run"),
      optional_field("answers", &Self::answers, "answers to further questions"));
  static std::optional<Contradiction> contradiction(const Self& solution);
};

}  // namespace shardlab
