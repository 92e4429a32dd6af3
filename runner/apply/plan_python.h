// Writes a plan as one Python file that needs PyTorch alone.
//
//   const PlanPython written = plan_python({program, plans, mesh, "llama.json", ...});
//   written.text         // defines apply(model, mesh)
//   written.steps        // the collectives that it runs, in order
//
// The file has the program's nodes as straight lines, one operator per line, on the tensors that a
// rank holds; the steps of each move stand on lines of their own in front of the node that needs
// them. Nodes that lead to outputs or buffer updates make up forward(), all others backward().
// Nodes that lead to nothing are left out. Throws InputError, which names the node, for what can't
// be written.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/collective.h"
#include "sim/mesh.h"
#include "strategies/programs/program.h"
#include "strategies/programs/program_execution.h"

namespace shardlab::apply {

struct PlanToWrite {
  const Program& program;
  std::span<const NodePlan> plans;  // by node
  const DeviceMesh& mesh;
  std::string program_name;  // as it was typed
  std::string plan_name;
  std::string stack;
};

// One step of a move that the ranks run together.
struct WrittenStep {
  std::size_t node = 0;  // the node that reads the tensor
  std::size_t input = 0;
  bool in_backward = false;
  Collective collective = Collective::kLocal;
  int mesh_dim = 0;
  std::string from, to;  // the whole layouts before and after the step
};

struct PlanPython {
  std::string text;
  std::vector<WrittenStep> steps;  // collectives only, in the order in which they run
  std::vector<std::string> notes;  // where the file runs other collectives than the plan
};

[[nodiscard]] PlanPython plan_python(const PlanToWrite& plan);

}  // namespace shardlab::apply
