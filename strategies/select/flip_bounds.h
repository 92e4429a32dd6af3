// Proofs that no change of a parameter flips a choice, which save the search for a flip
// (price_flips.h) where there is none.
//
//   FlipBounds bounds(evaluator);
//   bounds.begin({rule, call, mesh, expansion, pricing, decision}, chosen);
//   if (bounds.rule_out(latency, 1024.0)) ...   // no factor up to 1024 flips the choice
//
// The plans of the choice at factor 1 remain possible at every other factor, so that what they cost
// there is an upper bound on the price of the choice, and linear in the factor. The price of any
// other candidate is the least over its paths, which is concave: between two factors it lies above
// the straight line through its prices at both. Hence, if the bound on the choice is at most the
// price of every other candidate at both factors, then it is so everywhere between them. At factor
// 1 all prices are known. At the other factor, the prices of the others are bounded from below by a
// graph of layouts (sim/planners/graph_spread.h), of which only the part has to be looked at that
// costs less than the choice: mostly a few layouts of thousands.
//
// Kernels with a launch floor bend the other way where they leave the floor, so that for the launch
// floor the bounds are compared at each such point too.
//
// A proof holds up to a relative 4e-13, which is less than the difference from which on the search
// calls a candidate cheaper (1e-12). The proof does not depend on the search, and its absence means
// nothing: it is absent for stacks whose prices are not those of the graph planner, and for strided
// shards, and where the bounds are too far apart.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/planners/graph_spread.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/kernel_prices.h"
#include "strategies/select/scaled_parameters.h"

namespace shardlab {

// A question with its prices at factors of 1, and the choice. All of it must outlive its users.
struct PricedCall {
  const OpRule& rule;
  const OpCall& call;
  const DeviceMesh& mesh;
  const Expansion& expansion;
  const Pricing& pricing;
  const Decision& decision;
};

class FlipBounds {
 public:
  // Keeps a reference to the evaluator, whose factors it changes.
  explicit FlipBounds(StackEvaluator& evaluator) : evaluator_(evaluator) {}

  // Begins with another question. `chosen` is the number of the choice among its candidates.
  void begin(const PricedCall& question, std::size_t chosen);

  // Whether the choice is proved to stay the cheapest as the parameter goes from 1 to `end`, which
  // may be on either side of 1. Leaves the evaluator with factors of its own.
  [[nodiscard]] bool rule_out(const ScaledParameter& parameter, double end);

 private:
  // Tensors of as many bytes share their prices.
  struct Spread {
    TensorMeta meta;
    const LayoutGraph* graph;
    LayoutSpread prices;
  };
  struct Input {
    std::size_t spread = 0;
    std::uint32_t source = 0;
    std::uint32_t current = 0;          // the code of its layout in the call
    std::vector<std::uint32_t> codes;   // codes of the layouts that candidates ask for
    std::vector<std::uint32_t> states;  // the graph's states, by position in `codes`
    std::vector<double> at_least;       // by code: the bound at the factors of the last question
  };
  // One step of a plan of the choice.
  struct Step {
    Placement from;
    Placement to;
    int mesh_dim;
  };
  struct Way {
    const TensorMeta* meta;
    Bytes local_bytes;
    std::vector<Step> steps;
  };
  using GraphKey =
      std::tuple<int, int, std::uint32_t>;  // dims of the mesh and the tensor, partials

  [[nodiscard]] bool prepare(const PricedCall& question, std::size_t chosen);
  [[nodiscard]] bool prepare_input(const PricedCall& question, std::size_t input);
  [[nodiscard]] bool prepare_choice(const PricedCall& question, std::size_t chosen);
  [[nodiscard]] const LayoutGraph* graph_of(int mesh_ndim, int tensor_ndim, std::uint32_t partials);
  // What the choice costs at most at the factors that the evaluator has.
  [[nodiscard]] double choice_at_most();
  // Whether at this factor every other candidate costs at least as much as the choice does at most.
  [[nodiscard]] bool holds_at(const ScaledParameter& parameter, double f);
  [[nodiscard]] bool compare();
  [[nodiscard]] const std::vector<double>& thresholds();

  StackEvaluator& evaluator_;
  std::map<GraphKey, std::unique_ptr<LayoutGraph>> graphs_;

  // The question.
  std::optional<PricedCall> question_;  // empty if nothing can be proved about it
  std::size_t chosen_ = 0;
  CostFactors factors_;
  std::vector<std::unique_ptr<Spread>> spreads_;
  std::vector<Input> inputs_;
  std::vector<Way> ways_;  // the plans of the choice
  std::optional<KernelPrices> kernels_;
  std::optional<std::vector<double>> thresholds_;
  std::vector<std::tuple<const ScaledParameter*, double, bool>> known_;  // answers of holds_at()
};

}  // namespace shardlab
