// What the kernels and collectives of a step cost on one rank, and what they use meanwhile.
//
//   const StepModel model{*collectives, *kernels, topology, {}};
//   const StepPrices prices(run, model);
//   prices.kernel_us(kernel), prices.collective_us(collective)
//   const std::vector<PricedPiece> pieces = priced(block.forward, prices, false);
//
// Prices are those of the stack's models, divided by the factors of the cluster. All are
// microseconds.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "costmodel/compute_model.h"
#include "costmodel/cost_model.h"
#include "costmodel/topology.h"
#include "sim/flows/fluid_streams.h"
#include "sim/mesh.h"
#include "strategies/training/rank_work.h"
#include "strategies/training/training_run.h"

namespace shardlab {

// How far a cluster's steps are from the prices of the stack's models. The factors in the first
// group divide a price, so that 1 means that the models' prices hold. The values in the second
// group are what a step has when no stack says otherwise; their status is "assumed", since no
// source measures them. The stack `steps` replaces them by fitted ones (step_terms.h).
struct StepFactors {
  double rate = 1.0;       // Divides the time of every kernel.
  double gemm = 1.0;       // Divides the time of GEMMs in bf16.
  double low_gemm = 1.0;   // Divides the time of GEMMs in 8 and 4 bits.
  double grouped = 1.0;    // Divides the time of grouped GEMMs, on top of the two above.
  double attention = 1.0;  // Divides the time of attention.
  double memory = 1.0;     // Divides the time of all other kernels.
  double links = 1.0;      // Divides the time of transfers inside a scale-up domain.
  double network = 1.0;    // Divides the time of transfers between domains.

  // The host's time to launch one kernel. In eager mode PyTorch dispatches an operator in 5 to 10
  // us.
  double host_us = 5.0;
  // The share of the multiprocessors that a collective takes: NCCL's 16 or so channels occupy one
  // multiprocessor each, of the 108 to 148 that a GPU has.
  double collective_share = 0.1;
  // How often each byte that a collective moves passes the device's memory: it is read, staged in a
  // channel's buffer, and written.
  double memory_passes = 3.0;
  // What each doubling of the hosts adds to the step, as a share of it, since all wait for the
  // slowest.
  double waiting = 0.005;
  // What is added to each step for the optimizer's many launches, the data and the logging.
  double fixed_us = 10e3;
};

struct StepModel {
  const CostModel& collectives;
  const ComputeModel& kernels;
  const Topology& topology;
  StepFactors factors;
};

// The resources that tasks which run at once share (sim/flows/fluid_streams.h).
struct StepResource {
  static constexpr int kMultiprocessors = 0;
  static constexpr int kMemory = 1;  // The bandwidth of the device's memory.
  static constexpr int kLinks = 2;
  static constexpr int kNetwork = 3;
  static constexpr int kCount = 4;
};

// What the worst group spans if a step's `world` ranks form groups of this many ranks, this far
// apart (DeviceMesh::span). NVLink domains of several hosts are filled with whole groups alone.
[[nodiscard]] GroupSpan span_of(const LayoutMode& group, std::int64_t world,
                                const Topology& topology);

// The groups that a rank belongs to. Rank r sits on host r / devices_per_host, and the worst group
// of a kind is priced, since ranks wait for each other. A run takes as many devices of a domain as
// whole groups fill, as published runs do with ep=64: 64 of NVL72's 72. The neighbours are those in
// the pairs of stages 0 and 1, 2 and 3, and so on.
struct StepGroups {
  GroupSpan tensor;
  GroupSpan context;
  GroupSpan experts;
  GroupSpan shards;           // the ranks among which weights are sharded
  GroupSpan replicas;         // the ranks that hold replicas of a shard
  GroupSpan expert_shards;    // the ranks among which the experts' weights are sharded
  GroupSpan expert_replicas;  // the ranks that hold replicas of an experts' shard
  GroupSpan neighbours;       // two stages of the pipeline

  StepGroups(const TrainingRun& run, const Topology& topology);
};

// The prices of one run under one model. The model must outlive them.
class StepPrices {
 public:
  StepPrices(const TrainingRun& run, const StepModel& model);

  [[nodiscard]] const StepGroups& groups() const { return groups_; }
  [[nodiscard]] const StepFactors& factors() const { return model_.factors; }
  [[nodiscard]] const GroupSpan& span(WorkGroup group) const;

  [[nodiscard]] double kernel_us(const RankKernel& kernel) const;
  // The time of a kernel that does nothing but move `bytes` to and from the device's memory.
  [[nodiscard]] double memory_us(double bytes) const;
  [[nodiscard]] double collective_us(Collective kind, double bytes, const GroupSpan& span) const;
  [[nodiscard]] double collective_us(const RankCollective& collective) const;

  // What a collective of `bytes` that takes `us` uses of each resource.
  [[nodiscard]] std::vector<ResourceUse> uses(const GroupSpan& span, double bytes, double us) const;
  // The share of the memory's bandwidth that moving `bytes` in `us` needs, from 0 to 1.
  [[nodiscard]] double share_of_memory(double bytes, double us) const;

 private:
  const StepModel& model_;
  StepGroups groups_;
};

// Times by kind of kernel; the index is a KernelClass.
using ClassTimes = std::array<double, kKernelClasses>;

// A piece of a block with its prices: kernels, or a collective.
struct PricedPiece {
  ClassTimes kernels_us = {};
  int kernels = 0;
  double bytes = 0.0;               // how much the kernels read and write
  double share_of_memory = 0.0;     // the share of the memory's bandwidth that the kernels use
  double first_us = 0.0;            // the time of the GEMMs that the piece begins with
  double last_us = 0.0;             // the time of the GEMMs that it ends with
  double first_attention_us = 0.0;  // the time of the attention that it begins with
  double last_attention_us = 0.0;   // the time of the attention that it ends with
  bool is_collective = false;
  bool beside = false;
  bool leads = false;
  bool early = false;  // whether kernels run beside the collective up to the piece that waits
  bool waits = false;  // whether the kernels wait for the early collective before them
  double collective_us = 0.0;
  Collective kind = Collective::kLocal;
  WorkGroup group = WorkGroup::kNone;
  std::vector<ResourceUse> uses;

  // The time of its kernels that `collective` may run beside: GEMMs, or attention for a ring of
  // keys and values.
  [[nodiscard]] double first_beside(const PricedPiece& collective) const;
  [[nodiscard]] double last_beside(const PricedPiece& collective) const;
  // The time of all its kernels.
  [[nodiscard]] double us() const;
};

// With `library`, the product of each expert is a kernel of its own, as Transformer Engine launches
// it.
[[nodiscard]] std::vector<PricedPiece> priced(const std::vector<RankPiece>& pieces,
                                              const StepPrices& prices, bool library);

struct PricedBlock {
  std::vector<PricedPiece> forward;
  std::vector<PricedPiece> backward;
};

}  // namespace shardlab
