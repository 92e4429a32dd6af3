#include "strategies/programs/pruned_strategies.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/program_prices.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/programs/strategy_bounds.h"
#include "strategies/solvers/exact.h"

namespace shardlab {
namespace {

// Sweeps between two looks at the bound, and the most of them. Status: assumed.
constexpr int kSweepsPerLook = 8;
constexpr int kMostSweeps = 256;
// A bound that rises by a smaller share than this is tight enough, unless it closes in on the best
// assignment. Status: assumed.
constexpr double kTight = 1e-6;
// A bound closes in if each look takes away a larger share than this of what is missing: it may be
// about to prove that assignment. Status: measured; for Mamba-2's two layers on 2x2x2 it is a
// seventh.
constexpr double kClosing = 0.05;
// While the bound closes in, one look of so many finds out whether few enough strategies are left.
// Status: assumed.
constexpr int kLooksPerExcess = 4;
// How far apart the sums of a bound and of an assignment may be through rounding alone. Status:
// assumed; a tenth of what the solver takes for equal.
constexpr double kRounding = 1e-10;

// The search for a first assignment stops after this many looks in which the bound did not rise.
// One look is not enough: a later sweep may decode an assignment where earlier ones ran into
// constraints. Status: assumed.
constexpr int kMostLooksInVain = 6;

// By class and strategy: whether it is kept.
using Kept = std::vector<std::vector<bool>>;

class Pruner {
 public:
  Pruner(const Program& program, const DeviceMesh& mesh, const ProgramStrategies& strategies,
         StackEvaluator& evaluator, const ProblemOptions& problem, const PruneOptions& options)
      : program_(program),
        mesh_(mesh),
        strategies_(strategies),
        evaluator_(evaluator),
        problem_(problem),
        options_(options) {}

  PruneResult run() {
    PruneResult result;
    for (const std::uint32_t of_class : strategies_.class_of) {
      result.before += strategies_.classes[of_class].strategies;
    }
    result.after = result.before;
    if (most_pairs() < options_.least_pairs) return result;
    const ProgramPrices kernels =
        ProgramPrices::of_kernels(program_, strategies_, evaluator_, mesh_);
    if (kernels.pairs(strategies_) < options_.least_pairs ||
        !StrategyBounds::hold_for(evaluator_.on(mesh_), strategies_)) {
      return result;
    }
    const ShardingProblem values = make_values(program_, mesh_, strategies_, kernels, problem_);
    StrategyBounds bounds(
        program_, strategies_, kernels, values,
        {.forward = problem_.forward_dtype_rule, .gradient = problem_.gradient_dtype_rule},
        evaluator_.on(mesh_));
    search(kernels, bounds, result);
    if (!result.strategies) return result;
    result.after = 0;
    for (const std::uint32_t of_class : strategies_.class_of) {
      result.after += result.strategies->classes[of_class].strategies;
    }
    return result;
  }

 private:
  // At least as many pairs as the tables of all edges have, counted without any price: edges
  // between the same classes share a table.
  [[nodiscard]] double most_pairs() const {
    std::set<std::array<std::size_t, 4>> seen;
    double pairs = 0.0;
    for (std::size_t reader = 0; reader < program_.nodes.size(); ++reader) {
      const NodeClass& own = strategies_.of(reader);
      std::size_t argument = 0;
      for (const ValueRef& value : values_read(program_.nodes[reader])) {
        const auto [it, is_new] = seen.insert({strategies_.class_of[value.node], value.output,
                                               strategies_.class_of[reader], argument++});
        if (!is_new) continue;
        pairs += static_cast<double>(strategies_.of(value.node).strategies) *
                 static_cast<double>(own.strategies);
      }
    }
    return pairs;
  }

  // Sweeps until the strategies that may cost less than the best assignment are few, or until the
  // bound stalls.
  void search(const ProgramPrices& kernels, StrategyBounds& bounds, PruneResult& result) {
    Kept found = none();  // the strategies of all assignments that were decoded
    double last = 0.0;
    int looks_in_vain = 0;
    bool closes = false;  // whether the bound hardly rises, but closes in on the best assignment
    int closing_looks = 0;
    while (true) {
      double bound = 0.0;
      bool decodes = false;
      for (int i = 0; i < kSweepsPerLook; ++i) {
        if (result.upper_us < kForbidden && is_time_up()) break;
        ++result.sweeps;
        // The last two sweeps decode, one in either direction.
        bound = bounds.sweep(!closes && i >= kSweepsPerLook - 2);
        decodes = decodes || !bounds.decoded().empty();
        for (std::size_t n = 0; n < bounds.decoded().size(); ++n) {
          found[strategies_.class_of[n]][bounds.decoded()[n]] = true;
        }
      }
      if (!(bound < kForbidden)) return;  // no assignment obeys the constraints
      if (decodes) solve(found, found, result);
      const bool rises = bound - last > kTight * bound;
      closes =
          !rises && is_closing(last, bound, result.upper_us) && may_close(bounds, closing_looks);
      if (!rises && !closes) ++looks_in_vain;
      last = bound;
      const bool has_plan = result.upper_us < kForbidden;
      const bool stalls = looks_in_vain >= (has_plan ? 1 : kMostLooksInVain) ||
                          (!closes && result.sweeps >= kMostSweeps) || (has_plan && is_time_up());
      if (closes && closing_looks++ % kLooksPerExcess != 0) continue;
      if (!stalls && !has_plan) continue;
      const StrategyExcess excess = bounds.excess();
      result.bound_us = excess.bound;
      // Strategies near the bound, beside those that were decoded, may have a better assignment, or
      // one where decoding runs into constraints.
      for (const double pairs : {options_.least_left, options_.most_left}) {
        if (!stalls || result.upper_us <= (1.0 + kPruneSlack) * excess.bound) break;
        if (result.upper_us < kForbidden && is_time_up()) break;
        const double near = tolerance_for(kernels, excess, pairs);
        solve(joined(kept_within(excess, near), found), found, result);
      }
      if (!(result.upper_us < kForbidden)) return;
      const double gap = (1.0 + kPruneSlack) * result.upper_us - excess.bound;
      const bool fits = pairs_of(kernels, kept_within(excess, gap)) <= options_.most_left;
      if (fits || stalls) {
        // A search without any time can do without all but the strategies of known assignments.
        const double tolerance =
            is_stopped() ? 0.0
            : fits       ? gap
                         : std::min(gap, tolerance_for(kernels, excess, options_.least_left));
        const Kept kept = joined(kept_within(excess, tolerance), found);
        // What was forbidden before cost more than the gap.
        result.floor_us = excess.bound + std::min(gap, least_left_out(excess, kept));
        result.strategies = only(kept);
        result.best = to_kept(kept, result.best);
        return;
      }
      forbid(excess, gap, bounds);
    }
  }

  // Whether a bound that rose from `last` took away enough of what was missing to the cost of the
  // best assignment. Nothing is missing where the two agree up to rounding.
  [[nodiscard]] static bool is_closing(double last, double bound, double upper) {
    const double missing = (1.0 - kRounding) * upper - last;
    return upper < kForbidden && missing > 0.0 && bound - last > kClosing * missing;
  }
  [[nodiscard]] bool may_close(const StrategyBounds& bounds, int looks) const {
    return !is_time_up() &&
           looks * kSweepsPerLook * bounds.layouts_per_sweep() <= options_.most_closing;
  }
  [[nodiscard]] bool is_stopped() const {
    return options_.patience.stop != nullptr && *options_.patience.stop;
  }
  [[nodiscard]] bool is_time_up() const { return options_.patience.seconds_left() <= 0.0; }

  // Strategies that no optimum has make the bounds of the others weaker.
  void forbid(const StrategyExcess& excess, double gap, StrategyBounds& bounds) const {
    for (std::size_t n = 0; n < excess.of.size(); ++n) {
      for (std::size_t s = 0; s < excess.of[n].size(); ++s) {
        if (excess.of[n][s] > gap) bounds.forbid(n, s);
      }
    }
  }

  [[nodiscard]] Kept none() const {
    Kept kept;
    for (const NodeClass& node : strategies_.classes) kept.emplace_back(node.strategies, false);
    return kept;
  }

  [[nodiscard]] Kept of(const Assignment& assignment) const {
    Kept kept = none();
    for (std::size_t n = 0; n < assignment.size(); ++n) {
      kept[strategies_.class_of[n]][to_index(assignment[n])] = true;
    }
    return kept;
  }

  [[nodiscard]] static Kept joined(Kept kept, const Kept& other) {
    for (std::size_t c = 0; c < kept.size(); ++c) {
      for (std::size_t s = 0; s < kept[c].size(); ++s) {
        if (other[c][s]) kept[c][s] = true;
      }
    }
    return kept;
  }

  [[nodiscard]] Kept kept_within(const StrategyExcess& excess, double tolerance) const {
    Kept kept = none();
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      std::vector<bool>& own = kept[strategies_.class_of[n]];
      const std::vector<double>& of = excess.of[n];
      own[to_index(static_cast<int>(std::min_element(of.begin(), of.end()) - of.begin()))] = true;
      const bool keeps_all =
          problem_.parameter_budget && program_.nodes[n].kind == NodeKind::kParameter;
      for (std::size_t s = 0; s < of.size(); ++s) {
        if (of[s] <= tolerance || keeps_all) own[s] = true;
      }
    }
    return kept;
  }

  // The least excess of a strategy that is not kept; infinite if all are.
  [[nodiscard]] double least_left_out(const StrategyExcess& excess, const Kept& kept) const {
    double least = kForbidden;
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const std::vector<bool>& own = kept[strategies_.class_of[n]];
      for (std::size_t s = 0; s < own.size(); ++s) {
        if (!own[s]) least = std::min(least, excess.of[n][s]);
      }
    }
    return least;
  }

  // How many costs the tables of edges would have.
  [[nodiscard]] double pairs_of(const ProgramPrices& kernels, const Kept& kept) const {
    std::vector<double> count;
    for (const std::vector<bool>& own : kept) {
      count.push_back(static_cast<double>(std::count(own.begin(), own.end(), true)));
    }
    double pairs = 0.0;
    for (const PricedEdge& edge : kernels.edges()) {
      pairs +=
          count[strategies_.class_of[edge.producer]] * count[strategies_.class_of[edge.reader]];
    }
    return pairs;
  }

  // The largest tolerance that leaves few enough pairs.
  [[nodiscard]] double tolerance_for(const ProgramPrices& kernels, const StrategyExcess& excess,
                                     double most_pairs) const {
    double low = 0.0;
    double high = 0.0;
    for (const std::vector<double>& own : excess.of) {
      for (const double of : own) high = of < kForbidden ? std::max(high, of) : high;
    }
    for (int i = 0; i < 24; ++i) {
      const double middle = 0.5 * (low + high);
      (pairs_of(kernels, kept_within(excess, middle)) <= most_pairs ? low : high) = middle;
    }
    return low;
  }

  // The same classes with the strategies that are kept.
  [[nodiscard]] ProgramStrategies only(const Kept& kept) const {
    ProgramStrategies result = strategies_;
    for (std::size_t c = 0; c < kept.size(); ++c) {
      NodeClass& node = result.classes[c];
      for (LayoutListId& list : node.tensors) {
        std::vector<LayoutId> left;
        const std::span<const LayoutId> all = strategies_.layouts.list_at(list);
        for (std::size_t s = 0; s < all.size(); ++s) {
          if (kept[c][s]) left.push_back(all[s]);
        }
        list = result.layouts.list(std::move(left));
      }
      node.strategies = static_cast<std::uint32_t>(result.layouts.list_at(node.tensors[0]).size());
    }
    return result;
  }

  // An assignment of all strategies as one of only(kept), and the other way round.
  [[nodiscard]] Assignment to_kept(const Kept& kept, Assignment assignment) const {
    for (std::size_t n = 0; n < assignment.size(); ++n) {
      const std::vector<bool>& own = kept[strategies_.class_of[n]];
      assignment[n] = static_cast<int>(std::count(own.begin(), own.begin() + assignment[n], true));
    }
    return assignment;
  }
  [[nodiscard]] Assignment from_kept(const Kept& kept, Assignment assignment) const {
    for (std::size_t n = 0; n < assignment.size(); ++n) {
      const std::vector<bool>& own = kept[strategies_.class_of[n]];
      auto at = std::find(own.begin(), own.end(), true);
      for (int before = assignment[n]; before > 0; --before)
        at = std::find(at + 1, own.end(), true);
      assignment[n] = static_cast<int>(at - own.begin());
    }
    return assignment;
  }

  // Takes the best assignment of these strategies if it is better than the one that is known, and
  // adds its strategies to `found`. There may be none, or one that takes too long to find.
  void solve(const Kept& kept, Kept& found, PruneResult& result) {
    const ProgramStrategies strategies = only(kept);
    const ProgramPrices prices(program_, strategies, evaluator_, mesh_, options_.jobs);
    const CostNetwork network =
        network_of(make_problem(program_, mesh_, strategies, prices, problem_));
    Patience patience = options_.patience;
    patience.takes_gap = true;
    try {
      const ExactSolution best = ExactSolver(network).solve(
          {.jobs = options_.jobs, .explain = false, .proves = false, .patience = patience});
      if (!best.feasible || best.objective >= result.upper_us) return;
      result.upper_us = best.objective;
      result.best = from_kept(kept, best.assignment);
      found = joined(std::move(found), of(result.best));
    } catch (const LimitError&) {
      return;
    }
  }

  const Program& program_;
  const DeviceMesh& mesh_;
  const ProgramStrategies& strategies_;
  StackEvaluator& evaluator_;
  const ProblemOptions& problem_;
  PruneOptions options_;
};

}  // namespace

PruneResult prune_strategies(const Program& program, const DeviceMesh& mesh,
                             const ProgramStrategies& strategies, StackEvaluator& evaluator,
                             const ProblemOptions& problem, const PruneOptions& options) {
  return Pruner(program, mesh, strategies, evaluator, problem, options).run();
}

}  // namespace shardlab
