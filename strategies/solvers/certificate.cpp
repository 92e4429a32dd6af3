// The check uses plain loops over the original values. It shares types with the solver, but no
// code.
#include "strategies/solvers/certificate.h"

#include <algorithm>
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// Costs and weights of partial assignments, none of which is both more expensive and heavier than
// another.
using Weights = std::array<std::int64_t, BudgetAlgebra::kMost>;
struct Sum {
  double cost = 0.0;
  Weights weights{};
};
using Sums = std::vector<Sum>;

bool no_heavier(const Sum& a, const Sum& b) {
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    if (a.weights[i] > b.weights[i]) return false;
  }
  return true;
}

// The part of the network that the stages of a proof leave. Costs include the charges, and are what
// the last stage's messages have made of them.
class Remainder {
 public:
  Remainder(const CostNetwork& network, std::span<const Restriction> restrictions,
            std::span<const double> multipliers)
      : network_(network), multipliers_(multipliers), domains_(to_index(network.variables())) {
    extra_.resize(domains_.size());
    for (int v = 0; v < network.variables(); ++v) {
      extra_[to_index(v)].assign(to_index(network.values(v)), 0.0);
      weights_.emplace_back(to_index(network.values(v)));
    }
    for (std::size_t b = 0; b < multipliers.size(); ++b) {
      for (const Budget::Weights& weights : network.budgets()[b].weights) {
        for (std::size_t x = 0; x < weights.of_value.size(); ++x) {
          weights_[to_index(weights.variable)][x][b] = weights.of_value[x];
          extra_[to_index(weights.variable)][x] +=
              multipliers[b] * static_cast<double>(weights.of_value[x]);
        }
      }
    }
    for (int v = 0; v < network.variables(); ++v) {
      for (int x = 0; x < network.values(v); ++x) {
        bool allowed = network.costs(v)[to_index(x)] < kForbidden;
        for (const Restriction& r : restrictions) {
          if (r.variable == v && std::ranges::find(r.allowed, x) == r.allowed.end()) {
            allowed = false;
          }
        }
        if (allowed) domains_[to_index(v)].push_back(x);
      }
    }
    drop([](std::size_t, double cost, int, int) { return cost < kForbidden; });
  }

  [[nodiscard]] bool is_empty() const {
    return std::ranges::any_of(domains_, [](const auto& domain) { return domain.empty(); });
  }

  // Computes the bound of the stage's messages, and drops what this bound proves to cost more than
  // the threshold.
  void apply(const BoundProof::Stage& stage, double threshold) {
    read_messages(stage);
    reprice();
    for (int v = 0; v < network_.variables(); ++v) {
      std::erase_if(domains_[to_index(v)],
                    [&](int x) { return bound_ + excess_[to_index(v)][to_index(x)] > threshold; });
    }
    if (is_empty()) return;
    drop([&](std::size_t e, double cost, int x, int y) {
      const CostEdge& edge = network_.edges()[e];
      const double own =
          cost - messages_[e].first[to_index(x)] - messages_[e].second[to_index(y)] - low_[e];
      return bound_ + own + excess_[to_index(edge.first)][to_index(x)] -
                 own_[e].first[to_index(x)] + excess_[to_index(edge.second)][to_index(y)] -
                 own_[e].second[to_index(y)] <=
             threshold;
    });
  }

  [[nodiscard]] double bound() const { return bound_; }
  [[nodiscard]] const CostNetwork& network() const { return network_; }
  [[nodiscard]] std::span<const double> multipliers() const { return multipliers_; }
  [[nodiscard]] const std::vector<int>& domain(int v) const { return domains_[to_index(v)]; }
  [[nodiscard]] const Weights& weights(int v, int x) const {
    return weights_[to_index(v)][to_index(x)];
  }
  // Both costs are counted from the least one of the node, or of the edge.
  [[nodiscard]] double node_cost(int v, int x) const { return node_[to_index(v)][to_index(x)]; }
  [[nodiscard]] double edge_cost(std::size_t e, int x, int y) const {
    return cost(network_.edges()[e], x, y) - messages_[e].first[to_index(x)] -
           messages_[e].second[to_index(y)] - low_[e];
  }

 private:
  struct Messages {
    std::vector<double> first;
    std::vector<double> second;
  };

  [[nodiscard]] double cost(const CostEdge& edge, int x, int y) const {
    return network_.tables()[to_index(edge.table)].at(x, y);
  }

  // Drops values that have no partner that `keeps` accepts, until nothing changes.
  template <class Keeps>
  void drop(const Keeps& keeps) {
    std::vector<bool> due(domains_.size(), true);
    for (bool again = true; again;) {
      again = false;
      std::vector<bool> changed(domains_.size(), false);
      for (std::size_t e = 0; e < network_.edges().size(); ++e) {
        const CostEdge& edge = network_.edges()[e];
        if (!due[to_index(edge.first)] && !due[to_index(edge.second)] &&
            !changed[to_index(edge.first)] && !changed[to_index(edge.second)]) {
          continue;
        }
        std::vector<int>& rows = domains_[to_index(edge.first)];
        std::vector<int>& columns = domains_[to_index(edge.second)];
        const auto keeps_pair = [&](int x, int y) { return keeps(e, cost(edge, x, y), x, y); };
        if (std::erase_if(rows, [&](int x) {
              return std::ranges::none_of(columns, [&](int y) { return keeps_pair(x, y); });
            }) > 0) {
          changed[to_index(edge.first)] = again = true;
        }
        if (std::erase_if(columns, [&](int y) {
              return std::ranges::none_of(rows, [&](int x) { return keeps_pair(x, y); });
            }) > 0) {
          changed[to_index(edge.second)] = again = true;
        }
      }
      due = std::move(changed);
    }
  }

  // Values that the stage has no message for get the message zero.
  void read_messages(const BoundProof::Stage& stage) {
    SHARDLAB_CHECK(stage.values.size() == domains_.size(), stage.values.size(), " nodes");
    messages_.resize(network_.edges().size());
    std::size_t next = 0;
    const auto read = [&](int v, std::vector<double>& to) {
      to.assign(to_index(network_.values(v)), 0.0);
      for (const int x : stage.values[to_index(v)]) {
        SHARDLAB_CHECK(next < stage.messages.size(), "messages end at ", next);
        to[to_index(x)] = stage.messages[next++];
      }
    };
    for (std::size_t e = 0; e < messages_.size(); ++e) {
      const CostEdge& edge = network_.edges()[e];
      const bool in_order = edge.first < edge.second;
      read(in_order ? edge.first : edge.second,
           in_order ? messages_[e].first : messages_[e].second);
      read(in_order ? edge.second : edge.first,
           in_order ? messages_[e].second : messages_[e].first);
    }
  }

  void reprice() {
    bound_ = 0.0;
    node_.assign(domains_.size(), {});
    for (int v = 0; v < network_.variables(); ++v) {
      node_[to_index(v)].resize(to_index(network_.values(v)));
      for (const int x : domains_[to_index(v)]) {
        node_[to_index(v)][to_index(x)] =
            network_.costs(v)[to_index(x)] + extra_[to_index(v)][to_index(x)];
      }
    }
    for (std::size_t e = 0; e < messages_.size(); ++e) {
      const CostEdge& edge = network_.edges()[e];
      for (const int x : domains_[to_index(edge.first)]) {
        node_[to_index(edge.first)][to_index(x)] += messages_[e].first[to_index(x)];
      }
      for (const int y : domains_[to_index(edge.second)]) {
        node_[to_index(edge.second)][to_index(y)] += messages_[e].second[to_index(y)];
      }
    }
    for (int v = 0; v < network_.variables(); ++v) {
      double low = kForbidden;
      for (const int x : domains_[to_index(v)])
        low = std::min(low, node_[to_index(v)][to_index(x)]);
      for (const int x : domains_[to_index(v)]) node_[to_index(v)][to_index(x)] -= low;
      bound_ += low;
    }
    excess_ = node_;
    low_.assign(messages_.size(), kForbidden);
    own_.resize(messages_.size());
    for (std::size_t e = 0; e < messages_.size(); ++e) {
      const CostEdge& edge = network_.edges()[e];
      own_[e].first.assign(to_index(network_.values(edge.first)), kForbidden);
      own_[e].second.assign(to_index(network_.values(edge.second)), kForbidden);
      const CostTable& table = network_.tables()[to_index(edge.table)];
      for (const int x : domains_[to_index(edge.first)]) {
        double least = kForbidden;
        for (const int y : domains_[to_index(edge.second)]) {
          const double left =
              table.at(x, y) - messages_[e].first[to_index(x)] - messages_[e].second[to_index(y)];
          least = std::min(least, left);
          own_[e].second[to_index(y)] = std::min(own_[e].second[to_index(y)], left);
        }
        own_[e].first[to_index(x)] = least;
        low_[e] = std::min(low_[e], least);
      }
      for (const int x : domains_[to_index(edge.first)]) {
        own_[e].first[to_index(x)] -= low_[e];
        excess_[to_index(edge.first)][to_index(x)] += own_[e].first[to_index(x)];
      }
      for (const int y : domains_[to_index(edge.second)]) {
        own_[e].second[to_index(y)] -= low_[e];
        excess_[to_index(edge.second)][to_index(y)] += own_[e].second[to_index(y)];
      }
      bound_ += low_[e];
    }
  }

  const CostNetwork& network_;
  std::span<const double> multipliers_;
  std::vector<std::vector<int>> domains_;
  std::vector<std::vector<double>> extra_;  // by value: what the multipliers charge for it
  std::vector<std::vector<Weights>> weights_;
  std::vector<Messages> messages_;
  double bound_ = 0.0;
  std::vector<std::vector<double>> node_;
  std::vector<std::vector<double>> excess_;
  std::vector<double> low_;
  std::vector<Messages> own_;
};

// What an assignment of a few variables costs, where the network has no budgets. An impossible one
// costs kForbidden.
struct CostAlgebra {
  using Entry = double;
  double limit;  // the most that a solution may cost above the bound

  static Entry one() { return 0.0; }
  static Entry none() { return kForbidden; }
  static Entry of(double cost, const Weights&) { return cost; }
  static bool is_none(Entry entry) { return entry == kForbidden; }
  [[nodiscard]] Entry combined(Entry a, Entry b) const {
    return a + b <= limit ? a + b : kForbidden;
  }
  static void join(Entry& entry, Entry other) { entry = std::min(entry, other); }
  static double least(Entry entry) { return entry; }
};

// What assignments cost and weigh, where the network has budgets: those of which none is both
// cheaper and lighter than another.
struct BudgetedAlgebra {
  using Entry = Sums;
  double limit;  // the most that a solution may cost above the bound
  Sum room;      // the most that the weights may sum to
  std::span<const double> multipliers;

  static Entry one() { return {Sum{}}; }
  static Entry none() { return {}; }
  static Entry of(double cost, const Weights& weights) { return {Sum{cost, weights}}; }
  static bool is_none(const Entry& entry) { return entry.empty(); }

  [[nodiscard]] Entry combined(const Entry& a, const Entry& b) const {
    Entry out;
    for (const Sum& x : a) {
      for (const Sum& y : b) {
        Sum sum = x;
        sum.cost += y.cost;
        for (std::size_t i = 0; i < sum.weights.size(); ++i) sum.weights[i] += y.weights[i];
        if (sum.cost <= limit && no_heavier(sum, room)) add(out, sum);
      }
    }
    return out;
  }
  void join(Entry& entry, const Entry& other) const {
    for (const Sum& sum : other) add(entry, sum);
  }
  [[nodiscard]] double least(const Entry& entry) const {
    double lowest = kForbidden;
    for (const Sum& sum : entry) lowest = std::min(lowest, price(sum));
    return lowest;
  }

 private:
  // The cost without charges.
  [[nodiscard]] double price(const Sum& sum) const {
    double paid = sum.cost;
    for (std::size_t b = 0; b < multipliers.size(); ++b) {
      paid -= multipliers[b] * static_cast<double>(sum.weights[b]);
    }
    return paid;
  }
  void add(Sums& sums, const Sum& sum) const {
    const double own = price(sum);
    for (const Sum& other : sums) {
      if (price(other) <= own && no_heavier(other, sum)) return;
    }
    std::erase_if(sums, [&](const Sum& s) { return own <= price(s) && no_heavier(sum, s); });
    sums.push_back(sum);
  }
};

// Goes through the assignments of a remainder, one variable at a time.
template <class Algebra>
class Elimination {
 public:
  // Assignments whose cost with charges is above the limit of the algebra are not followed.
  Elimination(const Remainder& left, Algebra algebra)
      : left_(left), network_(left.network()), algebra_(std::move(algebra)) {}

  // The least cost above the bound, without charges, of the assignments that keep to the budgets.
  double run() {
    std::vector<std::vector<Factor>> factors(to_index(
        network_.variables()));  // by the first of their variables in the elimination order
    const std::vector<int> order = elimination_order();
    std::vector<int> position(to_index(network_.variables()));
    for (std::size_t i = 0; i < order.size(); ++i)
      position[to_index(order[i])] = static_cast<int>(i);
    Entry total = Algebra::one();
    const auto add_factor = [&](Factor factor) {
      // Variables with one value left add no dimension.
      std::erase_if(factor.scope, [&](int v) { return left_.domain(v).size() == 1; });
      if (factor.scope.empty()) {
        total = algebra_.combined(total, factor.entries[0]);
        return;
      }
      const int first =
          *std::ranges::min_element(factor.scope, {}, [&](int v) { return position[to_index(v)]; });
      factors[to_index(first)].push_back(std::move(factor));
    };
    for (const int v : order) add_factor(node_factor(v));
    for (std::size_t e = 0; e < network_.edges().size(); ++e) add_factor(edge_factor(e));
    for (const int v : order) {
      if (left_.domain(v).size() == 1) continue;
      Factor joined = eliminate_one(v, factors[to_index(v)]);
      factors[to_index(v)].clear();
      add_factor(std::move(joined));
    }
    return algebra_.least(total);
  }

 private:
  using Entry = typename Algebra::Entry;

  // What remains of some variables' costs: one entry for each of their joint values, the last
  // variable changing fastest.
  struct Factor {
    std::vector<int> scope;
    std::vector<Entry> entries;
  };

  // The node that has the fewest joint values with its neighbours goes first.
  [[nodiscard]] std::vector<int> elimination_order() const {
    std::vector<std::vector<int>> near(to_index(network_.variables()));
    for (const CostEdge& edge : network_.edges()) {
      near[to_index(edge.first)].push_back(edge.second);
      near[to_index(edge.second)].push_back(edge.first);
    }
    const auto tidy = [&](int v) {
      std::vector<int>& list = near[to_index(v)];
      std::erase_if(list, [&](int u) { return u == v || left_.domain(u).size() == 1; });
      std::ranges::sort(list);
      list.erase(std::unique(list.begin(), list.end()), list.end());
    };
    std::vector<double> weight(to_index(network_.variables()));
    const auto weigh = [&](int v) {
      weight[to_index(v)] = std::log(static_cast<double>(left_.domain(v).size()));
      for (const int u : near[to_index(v)]) {
        weight[to_index(v)] += std::log(static_cast<double>(left_.domain(u).size()));
      }
    };
    std::vector<int> order;
    std::vector<bool> gone(to_index(network_.variables()), false);
    // Lists of nodes by their number of joint values, in steps of a factor of sqrt(e), since a
    // nearly least number is good enough.
    std::vector<std::vector<int>> queue;
    const auto push = [&](int v) {
      weigh(v);
      const auto slot = static_cast<std::size_t>(2.0 * weight[to_index(v)]);
      if (slot >= queue.size()) queue.resize(slot + 1);
      queue[slot].push_back(v);
    };
    for (int v = 0; v < network_.variables(); ++v) {
      tidy(v);
      push(v);
    }
    for (std::size_t slot = 0; slot < queue.size();) {
      if (queue[slot].empty()) {
        ++slot;
        continue;
      }
      const int v = queue[slot].back();
      queue[slot].pop_back();
      if (gone[to_index(v)] || static_cast<std::size_t>(2.0 * weight[to_index(v)]) != slot)
        continue;
      gone[to_index(v)] = true;
      order.push_back(v);
      for (const int u : near[to_index(v)]) {
        near[to_index(u)].insert(near[to_index(u)].end(), near[to_index(v)].begin(),
                                 near[to_index(v)].end());
        tidy(u);
        std::erase(near[to_index(u)], v);
        push(u);
        slot = std::min(slot, static_cast<std::size_t>(2.0 * weight[to_index(u)]));
      }
    }
    return order;
  }

  [[nodiscard]] Factor node_factor(int v) const {
    Factor factor{.scope = {v}, .entries = {}};
    for (const int x : left_.domain(v)) {
      factor.entries.push_back(Algebra::of(left_.node_cost(v, x), left_.weights(v, x)));
    }
    return factor;
  }
  [[nodiscard]] Factor edge_factor(std::size_t e) const {
    const CostEdge& edge = network_.edges()[e];
    Factor factor{.scope = {edge.first, edge.second}, .entries = {}};
    for (const int x : left_.domain(edge.first)) {
      for (const int y : left_.domain(edge.second)) {
        const double left = left_.edge_cost(e, x, y);
        factor.entries.push_back(left <= algebra_.limit ? Algebra::of(left, {}) : Algebra::none());
      }
    }
    return factor;
  }

  // A factor beside the joint values of `out` and of the variable that is eliminated.
  struct Reader {
    const Factor* factor;
    std::vector<std::size_t> steps;  // by the variables of `out`
    std::size_t step = 0;            // the step of the variable that is eliminated
    std::size_t index = 0;
  };

  [[nodiscard]] Factor eliminate_one(int v, const std::vector<Factor>& factors) const {
    Factor out;
    for (const Factor& factor : factors) {
      for (const int u : factor.scope) {
        if (u != v && std::ranges::find(out.scope, u) == out.scope.end()) out.scope.push_back(u);
      }
    }
    std::vector<Reader> readers;
    for (const Factor& factor : factors) {
      Reader& reader = readers.emplace_back(Reader{&factor, {}});
      reader.steps.assign(out.scope.size(), 0);
      std::size_t step = 1;
      for (std::size_t i = factor.scope.size(); i-- > 0;) {
        const int u = factor.scope[i];
        const auto place = std::ranges::find(out.scope, u) - out.scope.begin();
        (u == v ? reader.step : reader.steps[static_cast<std::size_t>(place)]) = step;
        step *= left_.domain(u).size();
      }
    }
    std::size_t size = 1;
    for (const int u : out.scope) size *= left_.domain(u).size();
    out.entries.assign(size, Algebra::none());
    std::vector<std::size_t> digits(out.scope.size(), 0);
    for (Entry& entry : out.entries) {
      for (std::size_t x = 0; x < left_.domain(v).size(); ++x) {
        Entry joined = Algebra::one();
        for (const Reader& reader : readers) {
          joined =
              algebra_.combined(joined, reader.factor->entries[reader.index + x * reader.step]);
          if (Algebra::is_none(joined)) break;
        }
        algebra_.join(entry, joined);
      }
      for (std::size_t d = out.scope.size(); d-- > 0;) {
        const std::size_t extent = left_.domain(out.scope[d]).size();
        const bool turns = ++digits[d] == extent;
        for (Reader& reader : readers) {
          reader.index += reader.steps[d];
          if (turns) reader.index -= reader.steps[d] * extent;
        }
        if (!turns) break;
        digits[d] = 0;
      }
    }
    return out;
  }

  const Remainder& left_;
  const CostNetwork& network_;
  Algebra algebra_;
};

}  // namespace

double proven_bound(const CostNetwork& network, std::span<const Restriction> restrictions,
                    const BoundProof& proof, std::span<const double> multipliers) {
  Remainder left(network, restrictions, multipliers);
  if (left.is_empty()) return kForbidden;
  double charged = 0.0;
  for (std::size_t b = 0; b < multipliers.size(); ++b) {
    charged += multipliers[b] * static_cast<double>(network.budgets()[b].limit);
  }
  // The threshold includes charges, and everything that is dropped costs more than it.
  for (const BoundProof::Stage& stage : proof.stages) {
    left.apply(stage, proof.threshold);
    if (left.is_empty()) return network.constant() + proof.threshold - charged;
  }
  if (proof.stages.empty()) return network.constant();
  if (!proof.eliminates) {
    return network.constant() + std::min(left.bound(), proof.threshold) - charged;
  }
  const double limit = proof.threshold - left.bound() + std::abs(proof.threshold) * 1e-12;
  double above = kForbidden;
  if (multipliers.empty()) {
    above = Elimination(left, CostAlgebra{limit}).run();
  } else {
    BudgetedAlgebra algebra{.limit = limit, .room = {}, .multipliers = multipliers};
    for (std::size_t b = 0; b < multipliers.size(); ++b) {
      algebra.room.weights[b] = network.budgets()[b].limit;
    }
    above = Elimination(left, algebra).run();
  }
  return network.constant() + std::min(left.bound() + above, proof.threshold - charged);
}

}  // namespace shardlab
