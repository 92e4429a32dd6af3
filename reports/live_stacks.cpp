#include "reports/live_stacks.h"

#include <cstdint>

namespace shardlab::reports {
namespace {

// A member of an object of the provenance, which a record keeps as it finds it; null if there is
// none.
const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found == object.end() ? kNone : *found;
}

std::int64_t count_of(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = member(object, key);
  return value.is_number_integer() ? value.get<std::int64_t>() : 0;
}

std::string joined(const nlohmann::json& texts) {
  std::string out;
  if (!texts.is_array()) return out;
  for (const nlohmann::json& text : texts) {
    if (text.is_string()) out += (out.empty() ? "" : ", ") + text.get<std::string>();
  }
  return out;
}

}  // namespace

std::string text_of(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return {};
  return object[key].get<std::string>();
}

std::string live_stack_text(const nlohmann::json& live) {
  std::string text = "another program";
  if (!text_of(live, "version").empty()) {
    text = "PyTorch " + text_of(live, "version");
  } else if (!text_of(live, "python_version").empty()) {
    text = "Python " + text_of(live, "python_version");
  }
  for (const char* kind : {"prices", "others"}) {
    const std::string changed = joined(member(member(live, "changed"), kind));
    if (!changed.empty()) text += "; its own " + changed;
  }
  if (const std::string unrun = joined(member(member(live, "changed"), "dispatch"));
      !unrun.empty()) {
    text += "; no answer rests on its own " + unrun;
  }
  if (const nlohmann::json& ignored = member(live, "ignored_registrations"); !ignored.empty()) {
    const std::size_t count = ignored.size();
    text += "; PyTorch ignores what is registered for " + std::to_string(count) +
            (count == 1 ? " op" : " ops");
  }
  const nlohmann::json& levels = member(live, "levels");
  if (!levels.is_object()) return text;
  if (const std::int64_t recorded = count_of(levels, "recorded"); recorded > 0) {
    return text + "; recorded choices of " + std::to_string(recorded) + " ops";
  }
  text += "; asked for rows of " + std::to_string(count_of(levels, "rows")) +
          " ops, candidates of " + std::to_string(count_of(levels, "candidates")) +
          ", whole decisions of " + std::to_string(count_of(levels, "decisions"));
  const nlohmann::json& verified = member(live, "verified");
  if (const std::int64_t asked = count_of(verified, "asked"); asked > 0) {
    text += "; " + std::to_string(count_of(verified, "equal")) + " of " + std::to_string(asked) +
            " whole decisions asked as a check are equal";
  }
  return text;
}

std::vector<nlohmann::json> live_stacks(const RunHeader& header) {
  if (!header.provenance) return {};
  const nlohmann::json& torch = member(*header.provenance, "torch");
  if (torch.is_array()) return torch.get<std::vector<nlohmann::json>>();
  if (torch.is_object()) return {torch};
  return {};
}

std::vector<std::string> live_stack_notes(const RunHeader& header) {
  std::vector<std::string> notes;
  for (const nlohmann::json& live : live_stacks(header)) {
    const nlohmann::json& verified = member(live, "verified");
    const std::int64_t asked = count_of(verified, "asked");
    const std::int64_t different = asked - count_of(verified, "equal");
    if (different == 0) continue;
    notes.push_back(std::to_string(different) + " of the " + std::to_string(asked) +
                    " decisions of " + text_of(live, "stack") + " that were asked as a check " +
                    (different == 1 ? "differs" : "differ") +
                    " from what its rules and prices gave, so that PyTorch decided everything");
  }
  return notes;
}

}  // namespace shardlab::reports
