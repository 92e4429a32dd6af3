// What would flip a choice: how far must latency, bandwidth or the launch floor of kernels change
// before another candidate is cheaper?
//
//   PriceFlips flips(stack, topology);
//   for (const PriceFlip& flip : flips.of(call, mesh)) flip.parameter, flip.factor, flip.to
//
// If all latencies (or all transfer times) are scaled by f, the price of a path is linear in f, the
// price of a candidate is the least over its paths, and the least price of all candidates is the
// lower envelope of their lines. To find the first point where the envelope leaves the chosen
// candidate, take the lines of the chosen candidate and of the one that is cheapest at the far end,
// and go to where they meet. If no candidate is cheaper there, that is the point; otherwise the
// cheapest one gives the next line (Eisner and Severance 1976, "Mathematical techniques for
// efficient record segmentation"). Nothing is sampled, so nothing is overlooked. Slopes come from
// two prices of one candidate, which leaves a relative error of about 1e-9. Where a kernel leaves
// its launch floor, prices bend the other way, so factors of the launch floor are searched from one
// such point to the next. Before a search, a proof is tried that there is nothing to find
// (flip_bounds.h), which is much cheaper than a search that finds nothing.
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/select/evaluator.h"
#include "strategies/select/flip_bounds.h"

namespace shardlab {

// The search looks at factors from 1/1024 to 1024; for the launch floor, from 1/16 to 16.
inline constexpr double kMostFactor = 1024.0;
inline constexpr double kMostLaunchFactor = 16.0;
// Flips whose |ln factor| agree to this are equally near, since factors have errors of their own.
// This is not rare: where a latency weighs against a launch floor, twice the one flips the choice
// as half the other does.
inline constexpr double kSameDistance = 1e-6;

struct PriceFlip {
  std::string_view parameter;  // latency, bandwidth, launch_floor
  double factor = 1.0;         // at this factor another candidate is as cheap; beyond it, cheaper
  std::string to;              // the layouts of that candidate

  [[nodiscard]] double distance() const { return std::abs(std::log(factor)); }
};

class PriceFlips {
 public:
  PriceFlips(const Stack& stack, const Topology& topology);

  // For each parameter that has a flip, the one on the nearer side of 1. The flip that needs the
  // smallest change comes first: the least |ln factor|, and where those agree to kSameDistance, the
  // order of the parameters. Empty when nothing in range flips the choice. Throws InputError as
  // StackEvaluator::select does.
  [[nodiscard]] std::vector<PriceFlip> of(const OpCall& call, const DeviceMesh& mesh);

  // The first element of `of`, found sooner: no parameter is followed far beyond the nearest flip.
  [[nodiscard]] std::optional<PriceFlip> first_of(const OpCall& call, const DeviceMesh& mesh);
  // The same for a question that an evaluator of the same stack has priced.
  [[nodiscard]] std::optional<PriceFlip> first_of(const PricedCall& question);

  // Every flip is searched from here on, and none is ruled out by a proof. The flips are the same;
  // benchmarks and tests compare the two.
  void search_everywhere() { proves_ = false; }
  // How often a proof has saved a search so far.
  [[nodiscard]] std::size_t ruled_out() const { return ruled_out_; }

 private:
  class Search;

  [[nodiscard]] std::vector<PriceFlip> nearest(const OpCall& call, const DeviceMesh& mesh,
                                               bool only_first);
  [[nodiscard]] std::vector<PriceFlip> nearest(const PricedCall& question, bool only_first);

  StackEvaluator evaluator_;
  FlipBounds bounds_;
  bool proves_ = true;
  std::size_t ruled_out_ = 0;
};

}  // namespace shardlab
