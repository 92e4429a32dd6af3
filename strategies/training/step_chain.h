// The passes of one rank as a chain of tasks on streams.
//
//   StepChain chain(work, prices, blocks);
//   chain.forward(work.stages().front(), {.gathers = true});
//   chain.backward(work.stages().front(), {.gathers = true, .reduces = true});
//   chain.times(false).total_us
//
// Kernels run on one stream; collectives of activations, gathers of weights and reductions of
// gradients have a stream each, and the host, which launches the kernels, is a stream too. Tasks
// that run at once share the multiprocessors, the memory and the links (sim/flows/fluid_streams.h).
// The weights of a unit are gathered while the unit before it computes, and not earlier than the
// weights of the unit before that are freed, as FSDP limits its prefetching. The first weights of a
// forward pass are gathered behind all kernels before it. Source: PyTorch 2.13.0,
// torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _root_pre_forward().
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/flows/fluid_streams.h"
#include "strategies/training/step_prices.h"
#include "strategies/training/step_work.h"

namespace shardlab {

// One task of the pictured micro-batch.
struct StepSpan {
  std::string name;
  std::string stream;
  double start_us = 0.0;
  double end_us = 0.0;
};

// What a chain takes, in microseconds.
struct ChainTimes {
  double total_us = 0.0;
  ClassTimes kernels_us = {};
  std::map<std::string, double> exposed_us;  // how long kernels wait, by what they wait for
  ClassTimes contention_us = {};             // exposed_us["contention"] by the kernels that lose it
  double collectives_us = 0.0;     // all collectives, whether kernels wait for them or not
  double host_us = 0.0;            // how long kernels wait for the host to launch them
  std::vector<StepSpan> timeline;  // empty unless it was asked for
};

// The run, its work and its prices must outlive the chain.
class StepChain {
 public:
  StepChain(const StepWork& work, const StepPrices& prices, const std::vector<PricedBlock>& blocks);

  // Whether these passes gather weights and reduce gradients, whether the reductions begin behind
  // the whole pass, and whether gradients are added to those of the micro-batches before.
  struct Traffic {
    bool gathers = false;
    bool reduces = false;
    bool reduces_late = false;
    bool sums = false;
  };

  void forward(const std::vector<StepWork::Unit>& units, Traffic traffic);
  void backward(const std::vector<StepWork::Unit>& units, Traffic traffic);

  [[nodiscard]] ChainTimes times(bool with_timeline) const;

 private:
  struct Note {
    std::string name;
    ClassTimes kernels_us = {};
  };

  // Says that `us` of the compute stream were spent waiting for `task`.
  void attribute(double us, int task, ChainTimes& result) const;

  int add(std::string name, int stream, double us, std::vector<int> after,
          std::vector<ResourceUse> uses, const ClassTimes& kernels = {});
  // The task that runs these kernels. The host has issued the kernels before it, and takes its time
  // to issue these.
  int add_kernels(ClassTimes kernels, double share, int count, std::vector<int> after,
                  double share_of_memory = 1.0);
  // Adds the pieces of a pass. Returns the last task.
  int add_pieces(const std::vector<PricedPiece>& pieces, int gathered, std::size_t block,
                 bool copies);
  // Adds a collective of weights or gradients.
  int travel(Collective kind, int stream, double bytes, const GroupSpan& span, int after);
  int gather(std::size_t index, int after);
  void reduce(std::size_t index, int after);
  // Adds a unit's gradients, in bf16, to the sum of those before. Source: PyTorch 2.13.0,
  // torch/distributed/fsdp/_fully_shard/_fsdp_param.py, accumulate_unsharded_grad_if_needed().
  void sum_up(std::size_t index);

  // The bytes of a unit's weights that are gathered from other ranks, at `bytes` for each element.
  [[nodiscard]] double travelling(const RankBlock& block, double bytes) const;

  const StepWork& work_;
  const TrainingRun& run_;
  const StepPrices& prices_;
  const std::vector<PricedBlock>& blocks_;
  std::vector<FluidTask> tasks_;
  std::vector<Note> notes_;
  int last_compute_ = -1;
  int last_host_ = -1;
};

}  // namespace shardlab
