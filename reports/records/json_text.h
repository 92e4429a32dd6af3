// Writes one large JSON object as text, key by key, without holding it as a tree: each key on a
// line, each element of its long arrays on a line of its own, so that two files diff cleanly and
// 20,000 questions cost one string.
//
//   JsonObjectText text;
//   text.value("schema", "shardlab/record/1");
//   text.begin_array("questions");
//   for (...) text.element(question_json);
//   text.end_array();
//   return text.finish();
//
// NaN and infinity become null (the caller writes the reason beside it); text that is not UTF-8
// gets replacement characters.
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
  // Closes the object and hands the text out, ending in a newline.
  [[nodiscard]] std::string finish();

 private:
  void key(std::string_view name);

  std::string text_ = "{";
  bool is_first_key_ = true;
  bool is_first_element_ = true;
};

// `json` on one line, as above.
[[nodiscard]] std::string json_line(const nlohmann::ordered_json& json);

}  // namespace shardlab::reports
