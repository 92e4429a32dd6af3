#include "sim/redistribute.h"

#include <algorithm>
#include <map>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/units.h"
#include "sim/plan_price.h"
#include "sim/planners/graph_spread.h"
#include "sim/planners/greedy.h"
#include "sim/planners/registered.h"

namespace shardlab {
namespace {

constexpr std::string_view kNoPath = "no sequence of steps reaches the target layout";

// The logical shape on each mesh dim for one rank: the global shape after the plain shards of the
// mesh dims outside of it.
std::vector<Shape> greedy_logical_shapes(const Plan& plan, const DeviceMesh& mesh,
                                         std::span<const std::int64_t> coordinate) {
  std::vector<Shape> shapes = {plan.meta.shape};
  for (int i = 0; i + 1 < mesh.ndim(); ++i) {
    Shape next = shapes.back();
    const Placement& p = plan.from[i];
    if (p.is_shard()) {
      std::int64_t& extent = next[to_index(p.dim())];
      extent = chunk_of(extent, mesh.size(i), coordinate[to_index(i)]).size;
    }
    shapes.push_back(next);
  }
  return shapes;
}

// The global shape after the shards of all other mesh dims, in shard order.
Shape logical_shape_without(const Shape& shape, const Layout& layout, int mesh_dim,
                            const DeviceMesh& mesh, std::span<const std::int64_t> coordinate) {
  Layout others = layout;
  others.placements[to_index(mesh_dim)] = Placement::replicate();
  return local_shape(shape, others, mesh, coordinate);
}

// The reduce ops of a layout's partials, one bit for each.
unsigned reduce_ops(const Layout& layout) {
  unsigned ops = 0;
  for (const Placement& p : layout.placements) {
    if (p.is_partial()) ops |= 1U << static_cast<unsigned>(p.reduce_op());
  }
  return ops;
}

// The two ends of a redistribution as the graph planner takes them, with strided shards decoded
// where they encode a shard order.
struct GraphEnds {
  Layout from;
  Layout to;
};

// The ends between which the graph planner plans; nothing when the greedy planner plans. This is no
// member of the redistributor, so that only the planner that was asked for can decide.
std::optional<GraphEnds> graph_ends(const Layout& from, const Layout& to, PlannerKind planner,
                                    const DeviceMesh& mesh, const EdgeSemantics& semantics) {
  const bool strided = from.has_strided() || to.has_strided();
  if (!strided) {
    const bool asks_for_graph =
        planner == PlannerKind::kGraph || !from.has_default_order() || !to.has_default_order();
    return asks_for_graph ? std::optional<GraphEnds>({from, to}) : std::nullopt;
  }
  const auto end_of = [&](const Layout& layout) {
    return layout.encodes_order() ? decode_strided_as_order(layout, mesh) : layout;
  };
  const std::optional<Layout> source = end_of(from);
  const std::optional<Layout> target = end_of(to);
  if (source && target) return GraphEnds{*source, *target};
  // For a strided shard whose order is unknown, DTensor uses the greedy planner, which may gather a
  // mesh dim under a strided shard that was cut from it, and so scramble the rows. The graph
  // planner treats such a shard as a kind of placement of its own.
  if (planner == PlannerKind::kGraph && semantics.prices_strided_shards()) {
    return GraphEnds{from, to};
  }
  return std::nullopt;
}

std::string why_unexecutable(const PlanStep& step) {
  if ((step.from.is_registered() || step.to.is_registered()) && !is_one_step(step.from, step.to)) {
    return step.from.text() + "->" + step.to.text() + " can't run in one step; the way over R does";
  }
  if (step.from.is_replicate() && step.to.kind() == Placement::Kind::kPartial) {
    const ReduceOp op = step.to.reduce_op();
    if (op == ReduceOp::kProduct || op == ReduceOp::kBand || op == ReduceOp::kBor ||
        op == ReduceOp::kBxor) {
      return "R->" + step.to.text() +
             " can't be built: a value can be partitioned only for sum, avg, max and min";
    }
  }
  if (step.from.is_strided() && step.to.is_partial()) {
    return step.from.text() + "->" + step.to.text() + " can't run: a shard can't become a partial";
  }
  if (step.from.is_partial() && step.to.is_partial()) {
    return step.from.text() + "->" + step.to.text() +
           " is refused by the executor since pytorch/pytorch#172041";
  }
  return "";
}

}  // namespace

Layout layout_after(const Layout& layout, int mesh_dim, const Placement& to) {
  Layout next = layout;
  const Placement from = layout[mesh_dim];
  if (from.is_shard_like()) {
    const int gap = layout.order.position(mesh_dim);
    for (int i = 0; i < layout.ndim(); ++i) {
      if (i != mesh_dim && layout[i].is_shard_like() && layout[i].dim() == from.dim() &&
          layout.order.position(i) > gap) {
        next.order.set(i, layout.order.position(i) - 1);
      }
    }
  }
  int position = 0;
  if (to.is_shard_like()) {
    for (int i = 0; i < layout.ndim(); ++i) {
      if (i != mesh_dim && layout[i].is_shard_like() && layout[i].dim() == to.dim()) ++position;
    }
  }
  next.placements[to_index(mesh_dim)] = to;
  next.order.set(mesh_dim, position);
  return next;
}

Redistributor::Redistributor(DeviceMesh mesh, const Topology& topology,
                             const RedistributionOptions& options, const CostModel& collectives,
                             const ComputeModel& kernels)
    : mesh_(std::move(mesh)),
      topology_(topology),
      options_(options),
      pricer_(mesh_, topology_, options_.semantics, collectives, kernels),
      follows_plan_(options_.semantics->follows_plan()),
      plans_cost_as_planned_(LayoutSpread::bounds_prices(pricer_)),
      graph_(pricer_),
      steps_(pricer_) {}

std::optional<KnownPrice> Redistributor::known_price(const Layout& from, const Layout& to) const {
  if (from == to) return KnownPrice{};
  return pricer_.semantics().known_price(from.placements, to.placements,
                                         from.encodes_order() || to.encodes_order());
}

Bytes Redistributor::local_bytes(const TensorMeta& meta, const Layout& layout) const {
  return held_bytes(meta, layout.placements, mesh_);
}

Price Redistributor::price_without_plan(const TensorMeta& meta, const Layout& from,
                                        const Layout& to) const {
  return shardlab::price_without_plan<Price>(
      pricer_.semantics(), pricer_, meta, local_bytes(meta, from), from.placements, to.placements);
}

double Redistributor::greedy_cost_us(const TensorMeta& meta, const Layout& from,
                                     const Layout& to) const {
  const std::int64_t shards = num_shards(from.placements, mesh_, true);
  PlanPrice<Micros> price(meta.bytes() / static_cast<double>(shards), meta.dtype);
  for_each_greedy_step(from.placements, to.placements, shards > 1,
                       [&](int mesh_dim, const Placement& a, const Placement& b) {
                         price.add_step(pricer_, a, b, mesh_dim);
                       });
  return price.sum().value();
}

double Redistributor::moves_cost_us(const TensorMeta& meta, const Layout& from,
                                    std::span<const GraphMove> moves) const {
  PlanPrice<Micros> price(local_bytes(meta, from), meta.dtype);
  for (const GraphMove& move : moves) {
    price.add_step(pricer_, move.from, move.to, move.mesh_dim);
  }
  return price.sum().value();
}

// There are eight reduce ops, and few mask and norm partials. If there were ever more kinds than
// bits, the last bit would belong to no layout, so that such paths would count as foreign.
constexpr std::size_t kMostPartials = 63;

std::uint64_t Redistributor::partials_of(const Layout& layout) const {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < made_partials_.size(); ++i) {
    const bool has = std::find(layout.placements.begin(), layout.placements.end(),
                               made_partials_[i]) != layout.placements.end();
    if (has) bits |= std::uint64_t{1} << i;
  }
  return bits;
}

const Redistributor::PathPrice& Redistributor::price_of_path(const TensorMeta& meta,
                                                             const Layout& from,
                                                             std::uint32_t node) {
  const std::uint32_t target = node;
  path_.clear();
  while (!path_prices_[node].known) {
    path_.push_back(node);
    const std::uint32_t before = graph_.arrival(node).before;
    if (before == GraphPlanner::kNoNode) break;
    node = before;
  }
  for (; !path_.empty(); path_.pop_back()) {
    PathPrice& here = path_prices_[path_.back()];
    const GraphPlanner::Arrival step = graph_.arrival(path_.back());
    if (step.before == GraphPlanner::kNoNode) {
      here = {.sum = {}, .local_bytes = local_bytes(meta, from), .made = 0, .known = true};
      continue;
    }
    const PathPrice& before = path_prices_[step.before];
    PlanPrice<Micros> price(before.local_bytes, meta.dtype, before.sum);
    price.add_step(steps_, step.from, step.to, step.mesh_dim);
    here = {
        .sum = price.sum(), .local_bytes = price.local_bytes(), .made = before.made, .known = true};
    if (!step.to.is_partial()) continue;
    auto made = std::find(made_partials_.begin(), made_partials_.end(), step.to);
    const auto bit = static_cast<std::size_t>(made - made_partials_.begin());
    if (made == made_partials_.end() && bit < kMostPartials) made_partials_.push_back(step.to);
    here.made |= std::uint64_t{1} << std::min(bit, kMostPartials);
  }
  return path_prices_[target];
}

double Redistributor::cost_us(const TensorMeta& meta, const Layout& from, const Layout& to) {
  if (is_edge_of_registered(from, to)) [[unlikely]] {
    return plan(meta, from, to).price.total.value();
  }
  if (const std::optional<KnownPrice> known = known_price(from, to)) return known->cost_us;
  if (!follows_plan_) return price_without_plan(meta, from, to).total.value();
  if (merges_in_price()) {
    const Plan whole = plan(meta, from, to);
    return whole.price.total.value();
  }
  const std::optional<GraphEnds> ends =
      graph_ends(from, to, options_.planner, mesh_, pricer_.semantics());
  if (!ends) return greedy_cost_us(meta, from, to);
  const GraphSearchResult result = graph_.search(meta, ends->from, ends->to);
  return result.found ? moves_cost_us(meta, ends->from, result.moves) : kInfinity;
}

void Redistributor::costs_us(const TensorMeta& meta, const Layout& from, std::span<const Layout> to,
                             std::span<double> out, double limit_us) {
  SHARDLAB_CHECK(to.size() == out.size(), to.size(), " layouts, ", out.size(), " prices");
  // One exploration pays when it replaces many searches. Strided layouts are searched one by one.
  const bool explore = options_.planner == PlannerKind::kGraph && follows_plan_ &&
                       !merges_in_price() && to.size() > 4 && !from.has_strided() &&
                       !from.has_registered();
  std::vector<Placement> targets;
  const auto add_partials = [&](const Layout& layout) {
    for (const Placement& p : layout.placements) {
      if (p.is_partial()) targets.push_back(p);
    }
  };
  // The sums of a plan's price and of the planner's cost may be rounded differently.
  constexpr double kRounding = 1 + 1e-9;
  const double limit = plans_cost_as_planned_ ? limit_us * kRounding : kInfinity;
  const auto explore_targets = [&] {
    graph_.explore(meta, from, targets, limit);
    path_prices_.assign(graph_.nodes(), {});
    made_partials_.clear();
  };
  if (explore) {
    for (const Layout& layout : to) add_partials(layout);
    explore_targets();
  }
  // An exploration serves all targets, so it makes no sums that only one of them asks for.
  const auto asks_for_sums = [&](const Layout& layout) {
    return pricer_.semantics().plans_sums_of_shards() &&
           std::find(layout.placements.begin(), layout.placements.end(), Placement::partial()) !=
               layout.placements.end();
  };
  // All lookups come first, because a separate search ends the exploration.
  std::vector<std::size_t> alone;
  // Targets whose path leads over a partial that only other targets have, by the reduce ops of
  // their own partials. Those with the same ops have one exploration more.
  std::map<unsigned, std::vector<std::size_t>> again;
  // Writes the price of the path to a target. Returns false if that path is not the target's own.
  const auto look_up = [&](std::size_t i) {
    const std::uint32_t node = graph_.node_of(to[i]);
    out[i] = kInfinity;
    if (node == GraphPlanner::kNoNode) return true;
    const PathPrice& path = price_of_path(meta, from, node);
    out[i] = path.sum.value();
    return path.made == 0 || (path.made & ~(partials_of(from) | partials_of(to[i]))) == 0;
  };
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (const std::optional<KnownPrice> known = known_price(from, to[i])) {
      out[i] = known->cost_us;
    } else if (!explore || to[i].has_strided() || to[i].has_registered() || asks_for_sums(to[i])) {
      alone.push_back(i);
    } else if (!look_up(i)) {
      again[reduce_ops(to[i])].push_back(i);
    }
  }
  for (const auto& [ops, group] : again) {
    if (group.size() <= 2) {
      alone.insert(alone.end(), group.begin(), group.end());
      continue;
    }
    targets.clear();
    for (const std::size_t i : group) add_partials(to[i]);
    explore_targets();
    for (const std::size_t i : group) {
      if (!look_up(i)) alone.push_back(i);
    }
  }
  for (const std::size_t i : alone) out[i] = cost_us(meta, from, to[i]);
}

void Redistributor::forget_prices() {
  graph_.forget_prices();
  steps_.forget();
}

void Redistributor::add_greedy_steps(Plan& plan, std::int64_t rank) const {
  const std::vector<std::int64_t> coordinate = mesh_.coordinate(rank);
  const bool is_sharded = num_shards(plan.from.placements, mesh_, true) > 1;
  Layout layout = plan.start;
  const auto add = [&](int mesh_dim, const Placement& from, const Placement& to,
                       const Shape& logical_shape) {
    layout = layout_after(layout, mesh_dim, to);
    PlanStep step;
    step.mesh_dims = {mesh_dim};
    step.from = from;
    step.to = to;
    step.logical_shape = logical_shape;
    step.after = layout;
    plan.steps.push_back(std::move(step));
  };
  if (is_edge_of_registered(plan.from, plan.to)) [[unlikely]] {
    for_each_registered_step(
        plan.from.placements, plan.to.placements, is_sharded,
        [&](int mesh_dim, const Placement& from, const Placement& to) {
          add(mesh_dim, from, to,
              logical_shape_without(plan.meta.shape, layout, mesh_dim, mesh_, coordinate));
        });
    return;
  }
  const std::vector<Shape> shapes = greedy_logical_shapes(plan, mesh_, coordinate);
  for_each_greedy_step(plan.from.placements, plan.to.placements, is_sharded,
                       [&](int mesh_dim, const Placement& from, const Placement& to) {
                         add(mesh_dim, from, to, shapes[to_index(mesh_dim)]);
                       });
}

void Redistributor::add_graph_steps(Plan& plan, const Layout& to, std::int64_t rank,
                                    bool count_paths) {
  const GraphSearchResult result = graph_.search(plan.meta, plan.start, to, count_paths);
  if (!result.found) {
    plan.impossible = kNoPath;
    return;
  }
  plan.optimal_paths = result.optimal_paths;
  const std::vector<std::int64_t> coordinate = mesh_.coordinate(rank);
  Layout before = plan.start;
  for (const GraphMove& move : result.moves) {
    PlanStep step;
    step.mesh_dims = {move.mesh_dim};
    step.from = move.from;
    step.to = move.to;
    step.logical_shape =
        logical_shape_without(plan.meta.shape, before, move.mesh_dim, mesh_, coordinate);
    step.after = move.after;
    step.after.own_strided = plan.start.own_strided;
    before = move.after;
    plan.steps.push_back(std::move(step));
  }
}

GroupSpan Redistributor::span(const PlanStep& step) const {
  if (!step.is_merged()) return pricer_.span(step.mesh_dims.front());
  MeshLayout layout;
  for (const int dim : step.mesh_dims) layout = layout.concatenate(mesh_.layout(dim));
  return mesh_.span(layout.coalesce(), pricer_.span(step.mesh_dims.front()).walk, topology_);
}

Price Redistributor::price_steps(Plan& plan) const {
  PlanPrice<Price> price(local_bytes(plan.meta, plan.from), plan.meta.dtype);
  for (PlanStep& step : plan.steps) {
    const PricedTransition priced =
        step.is_merged() ? price.add_step(pricer_, step.from, step.to, span(step))
                         : price.add_step(pricer_, step.from, step.to, step.mesh_dims.front());
    step.collective = priced.collective;
    step.full_bytes = priced.full_bytes;
    step.price = priced.price;
  }
  return price.sum();
}

// Prices the steps as planned, then merges them into the steps that run.
void Redistributor::price_and_merge(Plan& plan) const {
  plan.price = price_steps(plan);
  for (const PlanStep& step : plan.steps) {
    if (plan.unexecutable.empty()) plan.unexecutable = why_unexecutable(step);
  }
  if (plan.unexecutable.empty() && has_mixed_partials(plan.to.placements)) {
    plan.unexecutable = plan.to.text() +
                        " mixes partials of different kinds, which DTensor's executor refuses "
                        "(\"Mixed Partial reduce types are not supported\")";
  }
  if (options_.merge == MergeMode::kOff || plan.steps.size() < 2) return;
  MergeResult merged = merge_steps(plan.steps, mesh_,
                                   {.rule = options_.merge_rule,
                                    .mends_faults = options_.merge_checks_all_gather,
                                    .shape = plan.meta.shape});
  plan.warnings = std::move(merged.warnings);
  if (merged.steps.size() == plan.steps.size()) return;
  plan.steps = std::move(merged.steps);
  const Price merged_price = price_steps(plan);
  if (options_.merge == MergeMode::kPrice) plan.price = merged_price;
}

Plan Redistributor::plan(const TensorMeta& meta, const Layout& from, const Layout& to,
                         const PlanOptions& plan_options) {
  SHARDLAB_CHECK(from.ndim() == mesh_.ndim() && to.ndim() == mesh_.ndim(), "layouts ", from.text(),
                 " and ", to.text(), " on mesh ", mesh_.text());
  const bool of_registered = is_edge_of_registered(from, to);
  Plan plan(meta, from, to);
  if (of_registered) [[unlikely]] {
    expect_registered(meta, from, mesh_);
    expect_registered(meta, to, mesh_);
    if (from != to) plan.impossible = why_unplanned(from, to);
    if (!plan.impossible.empty()) {
      plan.price = Price::make_impossible("a registered placement beside an unusual shard order");
      return plan;
    }
  }
  const PlannerKind planner = plan_options.planner.value_or(options_.planner);
  const std::optional<GraphEnds> ends =
      of_registered ? std::nullopt : graph_ends(from, to, planner, mesh_, pricer_.semantics());
  if (ends) plan.start = ends->from;
  plan.start.own_strided |= to.own_strided;
  if (from == to) {
    // No step is needed.
  } else if (ends) {
    add_graph_steps(plan, ends->to, plan_options.rank, plan_options.count_optimal_paths);
  } else {
    add_greedy_steps(plan, plan_options.rank);
  }
  price_and_merge(plan);
  const std::optional<KnownPrice> known = known_price(from, to);
  if (known) {
    plan.price = Price::of(Micros(known->cost_us), Micros());
    plan.price.impossible = known->reason;
    plan.runs_unpriced = !plan.price.is_possible() && plan.impossible.empty() &&
                         (from.encodes_order() || to.encodes_order()) &&
                         plan.executed_price().is_possible();
  } else if (!follows_plan_) {
    plan.price = price_without_plan(meta, from, to);
  }
  if ((known || !follows_plan_) && !plan.impossible.empty()) {
    plan.unexecutable = plan.impossible;  // the cost function never asked the planner
    plan.impossible.clear();
  }
  if (plan.impossible.empty()) {
    plan.impossible = plan.price.impossible;
  } else {
    plan.price = Price::make_impossible(kNoPath);
  }
  return plan;
}

Plan Redistributor::repriced(const Plan& plan) const {
  Plan copy = plan;
  price_steps(copy);
  return copy;
}

Plan Redistributor::plan_of_steps(const TensorMeta& meta, const Layout& from,
                                  std::span<const StepRequest> steps, std::int64_t rank) {
  Plan plan(meta, from, from);
  expect_registered(meta, from, mesh_);
  const std::vector<std::int64_t> coordinate = mesh_.coordinate(rank);
  // The steps of a strided shard that encodes an order may be those of plain shards in that order.
  const auto first = std::find_if(steps.begin(), steps.end(), [&](const StepRequest& request) {
    const int m = request.mesh_dim;
    return m >= 0 && m < mesh_.ndim() && from[m].is_strided();
  });
  if (from.encodes_order() && first != steps.end() && first->from.is_shard()) {
    plan.start = decode_strided_as_order(from, mesh_).value_or(from);
  }
  Layout layout = plan.start;
  for (const StepRequest& request : steps) {
    if (request.mesh_dim < 0 || request.mesh_dim >= mesh_.ndim() ||
        layout[request.mesh_dim] != request.from) {
      throw TextError("step", request.from.text() + "->" + request.to.text(), 0,
                      "a step from the layout before it, " + layout.text());
    }
    PlanStep step;
    step.mesh_dims = {request.mesh_dim};
    step.from = request.from;
    step.to = request.to;
    step.logical_shape =
        logical_shape_without(meta.shape, layout, request.mesh_dim, mesh_, coordinate);
    layout = layout_after(layout, request.mesh_dim, request.to);
    expect_registered(meta, layout, mesh_);
    step.after = layout;
    plan.steps.push_back(std::move(step));
  }
  plan.to = layout;
  price_and_merge(plan);
  plan.impossible = plan.price.impossible;
  return plan;
}

}  // namespace shardlab
