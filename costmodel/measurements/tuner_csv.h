// The file that NCCL's example of a tuner plugin reads (NCCL_TUNER_CONFIG_FILE): which algorithm
// and protocol to use for which sizes.
//
//   collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,
//   regBuff (all in one line)
//   allreduce,0,65536,tree,ll,-1,2,16,-1,-1
//
//   const std::vector<TunerRule> rules = read_tuner_csv(text, "tuner.conf");
//   const TunerRule* rule = find_rule(rules, TunerCollective::kAllReduce, 4096, 2, 16);
//   tuner_csv_text(tuner_rules(model, span))           // what a cost model would choose
//
// -1 means "any"; for channels it means NCCL's own choice. The first rule that matches applies. A
// plugin can't make NCCL take an algorithm that NCCL does not consider for the call. Source of the
// format: NVIDIA/nccl, ext-tuner/example (README and plugin.c, 2.27).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/measurements/measurement_set.h"
#include "costmodel/nccl_tuning.h"

namespace shardlab {

// The collectives of NCCL's tuner. `reduce` is not among shardlab's own collectives.
enum class TunerCollective : std::uint8_t {
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kAllReduce
};
template <>
struct EnumNames<TunerCollective> {
  static constexpr std::string_view kKind = "collective";
  static constexpr std::array kNames = {Named{TunerCollective::kBroadcast, "broadcast"},
                                        Named{TunerCollective::kReduce, "reduce"},
                                        Named{TunerCollective::kAllGather, "allgather"},
                                        Named{TunerCollective::kReduceScatter, "reducescatter"},
                                        Named{TunerCollective::kAllReduce, "allreduce"}};
};
[[nodiscard]] std::string_view to_string(TunerCollective collective);
// The tuner's name of a collective; nothing if NCCL does not ask its tuner about it.
[[nodiscard]] std::optional<TunerCollective> tuner_collective(Collective collective);

inline constexpr std::uint64_t kAnySize = ~std::uint64_t{0};

struct TunerRule {
  TunerCollective collective = TunerCollective::kAllReduce;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = kAnySize;  // included
  NcclAlgorithm algorithm = NcclAlgorithm::kRing;
  NcclProtocol protocol = NcclProtocol::kSimple;
  std::int64_t channels = -1;
  std::int64_t nodes = -1;
  std::int64_t ranks = -1;
  std::int64_t pipe_ops = -1;
  std::int64_t registered = -1;  // whether buffers are registered: 0, 1, or -1 for any

  friend bool operator==(const TunerRule&, const TunerRule&) = default;
};

// Throws ConfigError with the line, what was found and what is valid.
[[nodiscard]] std::vector<TunerRule> read_tuner_csv(std::string_view text, std::string_view file);
[[nodiscard]] std::string tuner_csv_text(std::span<const TunerRule> rules);

[[nodiscard]] const TunerRule* find_rule(std::span<const TunerRule> rules,
                                         TunerCollective collective, std::uint64_t bytes,
                                         std::int64_t nodes, std::int64_t ranks);

// What a model that weighs alternatives chooses for each collective among these ranks, by size;
// empty for a model that has one formula. A rule ends exactly at the byte where the choice changes.
// A change that is reversed within an eighth of an octave is missed.
[[nodiscard]] std::vector<TunerRule> tuner_rules(const CostModel& model, const GroupSpan& span);
// The model's choice for one query; nothing if the model weighs no algorithm of NCCL.
struct NcclDecision {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  friend bool operator==(const NcclDecision&, const NcclDecision&) = default;
};
[[nodiscard]] std::optional<NcclDecision> decision_of(const CostModel& model,
                                                      const CollectiveQuery& query);

// What NCCL chose in a measured run; empty if its rows do not say. The choice for a size holds up
// to the next size that was measured.
[[nodiscard]] std::vector<TunerRule> tuner_rules_of(const MeasurementSet& set);

}  // namespace shardlab
