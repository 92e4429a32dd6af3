#include "strategies/select/evaluator.h"

#include <algorithm>
#include <limits>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/units.h"
#include "costmodel/price_watch.h"
#include "sim/plan_price.h"
#include "strategies/rules/kernel_traffic.h"
#include "strategies/rules/registered_rows.h"
#include "strategies/select/decision_source.h"
#include "strategies/select/expansion_ties.h"
#include "strategies/select/kernel_prices.h"
#include "strategies/select/leaders.h"

namespace shardlab {
namespace {

// A listed candidate takes some 600 bytes, so that a list takes at most 2.6 GB.
constexpr std::size_t kMostListed = std::size_t{1} << 22U;

// Prices one input's layouts in default shard order under the greedy planner. The prices are those
// of Redistributor::cost_us, but for all layouts at once.
//
// The planner changes one mesh dim after another, from the innermost outwards when the source has
// shards, otherwise inwards. The price of a step depends on its own change and on the bytes that
// the steps before it left. There are few such amounts of bytes: after each mesh dim they are
// numbered, and a step is priced once for each of them. Layouts that agree on the mesh dims that
// are changed first share the sum of those steps, so these sums are kept in a table that is indexed
// by the digits of those mesh dims.
class GreedyPrices {
 public:
  // Whether the redistributor prices these layouts in this way.
  static bool apply(const Redistributor& redistributor, const Layout& from,
                    std::span<const Placement> digits) {
    const RedistributionOptions& options = redistributor.options();
    const auto unusual = [](const Placement& p) { return p.is_strided() || p.is_registered(); };
    return options.planner == PlannerKind::kGreedy && options.semantics->follows_plan() &&
           options.merge != MergeMode::kPrice && !digits.empty() && from.has_default_order() &&
           !from.has_strided() && !from.has_registered() &&
           std::none_of(digits.begin(), digits.end(), unusual);
  }

  GreedyPrices(const Redistributor& redistributor, const TensorSpec& tensor,
               std::span<const Placement> digits)
      : pricer_(redistributor.pricer()),
        ndim_(redistributor.mesh().ndim()),
        dtype_(tensor.meta.dtype),
        from_(tensor.layout.placements),
        digits_(digits.begin(), digits.end()),
        radix_(static_cast<std::uint32_t>(digits.size())) {
    const std::int64_t shards = num_shards(from_, redistributor.mesh(), true);
    outwards_ = shards > 1 && ndim_ > 1;
    const auto replicate = std::find(digits_.begin(), digits_.end(), Placement::replicate());
    replicate_ = static_cast<std::uint32_t>(replicate - digits_.begin());
    if (replicate == digits_.end()) digits_.push_back(Placement::replicate());
    amounts_.assign(1, tensor.meta.bytes() / static_cast<double>(shards));
    sums_.assign(1, {});
    for (int turn = 0; turn + 1 < ndim_; ++turn) {
      price_turn(turn);
      sum_up();
    }
    price_turn(ndim_ - 1);
  }

  // Writes the prices of the layouts behind these codes, which are ascending.
  void price(std::span<const std::uint32_t> codes, std::span<double> prices) const {
    price_group({}, codes, prices);
  }

 private:
  struct Step {
    double price = 0.0;
    std::uint32_t amount = 0;  // index in amounts_ of the bytes that the step leaves
  };
  using Sum = Step;  // several steps together
  // What is known of a code from its digits on the first mesh dims.
  struct Head {
    int mesh_dims = 0;
    std::uint32_t code = 0;  // the number that the digits make
    std::uint32_t sum = 0;   // what the digits add to the position of the code's sum
    std::uint32_t last = 0;  // the digit of the mesh dim that is changed last
    std::uint32_t misaligned =
        0;  // tensor dims that these mesh dims shard either before or after, but not both
    std::uint32_t detours = 0;  // mesh dims that are replicated on the way
  };

  [[nodiscard]] int mesh_dim_at(int turn) const { return outwards_ ? ndim_ - 1 - turn : turn; }
  // How many digits there are, including R, which may be an intermediate placement.
  [[nodiscard]] std::uint32_t digit_count() const {
    return static_cast<std::uint32_t>(digits_.size());
  }
  static std::uint32_t power(std::uint32_t base, int exponent) {
    std::uint32_t product = 1;
    for (int i = 0; i < exponent; ++i) product *= base;
    return product;
  }

  // Prices the steps of the mesh dim whose turn it is, by digit and amount, and numbers the amounts
  // that they leave.
  void price_turn(int turn) {
    const int m = mesh_dim_at(turn);
    std::vector<double> left;
    steps_.clear();
    for (const Placement& to : digits_) {
      for (const double bytes : amounts_) {
        PlanPrice<Micros> price(bytes, dtype_);
        price.add_step(pricer_, from_[to_index(m)], to, m);
        const auto known = std::find(left.begin(), left.end(), price.local_bytes());
        steps_.push_back({price.sum().value(), static_cast<std::uint32_t>(known - left.begin())});
        if (known == left.end()) left.push_back(price.local_bytes());
      }
    }
    amounts_before_ = static_cast<std::uint32_t>(amounts_.size());
    amounts_ = std::move(left);
  }

  void sum_up() {
    std::vector<Sum> sums;
    sums.reserve(sums_.size() * digits_.size());
    for (std::uint32_t digit = 0; digit < digit_count(); ++digit) {
      for (const Sum& before : sums_) sums.push_back(then(before, digit));
    }
    sums_ = std::move(sums);
  }

  [[nodiscard]] Sum then(const Sum& before, std::uint32_t digit) const {
    const Step& step = steps_[digit * amounts_before_ + before.amount];
    return {before.price + step.price, step.amount};
  }

  [[nodiscard]] Head longer(const Head& head, std::uint32_t digit) const {
    const int m = head.mesh_dims;
    const Placement& from = from_[to_index(m)];
    const Placement& to = digits_[digit];
    const auto bit = [](int i) { return 1U << static_cast<unsigned>(i); };
    Head next = head;
    ++next.mesh_dims;
    next.code = head.code * radix_ + digit;
    if (outwards_) {
      if (to.is_shard() && (head.misaligned & bit(to.dim())) != 0) {
        next.detours |= bit(m);
        digit = replicate_;
      }
      if (from.is_shard() && from != to) next.misaligned |= bit(from.dim());
      if (to.is_shard() && from != to) next.misaligned |= bit(to.dim());
    }
    if (m == mesh_dim_at(ndim_ - 1)) {
      next.last = digit;
    } else if (outwards_) {
      next.sum = head.sum * digit_count() + digit;
    } else {
      next.sum = head.sum + digit * power(digit_count(), m);
    }
    return next;
  }

  // Writes the prices of codes that all begin with the digits of `head`.
  void price_group(const Head& head, std::span<const std::uint32_t> codes,
                   std::span<double> prices) const {
    const std::uint32_t weight = power(radix_, ndim_ - 1 - head.mesh_dims);
    std::size_t begin = 0;
    for (std::uint32_t digit = 0; begin < codes.size(); ++digit) {
      const std::uint32_t limit = (head.code * radix_ + digit + 1) * weight;
      std::size_t end = begin;
      while (end < codes.size() && codes[end] < limit) ++end;
      if (end == begin) continue;
      const Head next = longer(head, digit);
      if (next.mesh_dims == ndim_) {
        prices[begin] = price_of(next);
      } else {
        price_group(next, codes.subspan(begin, end - begin), prices.subspan(begin, end - begin));
      }
      begin = end;
    }
  }

  [[nodiscard]] double price_of(const Head& head) const {
    const Sum sum = then(sums_[head.sum], head.last);
    // Mesh dims that are replicated on the way still have to become shards, which is free unless
    // local work has a price.
    if (head.detours == 0 || pricer_.semantics().chunk_is_free()) return sum.price;
    PlanPrice<Micros> price(amounts_[sum.amount], dtype_, Micros(sum.price));
    for (int m = 0; m < ndim_; ++m) {
      if ((head.detours >> static_cast<unsigned>(m) & 1U) == 0) continue;
      const std::uint32_t digit = head.code / power(radix_, ndim_ - 1 - m) % radix_;
      price.add_step(pricer_, Placement::replicate(), digits_[digit], m);
    }
    return price.sum().value();
  }

  const TransitionPricer& pricer_;
  int ndim_;
  DType dtype_;
  const Placements& from_;
  std::vector<Placement> digits_;
  std::uint32_t radix_;  // radix of the codes, which have no R unless the rows have one
  std::uint32_t replicate_ = 0;
  bool outwards_ = false;
  std::vector<double> amounts_;       // by number: bytes after the mesh dims that had their turn
  std::uint32_t amounts_before_ = 0;  // how many amounts there were before the last turn
  std::vector<Step> steps_;  // steps of the last turn, by digit and by the amount before the step
  std::vector<Sum> sums_;    // sums of the steps of all turns except the last one
};

// Writes what it costs to bring one input into the layout behind each of these codes (ascending),
// in microseconds. Assumes that `prices` holds zeros.
void price_codes(Redistributor& redistributor, const Expansion& expansion, std::size_t input,
                 const TensorSpec& tensor, std::span<const std::uint32_t> codes,
                 std::span<double> prices, double limit_us = kInfinity) {
  if (redistributor.options().semantics->replicated_source_is_free() &&
      tensor.layout.is_replicated())
    return;
  if (GreedyPrices::apply(redistributor, tensor.layout, expansion.digits(input))) {
    GreedyPrices(redistributor, tensor, expansion.digits(input)).price(codes, prices);
    const auto kept = std::lower_bound(codes.begin(), codes.end(), expansion.current_code(input));
    if (kept != codes.end() && *kept == expansion.current_code(input)) {
      prices[to_index(kept - codes.begin())] = 0.0;
    }
    return;
  }
  std::vector<Layout> layouts;
  layouts.reserve(codes.size());
  for (const std::uint32_t code : codes) layouts.emplace_back(expansion.input_layout(input, code));
  redistributor.costs_us(tensor.meta, tensor.layout, layouts, prices, limit_us);
}

// Prices kernels with a scaled launch floor. The evaluator owns the factors and may change them
// between two prices.
class WhatIfKernels final : public ComputeModel {
 public:
  WhatIfKernels(const ModelChoice& choice, const Topology& topology, const WhatIf& what_if)
      : kernels_(choice, topology), what_if_(what_if) {}

  [[nodiscard]] Price price(const KernelQuery& query) const override {
    if (what_if_.thresholds != nullptr) {
      if (const std::optional<double> threshold = kernels_.threshold(query)) {
        what_if_.thresholds->push_back(*threshold);
      }
    }
    return kernels_.price(query, what_if_.factors.launch);
  }

 private:
  FlooredKernels kernels_;
  const WhatIf& what_if_;
};

}  // namespace

StackEvaluator::StackEvaluator(const Stack& stack, const Topology& topology)
    : stack_(stack), topology_(topology) {
  make_models();
  if (prices_kernels() || stack_.policy != Policy::kComputeTime) return;
  const ModelChoice roofline = read_model_choice("roofline", {"policy", ""});
  roofline_ = watched(make_compute_model(roofline, topology_), roofline, stack_.watches);
}

void StackEvaluator::make_models() {
  redistributors_.clear();  // they refer to the models
  std::unique_ptr<CostModel> collectives =
      watched(make_collective_model(stack_.collective_model, topology_), stack_.collective_model,
              stack_.watches);
  if (what_if_ == nullptr) {
    kernels_ = watched(make_compute_model(stack_.compute_model, topology_), stack_.compute_model,
                       stack_.watches);
  } else {
    collectives = with_factors(std::move(collectives), what_if_->factors);
    kernels_ = std::make_unique<WhatIfKernels>(stack_.compute_model, topology_, *what_if_);
  }
  collectives_ = stack_.straggler.decorate(std::move(collectives));
}

void StackEvaluator::set_factors(const CostFactors& factors) {
  if (what_if_ == nullptr) {
    what_if_ = std::make_unique<WhatIf>();
    make_models();
  }
  if (what_if_->factors == factors) return;
  what_if_->factors = factors;
  forget_prices();
}

void StackEvaluator::forget_prices() {
  for (const auto& [mesh, redistributor] : redistributors_) redistributor->forget_prices();
}

std::vector<double> StackEvaluator::launch_thresholds(const std::function<void()>& ask) {
  SHARDLAB_CHECK(what_if_ != nullptr, "thresholds without factors");
  forget_prices();  // those that are remembered would not be asked for again
  std::vector<double> thresholds;
  what_if_->thresholds = &thresholds;
  try {
    ask();
  } catch (...) {
    what_if_->thresholds = nullptr;
    throw;
  }
  what_if_->thresholds = nullptr;
  std::sort(thresholds.begin(), thresholds.end());
  thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
  return thresholds;
}

bool StackEvaluator::prices_kernels() const { return stack_.compute_model.entry->name != "none"; }

Redistributor& StackEvaluator::on(const DeviceMesh& mesh) {
  // The key does not show flattened meshes, so these are compared too.
  const std::string key = mesh.text();
  auto& slot = redistributors_[key];
  if (!slot || !(slot->mesh() == mesh) || !slot->mesh().same_registry(mesh)) {
    slot = std::make_unique<Redistributor>(mesh, topology_, stack_.redistribution, *collectives_,
                                           *kernels_);
  }
  return *slot;
}

double StackEvaluator::compute_us(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh,
                                  std::span<const Placements> inputs,
                                  std::span<const Placements> outputs) const {
  return kernel_us_under(*kernels_, rule, call, mesh, inputs, outputs);
}

double StackEvaluator::kernel_us(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh,
                                 std::span<const Placements> inputs,
                                 std::span<const Placements> outputs) const {
  return kernel_us_under(roofline_ ? *roofline_ : *kernels_, rule, call, mesh, inputs, outputs);
}

double StackEvaluator::kernel_us_under(const ComputeModel& kernels, const OpRule& rule,
                                       const OpCall& call, const DeviceMesh& mesh,
                                       std::span<const Placements> inputs,
                                       std::span<const Placements> outputs) const {
  const auto tensors = call.tensors();
  std::vector<Shape> shapes;
  const std::vector<TensorMeta> out = rule.outputs(call);
  // An op that makes a tensor out of nothing, such as full, has no input.
  KernelQuery query{.kind = rule.kernel,
                    .dtype = tensors.empty() ? out.at(0).dtype : tensors[0]->meta.dtype};
  std::vector<Bytes> input_bytes;
  std::vector<Bytes> stored_inputs;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    shapes.push_back(kernel_shape(tensors[i]->meta.shape, inputs[i], mesh, stack_.strided_kernels));
    input_bytes.push_back(element_count(shapes.back()) * itemsize(tensors[i]->meta.dtype));
    stored_inputs.push_back(stored_bytes(tensors[i]->meta, shapes.back()));
  }
  std::vector<Bytes> output_bytes;
  for (std::size_t o = 0; o < out.size(); ++o) {
    const Shape shape = kernel_shape(out[o].shape, outputs[o], mesh, stack_.strided_kernels);
    output_bytes.push_back(element_count(shape) * itemsize(out[o].dtype));
  }
  KernelTraffic(rule.op, rule.written_outputs())
      .add_to(query, {.inputs = input_bytes,
                      .stored_inputs = stored_inputs,
                      .outputs = output_bytes,
                      .input_shapes = shapes});
  set_work(query, rule, shapes, call);
  return kernels.price(query).total.value();
}

bool StackEvaluator::is_decided_elsewhere(const OpCall& call) const {
  return stack_.decisions != nullptr && stack_.decisions->decides(call.op);
}

bool StackEvaluator::plans_elsewhere() const {
  return stack_.decisions != nullptr && stack_.decisions->plans();
}

namespace {

void expect_known_merging(const DecisionSource& source, const DeviceMesh& mesh, std::size_t steps) {
  if (source.changed_merging().empty() || !mesh.has_flattened() || steps < 2) return;
  throw InputError("found a change of " + source.changed_merging() +
                   ", so that only PyTorch itself knows which of the " + std::to_string(steps) +
                   " steps of this plan it merges onto a flattened mesh; valid: a mesh without "
                   "flattened dims, on which it merges none");
}

}  // namespace

Plan StackEvaluator::plan(const DeviceMesh& mesh, const TensorMeta& meta, const Layout& from,
                          const Layout& to, const PlanOptions& options) {
  std::optional<GivenPlan> given;
  if (plans_elsewhere() && !options.planner) {
    given = stack_.decisions->plan(mesh, topology_, meta, from, to);
  }
  if (!given) return on(mesh).plan(meta, from, to, options);
  expect_known_merging(*stack_.decisions, mesh, given->steps.size());
  Plan plan = on(mesh).plan_of_steps(meta, from, given->steps, options.rank);
  plan.to = to;
  if (!given->price_us) return plan;
  if (*given->price_us < kInfinity) {
    plan.price = Price::of(Micros(*given->price_us), Micros());
    plan.impossible.clear();
  } else {
    plan.price = Price::make_impossible("its price is infinite where the decision was made");
    plan.impossible = plan.price.impossible;
    plan.runs_unpriced = (from.encodes_order() || to.encodes_order()) && !plan.steps.empty() &&
                         plan.executed_price().is_possible();
  }
  return plan;
}

Plan StackEvaluator::asked_plan(const DeviceMesh& mesh, const TensorMeta& meta, const Layout& from,
                                const Layout& to, const PlanOptions& options) {
  if (plans_elsewhere() && !options.planner) stack_.decisions->expect_plan(mesh, meta, from, to);
  return plan(mesh, meta, from, to, options);
}

// The prices that the source of the decision gives to the same candidates, which it may list in
// another order.
Pricing StackEvaluator::given_prices(const Expansion& expansion, const OpCall& call,
                                     const DeviceMesh& mesh) const {
  const GivenDecision given = stack_.decisions->decide(call, mesh, topology_);
  const auto key_of = [](const std::vector<Placements>& inputs,
                         const std::vector<Placements>& outputs) {
    std::string key;
    for (const Placements& placements : inputs) key += Layout(placements).text() + ";";
    key += "|";
    for (const Placements& placements : outputs) key += Layout(placements).text() + ";";
    return key;
  };
  std::map<std::string, std::size_t> position;
  for (std::size_t g = 0; g < given.candidates.size(); ++g) {
    position.emplace(key_of(given.candidates[g].inputs, given.candidates[g].outputs), g);
  }
  Pricing pricing;
  pricing.weighed = given.weighed;
  for (std::size_t i = 0; i < expansion.inputs(); ++i) {
    pricing.by_code.emplace_back(expansion.codes(i), std::numeric_limits<double>::quiet_NaN());
  }
  for (std::size_t c = 0; c < expansion.size(); ++c) {
    std::vector<Placements> inputs;
    std::vector<Placements> outputs;
    for (std::size_t i = 0; i < expansion.inputs(); ++i) inputs.push_back(expansion.input(c, i));
    for (std::size_t o = 0; o < expansion.outputs(); ++o) outputs.push_back(expansion.output(c, o));
    const auto found = position.find(key_of(inputs, outputs));
    if (found == position.end()) {
      throw InputError(call.op + ": the candidate " + key_of(inputs, outputs) +
                       " has no price in the decision that was made about the op");
    }
    const std::vector<double>& prices = given.redistribute_us[found->second];
    double total = 0.0;
    for (std::size_t i = 0; i < expansion.inputs(); ++i) {
      const double price = i < prices.size() ? prices[i] : 0.0;
      pricing.by_code[i][expansion.code(c, i)] = price;
      total += price;
    }
    pricing.totals.push_back(total);
    if (given.chosen == found->second && !pricing.chosen) pricing.chosen = c;
  }
  return pricing;
}

Pricing StackEvaluator::price(const Expansion& expansion, const OpRule* rule, const OpCall& call,
                              const DeviceMesh& mesh, double limit_us) {
  if (is_decided_elsewhere(call)) return given_prices(expansion, call, mesh);
  const auto tensors = call.tensors();
  Redistributor& redistributor = on(mesh);
  Pricing pricing;
  pricing.by_code.resize(expansion.inputs());
  pricing.totals.resize(expansion.size());
  std::vector<double> prices;
  for (std::size_t i = 0; i < expansion.inputs(); ++i) {
    const std::vector<std::uint32_t> codes = expansion.used_codes(i);
    prices.assign(codes.size(), 0.0);
    price_codes(redistributor, expansion, i, *tensors[i], codes, prices, limit_us);
    std::vector<double>& by_code = pricing.by_code[i];
    by_code.assign(expansion.codes(i), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t c = 0; c < codes.size(); ++c) {
      const bool moves = codes[c] != expansion.current_code(i);
      by_code[codes[c]] = prices[c] + (moves ? stack_.transition_us : 0.0);
    }
    const Expansion::CodesOf code_of = expansion.codes_of(i);
    for (std::size_t c = 0; c < code_of.size(); ++c) pricing.totals[c] += by_code[code_of[c]];
  }
  if (rule == nullptr || !prices_kernels()) return pricing;
  pricing.compute_us.resize(expansion.size());
  KernelPrices kernel_prices(*rule, call, mesh, expansion, *kernels_, stack_.strided_kernels);
  for (std::size_t c = 0; c < expansion.size(); ++c) {
    if (!(pricing.totals[c] < kInfinity)) continue;
    pricing.compute_us[c] = kernel_prices.price(c);
    pricing.totals[c] += pricing.compute_us[c];
  }
  return pricing;
}

Candidate StackEvaluator::candidate(const Expansion& expansion, const Pricing& pricing,
                                    std::size_t index) const {
  Candidate candidate;
  for (std::size_t i = 0; i < expansion.inputs(); ++i) {
    candidate.inputs.push_back(expansion.input(index, i));
    candidate.redistribute_us.push_back(pricing.by_code[i][expansion.code(index, i)]);
  }
  for (std::size_t o = 0; o < expansion.outputs(); ++o) {
    candidate.outputs.push_back(expansion.output(index, o));
  }
  if (!pricing.compute_us.empty()) candidate.compute_us = pricing.compute_us[index];
  candidate.total_us = pricing.totals[index];
  return candidate;
}

// For the elements of a tensor list, PyTorch selects without looking at the inputs' current
// layouts.
Policy StackEvaluator::policy_for(const OpCall& call) const {
  return is_foreach(call.op) ? Policy::kFirstListed : stack_.policy;
}

// Policies, ties and flips only look at the candidates at the minimum.
Decision StackEvaluator::decide(const Expansion& expansion, const Pricing& pricing,
                                const OpRule* rule, const OpCall& call, const DeviceMesh& mesh) {
  SHARDLAB_CHECK(expansion.size() > 0, "no candidate for ", call.op);
  const Leaders leaders(pricing.totals);
  std::vector<std::size_t> seen = leaders.indices();
  if (stack_.order.kind != CandidateOrder::Kind::kListed) {
    std::vector<std::uint8_t> leads(expansion.size(), 0);
    for (const std::size_t c : seen) leads[c] = 1;
    seen.clear();
    for (const std::size_t c : stack_.order.permutation(expansion.size())) {
      if (leads[c] != 0) seen.push_back(c);
    }
  }
  std::vector<double> totals;
  std::vector<std::uint8_t> keeps;
  for (const std::size_t c : seen) {
    totals.push_back(pricing.totals[c]);
    keeps.push_back(expansion.keeps_inputs(c) ? 1 : 0);
  }
  const Policy policy = policy_for(call);
  ExpansionTies breaker(*this, on(mesh), expansion, rule, call, seen);
  const PricedCandidates by_policy{totals, keeps, &breaker};
  Decision decision;
  const std::size_t selected =
      pricing.chosen ? *pricing.chosen : seen[shardlab::select(policy, by_policy)];
  decision.choice = candidate(expansion, pricing, selected);
  decision.candidates = pricing.weighed.value_or(expansion.size());
  const bool knows_others = !is_decided_elsewhere(call) || stack_.decisions->lists_candidates();
  decision.ties = knows_others ? ties_at_minimum(totals).size() : 0;
  decision.flips_with_order = shardlab::flips_with_order(policy, by_policy);
  if (leaders.others() < kInfinity) totals.push_back(leaders.others());
  decision.margin_us = margin_us(totals);
  return decision;
}

bool StackEvaluator::chooses_by_queue(const OpCall& call) const {
  return stack_.search == SearchKind::kDijkstra &&
         stack_.redistribution.planner == PlannerKind::kGreedy && !is_decided_elsewhere(call);
}

// The search with bounds finds the choice of the full enumeration. It is asked all the same, so
// that what is reported of a stack is what its search does.
Decision StackEvaluator::decide_by_search(const Expansion& expansion, const Pricing& pricing,
                                          const OpRule& rule, const OpCall& call,
                                          const DeviceMesh& mesh) {
  if (stack_.search == SearchKind::kFull || is_decided_elsewhere(call)) {
    return decide(expansion, pricing, &rule, call, mesh);
  }
  const Selection found = select(call, mesh, {.rule = &rule});
  Decision decision;
  decision.choice = found.choice;
  decision.candidates = expansion.size();
  decision.ties = found.ties.size();
  decision.margin_us = found.margin_us;
  decision.flips_with_order = found.flips_with_order;
  return decision;
}

Selection StackEvaluator::select_from(const Expansion& expansion, const OpRule* rule,
                                      const OpCall& call, const DeviceMesh& mesh,
                                      const SelectOptions& options) {
  if (!expansion.in_place_error().empty()) throw InputError(expansion.in_place_error());
  if (expansion.size() > kMostListed) {
    throw LimitError(call.op + " has " + std::to_string(expansion.size()) +
                     " candidates on the mesh " + mesh.text() + ", more than the " +
                     std::to_string(kMostListed) +
                     " that are listed; valid: --search exact, or a mesh with fewer dims");
  }
  if (expansion.size() == 0) {
    throw InputError(call.op + ": no sharding candidate is left for " + call.text());
  }
  Selection selection = select_priced(expansion, price(expansion, rule, call, mesh), rule, call,
                                      mesh, options.order.value_or(stack_.order));
  if (!is_decided_elsewhere(call)) {
    SearchEffort& effort = selection.effort.emplace();
    effort.states_visited = expansion.size();
    for (std::size_t i = 0; i < expansion.inputs(); ++i) {
      effort.prices_asked += expansion.used_codes(i).size();
    }
  }
  return selection;
}

Selection StackEvaluator::select_priced(const Expansion& expansion, const Pricing& pricing,
                                        const OpRule* rule, const OpCall& call,
                                        const DeviceMesh& mesh, const CandidateOrder& order) {
  const std::vector<std::size_t> seen = order.permutation(expansion.size());
  Selection selection;
  std::vector<double> totals;
  std::vector<std::uint8_t> keeps;
  for (const std::size_t i : seen) {
    selection.candidates.push_back(candidate(expansion, pricing, i));
    totals.push_back(pricing.totals[i]);
    keeps.push_back(expansion.keeps_inputs(i) ? 1 : 0);
  }
  ExpansionTies breaker(*this, on(mesh), expansion, rule, call, seen);
  const PricedCandidates by_policy{totals, keeps, &breaker};
  const Policy policy = policy_for(call);
  selection.selected = shardlab::select(policy, by_policy);
  if (pricing.chosen) {
    const auto chosen = std::find(seen.begin(), seen.end(), *pricing.chosen);
    selection.selected = to_index(chosen - seen.begin());
  }
  selection.choice = selection.candidates[selection.selected];
  selection.ties = ties_at_minimum(totals);
  selection.margin_us = margin_us(totals);
  selection.flips_with_order = shardlab::flips_with_order(policy, by_policy);
  return selection;
}

// Lists the candidates at the minimum, under the prices that the search gave them.
Selection StackEvaluator::select_by_bounds(const OpRule& rule, const OpCall& call,
                                           const DeviceMesh& mesh, const CandidateOrder& order,
                                           ExactSearchOrder search) {
  if (has_registered(call)) {
    throw InputError(call.text() +
                     ": a search by bounds knows no registered placements; valid: a "
                     "stack that enumerates the candidates");
  }
  const Expansion space = prepare_expansion(rule, call, mesh);
  const auto tensors = call.tensors();
  std::vector<std::vector<double>> by_code;
  SearchEffort effort{.method = SearchMethod::kBounds};
  for (std::size_t i = 0; i < space.inputs(); ++i) {
    // Layouts that no candidate may ask for are not priced, since the planner would search
    // everywhere for a way to them.
    std::vector<std::uint32_t> codes;
    for (std::uint32_t code = 0; code < space.codes(i); ++code) {
      const Placements placements = space.input_layout(i, code).placements;
      const bool allowed =
          is_shardable(tensors[i]->meta.shape, placements, mesh) && !has_mixed_partials(placements);
      if (allowed || code == space.current_code(i)) codes.push_back(code);
    }
    std::vector<double> own(codes.size());
    price_codes(on(mesh), space, i, *tensors[i], codes, own);
    effort.prices_asked += codes.size();
    std::vector<double>& prices =
        by_code.emplace_back(space.codes(i), std::numeric_limits<double>::infinity());
    for (std::size_t k = 0; k < codes.size(); ++k) {
      prices[codes[k]] = own[k] + (codes[k] == space.current_code(i) ? 0.0 : stack_.transition_us);
    }
  }
  ExactSearchInput input{.rule = rule,
                         .call = call,
                         .mesh = mesh,
                         .space = space,
                         .by_code = by_code,
                         .compute_us = {}};
  if (prices_kernels()) {
    input.compute_us = [&](std::span<const Placements> inputs,
                           std::span<const Placements> outputs) {
      return compute_us(rule, call, mesh, inputs, outputs);
    };
  }
  const ExactSearchResult found = exact_search(input, search);
  if (found.tied.empty()) return select_from(expand(rule, call, mesh), &rule, call, mesh);
  std::vector<FollowCandidate> candidates;
  for (const ExactSearchResult::Found& tied : found.tied) {
    candidates.push_back({.outputs = tied.outputs, .inputs = tied.inputs});
  }
  const Expansion tied = expand_candidates(candidates, call, mesh);
  Pricing pricing;
  for (std::size_t i = 0; i < tied.inputs(); ++i) {
    pricing.by_code.emplace_back(tied.codes(i), std::numeric_limits<double>::quiet_NaN());
  }
  for (std::size_t c = 0; c < found.tied.size(); ++c) {
    for (std::size_t i = 0; i < tied.inputs(); ++i) {
      pricing.by_code[i][tied.code(c, i)] = found.tied[c].redistribute_us[i];
    }
    pricing.compute_us.push_back(found.tied[c].compute_us);
    pricing.totals.push_back(found.tied[c].total_us);
  }
  Selection selection = select_priced(tied, pricing, &rule, call, mesh, order);
  selection.margin_us = found.margin_us;
  effort.states_visited = found.states;
  selection.effort = effort;
  return selection;
}

Selection StackEvaluator::select_by_steps(const OpRule& rule, const OpCall& call,
                                          const DeviceMesh& mesh, const SearchResult& found) const {
  Selection selection;
  selection.choice = {.inputs = found.inputs,
                      .outputs = found.outputs,
                      .redistribute_us = found.input_us,
                      .compute_us = 0.0,
                      .total_us = found.total_us};
  if (prices_kernels()) {
    // The search minimises only redistribution, so the kernel of its answer is priced here.
    selection.choice.compute_us =
        compute_us(rule, call, mesh, selection.choice.inputs, selection.choice.outputs);
    selection.choice.total_us += selection.choice.compute_us;
  }
  selection.candidates = {selection.choice};
  selection.ties = {0};
  selection.effort = {.method = SearchMethod::kQueue,
                      .states_visited = found.states_visited,
                      .prices_asked = found.prices_asked};
  return selection;
}

Selection StackEvaluator::select(const OpCall& call, const DeviceMesh& mesh,
                                 const SelectOptions& options) {
  const OpRule& rule =
      options.rule != nullptr ? *options.rule : find_op_rule(call.op, stack_.rules);
  // A search prices candidates by itself, so it cannot follow a decision that is made elsewhere.
  const SearchKind search =
      is_decided_elsewhere(call) ? SearchKind::kFull : options.search.value_or(stack_.search);
  const CandidateOrder order = options.order.value_or(stack_.order);
  const bool guarded = options.nesting_guard.value_or(stack_.nesting_guard);
  std::string note;
  if (search == SearchKind::kDijkstra && stack_.redistribution.planner == PlannerKind::kGreedy) {
    const SearchOutcome outcome =
        search_rows(rule, call, mesh, on(mesh).pricer(), {.nesting_guard = guarded});
    if (outcome.result) return select_by_steps(rule, call, mesh, *outcome.result);
    note = outcome.fallback;
  } else if (search != SearchKind::kFull) {
    if (rule.rows == nullptr) {
      note = "the op has no rows";
    } else if (order.kind == CandidateOrder::Kind::kShuffled) {
      note = "a shuffled order needs all candidates";
    } else {
      const bool exact = search == SearchKind::kExact;
      return select_by_bounds(rule, call, mesh, order,
                              exact ? ExactSearchOrder::kDepthFirst : ExactSearchOrder::kBestFirst);
    }
  }
  Selection selection = select_from(expand(rule, call, mesh), &rule, call, mesh, options);
  selection.search_note = note;
  return selection;
}

}  // namespace shardlab
