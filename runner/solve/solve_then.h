// `shardlab solve PROGRAM --then NAME=LAYOUT ...`: pins one after the other, each solved from where
// the one before ended.
#pragma once

#include <string>
#include <vector>

#include "runner/session/session.h"
#include "runner/solve/solution.h"

namespace shardlab {

// "w1=S(0)R": the node (or a source's label), and the layout that its output is to have.
struct ThenPin {
  std::string node;
  std::string layout;  // in the form in which layouts print themselves
};

// Each pin holds from then on; the first that can't hold names what it contradicts, and those
// behind it are not tried. Throws InputError if there is no such node, or if it can't have the
// layout.
[[nodiscard]] SolveAnswer then_answer(const ProgramSolution& solved,
                                      const std::vector<ThenPin>& pins, ExactSolver& solver,
                                      const Session& session);

}  // namespace shardlab
