#include "runner/config/read_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/json_reader.h"
#include "runner/base/read_file.h"

namespace shardlab {
namespace {

namespace fs = std::filesystem;

// Builds a document, and stops at the first fault. A Probe then finds out what the fault is.
class Builder {
 public:
  [[nodiscard]] nlohmann::json take() { return std::move(document_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(nlohmann::json::number_integer_t value) { return add(value); }
  bool number_unsigned(nlohmann::json::number_unsigned_t value) { return add(value); }
  bool number_float(nlohmann::json::number_float_t value, const std::string& /*text*/) {
    return add(value);
  }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }
  bool start_object(std::size_t /*size*/) { return open(nlohmann::json::object()); }
  bool start_array(std::size_t /*size*/) { return open(nlohmann::json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    const auto [at, is_new] =
        open_.back()->get_ref<nlohmann::json::object_t&>().emplace(std::move(name), nullptr);
    member_ = &at->second;
    return is_new;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) {
    return false;
  }

 private:
  nlohmann::json* place(nlohmann::json value) {
    nlohmann::json* at = &document_;
    if (!open_.empty() && open_.back()->is_array()) {
      at = &open_.back()->get_ref<nlohmann::json::array_t&>().emplace_back();
    } else if (!open_.empty()) {
      at = member_;
    }
    *at = std::move(value);
    return at;
  }
  template <class Value>
  bool add(Value&& value) {
    place(nlohmann::json(std::forward<Value>(value)));
    return true;
  }
  bool open(nlohmann::json value) {
    if (open_.size() == kMaxJsonDepth) return false;
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  nlohmann::json document_;
  std::vector<nlohmann::json*> open_;  // the objects and arrays around the current position
  nlohmann::json* member_ = nullptr;   // where the value of the last key goes
};

// Walks a document without building it, and stops at the first fault.
class Probe final : public nlohmann::json_sax<nlohmann::json> {
 public:
  enum class Fault { kNone, kSyntax, kDuplicateKey, kTooDeep };

  [[nodiscard]] Fault fault() const { return fault_; }
  [[nodiscard]] std::size_t position() const {
    return position_;
  }  // bytes read before the fault, for kSyntax
  [[nodiscard]] const std::string& token() const { return token_; }
  [[nodiscard]] bool is_out_of_range() const { return out_of_range_; }
  [[nodiscard]] bool is_in_text() const { return in_text_; }
  [[nodiscard]] const std::string& key() const {
    return key_;
  }  // the key that occurs twice, for kDuplicateKey
  [[nodiscard]] bool is_inside() const { return !frames_.empty(); }
  [[nodiscard]] bool is_in_object() const { return is_inside() && frames_.back().is_object; }
  [[nodiscard]] bool is_after_key() const { return after_key_; }
  // The pointer of the innermost object or array around the current position.
  [[nodiscard]] std::string pointer() const {
    JsonPlace place;
    for (std::size_t i = 0; i + 1 < frames_.size(); ++i) {
      place = frames_[i].is_object ? place.at(frames_[i].key) : place.at(frames_[i].index);
    }
    return place.pointer;
  }

  bool null() override { return scalar(); }
  bool boolean(bool /*value*/) override { return scalar(); }
  bool number_integer(number_integer_t /*value*/) override { return scalar(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return scalar(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return scalar();
  }
  bool string(string_t& /*value*/) override { return scalar(); }
  bool binary(binary_t& /*value*/) override { return scalar(); }
  bool start_object(std::size_t /*size*/) override { return open(true); }
  bool start_array(std::size_t /*size*/) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Frame& frame = frames_.back();
    frame.key = name;
    after_key_ = true;
    if (frame.keys.insert(name).second) return true;
    key_ = name;
    return stop(Fault::kDuplicateKey);
  }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    position_ = position;
    token_ = token;
    out_of_range_ = dynamic_cast<const nlohmann::json::out_of_range*>(&error) != nullptr;
    in_text_ = std::string_view(error.what()).find("invalid string") != std::string_view::npos;
    return stop(Fault::kSyntax);
  }

 private:
  struct Frame {
    bool is_object = false;
    std::size_t index = 0;  // index of the current element
    std::string key;
    std::set<std::string> keys;
  };

  bool stop(Fault fault) {
    fault_ = fault;
    return false;
  }
  bool scalar() {
    after_key_ = false;
    if (!frames_.empty()) ++frames_.back().index;
    return true;
  }
  bool open(bool is_object) {
    after_key_ = false;
    if (frames_.size() == kMaxJsonDepth) return stop(Fault::kTooDeep);
    frames_.push_back({.is_object = is_object, .index = 0, .key = {}, .keys = {}});
    return true;
  }
  bool close() {
    frames_.pop_back();
    return scalar();
  }

  Fault fault_ = Fault::kNone;
  std::size_t position_ = 0;
  std::string token_;
  bool out_of_range_ = false;
  bool in_text_ = false;
  std::string key_;
  bool after_key_ = false;
  std::vector<Frame> frames_;
};

std::string quoted_excerpt(std::string_view text) {
  const std::string quote = text == "\"" ? "'" : "\"";
  return quote + std::string(text) + quote;
}

bool begins_not_a_number(std::string_view text) {
  if (text.starts_with('-')) text = text.substr(1);
  return text.starts_with("NaN") || text.starts_with("nan") || text.starts_with("Inf") ||
         text.starts_with("inf");
}

bool begins_with_letter(std::string_view word) {
  return !word.empty() &&
         ((word[0] >= 'a' && word[0] <= 'z') || (word[0] >= 'A' && word[0] <= 'Z'));
}

// What may follow the text that was read so far.
std::string valid_after(std::string_view before, const Probe& probe) {
  const std::size_t last = before.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return "a JSON document";
  if (!probe.is_inside()) return "nothing after the document's end";
  switch (before[last]) {
    case ':':
      return "a value";
    case ',':
      return probe.is_in_object() ? "another key in double quotes" : "another value";
    case '{':
      return "a key in double quotes, or \"}\"";
    case '[':
      return "a value, or \"]\"";
    default:
      if (probe.is_after_key()) return quoted_excerpt(":");
      return probe.is_in_object() ? "\",\" or \"}\"" : "\",\" or \"]\"";
  }
}

// The message for a syntax error at byte `at`: what was found and what is valid.
std::string syntax_message(std::string_view text, std::size_t at, const Probe& probe) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return "found nothing; valid: a JSON document";
  }
  if (probe.is_out_of_range()) {
    return "found " + probe.token() + "; valid: a number that a double holds, up to 1.8e308";
  }
  if (at >= text.size()) return "the text ends too early; valid: a complete JSON document";
  const std::string_view here = text.substr(at);
  const auto byte = static_cast<unsigned char>(here[0]);
  const std::string valid = valid_after(text.substr(0, at), probe);
  const std::string word(here.substr(0, here.find_first_of(" \t\r\n,:]}")));
  if (!probe.is_in_text() && begins_not_a_number(word)) {
    return "found " + word + "; JSON has no NaN and no Infinity; valid: a finite number";
  }
  if (!probe.is_in_text() && begins_with_letter(word)) {
    const bool is_value = valid.find("value") != std::string::npos;
    return "found " + word + "; valid: " +
           (is_value ? "true, false, null, a number or a text in double quotes" : valid);
  }
  if (byte < 0x20 && probe.is_in_text()) {
    return "found a control character inside a text; valid: an escape such as \\n";
  }
  if (byte < 0x20 || byte == 0x7f) {
    return "found a control character; valid: " + valid;
  }
  if (byte >= 0x80) return "found bytes that are not UTF-8; valid: UTF-8 text";
  if (here.starts_with("//") || here.starts_with("/*") || here.starts_with("#")) {
    return "found a comment; JSON has none; valid: " + valid;
  }
  if (probe.is_in_text()) {
    return "found " + quoted_excerpt(here.substr(0, 1)) +
           " inside a text; valid: after \"\\\", one of \" \\ / b f n r t, or u and 4 hex digits";
  }
  return "found " + quoted_excerpt(here.substr(0, 1)) + "; valid: " + valid;
}

// The position of the fault. Within a word such as "trux", the JSON library stops at the first
// wrong letter, but the word's beginning is the better place to report.
std::size_t fault_position(std::string_view text, const Probe& probe) {
  const std::size_t read = probe.position();
  const std::size_t at = std::min(read == 0 ? 0 : read - 1, text.size());
  if (probe.is_in_text() || probe.is_out_of_range() || at == text.size()) return at;
  const std::size_t begin = text.substr(0, at).find_last_of(" \t\r\n,:[{") + 1;
  const std::string_view word = text.substr(begin);
  return begins_not_a_number(word) || begins_with_letter(word) ? begin : at;
}

[[noreturn]] void fail_syntax(std::string_view text, const std::string& name, std::size_t at,
                              const std::string& message) {
  const std::string_view before = text.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = at - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
  throw ConfigError(name, "line " + std::to_string(line) + ", column " + std::to_string(column),
                    "broken JSON: " + message);
}

}  // namespace

std::optional<nlohmann::json> try_parse_json(std::string_view text) {
  // The JSON library takes a NUL byte for the end of the text.
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  Builder builder;
  if (!nlohmann::json::sax_parse(text, &builder)) return std::nullopt;
  return builder.take();
}

nlohmann::json parse_json(std::string_view text, const std::string& name) {
  if (std::optional<nlohmann::json> document = try_parse_json(text)) return *std::move(document);
  Probe probe;
  if (nlohmann::json::sax_parse(text, &probe)) {
    const std::size_t nul = text.find('\0');
    SHARDLAB_CHECK(nul != std::string_view::npos, "no fault in what can't be built of ", name);
    fail_syntax(text, name, nul, "found a NUL byte; valid: nothing after the document's end");
  }
  if (probe.fault() == Probe::Fault::kDuplicateKey) {
    throw ConfigError(name, probe.pointer(),
                      "key " + quoted_excerpt(probe.key()) + " occurs twice");
  }
  if (probe.fault() == Probe::Fault::kTooDeep) {
    throw ConfigError(
        name, probe.pointer().substr(0, 40) + "...",
        "is nested too deep; valid: at most " + std::to_string(kMaxJsonDepth) + " levels");
  }
  const std::size_t at = fault_position(text, probe);
  fail_syntax(text, name, at, syntax_message(text, at, probe));
}

nlohmann::json read_json_file(const fs::path& path) {
  return parse_json(read_text_file(path), path.string());
}

}  // namespace shardlab
