// One training step of an exported program (shardlab/program/1), predicted as `shardlab step` does
// for its built-in models.
//
//   ProgramRun run{.program = "llama.json", .spread = Spread::parse("fsdp=8"), .compiled = true};
//   const ProgramStep step = predict_program_step(run, store, stack, topology);
//   step.prediction.tokens_per_s_per_gpu
//
// The program's batch is what all ranks process together in one forward pass. A shipped recipe lays
// the program out on the mesh (data parallel, FSDP, tensor parallel with sequence parallelism), and
// what it leaves open is solved. The step runs by units with prefetching
// (strategies/steps/training_step.h), kernel by kernel (program_kernels.h), on the streams of
// strategies/training/step_prediction.h: tasks that run at once share the multiprocessors and the
// links, and the host issues kernels one by one. The norm of the gradients and the optimizer's step
// follow. Memory is that of strategies/steps/step_memory.h; under torch.compile the backward pass
// keeps what it keeps in eager mode.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/config/configs.h"
#include "runner/steps/predicted_step.h"
#include "strategies/training/step_terms.h"

namespace shardlab {

struct ProgramRun {
  std::string program;  // a shipped name or a path
  Spread spread;        // only dp, fsdp and tp
  std::int64_t grad_accum = 1;
  // What FSDP's ranks share: full gathers weights again in the backward pass, kept-weights does
  // not.
  std::optional<Sharding> sharding = {};
  // Nothing: as little as fits into the device's memory.
  std::optional<Recomputation> recompute = Recomputation{};
  bool compiled = false;
};

struct ProgramStep {
  StepSubject subject;
  StepPrediction prediction;
  std::string recipe;  // which recipe laid the program out
  RunTraits traits;    // by which the stack's terms were taken
  // Whether batch norms take their statistics from the whole batch, which several ranks hold. Those
  // of DDP and FSDP take them from each rank's own rows and move nothing.
  bool joins_batch_norms = false;
  std::vector<std::string>
      blocks;  // by span of the timeline: "layers.0", or "" outside of all blocks
};

// Throws InputError for a kind of parallelism that programs are not planned with (pp, cp, ep), for
// a program that the recipe does not fit, and for a stack that prices no kernels; ConfigError for a
// file that is no program.
[[nodiscard]] ProgramStep predict_program_step(const ProgramRun& run, const ConfigStore& store,
                                               const Stack& stack, const Topology& topology,
                                               bool with_timeline = false);

}  // namespace shardlab
