// Decompositions: what an op without a rule of its own computes, as a program of ops that have one.
//
//   Decomposition program(call);                 // metas only: every step's shapes and dtypes
//   program.outputs()                            // metas of the results
//   program.propagate({S(0), R})                 // placements of the results on one mesh dim
//
// PyTorch runs the program on one rank for each combination of placements of the inputs and keeps
// those in which no step would move one of its inputs. Source: PyTorch 2.13.0, _decompositions.py
// (DecompShardingStrategy).
//
// To add one: a function and its row in decompositions.cpp, a rule in families/decomposed.cpp, and a
// kernel in strategies/proof/kernels/decomposed.cpp.
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
  using Value = std::size_t;  // a tensor of the program: the call's inputs, then the steps' results

  // Steps follow DTensor's rules of that release. Throws InputError: an op without a decomposition,
  // inputs that it can't take.
  explicit Decomposition(const OpCall& call, Release release = kReferenceRelease);

  [[nodiscard]] std::vector<TensorMeta> outputs() const;
  // Nothing where a step has no rule for these placements of its inputs.
  [[nodiscard]] std::optional<std::vector<Placement>> propagate(std::span<const Placement> inputs);

  // One op of the program. strategies/proof/decomposed_execution.h runs the steps in this order.
  struct Step {
    OpCall call;                   // its tensors replicated
    const OpRule* rule = nullptr;  // null where the step casts its input or makes a constant
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
  // The tensor argument; throws InputError where it is not given.
  [[nodiscard]] Value input(std::size_t argument) const;
  [[nodiscard]] const TensorMeta& meta(Value value) const { return metas_[value]; }
  // The first result of an op of these tensors and other arguments.
  Value run(std::string_view op, std::initializer_list<Value> tensors,
            nlohmann::json args = nlohmann::json::array());
  // The same of an op of one tensor list.
  Value run_list(std::string_view op, std::vector<Value> tensors, nlohmann::json args);
  // A number as a replicated tensor without dims.
  Value constant(double value, DType dtype);
  // Another floating point type, which every placement passes.
  Value cast(Value value, DType dtype);
  void returns(std::vector<Value> results) { results_ = std::move(results); }

 private:
  using Moves = std::map<std::vector<Placement>, std::optional<std::vector<Placement>>>;

  Value add(OpCall call, std::vector<Value> inputs);
  [[nodiscard]] static std::optional<std::vector<Placement>> propagate_step(
      const Step& step, std::span<const Placement> inputs);

  OpCall call_;
  Release release_;
  std::vector<TensorMeta> metas_;  // by value
  std::vector<Step> steps_;
  std::vector<Value> results_;
  std::vector<Moves> known_;  // by step: what its placements lead to
};

// Writes the program of one op.
struct DecompositionEntry {
  std::string_view op;  // "aten.mv.default"
  void (*write)(Decomposition& program) = nullptr;
};
// All, in alphabetical order.
[[nodiscard]] std::span<const DecompositionEntry> all_decompositions();

// What rules and kernels of such an op are made of.
[[nodiscard]] std::vector<TensorMeta> decomposed_outputs(const OpCall& call);
// One row for each combination of the placements that occur among the inputs (a kind of shard: of
// every dim) which the program propagates, all replicated first. PyTorch lists them in the order of
// a hash set.
[[nodiscard]] Rows decomposed_rows(const OpCall& call, const OpRule& rule);

}  // namespace shardlab
