#include "reports/records/json_text.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace shardlab::reports {
namespace {

template <class Json>
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string json_line(const nlohmann::ordered_json& json) { return dump(json); }

void JsonObjectText::key(std::string_view name) {
  text_ += is_first_key_ ? "\n  " : ",\n  ";
  is_first_key_ = false;
  text_ += dump(nlohmann::json(name));
  text_ += ": ";
}

void JsonObjectText::value(std::string_view name, const nlohmann::ordered_json& json) {
  key(name);
  text_ += dump(json);
}

void JsonObjectText::value(std::string_view name, const nlohmann::json& json) {
  key(name);
  text_ += dump(json);
}

void JsonObjectText::begin_array(std::string_view name) {
  key(name);
  text_ += "[";
  is_first_element_ = true;
}

void JsonObjectText::element(const nlohmann::ordered_json& json) {
  text_ += is_first_element_ ? "\n    " : ",\n    ";
  is_first_element_ = false;
  text_ += dump(json);
}

void JsonObjectText::end_array() { text_ += is_first_element_ ? "]" : "\n  ]"; }

std::string JsonObjectText::finish() {
  text_ += "\n}\n";
  return std::move(text_);
}

}  // namespace shardlab::reports
