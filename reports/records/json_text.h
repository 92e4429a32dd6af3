// Writes one large JSON object as text, key by key, without building a tree of it. Each key and
// each element of a long array is on a line of its own, so that two files diff cleanly. Even 20,000
// questions take only the memory of their text.
//
//   JsonObjectText text;
//   text.value("schema", nlohmann::ordered_json("shardlab/record/1"));
//   text.begin_array("questions");
//   for (...) text.element(question_json);
//   text.end_array();
//   return text.finish();
//
// NaN and infinity become null (the caller writes the reason beside it). Bytes that are not UTF-8
// become replacement characters.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace shardlab::reports {

class JsonObjectText {
 public:
  void value(std::string_view key, const nlohmann::ordered_json& json);
  void value(std::string_view key, const nlohmann::json& json);
  void begin_array(std::string_view key);
  void element(const nlohmann::ordered_json& json);
  void end_array();
  // Closes the object and returns the text, which ends in a newline.
  [[nodiscard]] std::string finish();

 private:
  void key(std::string_view name);

  std::string text_ = "{";
  bool is_first_key_ = true;
  bool is_first_element_ = true;
};

// `json` on one line, with the same replacements.
[[nodiscard]] std::string json_line(const nlohmann::ordered_json& json);

}  // namespace shardlab::reports
