#include "strategies/select/flip_bounds.h"

#include <algorithm>
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/units.h"
#include "sim/plan_price.h"

namespace shardlab {
namespace {

// How much cheaper, relatively, another candidate may be in a proof. The search calls a candidate
// cheaper from 1e-12 on; the rest is for the rounding of its sums.
constexpr double kProof = 4e-13;
// Graphs of more layouts, and launch floors with more points at which a kernel leaves them, are
// left to the search.
constexpr double kMostLayouts = 1e5;
constexpr std::size_t kMostThresholds = 48;

// The ops of the partials in a layout, as bits; nothing if it has placements that the graphs here
// do not know.
std::optional<std::uint32_t> partials_of(const Placements& placements) {
  std::uint32_t ops = 0;
  for (const Placement& p : placements) {
    if (p.is_strided() || (p.is_partial() && p.kind() != Placement::Kind::kPartial)) {
      return std::nullopt;
    }
    if (p.is_partial()) ops |= 1U << static_cast<unsigned>(p.reduce_op());
  }
  return ops;
}

}  // namespace

void FlipBounds::begin(const PricedCall& question, std::size_t chosen) {
  question_.reset();
  spreads_.clear();
  inputs_.clear();
  ways_.clear();
  kernels_.reset();
  thresholds_.reset();
  known_.clear();
  chosen_ = chosen;
  factors_ = {};
  evaluator_.set_factors(factors_);
  if (prepare(question, chosen)) question_.emplace(question);
}

bool FlipBounds::prepare(const PricedCall& question, std::size_t chosen) {
  const Stack& stack = evaluator_.stack();
  Redistributor& redistributor = evaluator_.on(question.mesh);
  const EdgeSemantics& semantics = redistributor.pricer().semantics();
  const bool merges_in_price =
      stack.redistribution.merge == MergeMode::kPrice && question.mesh.has_flattened();
  // Plans that sum shards have infinite prices, which bend the wrong way; and what waiting for the
  // slowest rank adds need not be linear.
  if (stack.decisions != nullptr || stack.straggler.kind != StragglerKind::kNone ||
      stack.redistribution.planner != PlannerKind::kGraph || merges_in_price ||
      !semantics.follows_plan() || semantics.plans_sums_of_shards() ||
      !LayoutSpread::bounds_prices(redistributor.pricer())) {
    return false;
  }
  const std::vector<double>& totals = question.pricing.totals;
  const double least = *std::min_element(totals.begin(), totals.end());
  if (!(totals[chosen] <= least * (1.0 + kProof))) return false;
  for (std::size_t i = 0; i < question.expansion.inputs(); ++i) {
    if (!prepare_input(question, i)) return false;
  }
  if (!question.pricing.compute_us.empty()) {
    kernels_.emplace(question.rule, question.call, question.mesh, question.expansion,
                     evaluator_.compute_model(), stack.strided_kernels);
  }
  return prepare_choice(question, chosen);
}

bool FlipBounds::prepare_input(const PricedCall& question, std::size_t i) {
  const TensorSpec& tensor = *question.call.tensors()[i];
  const Expansion& expansion = question.expansion;
  const std::optional<std::uint32_t> own = partials_of(tensor.layout.placements);
  if (!own) return false;
  std::uint32_t partials = *own;
  Input input;
  input.current = expansion.current_code(i);
  input.codes = expansion.used_codes(i);
  std::vector<Layout> layouts;
  for (const std::uint32_t code : input.codes) {
    layouts.push_back(expansion.input_layout(i, code));
    const std::optional<std::uint32_t> ops = partials_of(layouts.back().placements);
    if (!ops) return false;
    partials |= *ops;
  }
  const LayoutGraph* graph = graph_of(question.mesh.ndim(), tensor.meta.ndim(), partials);
  if (graph == nullptr) return false;
  const std::optional<std::uint32_t> source = graph->find(tensor.layout);
  if (!source) return false;
  input.source = *source;
  for (const Layout& layout : layouts) {
    const std::optional<std::uint32_t> state = graph->find(layout);
    if (!state) return false;
    input.states.push_back(*state);
  }
  input.at_least.resize(expansion.codes(i));
  const auto alike = [&](const std::unique_ptr<Spread>& known) {
    return known->graph == graph && known->meta.bytes() == tensor.meta.bytes() &&
           known->meta.dtype == tensor.meta.dtype;
  };
  const auto known = std::find_if(spreads_.begin(), spreads_.end(), alike);
  input.spread = to_index(known - spreads_.begin());
  if (known == spreads_.end()) {
    const TransitionPricer& pricer = evaluator_.on(question.mesh).pricer();
    spreads_.push_back(
        std::make_unique<Spread>(Spread{tensor.meta, graph, LayoutSpread(*graph, pricer)}));
  }
  inputs_.push_back(std::move(input));
  return true;
}

bool FlipBounds::prepare_choice(const PricedCall& question, std::size_t chosen) {
  Redistributor& redistributor = evaluator_.on(question.mesh);
  const auto tensors = question.call.tensors();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const std::uint32_t code = question.expansion.code(chosen, i);
    if (code == inputs_[i].current) continue;
    const TensorSpec& tensor = *tensors[i];
    const Plan plan =
        redistributor.plan(tensor.meta, tensor.layout, question.expansion.input_layout(i, code));
    Way way{&tensor.meta, held_bytes(plan.meta, plan.from.placements, question.mesh), {}};
    for (const PlanStep& step : plan.steps) {
      if (step.is_merged()) return false;
      way.steps.push_back({step.from, step.to, step.mesh_dims.front()});
    }
    ways_.push_back(std::move(way));
  }
  const double total = question.pricing.totals[chosen];
  question_.emplace(question);
  const double bound = choice_at_most();
  question_.reset();
  return total < kInfinity && std::abs(bound - total) <= 1e-12 * std::abs(total);
}

const LayoutGraph* FlipBounds::graph_of(int mesh_ndim, int tensor_ndim, std::uint32_t partials) {
  const auto [slot, is_new] = graphs_.try_emplace({mesh_ndim, tensor_ndim, partials});
  if (!is_new) return slot->second.get();
  std::vector<Layout> layouts;
  for (unsigned op = 0; op < 8; ++op) {
    if ((partials >> op & 1U) == 0) continue;
    Layout layout = Layout::replicated(mesh_ndim);
    layout.placements[0] = Placement::partial(static_cast<ReduceOp>(op));
    layouts.push_back(layout);
  }
  const double kinds = 1.0 + tensor_ndim + static_cast<double>(layouts.size());
  if (std::pow(kinds, mesh_ndim) > kMostLayouts) return nullptr;
  slot->second = std::make_unique<LayoutGraph>(mesh_ndim, tensor_ndim, layouts);
  return slot->second.get();
}

double FlipBounds::choice_at_most() {
  const TransitionPricer& pricer = evaluator_.on(question_->mesh).pricer();
  double total = 0.0;
  for (const Way& way : ways_) {
    PlanPrice<Micros> price(way.local_bytes, way.meta->dtype);
    for (const Step& step : way.steps) {
      price.add_step(pricer, step.from, step.to, step.mesh_dim);
    }
    total += price.sum().value() + evaluator_.stack().transition_us;
  }
  return kernels_ ? total + kernels_->price(chosen_) : total;
}

bool FlipBounds::rule_out(const ScaledParameter& parameter, double end) {
  if (!question_) return false;
  if (parameter.factor != &CostFactors::launch) return holds_at(parameter, end);
  const std::vector<double>& all = thresholds();
  if (all.empty()) return true;  // no price depends on the launch floor
  const auto between = [&](double f) { return f > std::min(1.0, end) && f < std::max(1.0, end); };
  const auto knots = std::count_if(all.begin(), all.end(), between);
  if (to_index(knots) > kMostThresholds || !holds_at(parameter, end)) return false;
  return std::all_of(all.begin(), all.end(),
                     [&](double f) { return !between(f) || holds_at(parameter, f); });
}

// The points at which some kernel leaves the launch floor: of the candidates, and of every move
// between layouts.
const std::vector<double>& FlipBounds::thresholds() {
  if (thresholds_) return *thresholds_;
  thresholds_ = evaluator_.launch_thresholds([&] {
    for (const auto& spread : spreads_) spread->prices.begin(spread->meta);
    if (!kernels_) return;
    for (std::size_t c = 0; c < question_->expansion.size(); ++c) {
      static_cast<void>(kernels_->price(c));
    }
  });
  return *thresholds_;
}

bool FlipBounds::holds_at(const ScaledParameter& parameter, double f) {
  for (const auto& [of, factor, holds] : known_) {
    if (of == &parameter && factor == f) return holds;
  }
  factors_ = {};
  factors_.*parameter.factor = f;
  evaluator_.set_factors(factors_);
  const bool holds = compare();
  known_.emplace_back(&parameter, f, holds);
  return holds;
}

bool FlipBounds::compare() {
  const Expansion& expansion = question_->expansion;
  const Pricing& pricing = question_->pricing;
  const double transition_us = evaluator_.stack().transition_us;
  const double wanted = choice_at_most() * (1.0 - kProof);
  // A kernel takes at least its price at factor 1, times the factor if that is below 1.
  const double slowest = std::min(1.0, factors_.launch);
  double kernel = 0.0;
  if (kernels_) {
    kernel = kInfinity;
    for (std::size_t c = 0; c < expansion.size(); ++c) {
      if (pricing.totals[c] < kInfinity) kernel = std::min(kernel, pricing.compute_us[c]);
    }
    kernel *= slowest;
  }
  const double limit = wanted - kernel;
  for (const auto& spread : spreads_) spread->prices.begin(spread->meta);
  for (Input& input : inputs_) {
    const std::span<const double> charged =
        spreads_[input.spread]->prices.from(input.source, limit);
    for (std::size_t k = 0; k < input.codes.size(); ++k) {
      const std::uint32_t code = input.codes[k];
      // What is beyond the limit may cost little more than the limit.
      input.at_least[code] =
          code == input.current
              ? 0.0
              : std::min(charged[input.states[k]], std::max(limit, 0.0)) + transition_us;
    }
  }
  std::vector<Expansion::CodesOf> codes;
  for (std::size_t i = 0; i < inputs_.size(); ++i) codes.push_back(expansion.codes_of(i));
  for (std::size_t c = 0; c < expansion.size(); ++c) {
    if (c == chosen_ || !(pricing.totals[c] < kInfinity)) continue;
    double moves = 0.0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) moves += inputs_[i].at_least[codes[i][c]];
    if (moves >= limit) continue;
    if (!kernels_) return false;
    if (moves + slowest * pricing.compute_us[c] >= wanted) continue;
    if (factors_.launch == 1.0 || moves + kernels_->price(c) < wanted) return false;
  }
  return true;
}

}  // namespace shardlab
