// Which groups a mesh needs, and for which of them there are measured rows.
//
//   const std::vector<MeshGroup> groups = mesh_groups(mesh, topology, measured);
//   groups[0].text()       // "8 ranks on 1 host"
//   groups[0].ranges[1]    // the sizes at which all_reduce was measured; nothing: it was not
//
// It also says which of the prices that a command prints are carried over from other groups or
// sizes than those that were measured: basis_of() for one plan, GapNotes for all that a model was
// asked.
//
// The groups are those along each mesh dim of more than one rank, and the whole mesh if it has
// several such dims. Tested by tests/cli/calibrate_test.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/measured_ranges.h"
#include "costmodel/topology.h"
#include "reports/records/price_basis.h"
#include "runner/base/text_style.h"
#include "sim/mesh.h"
#include "sim/plan.h"
#include "sim/redistribute.h"

namespace shardlab {

// The collectives that plans consist of.
inline constexpr std::array kPlannedCollectives = {Collective::kAllGather, Collective::kAllReduce,
                                                   Collective::kReduceScatter,
                                                   Collective::kAllToAll};

// "80 ranks on 10 hosts".
[[nodiscard]] std::string group_text(std::int64_t ranks, std::int64_t hosts);

struct SizeRange {
  Bytes smallest = 0.0;
  Bytes largest = 0.0;
};

struct MeshGroup {
  std::string along;  // "dp", "mesh dim 0" or "the whole mesh"
  std::vector<int> mesh_dims;
  GroupSpan span;
  // In the order of kPlannedCollectives.
  std::array<std::optional<SizeRange>, kPlannedCollectives.size()> ranges;

  [[nodiscard]] std::string text() const { return group_text(span.ranks, span.hosts); }
};

[[nodiscard]] std::vector<MeshGroup> mesh_groups(const DeviceMesh& mesh, const Topology& topology,
                                                 const MeasuredRanges& measured);
// One object for each group and collective; its sizes are null where nothing was measured.
[[nodiscard]] nlohmann::json mesh_groups_json(const std::vector<MeshGroup>& groups);
// A table of groups by collectives, and a sentence that counts those that were not measured.
[[nodiscard]] std::string mesh_groups_text(const std::vector<MeshGroup>& groups,
                                           const DeviceMesh& mesh, const Topology& topology,
                                           const TextStyle& style);

// What the prices of a plan's steps rest on. Nothing if the model of the collectives has no
// measured rows.
[[nodiscard]] std::optional<reports::PriceBasis> basis_of(const Plan& plan,
                                                          const Redistributor& redistributor,
                                                          const MeasuredRanges& measured);
// Passes questions on to another model, and notes what its rows lack for them. Keeps a reference.
class GapNotes final : public CostModel {
 public:
  explicit GapNotes(const CostModel& model) : model_(model), measured_(model.measured()) {}

  [[nodiscard]] Price price(const CollectiveQuery& query) const override;
  [[nodiscard]] std::vector<Alternative> alternatives(const CollectiveQuery& query) const override {
    return model_.alternatives(query);
  }
  [[nodiscard]] std::optional<double> log_error(const CollectiveQuery& query) const override {
    return model_.log_error(query);
  }
  [[nodiscard]] double error_correlation(const CollectiveQuery& a,
                                         const CollectiveQuery& b) const override {
    return model_.error_correlation(a, b);
  }
  [[nodiscard]] std::vector<MeasuredRange> measured() const override { return model_.measured(); }
  // Each gap once, in the order of the questions; none for a model without measured rows.
  [[nodiscard]] std::vector<std::string> not_measured() const;

 private:
  const CostModel& model_;
  MeasuredRanges measured_;
  mutable std::mutex mutex_;
  mutable std::vector<std::string> gaps_;
};

// Which prices are carried over, as the end of a sentence; "" if every step was measured.
[[nodiscard]] std::string carried_over_text(const std::vector<std::string>& not_measured);

}  // namespace shardlab
