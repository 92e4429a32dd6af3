// Networks of equal layers, forwards and backwards, as the training step of a model has them.
#include "strategies/solvers/repeated_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "costmodel/base/index.h"
#include "strategies/solvers/dual_ascent.h"
#include "strategies/solvers/exact.h"
#include "tests/support/random_networks.h"

namespace shardlab {
namespace repeated_layers_test {

using testing_support::Random;

constexpr int kValues = 3;

// A random cost up to `most`, in steps of a millionth.
double amount(Random& random, int most) {
  return static_cast<double>(random.between(0, 1'000'000) * most) * 1e-6;
}

// The edges are hub -> every layer; forwards source[l] -> in[l] -> out[l] -> in[l+1]; backwards
// back[l+1] -> back[l]; and out[l] - back[l]. Nodes are in the order of a trace: hub, sources,
// layers forwards, layers backwards.
class Layered {
 public:
  Layered(Random& random, int layers) : layers_(layers) {
    const int domain = network.add_domain({"a", "b", "c"});
    const auto variable = [&](const std::string& name, const std::vector<double>& costs) {
      return network.add_variable(name, domain, costs);
    };
    hub = variable("hub", costs(random, kValues));
    const std::vector<double> of_source = costs(random, kValues);
    const std::vector<double> of_back = costs(random, kValues);
    for (std::array<double, kValues * kValues>& table : tables_) {
      for (double& cost : table) cost = random.percent(10) ? kForbidden : amount(random, 100);
      table[4] = 10.0;  // b beside b is always allowed
    }
    for (int l = 0; l < layers; ++l) {
      source.push_back(variable("source" + std::to_string(l), of_source));
    }
    for (int l = 0; l < layers; ++l) {
      in.push_back(variable("in" + std::to_string(l), {0, 0, 0}));
      out.push_back(variable("out" + std::to_string(l), {0, 1, 2}));
    }
    for (int l = layers - 1; l >= 0; --l)
      back.push_back(variable("back" + std::to_string(l), of_back));
    std::ranges::reverse(back);
    std::vector<int> ids;
    for (const auto& table : tables_) {
      ids.push_back(network.add_table(kValues, kValues, {table.begin(), table.end()}));
    }
    for (int l = 0; l < layers; ++l) {
      const auto i = static_cast<std::size_t>(l);
      network.add_edge(hub, in[i], ids[0]);
      network.add_edge(source[i], in[i], ids[1]);
      network.add_edge(in[i], out[i], ids[2]);
      network.add_edge(out[i], back[i], ids[3]);
      if (l + 1 == layers) continue;
      network.add_edge(out[i], in[i + 1], ids[4]);
      network.add_edge(back[i + 1], back[i], ids[5]);
    }
  }

  // The optimum, layer by layer: for each value of the hub, over the values of out and back.
  [[nodiscard]] double optimum() const {
    double best = kForbidden;
    for (int h = 0; h < kValues; ++h) {
      std::array<double, kValues * kValues> reached{};
      for (int l = 0; l < layers_; ++l) {
        std::array<double, kValues * kValues> next;
        next.fill(kForbidden);
        for (int o = 0; o < kValues; ++o) {
          for (int b = 0; b < kValues; ++b) {
            for (int before = 0; before < (l == 0 ? 1 : kValues * kValues); ++before) {
              double least = kForbidden;
              for (int i = 0; i < kValues; ++i) {
                for (int s = 0; s < kValues; ++s) {
                  const double entry = l == 0 ? 0.0 : cost(4, before / kValues, i);
                  least = std::min(least, node(source, l, s) + cost(1, s, i) + cost(0, h, i) +
                                              entry + cost(2, i, o));
                }
              }
              const double leave = l == 0 ? 0.0 : cost(5, b, before % kValues);
              double& known = next[to_index(o * kValues + b)];
              known = std::min(known, reached[to_index(before)] + least + leave + node(out, l, o) +
                                          cost(3, o, b) + node(back, l, b));
            }
          }
        }
        reached = next;
      }
      best = std::min(best, network.costs(hub)[to_index(h)] + *std::ranges::min_element(reached));
    }
    return best;
  }

  CostNetwork network;
  int hub = 0;
  std::vector<int> source, in, out, back;

 private:
  static std::vector<double> costs(Random& random, int count) {
    std::vector<double> values;
    for (int i = 0; i < count; ++i) values.push_back(amount(random, 10));
    return values;
  }
  [[nodiscard]] double cost(std::size_t table, int row, int column) const {
    return tables_[table][to_index(row * kValues + column)];
  }
  [[nodiscard]] double node(const std::vector<int>& nodes, int layer, int value) const {
    return network.costs(nodes[to_index(layer)])[to_index(value)];
  }

  int layers_;
  std::array<std::array<double, kValues * kValues>, 6> tables_{};
};

TEST(RepeatedLayers, FindsTheLayersOfAForwardAndABackwardPass) {
  Random random(720);
  SHARDLAB_TRACE_SEED();
  const Layered layered(random, 40);
  const CutNetwork cut(layered.network, {});
  const RepeatedLayers places = find_repeated_layers(cut);
  ASSERT_GE(places.layers,
            40 - 2 * 9);  // near the ends, as far as colours reach, nodes look different
  EXPECT_EQ(places.keys, 4);
  EXPECT_EQ(places.layer[to_index(layered.hub)], RepeatedLayers::kNone);
  int inside = 0;
  for (std::size_t l = 0; l + 1 < 40; ++l) {
    const auto layer = [&](const std::vector<int>& nodes, std::size_t i) {
      return places.layer[to_index(nodes[i])];
    };
    const int here = layer(layered.out, l);
    if (here == RepeatedLayers::kNone) continue;
    ++inside;
    EXPECT_EQ(layer(layered.in, l), here);
    EXPECT_EQ(layer(layered.source, l), here);
    EXPECT_EQ(layer(layered.back, l), here);
    if (layer(layered.out, l + 1) == RepeatedLayers::kNone) continue;
    EXPECT_EQ(std::abs(layer(layered.out, l + 1) - here), 1);
    EXPECT_EQ(places.key[to_index(layered.out[l])], places.key[to_index(layered.out[l + 1])]);
  }
  EXPECT_EQ(inside, places.layers);
}

TEST(RepeatedLayers, MessagesOfAFewLayersSpareMostSweeps) {
  Random random(721);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < 10; ++i) {
    const Layered layered(random, 64);
    const CutNetwork cut(layered.network, {});
    const std::vector<double> messages = repeated_layer_messages(cut);
    ASSERT_EQ(messages.size(), cut.messages());
    DualAscent with(cut);
    with.set_messages(messages);
    DualAscent without(cut);
    for (int s = 0; s < 4; ++s) with.sweep();
    for (int s = 0; s < 16; ++s) without.sweep();
    EXPECT_GE(with.bound(), without.bound() - 1e-6) << i;
    EXPECT_LE(with.bound(), layered.optimum() + 1e-9);
  }
}

TEST(RepeatedLayers, TheOptimumIsTheOneFoundLayerByLayer) {
  Random random(722);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < testing_support::random_cases(60); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const int layers = 1 + random.below(70);
    const Layered layered(random, layers);
    const ExactSolution found = ExactSolver(layered.network).solve();
    const double optimum = layered.optimum();
    ASSERT_TRUE(found.feasible);
    EXPECT_TRUE(found.optimal);
    EXPECT_NEAR(found.objective, optimum, 1e-9 * optimum);
    EXPECT_NEAR(found.lower_bound, optimum, 1e-8 * optimum);
    if (HasFailure()) return;
  }
}

// A pin in the middle makes one layer unlike the others.
TEST(RepeatedLayers, TheOptimumIsFoundAroundAPinnedLayer) {
  Random random(723);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < 20; ++i) {
    Layered layered(random, 50);
    const auto pinned = static_cast<std::size_t>(random.below(50));
    const ExactSolution found =
        ExactSolver(layered.network)
            .solve({.restrictions = {{.variable = layered.out[pinned], .allowed = {1}}}});
    layered.network.add_cost(layered.out[pinned], 0, kForbidden);
    layered.network.add_cost(layered.out[pinned], 2, kForbidden);
    const double optimum = layered.optimum();
    EXPECT_TRUE(found.optimal);
    EXPECT_NEAR(found.objective, optimum, 1e-9 * optimum);
  }
}

TEST(RepeatedLayers, ANetworkThatDoesNotRepeatHasNone) {
  Random random(724);
  SHARDLAB_TRACE_SEED();
  const CostNetwork network = testing_support::random_network(
      random, {.variables = 40, .most_values = 4, .edges = 60, .forbidden = 0});
  EXPECT_TRUE(repeated_layer_messages(CutNetwork(network, {})).empty());
  const Layered few(random, 6);
  EXPECT_TRUE(repeated_layer_messages(CutNetwork(few.network, {})).empty());
}

}  // namespace repeated_layers_test
}  // namespace shardlab
