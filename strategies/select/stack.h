// What is evaluated: rules, transitions, planner, models, order, policy and search under one name.
//
//   Stack stack = Stack::from_json(json, place, load_base);
//   StackEvaluator evaluator(stack, topology);              // strategies/select/evaluator.h
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "costmodel/registry.h"
#include "costmodel/straggler.h"
#include "sim/redistribute.h"
#include "strategies/rules/rule_source.h"
#include "strategies/select/selection.h"

namespace shardlab {

class DecisionSource;  // strategies/select/decision_source.h
class PriceWatch;      // costmodel/price_watch.h

enum class SearchKind : std::uint8_t { kFull, kDijkstra, kExact };
template <>
struct EnumNames<SearchKind> {
  static constexpr std::string_view kKind = "search";
  static constexpr std::array kNames = {Named{SearchKind::kFull, "full"},
                                        Named{SearchKind::kDijkstra, "dijkstra"},
                                        Named{SearchKind::kExact, "exact"}};
};
[[nodiscard]] constexpr std::string_view to_string(SearchKind search) { return name_of(search); }

// What the price of a kernel takes a rank to hold of a strided shard: its own part, or the whole
// tensor. AutoParallel at a54c252 takes the whole tensor, since it asks Placement.is_shard(), which
// is false for strided shards since pytorch/pytorch#167887; its pull request 429 mends that.
// Source: autoparallel, cost_models/compute_estimation.py.
enum class StridedKernels : std::uint8_t { kLocal, kWhole };
template <>
struct EnumNames<StridedKernels> {
  static constexpr std::string_view kKind = "strided kernels";
  static constexpr std::array kNames = {Named{StridedKernels::kLocal, "local"},
                                        Named{StridedKernels::kWhole, "whole"}};
};
// The shape by which kernels are priced, on the rank with the largest shard.
[[nodiscard]] Shape kernel_shape(const Shape& shape, Placements placements, const DeviceMesh& mesh,
                                 StridedKernels strided);

struct Stack {
  std::string name;
  std::string title;
  std::string source;
  Rules rules = RuleSet(Release::k2_13);
  RedistributionOptions redistribution;
  ModelChoice collective_model;
  ModelChoice compute_model;
  StridedKernels strided_kernels = StridedKernels::kLocal;
  Straggler straggler;
  CandidateOrder order;
  Policy policy = Policy::kKeepInput;
  SearchKind search = SearchKind::kFull;
  // Whether the search "dijkstra" leaves out steps that one collective cannot make (search.h).
  bool nesting_guard = true;
  // Microseconds added to every redistribution of an input that changes its placements.
  double transition_us = 0.0;
  // What is known of clusters beside these prices, for training steps: an array of terms as
  // strategies/training/step_terms.h reads it.
  nlohmann::json step_terms = nlohmann::json::array();
  // The user's function that prices transitions or collectives, "mine.py:price"; empty if none
  // does.
  std::string cost_function;
  // Who makes some of the decisions in place of the stack; null if nobody does.
  std::shared_ptr<DecisionSource> decisions;
  // Each watches whether the prices of the stack's models depend on a change of the topology.
  // Kernels under what-if factors (StackEvaluator::set_factors) are not watched.
  std::vector<std::shared_ptr<PriceWatch>> watches;

  // Loads the JSON of the stack that a "base" names. That stack has no base of its own.
  using LoadBase = std::function<nlohmann::json(const std::string& name)>;
  // A stack that has a base and no name of its own is called "BASE+". Throws ConfigError.
  [[nodiscard]] static Stack from_json(const nlohmann::json& json, const JsonPlace& place,
                                       const LoadBase& load_base = {});
  // The effective configuration: every key, with defaults filled in.
  [[nodiscard]] nlohmann::json to_json() const;
};

// A stack that has a "base" holds only what it changes: each of its keys replaces the base's value,
// and the base has all others. A model with the base's "name" changes only the parameters that it
// gives: {"base": "mine", "collective_model": {"name": "dtensor", "params": {"base_latency_us":
// 1}}} keeps the bandwidth of mine. A model that is only named, {"base": "mine",
// "collective_model": "dtensor"}, has its default parameters. Returns `json` itself where it has no
// base. Throws ConfigError.
[[nodiscard]] nlohmann::json upon_base(const nlohmann::json& json, const JsonPlace& place,
                                       const Stack::LoadBase& load_base);

}  // namespace shardlab
