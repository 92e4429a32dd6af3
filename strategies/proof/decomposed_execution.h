// Executes an op that has no reference kernel of its own by the steps of its decomposition:
//
//   Decomposition program(call);              // strategies/rules/decomposition.h
//   execute(program, local)                   // the results, by the reference kernels of the steps
//
// Each step is computed in double precision; the results are rounded once, at the end, to the dtype
// of the first input.
#pragma once

#include <vector>

#include "strategies/proof/op_kernel.h"
#include "strategies/rules/decomposition.h"

namespace shardlab {

// Throws InputError when a step's kernel gives another number of results than its rule says.
[[nodiscard]] std::vector<HostTensor> execute(const Decomposition& program, const LocalCall& local);

// The reference kernel of every op that is executed by its decomposition. Throws InputError when
// the call has another number of tensors than the op takes.
[[nodiscard]] LocalResult run_decomposed(const LocalCall& local, const OpKernel& kernel);

}  // namespace shardlab
