// What a record keeps of a decision that flips, so that its report can explain it: the cheapest
// candidates with the parts of their prices, the steps of the choice, and what would flip it first.
//
//   {"candidates": [{"choice", "total_us", "parts_us": {latency, transfer, compute, straggler},
//                    "kernel_us", "reference_us", "chosen"}],
//    "steps": [{"of", "what", "full_bytes", "price_us", "parts_us"}],
//    "flips_first": {"parameter", "factor", "to"}}     null: none found; absent: not looked for
//
// Parts are of the redistributions of the inputs, `kernel_us` is of the op itself. Null: impossible,
// or nothing to say. Tested by tests/unit/reports/records/answer_detail_test.cpp.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab::reports {

struct PartsOfPrice {
  double latency_us = 0.0;
  double transfer_us = 0.0;
  double compute_us = 0.0;  // local work of redistributing
  double straggler_us = 0.0;
  friend bool operator==(const PartsOfPrice&, const PartsOfPrice&) = default;
};

struct DetailCandidate {
  std::string choice;
  std::optional<double> total_us;
  std::optional<PartsOfPrice> parts;
  double kernel_us = 0.0;
  std::optional<double> reference_us;  // the reference's own price of the same layouts
  bool is_chosen = false;
  friend bool operator==(const DetailCandidate&, const DetailCandidate&) = default;
};

struct DetailStep {
  std::string of;    // "input 0", or ""
  std::string what;  // "all_gather on mesh dim 1, S(0) to R"
  double full_bytes = 0.0;
  std::optional<double> price_us;
  std::optional<PartsOfPrice> parts;
  friend bool operator==(const DetailStep&, const DetailStep&) = default;
};

struct DetailFlip {
  std::string parameter;  // "latency"
  double factor = 1.0;    // times this, `to` is as cheap, and cheaper beyond
  std::string to;
  friend bool operator==(const DetailFlip&, const DetailFlip&) = default;
};

struct AnswerDetail {
  std::vector<DetailCandidate> candidates;
  std::vector<DetailStep> steps;
  bool looked_for_flip = false;
  std::optional<DetailFlip> flips_first;  // nothing: none was found, or looked for
  friend bool operator==(const AnswerDetail&, const AnswerDetail&) = default;
};

[[nodiscard]] nlohmann::ordered_json to_json(const AnswerDetail& detail);

// Throws ConfigError, naming `file` and the JSON pointer, for anything that is not such a detail.
[[nodiscard]] AnswerDetail read_answer_detail(const nlohmann::json& value, std::string_view file,
                                              const std::string& pointer);

}  // namespace shardlab::reports
