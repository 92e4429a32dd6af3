#include "runner/config/stack_name.h"

#include <algorithm>
#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/printable.h"

namespace shardlab {
namespace {

constexpr std::string_view kTorch = "torch";
constexpr std::string_view kValidParts =
    "+overlay=DIR, +patch=FILE.py, +cost=FILE.py:FUNCTION, +rules=FILE.py";
constexpr std::array<std::string_view, 4> kParts = {"+overlay=", "+patch=", "+cost=", "+rules="};

// Where the next part begins; paths may contain a plus sign, so only these words begin one.
std::size_t next_part(std::string_view text, std::size_t from) {
  std::size_t first = std::string_view::npos;
  for (const std::string_view part : kParts) first = std::min(first, text.find(part, from));
  return first;
}

void set_once(std::optional<std::string>& field, std::string_view part, std::string value,
              std::string_view text) {
  if (field) {
    throw InputError("stack \"" + std::string(text) + "\": found " + std::string(part) +
                     " twice; valid: once");
  }
  field = std::move(value);
}

}  // namespace

std::optional<LiveStackName> LiveStackName::parse(std::string_view text) {
  LiveStackName name;
  name.text = text;
  std::size_t at = std::min(next_part(text, 0), text.size());
  const std::string_view head = text.substr(0, at);
  const std::string_view after = head.substr(std::min(kTorch.size(), head.size()));
  const auto refuse = [&](const std::string& found, std::string_view valid) {
    throw InputError("stack \"" + name.text + "\": found " + found +
                     "; valid: " + std::string(valid));
  };
  if (!head.starts_with(kTorch) ||
      (!after.empty() && after.front() != ':' && after.front() != '+')) {
    const std::string_view parts = text.substr(at);
    const bool is_changed = std::ranges::any_of(
        kParts, [&](std::string_view part) { return parts.find(part) != std::string_view::npos; });
    if (!is_changed) return std::nullopt;
    name.base = head;
    if (name.base.empty())
      refuse("no stack in front of " + std::string(text), "dtensor-2.13+cost=");
  } else if (after.starts_with(':')) {
    name.python = after.substr(1);
    if (name.python.empty()) {
      refuse("nothing after torch:", "an interpreter, or the folder of a virtual environment");
    }
  } else if (!after.empty()) {
    refuse("\"" + std::string(after) + "\"", kValidParts);
  }
  // The system takes names up to a NUL, and would run or read something else than is named.
  if (text.find('\0') != std::string_view::npos) {
    name.text = printable(text);
    refuse("a NUL", "names without one");
  }
  while (at < text.size()) {
    const std::size_t end = std::min(next_part(text, at + 1), text.size());
    const std::string_view part = text.substr(at, end - at);
    const std::size_t equals = part.find('=');
    const std::string_view word = part.substr(0, equals);
    std::string value(part.substr(equals + 1));
    if (value.empty()) refuse("nothing after " + std::string(part), kValidParts);
    if (!name.base.empty() && word != "+cost") {
      refuse(std::string(word) + "= after " + name.base,
             "+cost=FILE.py:FUNCTION, or a stack that begins with torch");
    }
    if (word == "+overlay") {
      set_once(name.overlay, word, std::move(value), text);
    } else if (word == "+cost") {
      set_once(name.cost, word, std::move(value), text);
    } else if (word == "+patch") {
      name.patches.push_back(std::move(value));
    } else if (word == "+rules") {
      name.rules.push_back(std::move(value));
    }
    at = end;
  }
  return name;
}

}  // namespace shardlab
