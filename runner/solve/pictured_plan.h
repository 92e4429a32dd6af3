// What the report of a solved program draws, beside the plan as `solve` prints it: the tensors that
// the program is given and what a rank holds of them, the bytes that moves carry, and the memory of
// a device over the step.
//
//   PicturedPlan picture(priced, assignment);             // tensors
//   picture.given_json(node)                              // SolvedNode::given, or null
//   picture.note_step(planner, step_options);             // throws InputError if it cannot run
//   picture.bytes_moved(node, input), picture.memory_json()
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "runner/solve/step_figures.h"

namespace shardlab {

class PicturedPlan {
 public:
  // Keeps references to both.
  PicturedPlan(const PricedProgram& priced, const Assignment& assignment);

  // Works out what moves and what is in memory. Throws InputError for a plan that can't run.
  void note_step(StepPlanner& planner, const StepOptions& options);

  // The tensor of a parameter, a buffer, an input or a tangent; null for any other node.
  [[nodiscard]] nlohmann::json given_json(std::size_t node) const;
  // What all ranks together receive when this input of the node is brought into its layout, once.
  // Empty before note_step.
  [[nodiscard]] std::optional<double> bytes_moved(std::size_t node, std::size_t input) const;
  // MemoryOverStep, or null before note_step.
  [[nodiscard]] nlohmann::json memory_json() const { return memory_; }

 private:
  const PricedProgram& priced_;
  const Assignment& assignment_;
  std::vector<NodePlacements> placements_;
  std::optional<PlannedProgram> planned_;
  std::vector<double> moved_;  // by plan
  nlohmann::json memory_;
};

}  // namespace shardlab
