// The whole-program instances of AutoParallel's golden files as cost-function networks.
//
//   const AutoParallelInstance golden(".../autoparallel_llama3_8b_einsum.json");
//   const CostNetwork network = golden.network(32, {});
//   golden.optimum_us(32);
//
// Source of the figures: meta-pytorch/autoparallel at a54c252. The header of a file says what it
// holds.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "strategies/solvers/network.h"

namespace shardlab::testing_support {

struct InstanceConstraints {
  bool parameters_fully_sharded = true;
  std::optional<std::string> inputs = "S(0)R";
  std::optional<std::string> outputs = "S(0)S(2)";
  // The parameters' budget, in units of 1/ranks of a parameter. No limit if absent.
  std::optional<std::int64_t> parameter_budget = std::nullopt;
};

class AutoParallelInstance {
 public:
  explicit AutoParallelInstance(nlohmann::json golden) : golden_(std::move(golden)) {}

  [[nodiscard]] bool has(int layers) const;
  [[nodiscard]] CostNetwork network(int layers, const InstanceConstraints& constraints = {}) const;
  [[nodiscard]] double optimum_us(int layers) const;
  [[nodiscard]] Assignment chosen(int layers) const;

 private:
  [[nodiscard]] const nlohmann::json& model(int layers) const;

  nlohmann::json golden_;
};

// The golden instances of a form ("einsum" or "native"): those of 1, 2 and 32 layers, or the one of
// 1 layer alone, which is quicker to read.
[[nodiscard]] AutoParallelInstance whole_golden(const std::string& form);
[[nodiscard]] AutoParallelInstance one_layer_golden(const std::string& form);

}  // namespace shardlab::testing_support
