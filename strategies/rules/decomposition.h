// Decompositions: an op without a rule of its own, written as a program of ops that have one.
//
//   Decomposition program(call);                 // knows the shape and dtype of every step
//   program.outputs()                            // shapes and dtypes of the results
//   program.propagate({S(0), R})                 // placements of the results on one mesh dim
//
// PyTorch tries each combination of placements of the inputs and keeps those with which no step of
// the program would have to move one of its inputs. Source: PyTorch 2.13.0, _decompositions.py
// (DecompShardingStrategy).
//
// To add one, write a function and list it in decompositions.cpp, then add a rule in
// families/decomposed.cpp and a kernel in strategies/proof/kernels/decomposed.cpp.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "strategies/rules/op_rule.h"

namespace shardlab {

class Decomposition {
 public:
  // Tensors are numbered: first the inputs of the call, then the results of the steps.
  using Value = std::size_t;

  // The steps use DTensor's rules of this release. Throws InputError for an op without a
  // decomposition, and for inputs that the op can't take.
  explicit Decomposition(const OpCall& call, Release release = kReferenceRelease);

  [[nodiscard]] std::vector<TensorMeta> outputs() const;
  // The placements of the results, or nothing if a step would have to move one of its inputs.
  [[nodiscard]] std::optional<std::vector<Placement>> propagate(std::span<const Placement> inputs);

  // One op of the program. strategies/proof/decomposed_execution.h runs the steps in this order.
  struct Step {
    OpCall call;                   // the call with replicated tensors
    const OpRule* rule = nullptr;  // null for a step that casts its input or makes a constant
    std::vector<Value> inputs;
    Value result = 0;
    std::size_t results = 1;
    double constant = 0.0;
  };
  [[nodiscard]] std::span<const Step> steps() const { return steps_; }
  [[nodiscard]] std::span<const Value> results() const { return results_; }

  // -- For the functions that write a program ------------------------------------------------

  [[nodiscard]] const OpCall& call() const { return call_; }
  [[nodiscard]] bool has(std::size_t argument) const { return call_.tensor(argument) != nullptr; }
  // The number of a tensor argument. Throws InputError if the argument is missing.
  [[nodiscard]] Value input(std::size_t argument) const;
  [[nodiscard]] const TensorMeta& meta(Value value) const { return metas_[value]; }
  // Adds a step that runs an op on these tensors and arguments, and returns its first result.
  Value run(std::string_view op, std::initializer_list<Value> tensors,
            nlohmann::json args = nlohmann::json::array());
  // Like run(), for an op that takes its tensors as one list.
  Value run_list(std::string_view op, std::vector<Value> tensors, nlohmann::json args);
  // Adds a step that makes a replicated tensor without dims from a number.
  Value constant(double value, DType dtype);
  // Adds a step that casts to another floating point type, which changes no placement.
  Value cast(Value value, DType dtype);
  void returns(std::vector<Value> results) { results_ = std::move(results); }

 private:
  using Moves = std::map<std::vector<Placement>, std::optional<std::vector<Placement>>>;

  Value add(OpCall call, std::vector<Value> inputs);
  [[nodiscard]] static std::optional<std::vector<Placement>> propagate_step(
      const Step& step, std::span<const Placement> inputs);

  OpCall call_;
  Release release_;
  std::vector<TensorMeta> metas_;  // the meta of each Value
  std::vector<Step> steps_;
  std::vector<Value> results_;
  std::vector<Moves> known_;  // for each step: placements of inputs -> of results
};

// Writes the program of one op.
struct DecompositionEntry {
  std::string_view op;  // "aten.mv.default"
  void (*write)(Decomposition& program) = nullptr;
  RuleSets sets = kDTensor;  // the releases in which PyTorch decomposes the op like this
};
// All entries, in alphabetical order of the ops. An op has one entry in each release.
[[nodiscard]] std::span<const DecompositionEntry> all_decompositions();

// OpRule::outputs (op_rule.h) for an op that is sharded through its decomposition.
[[nodiscard]] std::vector<TensorMeta> decomposed_outputs(const OpCall& call);
// OpRule::rows for such an op: one row for each combination of placements that the program
// propagates. The placements to combine are R and those that occur among the inputs; a shard is
// tried on every dim. They stand in the order of a Python set (python_set.h), so that the row that
// replicates everything is mostly not the first.
[[nodiscard]] Rows decomposed_rows(const OpCall& call, const OpRule& rule);

}  // namespace shardlab
