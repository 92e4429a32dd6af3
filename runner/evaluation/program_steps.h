// What a comparison says about programs: the questions that a program asks a stack as it runs op by
// op, and its training step under each stack's decisions (strategies/steps/eager_step.h).
//
//   const ProgramCase program =
//       read_program(store, {.program = "llama.json", .mesh = DeviceMesh::parse("2x4"),
//                            .recipe = "fsdp-tp"}, reference, topology);
//   const Suite suite = suite_of(program, baseline, reference, topology);
//   record.steps = compare_steps(program, stacks, reference, topology, false);
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/records/step_comparison.h"
#include "runner/config/configs.h"
#include "sim/mesh.h"
#include "strategies/programs/program.h"
#include "strategies/select/stack.h"
#include "strategies/select/suite.h"
#include "strategies/steps/training_step.h"

namespace shardlab {

struct ProgramCaseArguments {
  std::string program;  // a shipped name or a path
  DeviceMesh mesh;
  std::string recipe = {};  // a shipped name or a path; "" for none
  std::string plan = {};    // a file that saved_plan.h reads; "" for none
  Recomputation recomputation = {};
  int jobs = 1;
};

// A program on a mesh, with the layouts of what no stack decides.
struct ProgramCase {
  Program program;
  DeviceMesh mesh;
  std::vector<Placements>
      sources;               // by node; those of parameters, buffers, inputs and tangents count
  std::string sources_text;  // where they come from, for readers
  StepOptions step_options = {};
};

// The layouts of parameters and inputs are those of the saved plan; or else those of the best plan
// under the reference that satisfies the recipe, if there is one. Throws InputError if there is no
// such plan, for a reference that prices no kernels, and for a plan and a recipe at once.
[[nodiscard]] ProgramCase read_program(const ConfigStore& store,
                                       const ProgramCaseArguments& arguments,
                                       const Stack& reference, const Topology& topology);

// The questions that the program asks the baseline, each once and with its count.
[[nodiscard]] Suite suite_of(const ProgramCase& program, const Stack& baseline,
                             const Stack& reference, const Topology& topology);

// One comparison for each stack but the first, which is the baseline; with `advises_flattening`,
// also the flattened meshes that are worth registering for it. What a candidate's decisions cannot
// run is said in the comparison; throws InputError where the baseline's cannot.
[[nodiscard]] std::vector<reports::StepComparison> compare_steps(const ProgramCase& program,
                                                                 std::span<const Stack> stacks,
                                                                 const Stack& reference,
                                                                 const Topology& topology,
                                                                 bool advises_flattening);

}  // namespace shardlab
