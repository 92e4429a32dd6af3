// What a record keeps of a decision that flips, so that its report can explain it: the cheapest
// candidates with the parts of their prices, the steps of the choice, and what would flip it first.
//
//   AnswerDetail detail = explainer.explain(question, choices, true);  // strategies/select
//   detail.candidates.front().parts->transfer_us
//
// A candidate or step without a price is impossible. Tested by
// tests/unit/reports/records/answer_detail_test.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/fields.h"

namespace shardlab {
namespace reports {

// The parts of the price of redistributions. The kernel of the op itself is not included.
struct PartsOfPrice {
  double latency_us = 0.0;
  double transfer_us = 0.0;
  double compute_us = 0.0;
  double straggler_us = 0.0;
  friend bool operator==(const PartsOfPrice&, const PartsOfPrice&) = default;
};

struct DetailCandidate {
  std::string choice;
  std::optional<double> total_us;
  std::optional<PartsOfPrice> parts;
  double kernel_us = 0.0;
  std::optional<double> reference_us;
  bool is_chosen = false;
  friend bool operator==(const DetailCandidate&, const DetailCandidate&) = default;
};

struct DetailStep {
  std::string of;
  std::string what;
  double full_bytes = 0.0;
  std::optional<double> price_us;
  std::optional<PartsOfPrice> parts;
  friend bool operator==(const DetailStep&, const DetailStep&) = default;
};

struct DetailFlip {
  std::string parameter;
  double factor = 1.0;
  std::string to;
  friend bool operator==(const DetailFlip&, const DetailFlip&) = default;
};

struct AnswerDetail {
  std::vector<DetailCandidate> candidates;
  std::vector<DetailStep> steps;
  // The outer optional is empty if nobody looked for such a parameter, and the inner one if none
  // was found.
  std::optional<std::optional<DetailFlip>> flips_first;
  friend bool operator==(const AnswerDetail&, const AnswerDetail&) = default;
};

}  // namespace reports

template <>
struct Fields<reports::PartsOfPrice> {
  using Self = reports::PartsOfPrice;
  static constexpr std::string_view kName = "parts";
  static constexpr std::string_view kMeaning =
      "parts of the price of redistributions, in microseconds, without the op's kernel";
  static constexpr auto kList =
      std::tuple(field("latency", &Self::latency_us, ""), field("transfer", &Self::transfer_us, ""),
                 field("compute", &Self::compute_us, "local work of redistributing"),
                 field("straggler", &Self::straggler_us, ""));
};

template <>
struct Fields<reports::DetailCandidate> {
  using Self = reports::DetailCandidate;
  static constexpr auto kList = std::tuple(
      field("choice", &Self::choice, ""), field("total_us", &Self::total_us, "null: impossible"),
      field("parts_us", &Self::parts, "parts of the price of redistributing the inputs"),
      field("kernel_us", &Self::kernel_us, "price of the op itself"),
      field("reference_us", &Self::reference_us, "the reference's own price of the same layouts"),
      field("chosen", &Self::is_chosen, ""));
};

template <>
struct Fields<reports::DetailStep> {
  using Self = reports::DetailStep;
  static constexpr auto kList = std::tuple(
      field("of", &Self::of, "what the step moves, such as input 0; empty for a redistribution"),
      field("what", &Self::what, "the step, such as all_gather on mesh dim 1, S(0) to R"),
      field("full_bytes", &Self::full_bytes, "bytes of the larger of one rank's two buffers",
            kAmount),
      field("price_us", &Self::price_us, ""), field("parts_us", &Self::parts, ""));
};

template <>
struct Fields<reports::DetailFlip> {
  using Self = reports::DetailFlip;
  static constexpr std::string_view kName = "flip";
  static constexpr std::string_view kMeaning =
      "the parameter whose change makes another choice equally cheap, and the factor";
  static constexpr auto kList =
      std::tuple(field("parameter", &Self::parameter, "the parameter's name, such as latency"),
                 field("factor", &Self::factor,
                       "with the parameter times this, both choices cost the same; beyond it, the "
                       "other is cheaper"),
                 field("to", &Self::to, "the other choice"));
};

template <>
struct Fields<reports::AnswerDetail> {
  using Self = reports::AnswerDetail;
  static constexpr std::string_view kName = "detail";
  static constexpr std::string_view kMeaning =
      "details of a decision that flips (see reports/records/answer_detail.h)";
  static constexpr auto kList =
      std::tuple(field("candidates", &Self::candidates, "the cheapest ones, by price"),
                 field("steps", &Self::steps, "the steps that the choice runs"),
                 optional_field("flips_first", &Self::flips_first,
                                "null: none was found; absent: not looked for"));
};

}  // namespace shardlab
