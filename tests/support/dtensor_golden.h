// Compares the stack of a release with answers of that PyTorch, as scripts/gen_golden_dtensor.py
// writes them (its docstring describes the files). A file names its PyTorch, and with it the stack.
// Each function returns one line per difference, and throws InputError for a file of a PyTorch that
// is not in kReleases.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "strategies/rules/rule_set.h"

namespace shardlab::testing_support {

struct GoldenReport {
  std::size_t compared = 0;
  std::size_t skipped = 0;  // cases that PyTorch could not answer, or whose order it leaves open
  std::vector<std::string> differences;

  void add(GoldenReport more);  // the report of another file
};

// The release whose PyTorch answered the questions of a file.
[[nodiscard]] const ReleaseEntry& release_of(const nlohmann::json& file);

[[nodiscard]] GoldenReport compare_costs(const nlohmann::json& file);
[[nodiscard]] GoldenReport compare_plans(const nlohmann::json& file);
[[nodiscard]] GoldenReport compare_selections(const nlohmann::json& file);

// FNV-1a, 64 bits, as 16 hexadecimal digits.
[[nodiscard]] std::string fnv1a(const std::string& text);

}  // namespace shardlab::testing_support
