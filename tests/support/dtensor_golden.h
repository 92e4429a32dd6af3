// Compares the stack dtensor-2.13 with answers of a real PyTorch, as scripts/gen_golden_dtensor.py
// writes them (its docstring describes the files). Each function returns one line per difference.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace shardlab::testing_support {

struct GoldenReport {
  std::size_t compared = 0;
  std::size_t skipped = 0;  // cases that PyTorch could not answer, or whose order it leaves open
  std::vector<std::string> differences;
};

[[nodiscard]] GoldenReport compare_costs(const nlohmann::json& file);
[[nodiscard]] GoldenReport compare_plans(const nlohmann::json& file);
[[nodiscard]] GoldenReport compare_selections(const nlohmann::json& file);

// FNV-1a, 64 bits, as 16 hexadecimal digits.
[[nodiscard]] std::string fnv1a(const std::string& text);

}  // namespace shardlab::testing_support
