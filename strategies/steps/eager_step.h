// What a change of stack does to a whole training step under eager DTensor, which decides op by op:
// each op takes what its stack chooses for it, given the layouts in which its inputs arrive, and
// never asks what its output will cost later.
//
//   EagerStep eager(program, mesh, sources, reference, topology, {});
//   const EagerRun before = eager.run(baseline);
//   const EagerRun after = eager.run(candidate);
//   after.step_us - before.step_us, after.peak_bytes - before.peak_bytes
//   for (const StepFlip& flip : eager.flips(baseline, candidate)) flip.delta_step_us
//
// The decisions are those of a stack, and so are the steps by which it moves tensors. What they
// take is priced by the reference: kernels by its compute model, each step of a move by its
// collective model. Time and memory are those of training_step.h, in microseconds and bytes, on one
// rank that stands for all. Sources (parameters, buffers, inputs and tangents) have given layouts.
// What leaves the program has the layout of the source that it is paired with: a gradient has its
// parameter's. An op that neither the stack nor AutoParallel's rules know can't be run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strategies/programs/program.h"
#include "strategies/programs/program_strategies.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/suite.h"
#include "strategies/steps/model_blocks.h"
#include "strategies/steps/training_step.h"

namespace shardlab {

// What a stack does when an op, or a value that leaves the program, is reached with its tensors in
// certain layouts.
struct EagerDecision {
  Question question;                // its count stays 1
  std::vector<Placements> inputs;   // the layouts that the op wants
  std::vector<Placements> outputs;  // the layouts that it makes; empty for what leaves the program
  std::vector<Plan> moves;          // by input: what brings it there, as the stack runs it
  // The choice as text: "S(0)R, R -> S(0)R", and the paths of inputs that move: "[input 0:
  // R->S(0)]".
  [[nodiscard]] std::string text() const;
};

// A stack with the decisions that it has made, each of which is made once.
class EagerStack {
 public:
  EagerStack(const Stack& stack, const Topology& topology);

  [[nodiscard]] const Stack& stack() const { return evaluator_.stack(); }
  // `key` is a text that differs for different questions. Throws InputError for an op that no rule
  // covers and for a choice that can't run.
  [[nodiscard]] const EagerDecision& decide(const std::string& key, const Question& question);

 private:
  [[nodiscard]] EagerDecision make(const Question& question);

  StackEvaluator evaluator_;
  std::map<std::string, EagerDecision> known_;
};

// One question that a run asks, and where.
struct AskedQuestion {
  std::string key;
  const EagerDecision* decision = nullptr;
  std::vector<std::size_t> nodes;  // ascending
  double local_us = 0.0;           // time of one node: its kernel, and what brings its inputs there
};

struct EagerRun {
  double step_us = 0.0;
  double sum_us = 0.0;  // sum of the times of the step's tasks, each by itself
  double peak_bytes = 0.0;
  std::vector<AskedQuestion> questions;    // in the order in which they are first asked
  std::vector<NodePlacements> placements;  // by node
};

// A decision that two stacks make differently, and what it changes alone.
struct StepFlip {
  std::size_t node = 0;    // the first node that is decided so
  std::int64_t count = 0;  // how many nodes are, when the baseline decides everything else
  Question question;
  std::string baseline, candidate;  // EagerDecision::text()
  // How the step changes if the candidate answers this question, wherever it is asked, and the
  // baseline all others.
  double delta_step_us = 0.0;
  double delta_peak_bytes = 0.0;
  // The same by the sum of all tasks: of the nodes that are decided so, each on its own, and of the
  // whole step, with what follows from them. The difference is what the choice costs or saves
  // later.
  double delta_local_us = 0.0;
  double delta_sum_us = 0.0;
  // How many other nodes take other layouts, until the layouts are the same again.
  std::int64_t followers = 0;
};

class EagerStep {
 public:
  // Keeps references to the program, the mesh and the topology. `sources` has the layout of each
  // source, by node; what it has for other nodes is not read. Throws InputError for a reference
  // that prices no kernels, and for layouts that do not belong to the mesh.
  EagerStep(const Program& program, const DeviceMesh& mesh, std::vector<Placements> sources,
            const Stack& reference, const Topology& topology, const StepOptions& options);

  // Throws InputError, which names the node, for an op that can't run or that the reference can't
  // price.
  [[nodiscard]] EagerRun run(EagerStack& stack);
  // All questions of the baseline's run that the candidate answers differently, by how much they
  // change the step, the largest change first. Where the candidate has no answer, there is no flip.
  [[nodiscard]] std::vector<StepFlip> flips(EagerStack& baseline, EagerStack& candidate);

 private:
  struct Choice {  // who answers which question
    EagerStack& all;
    EagerStack* one = nullptr;
    std::string key = {};
  };
  [[nodiscard]] EagerRun run(const Choice& choice);
  [[nodiscard]] Question question_of(std::size_t node,
                                     const std::vector<NodePlacements>& placements) const;

  const Program& program_;
  const DeviceMesh& mesh_;
  const Topology& topology_;
  std::vector<Placements> sources_;
  std::vector<std::optional<std::size_t>> paired_;  // by node: the source whose layout it has
  StackEvaluator reference_;
  std::vector<const OpRule*> rules_;  // by node: the reference's; null for one that has no kernel
  StepOptions options_;
  ModelBlocks blocks_;
  std::vector<bool> own_strided_;  // by node: of its outputs' layouts in the current run
};

}  // namespace shardlab
