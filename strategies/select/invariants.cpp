#include "strategies/select/invariants.h"

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
