// The record of a tie audit: what `ties` prints, checked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/answer_detail.h"
#include "reports/records/run_header.h"

namespace shardlab::reports {

inline constexpr std::string_view kTiesKind = "ties";

struct TiesItem {
  std::string question;
  std::string op;
  std::string mesh;
  double bytes = 0.0;  // the largest tensor, unsharded
  std::vector<std::string> inputs;
  std::string choice;
  std::optional<double> total_us;
  std::int64_t candidates = 0;
  std::int64_t exact_ties = 1;  // candidates at the minimum
  std::int64_t near_ties = 0;   // further ones within the given percentage
  std::optional<double> margin_us;
  bool order_dependent = false;
  std::optional<DetailFlip> flip;
  std::vector<std::string> tied;
};

struct TiesRecord : ResultRecord {
  std::string stack;
  double within_percent = 0.0;
  std::int64_t questions = 0;
  std::int64_t exact_ties = 0;
  std::int64_t near_ties = 0;
  std::int64_t order_dependent = 0;
  std::int64_t impossible = 0;
  std::int64_t not_asked = 0;
  std::map<std::string, std::int64_t> flipped_first_by;  // choices by parameter
  std::vector<TiesItem> items;
};

// Throws ConfigError, naming `file` and the JSON pointer, which begins with /result.
[[nodiscard]] TiesRecord read_ties_record(ResultRecord record, std::string_view file);

}  // namespace shardlab::reports
