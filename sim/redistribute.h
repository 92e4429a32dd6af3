// Redistribution: plans the steps that take a tensor from one layout to another on one mesh, and
// prices them.
//
//   const RedistributionOptions options{.semantics = edge_semantics("v3")};
//   Redistributor redistributor(mesh, topology, options, collectives, kernels);
//   Plan plan = redistributor.plan(meta, from, to);        // steps, path, price
//   double us = redistributor.cost_us(meta, from, to);     // the price alone: tens of nanoseconds
//
// The cost is that of DTensor's redistribute_cost under the chosen semantics
// (sim/edge_semantics.h): 0 for an equal layout and, where the semantics say so, for a fully
// replicated source; infinite for what is impossible; otherwise the sum over the planner's steps,
// each priced from the bytes that the step before it leaves. The planner is the greedy one unless
// another is asked for. Layouts with a shard order other than the default, or with strided shards
// that encode one, are always planned by the graph planner. Source: PyTorch 2.13.0,
// redistribute_cost and _gen_transform_infos. Every thread needs a redistributor of its own,
// because the graph planner keeps a workspace.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "sim/plan.h"
#include "sim/planners/graph.h"
#include "sim/planners/merge.h"
#include "sim/remembered_steps.h"
#include "sim/transition.h"

namespace shardlab {

enum class PlannerKind : std::uint8_t { kGreedy, kGraph };
template <>
struct EnumNames<PlannerKind> {
  static constexpr std::string_view kKind = "planner";
  static constexpr std::array kNames = {Named{PlannerKind::kGreedy, "greedy"},
                                        Named{PlannerKind::kGraph, "graph"}};
};

// Whether consecutive collectives are merged onto registered flattened meshes: never; when a plan
// runs, as in DTensor, whose price stays that of the unmerged steps; or in the price as well.
enum class MergeMode : std::uint8_t { kOff, kExecute, kPrice };
template <>
struct EnumNames<MergeMode> {
  static constexpr std::string_view kKind = "merge";
  static constexpr std::array kNames = {Named{MergeMode::kOff, "off"},
                                        Named{MergeMode::kExecute, "execute"},
                                        Named{MergeMode::kPrice, "price"}};
};

struct RedistributionOptions {
  std::shared_ptr<const EdgeSemantics> semantics = edge_semantics("v3");
  PlannerKind planner = PlannerKind::kGreedy;
  MergeMode merge = MergeMode::kExecute;
  MergeRule merge_rule = MergeRule::kRuns;
  // False is the behaviour of PyTorch 2.13.0, which merges all-gathers without asking whether they
  // divide evenly (pytorch/pytorch#194457), and averages a sum that follows an average over one
  // rank.
  bool merge_checks_all_gather = true;
};

struct PlanOptions {
  std::optional<PlannerKind> planner;  // replaces the redistributor's planner
  std::int64_t rank = 0;  // index into the mesh of the rank whose logical shapes are set
  bool count_optimal_paths = false;
};

// One change of placement along one mesh dim, as a caller writes it down.
struct StepRequest {
  int mesh_dim;
  Placement from;
  Placement to;
  friend bool operator==(const StepRequest&, const StepRequest&) = default;
};

class Redistributor {
 public:
  // Keeps references to the models, which must outlive the redistributor.
  Redistributor(DeviceMesh mesh, const Topology& topology, const RedistributionOptions& options,
                const CostModel& collectives, const ComputeModel& kernels);
  Redistributor(const Redistributor&) = delete;
  Redistributor& operator=(const Redistributor&) = delete;

  [[nodiscard]] const DeviceMesh& mesh() const { return mesh_; }
  // The communicator of a step of one of this mesh's plans.
  [[nodiscard]] GroupSpan span(const PlanStep& step) const;
  [[nodiscard]] const TransitionPricer& pricer() const { return pricer_; }
  [[nodiscard]] const RedistributionOptions& options() const { return options_; }

  // The plan with its steps, path and price. Assumes layouts of this mesh whose shards name dims of
  // the tensor; throws ContractError for layouts of another mesh.
  [[nodiscard]] Plan plan(const TensorMeta& meta, const Layout& from, const Layout& to,
                          const PlanOptions& plan_options = {});
  // The price of the same plan; infinity when it is impossible.
  [[nodiscard]] double cost_us(const TensorMeta& meta, const Layout& from, const Layout& to);
  // The prices from one layout to many, in microseconds. With the graph planner this is much
  // cheaper than asking for them one by one. A price above `limit_us` may be given as infinity,
  // which saves the planner the way there.
  void costs_us(const TensorMeta& meta, const Layout& from, std::span<const Layout> to,
                std::span<double> out, double limit_us = kInfinity);

  // Asks the models for every price again from here on: their factors have changed
  // (costmodel/cost_factors.h). What the planner knows about the moves between layouts stays known.
  void forget_prices();

  // The price that another redistributor's plan has here, step by step as it runs, merged steps
  // included.
  [[nodiscard]] Price price_of(const Plan& plan) const { return repriced(plan).executed_price(); }
  // The same plan with the collectives, bytes and prices that its steps have here.
  [[nodiscard]] Plan repriced(const Plan& plan) const;

  // A plan of the given steps, merged as the options say and priced step by step. Throws TextError
  // when a step does not start from the layout that the step before it leaves.
  [[nodiscard]] Plan plan_of_steps(const TensorMeta& meta, const Layout& from,
                                   std::span<const StepRequest> steps, std::int64_t rank = 0);

 private:
  [[nodiscard]] bool merges_in_price() const {
    return options_.merge == MergeMode::kPrice && mesh_.has_flattened();
  }
  [[nodiscard]] std::optional<KnownPrice> known_price(const Layout& from, const Layout& to) const;
  [[nodiscard]] Bytes local_bytes(const TensorMeta& meta, const Layout& layout) const;
  [[nodiscard]] Price price_without_plan(const TensorMeta& meta, const Layout& from,
                                         const Layout& to) const;
  [[nodiscard]] double greedy_cost_us(const TensorMeta& meta, const Layout& from,
                                      const Layout& to) const;
  [[nodiscard]] double moves_cost_us(const TensorMeta& meta, const Layout& from,
                                     std::span<const GraphMove> moves) const;
  void add_greedy_steps(Plan& plan, std::int64_t rank) const;
  void add_graph_steps(Plan& plan, const Layout& to, std::int64_t rank, bool count_paths);
  // Sets the collective, the bytes and the price of every step; returns the sum of the prices.
  Price price_steps(Plan& plan) const;
  void price_and_merge(Plan& plan) const;

  DeviceMesh mesh_;
  Topology topology_;
  RedistributionOptions options_;
  TransitionPricer pricer_;
  bool follows_plan_;           // a copy of what the semantics say, for speed
  bool plans_cost_as_planned_;  // whether no plan has a price below what it costs the graph planner
  // The price of the path to each layout that an exploration reached: that of the path to the
  // layout before it, and of one step more. Paths share their beginnings, so each step is priced
  // once.
  struct PathPrice {
    Micros sum;
    Bytes local_bytes = 0.0;
    std::uint64_t made = 0;  // the partials that the path makes, as bits in made_partials_
    bool known = false;
  };
  const PathPrice& price_of_path(const TensorMeta& meta, const Layout& from, std::uint32_t node);
  // The bits of the partials that the layout has.
  [[nodiscard]] std::uint64_t partials_of(const Layout& layout) const;

  GraphPlanner graph_;
  RememberedSteps steps_;
  std::vector<PathPrice> path_prices_;    // by node of the last exploration
  std::vector<Placement> made_partials_;  // the partials that its paths make
  std::vector<std::uint32_t> path_;       // nodes whose price price_of_path() still has to find
};

// The layout after one change. In its shard order, the gap of a shard that disappears is closed,
// and a new shard is appended.
[[nodiscard]] Layout layout_after(const Layout& layout, int mesh_dim, const Placement& to);

}  // namespace shardlab
