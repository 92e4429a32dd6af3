// `shardlab solve PROGRAM --then NAME=LAYOUT ...`: adds pins one after the other. Each solve starts
// from the previous solution.
#pragma once

#include <string>
#include <vector>

#include "runner/session/session.h"
#include "runner/solve/solution.h"

namespace shardlab {

// "w1=S(0)R": a node (or a source's label), and the layout of its output.
struct ThenPin {
  std::string node;
  std::string layout;  // in the form in which layouts print themselves
};

// Each pin also holds for all later ones. If a pin can't hold, the answer names what it
// contradicts, and the later pins are not tried. Throws InputError if there is no such node, or if
// the node can't have the layout.
[[nodiscard]] SolveAnswer then_answer(const ProgramSolution& solved,
                                      const std::vector<ThenPin>& pins, ExactSolver& solver,
                                      const Session& session);

}  // namespace shardlab
