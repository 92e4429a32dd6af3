// The record of a tie audit: the JSON that `ties` prints, checked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/answer_detail.h"
#include "reports/records/run_header.h"

namespace shardlab {
namespace reports {

inline constexpr std::string_view kTiesKind = "ties";

struct TiesItem {
  std::string question;
  std::string op;
  std::string mesh;
  double bytes = 0.0;
  std::vector<std::string> inputs;
  std::string choice;
  std::optional<double> total_us;
  std::int64_t candidates = 0;
  std::int64_t exact_ties = 1;
  std::int64_t near_ties = 0;
  std::optional<double> margin_us;
  bool order_dependent = false;
  std::optional<DetailFlip> flip;
  std::vector<std::string> tied;
};

// How many choices have a margin from `from_percent` to below `below_percent` of their price.
struct MarginBand {
  double from_percent = 0.0;
  std::optional<double> below_percent;
  std::int64_t choices = 0;
};

// The margins of all choices, not only of those that are listed.
struct MarginsOfChoices {
  std::int64_t exact = 0;  // another candidate has the same price
  std::int64_t alone = 0;  // no other candidate is possible
  std::int64_t free = 0;   // the choice costs nothing, and the next candidate something
  // Redistributions whose planner makes one plan and weighs no other, and those of which one path
  // alone is the cheapest; missing in older records, which count both as `alone`.
  std::optional<std::int64_t> one_plan, one_path;
  std::vector<MarginBand> bands;
};

struct TiesRecord : ResultRecord {
  std::string stack;
  double within_percent = 0.0;
  std::int64_t questions = 0;
  std::int64_t exact_ties = 0;
  std::int64_t near_ties = 0;
  std::int64_t order_dependent = 0;
  std::map<std::string, std::int64_t> flipped_first_by;
  std::int64_t impossible = 0;
  std::int64_t not_asked = 0;
  std::vector<TiesItem> items;
  std::optional<MarginsOfChoices> margins;
};

// Throws ConfigError, which names `file` and a JSON pointer that begins with /result.
[[nodiscard]] TiesRecord read_ties_record(ResultRecord record, std::string_view file);

}  // namespace reports

template <>
struct Fields<reports::TiesItem> {
  using Self = reports::TiesItem;
  static constexpr auto kList =
      std::tuple(field("question", &Self::question, ""), field("op", &Self::op, ""),
                 field("mesh", &Self::mesh, ""),
                 field("bytes", &Self::bytes, "bytes of the largest tensor, unsharded", kAmount),
                 field("inputs", &Self::inputs, ""), field("choice", &Self::choice, ""),
                 field("total_us", &Self::total_us, ""), field("candidates", &Self::candidates, ""),
                 field("exact_ties", &Self::exact_ties, "candidates at the lowest price"),
                 field("near_ties", &Self::near_ties, "further candidates within the percentage"),
                 field("margin_us", &Self::margin_us, ""),
                 field("order_dependent", &Self::order_dependent, ""),
                 field("flip", &Self::flip, ""), field("tied", &Self::tied, ""));
};

template <>
struct Fields<reports::MarginBand> {
  using Self = reports::MarginBand;
  static constexpr std::string_view kName = "margin_band";
  static constexpr auto kList =
      std::tuple(field("from_percent", &Self::from_percent, "of the choice's price"),
                 field("below_percent", &Self::below_percent, "null: there is no limit"),
                 field("choices", &Self::choices, ""));
};

template <>
struct Fields<reports::MarginsOfChoices> {
  using Self = reports::MarginsOfChoices;
  static constexpr std::string_view kName = "margins_of_choices";
  static constexpr std::string_view kMeaning =
      "how much dearer the next candidate is, over all choices that have a price";
  static constexpr auto kList =
      std::tuple(field("exact", &Self::exact, "choices whose price another candidate shares"),
                 field("alone", &Self::alone, "choices without another possible candidate"),
                 field("free", &Self::free,
                       "choices that cost nothing, where the next candidate costs something"),
                 optional_field("one_plan", &Self::one_plan,
                                "redistributions whose planner makes one plan and weighs no other"),
                 optional_field("one_path", &Self::one_path,
                                "redistributions of which one path alone is the cheapest"),
                 field("bands", &Self::bands, "by margin, the smallest first"));
};

// The part of the record that is under "result".
template <>
struct Fields<reports::TiesRecord> {
  using Self = reports::TiesRecord;
  static constexpr std::string_view kName = "ties";
  static constexpr std::string_view kMeaning = "what `ties` prints";
  static constexpr auto kList = std::tuple(
      field("stack", &Self::stack, ""), field("within_percent", &Self::within_percent, ""),
      field("questions", &Self::questions, ""), field("exact_ties", &Self::exact_ties, ""),
      field("near_ties", &Self::near_ties, ""),
      field("order_dependent", &Self::order_dependent, ""),
      field("flipped_first_by", &Self::flipped_first_by,
            "for each parameter, how many choices its change flips first"),
      field("impossible", &Self::impossible, ""), field("not_asked", &Self::not_asked, ""),
      field("items", &Self::items, ""),
      optional_field("margins", &Self::margins, "missing in older records"));
};

}  // namespace shardlab
