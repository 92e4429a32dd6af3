// Reads one JSON object that must hold exactly the keys its reader asks for: a missing key, an
// unknown key and a value of the wrong type are each a ConfigError naming the file and the JSON
// pointer.
//
//   StrictObject question(json, "run.json", "/questions/3");
//   const std::string id = question.text("id");
//   const std::optional<double> price_us = question.number_or_null("price_us");
//   question.finish();      // throws for a key that nobody asked for, listing the valid ones
//
// The object borrows `json`, which must outlive it.
// Tested by tests/unit/reports/records/strict_json_test.cpp.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab::reports {

class StrictObject {
 public:
  // Throws ConfigError when `json` is not an object.
  StrictObject(const nlohmann::json& json, std::string_view file, std::string pointer);

  // Each of these throws ConfigError for a missing key or a wrong type.
  [[nodiscard]] const nlohmann::json& value(std::string_view key);
  [[nodiscard]] const nlohmann::json& array(std::string_view key);
  [[nodiscard]] const nlohmann::json& object(std::string_view key);
  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] bool flag(std::string_view key);
  [[nodiscard]] double number(std::string_view key);
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t low);
  [[nodiscard]] std::uint64_t unsigned_integer(std::string_view key);
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);
  [[nodiscard]] std::vector<double> numbers(std::string_view key);
  [[nodiscard]] std::vector<std::optional<double>> numbers_or_null(std::string_view key);
  // null reads as nothing; the key itself must be there.
  [[nodiscard]] std::optional<double> number_or_null(std::string_view key);
  [[nodiscard]] std::string text_or_null(std::string_view key);  // null reads as ""

  // True when the key is there; it then counts as known.
  [[nodiscard]] bool has(std::string_view key);

  // "/questions/3/id".
  [[nodiscard]] std::string pointer_to(std::string_view key) const;
  [[noreturn]] void fail(std::string_view key, std::string_view message) const;

  // Throws ConfigError for the first key that nobody asked for.
  void finish() const;

 private:
  const nlohmann::json* json_;
  std::string_view file_;
  std::string pointer_;
  std::vector<std::string> known_;
};

}  // namespace shardlab::reports
