// One sample call on a mesh of one dim, executed with its tensors in any placements:
//
//   SampleExecution execution(sample, 2, 6);           // 2 ranks, at least 6 data sets
//   execution.fault({inputs}, {outputs})               // "" if the op is right in these placements
//   execution.right_outputs({inputs})                  // by output: all placements that are right
//
// Every data set has made-up shards and contributions (proof_data.h), on which the reference kernel
// is run rank by rank; what it returns is judged (output_judge.h) by the kernel's result on the
// whole tensors. Placements are right when they are right for all data sets.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/mesh.h"
#include "sim/placement.h"
#include "sim/registered_placement.h"
#include "strategies/proof/op_execution.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/proof/op_sample.h"
#include "strategies/proof/output_judge.h"
#include "strategies/proof/proof_data.h"

namespace shardlab {

// A placement for each input, or for each output.
using Combination = std::vector<Placement>;

// A row as text, outputs and then inputs: "P(sum) | S(1), S(0)".
[[nodiscard]] std::string row_text(const Combination& outputs, const Combination& inputs);

// R, S(d) of every dim and the partials that can be made up for the tensor.
[[nodiscard]] std::vector<Placement> all_placements(const TensorMeta& meta);
// Samples of the entries that pass pointwise ops, for tensors of this shape.
[[nodiscard]] std::vector<Placement> registered_samples(
    std::span<const PlacementEntry* const> entries, const Shape& shape, std::int64_t ranks);

class SampleExecution {
 public:
  // Outputs are tried in samples of the `registered` placements too. Calls with small outputs get
  // more data sets, so that they are not right by coincidence. Throws InputError if the kernel
  // refuses the call. Assumes that the op has a kernel.
  SampleExecution(const SampleCall& sample, std::int64_t ranks, int data_sets,
                  std::span<const PlacementEntry* const> registered = {});

  [[nodiscard]] const OpCall& call() const { return sample_.call; }
  [[nodiscard]] const DeviceMesh& mesh() const { return mesh_; }
  [[nodiscard]] std::span<const TensorMeta> inputs() const { return metas_; }
  [[nodiscard]] std::span<const WholeOutput> outputs() const { return data_sets_[0].expected; }
  [[nodiscard]] std::int64_t elements() const;  // elements of all inputs
  [[nodiscard]] std::string text() const;       // the call, without layouts

  // For each output, the placements in which it is right. If no placement is right for one output,
  // the search ends there, and the lists of the other outputs may still hold wrong placements.
  [[nodiscard]] std::vector<std::vector<Placement>> right_outputs(const Combination& inputs);
  // The first failure of any output and data set; empty if there is none.
  [[nodiscard]] std::string fault(const Combination& inputs, const Combination& outputs);

 private:
  // What one rank holds of the inputs.
  struct PlacedInputs {
    std::vector<HostTensor> locals;  // by tensor
    std::vector<RowLists> rows;      // by tensor
  };
  struct DataSet {
    std::vector<Doubles> values;  // by tensor
    std::vector<WholeOutput> expected;
    std::vector<std::map<Placement, DistributedValues>> distributed;  // by tensor
    std::uint64_t seed;
    // The inputs of the last run of this data set. The next run mostly changes only one of them.
    Combination placements;
    std::vector<PlacedInputs> placed;  // by rank
  };
  struct LastRun {
    std::size_t set;
    Combination inputs;
    std::optional<Placement> output;
    RankResults results;
    std::vector<std::optional<OutputJudge>> judges;  // by output
  };

  void add_data_set(std::uint64_t seed);
  const DistributedValues& distributed(std::size_t set, std::size_t tensor, const Placement& p);
  // Runs the kernel on every rank. A kernel that must know its outputs' local shapes gets those
  // that this placement makes.
  LastRun& run(std::size_t set, const Combination& inputs, const Placement& output);
  void place(std::size_t set, const Combination& inputs);
  const OutputJudge& judge_of(LastRun& run, std::size_t output);
  [[nodiscard]] bool can_cut(const TensorMeta& meta, const Placement& p) const;
  // Whether verdict() finds no error, without the text that describes one.
  bool is_right(std::size_t set, const Combination& inputs, std::size_t output, const Placement& p);
  std::string verdict(std::size_t set, const Combination& inputs, std::size_t output,
                      const Placement& p);
  // What the ranks hold of each input, for calls that are small enough to be shown.
  std::string locals_text(std::size_t set, const Combination& inputs);

  SampleCall sample_;
  const OpKernel& kernel_;
  DeviceMesh mesh_;
  std::shared_ptr<HostMemory> memory_;
  std::vector<TensorMeta> metas_;                   // by tensor
  std::vector<std::vector<Placement>> candidates_;  // by output: the placements that are tried
  std::vector<DataSet> data_sets_;
  std::optional<LastRun> last_;
};

}  // namespace shardlab
