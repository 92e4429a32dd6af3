#include "strategies/select/invariants.h"

#include <algorithm>
#include <array>
#include <random>

#include "costmodel/base/text.h"
#include "costmodel/base/units.h"
#include "strategies/select/evaluator.h"

namespace shardlab {
namespace {

using reports::InvariantResult;
using reports::InvariantWitness;

constexpr double kTolerance = 1e-9;

class Checker {
 public:
  Checker(const Stack& stack, const Topology& topology, std::uint64_t seed)
      : evaluator_(stack, topology),
        faster_(with_double_bandwidth(stack), with_double_bandwidth(topology)),
        rng_(seed) {}

  std::vector<InvariantResult> run(int samples) {
    std::vector<InvariantResult> checks;
    checks.push_back(repeat("triangle", samples, [this](InvariantResult& c) { triangle(c); }));
    checks.push_back(repeat("monotone", samples, [this](InvariantResult& c) { monotone(c); }));
    checks.push_back(repeat("monotone_bandwidth", samples,
                            [this](InvariantResult& c) { monotone_bandwidth(c); }));
    checks.push_back(
        repeat("zero_same_layout", samples, [this](InvariantResult& c) { zero_same_layout(c); }));
    checks.push_back(repeat("reduce_scatter_le_all_reduce", samples,
                            [this](InvariantResult& c) { reduce_scatter_le_all_reduce(c); }));
    checks.push_back(
        repeat("priced_plan_runs", samples, [this](InvariantResult& c) { priced_plan_runs(c); }));
    checks.push_back(
        repeat("price_is_executed", samples, [this](InvariantResult& c) { price_is_executed(c); }));
    checks.push_back(repeat("running_plan_is_priced", samples,
                            [this](InvariantResult& c) { running_plan_is_priced(c); }));
    return checks;
  }

 private:
  template <class Check>
  InvariantResult repeat(const std::string& name, int samples, Check&& check) {
    InvariantResult result;
    result.stack = evaluator_.stack().name;
    result.name = name;
    for (int i = 0; i < samples; ++i) check(result);
    return result;
  }

  // Doubles the bandwidth of every link. Where a model of the stack has a bandwidth as a parameter
  // of its own, doubles that too.
  static Topology with_double_bandwidth(const Topology& topology) {
    nlohmann::json json = topology.to_json();
    for (nlohmann::json& link : json["links"]) {
      link["bandwidth_gb_per_s"] = 2 * link["bandwidth_gb_per_s"].get<double>();
    }
    return Topology::from_json(json, {topology.name(), ""});
  }
  static Stack with_double_bandwidth(Stack stack) {
    ModelChoice& model = stack.collective_model;
    for (const ParamSpec& spec : model.entry->params) {
      const std::string key(spec.name);
      if (key != "bandwidth_gb_per_s") continue;
      if (model.params.contains(key)) {
        model.params[key] = 2 * model.params[key].get<double>();
      } else if (spec.default_value) {
        model.params[key] = 2 * *spec.default_value;
      }
    }
    return stack;
  }

  std::uint64_t below(std::uint64_t n) { return rng_() % n; }

  DeviceMesh mesh() {
    constexpr std::array<std::string_view, 8> kMeshes = {"2",   "4",   "8",     "2x2",
                                                         "2x4", "8x8", "2x2x2", "2x2x4"};
    return DeviceMesh::parse(kMeshes[below(kMeshes.size())]);
  }
  DeviceMesh flattened_mesh() {
    DeviceMesh plain = mesh();
    if (plain.ndim() == 1) return plain;
    std::vector<std::int64_t> sizes;
    std::vector<std::string> names;
    for (int m = 0; m < plain.ndim(); ++m) {
      sizes.push_back(plain.size(m));
      names.push_back("d" + std::to_string(m));
    }
    return DeviceMesh::make(sizes, names).flatten(names);
  }
  TensorMeta tensor() {
    constexpr std::array<std::int64_t, 6> kExtents = {8, 16, 64, 128, 1024, 4096};
    TensorMeta meta;
    const std::uint64_t ndim = 1 + below(3);
    for (std::uint64_t i = 0; i < ndim; ++i) meta.shape.push_back(kExtents[below(kExtents.size())]);
    return meta;
  }
  Layout layout(const DeviceMesh& on, const TensorMeta& meta, bool partials) {
    Placements placements;
    for (int i = 0; i < on.ndim(); ++i) {
      const std::uint64_t pick = below(partials ? 5 : 4);
      if (pick < 2) {
        placements.push_back(Placement::replicate());
      } else if (pick < 4) {
        placements.push_back(Placement::shard(static_cast<int>(below(meta.shape.size()))));
      } else {
        placements.push_back(Placement::partial());
      }
    }
    return Layout(placements);
  }

  static void judge(InvariantResult& check, double found, double fair, const std::string& witness) {
    if (!(found < kInfinity) || !(fair < kInfinity)) return;
    ++check.checked;
    if (found <= fair + kTolerance * fair) return;
    ++check.violated;
    const double amount = found - fair;
    const std::optional<double> percent =
        fair > 0 ? std::optional(100.0 * amount / fair) : std::nullopt;
    const std::optional<InvariantWitness>& worst = check.worst;
    const bool worse = !worst || (!percent && worst->amount_percent) ||
                       (percent && worst->amount_percent && *percent > *worst->amount_percent) ||
                       (!percent && !worst->amount_percent && amount > worst->amount_us);
    if (worse) check.worst = InvariantWitness{witness, amount, percent};
  }

  void triangle(InvariantResult& check) {
    const DeviceMesh on = mesh();
    const TensorMeta meta = tensor();
    const Layout a = layout(on, meta, true);
    const Layout b = layout(on, meta, false);
    const Layout c = layout(on, meta, false);
    Redistributor& r = evaluator_.on(on);
    const double direct = r.cost_us(meta, a, c);
    const double first = r.cost_us(meta, a, b);
    const double second = r.cost_us(meta, b, c);
    judge(check, direct, first + second,
          a.text() + " to " + c.text() + " costs " + format_fixed(direct, 3) +
              " us, and by way of " + b.text() + " " + format_fixed(first + second, 3) + " us; " +
              meta.text() + " on " + on.text());
  }

  void monotone(InvariantResult& check) {
    const DeviceMesh on = mesh();
    const TensorMeta meta = tensor();
    TensorMeta larger = meta;
    larger.shape[below(larger.shape.size())] *= 2;
    const Layout a = layout(on, meta, true);
    const Layout b = layout(on, meta, false);
    Redistributor& r = evaluator_.on(on);
    const double small = r.cost_us(meta, a, b);
    const double large = r.cost_us(larger, a, b);
    judge(check, small, large,
          a.text() + " to " + b.text() + " on " + on.text() + ": " + meta.text() + " costs " +
              format_fixed(small, 3) + " us, and " + larger.text() + " " + format_fixed(large, 3) +
              " us");
  }

  void monotone_bandwidth(InvariantResult& check) {
    const DeviceMesh on = mesh();
    const TensorMeta meta = tensor();
    const Layout a = layout(on, meta, true);
    const Layout b = layout(on, meta, false);
    const double slow = evaluator_.on(on).cost_us(meta, a, b);
    const double fast = faster_.on(on).cost_us(meta, a, b);
    judge(check, fast, slow,
          a.text() + " to " + b.text() + " costs " + format_fixed(slow, 3) +
              " us, and with twice the bandwidth " + format_fixed(fast, 3) + " us; " + meta.text() +
              " on " + on.text());
  }

  void zero_same_layout(InvariantResult& check) {
    const DeviceMesh on = mesh();
    const TensorMeta meta = tensor();
    const Layout a = layout(on, meta, true);
    const double cost = evaluator_.on(on).cost_us(meta, a, a);
    judge(check, cost, 0.0,
          a.text() + " to itself costs " + format_fixed(cost, 3) + " us; " + meta.text() + " on " +
              on.text());
  }

  void reduce_scatter_le_all_reduce(InvariantResult& check) {
    const DeviceMesh on = mesh();
    const TensorMeta meta = tensor();
    Layout from = Layout::replicated(on.ndim());
    const auto m = below(static_cast<std::uint64_t>(on.ndim()));
    from.placements[m] = Placement::partial();
    Layout scattered = Layout::replicated(on.ndim());
    scattered.placements[m] = Placement::shard(static_cast<int>(below(meta.shape.size())));
    const Layout reduced = Layout::replicated(on.ndim());
    Redistributor& r = evaluator_.on(on);
    const double scatter = r.cost_us(meta, from, scattered);
    const double reduce = r.cost_us(meta, from, reduced);
    judge(check, scatter, reduce,
          from.text() + " to " + scattered.text() + " costs " + format_fixed(scatter, 3) +
              " us, and to " + reduced.text() + " " + format_fixed(reduce, 3) + " us; " +
              meta.text() + " on " + on.text());
  }

  // A price as selection is given it, and the plan that would run.
  struct PricedMove {
    DeviceMesh on;
    TensorMeta meta;
    Plan plan;
    double price_us = 0.0;

    [[nodiscard]] bool runs() const { return plan.refusal().empty(); }
    [[nodiscard]] std::string text() const {
      return plan.from.text() + " to " + plan.to.text() + " costs " +
             (price_us < kInfinity ? format_fixed(price_us, 3) + " us" : "infinitely much");
    }
    [[nodiscard]] std::string where() const {
      return "; " + meta.text() + " on " + on.text() + (on.has_flattened() ? ", flattened" : "");
    }
  };
  // Half of the meshes have a flattened mesh for all of their dims, onto which steps may be merged,
  // and half of the tensors do not divide evenly.
  PricedMove priced_move() {
    PricedMove move;
    move.on = below(2) == 0 ? mesh() : flattened_mesh();
    move.meta = tensor();
    if (below(2) == 0) move.meta.shape[below(move.meta.shape.size())] -= 1;
    const Layout a = layout(move.on, move.meta, true);
    const Layout b = layout(move.on, move.meta, true);
    Redistributor& r = evaluator_.on(move.on);
    move.price_us = r.cost_us(move.meta, a, b);
    move.plan = r.plan(move.meta, a, b);
    return move;
  }

  // Notes a violation that no amount of time measures.
  static void judge(InvariantResult& check, bool holds, const std::string& witness) {
    ++check.checked;
    if (holds) return;
    ++check.violated;
    if (!check.worst) check.worst = InvariantWitness{witness, 0.0, std::nullopt};
  }

  void priced_plan_runs(InvariantResult& check) {
    const PricedMove move = priced_move();
    if (!(move.price_us < kInfinity)) return;
    const std::string& reason = move.plan.refusal();
    judge(check, move.runs(), move.text() + ", and its plan cannot run: " + reason + move.where());
  }

  void price_is_executed(InvariantResult& check) {
    const PricedMove move = priced_move();
    if (!(move.price_us < kInfinity) || !move.runs()) return;
    const double executed = move.plan.executed_price().total.value();
    const double low = std::min(executed, move.price_us);
    judge(check, std::max(executed, move.price_us), low,
          move.text() + ", and its steps " + format_fixed(executed, 3) + " us" + move.where());
  }

  void running_plan_is_priced(InvariantResult& check) {
    const PricedMove move = priced_move();
    // A shard becomes a partial where somebody asks for it: it is put among zeros.
    const bool sums_shards = evaluator_.on(move.on).pricer().semantics().plans_sums_of_shards();
    const auto runs_on_request = [&](const PlanStep& step) {
      return step.price.is_possible() ||
             (sums_shards && step.from.is_shard_like() && step.to == Placement::partial());
    };
    const bool runs = move.plan.unexecutable.empty() && !move.plan.steps.empty() &&
                      std::ranges::all_of(move.plan.steps, runs_on_request);
    if (!runs) return;
    judge(check, move.price_us < kInfinity,
          move.text() + ", though " + move.plan.path() + " runs" + move.where());
  }

  StackEvaluator evaluator_;
  StackEvaluator faster_;
  std::mt19937_64 rng_;
};

}  // namespace

std::vector<reports::InvariantResult> check_invariants(const Stack& stack, const Topology& topology,
                                                       std::uint64_t seed, int samples) {
  return Checker(stack, topology, seed).run(samples);
}

}  // namespace shardlab
