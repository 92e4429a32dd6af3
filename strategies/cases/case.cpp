#include "strategies/cases/case.h"

#include <algorithm>
#include <array>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "strategies/cases/case_checks.h"

namespace shardlab {
namespace {

using case_checks::AnswerKey;
using case_checks::Bench;
using case_checks::CheckKind;
using case_checks::Match;
using case_checks::Observation;
using case_checks::PlannedCheck;
using case_checks::Releases;
using case_checks::Scene;
using case_checks::StackChoice;

constexpr std::array<std::string_view, 4> kStatuses = {"exact", "inferred", "rounded", "built"};
constexpr std::string_view kDefaultStack = "dtensor-2.13";
constexpr int kExactDigits = 17;

bool is_case_id(std::string_view id) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return id.size() >= 3 && id[0] == 'R' && is_digit(id[1]) && is_digit(id[2]) &&
         (id.size() == 3 || (id[3] == '-' && id.size() > 4));
}

std::string read_url(const std::string& text, const JsonPlace& place) {
  if (!text.starts_with("https://")) place.fail("found \"" + text + "\"; valid: an https URL");
  return text;
}

const CheckKind& kind_of(const nlohmann::json& check, const JsonPlace& place) {
  std::vector<std::string_view> valid;
  const CheckKind* found = nullptr;
  for (const CheckKind& kind : case_checks::all_check_kinds()) {
    valid.push_back(kind.name);
    if (!check.contains(std::string(kind.name))) continue;
    if (found != nullptr) {
      place.fail("found \"" + std::string(found->name) + "\" and \"" + std::string(kind.name) +
                 "\"; valid: one kind of check");
    }
    found = &kind;
  }
  if (found != nullptr) return *found;
  constexpr std::array<std::string_view, 5> kOthers = {"name", "expect", "digits", "error",
                                                       "warning"};
  for (const auto& [key, unused] : check.items()) {
    if (std::find(kOthers.begin(), kOthers.end(), key) != kOthers.end()) continue;
    place.at(key).fail("unknown kind of check" + did_you_mean(key, valid) +
                       "; valid: " + join(valid));
  }
  place.fail("found no kind of check; valid: " + join(valid));
}

const AnswerKey* answer_key(const CheckKind& kind, std::string_view key) {
  const auto it = std::find_if(kind.answers.begin(), kind.answers.end(),
                               [&](const AnswerKey& answer) { return answer.key == key; });
  return it == kind.answers.end() ? nullptr : &*it;
}

// Refuses texts in place of times: a text never equals a time, but looks the same when both are
// printed.
void check_expected_us(const nlohmann::json& value, const JsonPlace& place) {
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) check_expected_us(value[i], place.at(i));
  } else if (!value.is_number() && !value.is_null()) {
    place.fail("found " + describe_json(value) + "; valid: microseconds, null, or a list of these");
  }
}

void check_expected_keys(const CheckKind& kind, const nlohmann::json& expect,
                         const JsonPlace& place) {
  std::vector<std::string_view> valid;
  for (const AnswerKey& answer : kind.answers) valid.push_back(answer.key);
  for (const auto& [key, value] : expect.items()) {
    if (answer_key(kind, key) == nullptr) {
      place.at(key).fail("unknown key" + did_you_mean(key, valid) + "; valid: " + join(valid));
    }
    if (key.ends_with("_us")) check_expected_us(value, place.at(key));
  }
}

// Reads "expect", and "error" and "warning", which may be given with it or instead of it.
nlohmann::json read_expect(ObjectReader& reader, const CheckKind& kind) {
  nlohmann::json expect = nlohmann::json::object();
  if (const nlohmann::json* given = reader.find("expect")) {
    if (!given->is_object()) {
      reader.place("expect").fail("found " + describe_json(*given) + "; valid: an object");
    }
    expect = *given;
  }
  for (const std::string_view key : {"error", "warning"}) {
    if (reader.find(key) == nullptr) continue;
    if (answer_key(kind, key) == nullptr) {
      reader.place(key).fail("a " + std::string(kind.name) + " check can't expect " +
                             (key == "error" ? "an error" : "a warning"));
    }
    expect[std::string(key)] = reader.text(key);
  }
  check_expected_keys(kind, expect, reader.place("expect"));
  const bool is_relation = answer_key(kind, "holds") != nullptr;
  if (is_relation && expect.empty()) expect["holds"] = true;
  return expect;
}

std::shared_ptr<const PlannedCheck> read_check(const nlohmann::json& json, const JsonPlace& place,
                                               const Scene& setup, std::set<std::string>& names) {
  ObjectReader reader(json, place);
  const CheckKind& kind = kind_of(json, place);
  auto planned = std::make_shared<PlannedCheck>();
  planned->kind = &kind;
  planned->scene = setup;
  const nlohmann::json& body = reader.value(kind.name);
  planned->name = reader.text_or("name", "");
  if (kind.read == nullptr) {
    static_cast<void>(reader.find("expect"));
    reader.finish();
    return planned;
  }
  planned->digits = static_cast<int>(reader.integer_or("digits", kExactDigits, 0, kExactDigits));
  planned->expect = read_expect(reader, kind);
  reader.finish();
  planned->check = kind.read({.json = body,
                              .place = place.at(kind.name),
                              .setup = setup,
                              .names = names,
                              .scene = planned->scene});
  if (planned->name.empty()) {
    if (planned->expect.empty()) {
      place.fail("found nothing to compare; valid: an \"expect\", or a \"name\"");
    }
    return planned;
  }
  if (!kind.has_price) {
    reader.place("name").fail("a " + std::string(kind.name) +
                              " check has no price to name; valid: no \"name\"");
  }
  if (planned->scene.stacks.size() > 1) {
    reader.place("name").fail(
        "a check on several stacks has more than one price; valid: no \"name\"");
  }
  if (!names.insert(planned->name).second) {
    reader.place("name").fail("found \"" + planned->name + "\" twice; valid: a new name");
  }
  return planned;
}

constexpr std::array kOfFault = {CaseVerdict::kStillThere, CaseVerdict::kMended,
                                 CaseVerdict::kNotYetThere};
constexpr std::array kOfBehaviour = {CaseVerdict::kAsInThread, CaseVerdict::kChanged};

// The verdicts that a case of this kind may have. The first one says that its checks hold.
std::span<const CaseVerdict> verdicts_of(bool is_fault) {
  if (is_fault) return kOfFault;
  return kOfBehaviour;
}

// Reads the checks of "fault" or "behaviour", whichever is there.
std::vector<std::shared_ptr<const PlannedCheck>> read_release_checks(const nlohmann::json& checks,
                                                                     const JsonPlace& place,
                                                                     const Scene& setup) {
  if (json_array(checks, place).empty()) {
    place.fail("found an empty array; valid: an array of at least one check");
  }
  std::vector<std::shared_ptr<const PlannedCheck>> read;
  std::set<std::string> names;
  for (std::size_t i = 0; i < checks.size(); ++i) {
    read.push_back(read_check(checks[i], place.at(i), setup, names));
    const PlannedCheck& planned = *read.back();
    if (planned.scene.pins_stack) {
      place.at(i).fail("found a \"stack\"; valid: none, since each release is asked");
    }
    const bool compares_prices = planned.kind->name == case_checks::kRelationKind.name;
    if (!planned.check->uses_stack() && !compares_prices) {
      place.at(i).fail("found a " + std::string(planned.kind->name) +
                       " check, which asks no stack; valid: a check whose answer is a release's");
    }
  }
  return read;
}

std::shared_ptr<const Releases> read_releases(const nlohmann::json& json, const JsonPlace& place,
                                              const Scene& setup) {
  if (!json.is_object()) place.fail("found " + describe_json(json) + "; valid: an object");
  auto releases = std::make_shared<Releases>();
  releases->is_fault = json.contains("fault");
  if (json.contains("fault") == json.contains("behaviour")) {
    place.fail(std::string("found ") + (releases->is_fault ? "both" : "neither") +
               " of \"fault\" and \"behaviour\"; valid: one of them");
  }
  const std::string subject = releases->is_fault ? "fault" : "behaviour";
  releases->checks = read_release_checks(json[subject], place.at(subject), setup);
  const std::span<const CaseVerdict> verdicts = verdicts_of(releases->is_fault);
  std::vector<std::string_view> valid;
  for (const CaseVerdict verdict : verdicts) valid.push_back(to_string(verdict));
  for (const auto& [stack, verdict] : json.items()) {
    if (stack == subject) continue;
    const JsonPlace verdict_place = place.at(stack);
    const std::string text = json_text(verdict, verdict_place);
    const auto found = std::find(valid.begin(), valid.end(), text);
    if (found == valid.end()) {
      verdict_place.fail("found \"" + text + "\"" + did_you_mean(text, valid) +
                         "; valid: " + join(valid));
    }
    releases->expected.emplace_back(StackChoice{stack, verdict_place},
                                    verdicts[static_cast<std::size_t>(found - valid.begin())]);
  }
  if (releases->expected.empty()) {
    place.fail("found no release; valid: stacks such as dtensor-2.15, each with its verdict");
  }
  return releases;
}

// Reduces what a comparison shows to the keys, or the elements, that the case asks for.
void show_what_was_asked(Match match, CheckOutcome& outcome) {
  if (match == Match::kEqual && outcome.got.is_object() && outcome.expected.is_object()) {
    nlohmann::json asked = nlohmann::json::object();
    for (const auto& [key, unused] : outcome.expected.items()) {
      asked[key] = outcome.got.contains(key) ? outcome.got[key] : nlohmann::json(nullptr);
    }
    outcome.got = std::move(asked);
  }
  if ((match == Match::kIncludes || match == Match::kLacks) && outcome.got.is_array()) {
    nlohmann::json found = nlohmann::json::array();
    for (const nlohmann::json& element : outcome.expected) {
      const bool is_there =
          std::find(outcome.got.begin(), outcome.got.end(), element) != outcome.got.end();
      if (is_there) found.push_back(element);
    }
    if (match == Match::kLacks) {
      outcome.key += " " + outcome.expected.dump();
      outcome.expected = nlohmann::json::array();
    }
    outcome.got = std::move(found);
  }
}

// Adds an outcome for each key of "expect".
void compare(const PlannedCheck& planned, const std::string& what, const Observation& seen,
             std::vector<CheckOutcome>& outcomes) {
  for (const auto& [key, expected] : planned.expect.items()) {
    CheckOutcome outcome{.kind = std::string(planned.kind->name),
                         .check = what,
                         .key = key,
                         .expected = expected,
                         .got = nullptr};
    if (seen.answers.contains(key)) outcome.got = seen.answers[key];
    outcome.ok =
        matches(answer_key(*planned.kind, key)->match, expected, outcome.got, planned.digits);
    if (!seen.shown_got.empty()) {
      outcome.key.clear();
      outcome.expected = seen.shown_expected;
      outcome.got = seen.shown_got;
    }
    show_what_was_asked(answer_key(*planned.kind, key)->match, outcome);
    outcomes.push_back(std::move(outcome));
  }
}

void run_check(const PlannedCheck& planned, Bench& bench, const std::string& what,
               std::vector<CheckOutcome>& outcomes) {
  std::set<std::string> asked;
  for (const auto& [key, unused] : planned.expect.items()) asked.insert(key);
  Observation seen;
  try {
    seen = planned.check->observe(bench, asked);
    if (asked.contains("error")) seen.answers["error"] = "";
  } catch (const TextError& error) {
    seen.answers["error"] = error.what();
  } catch (const InputError& error) {
    seen.answers["error"] = error.what();
  }
  if (!planned.name.empty() && seen.value) bench.values[planned.name] = *seen.value;
  if (seen.answers.contains("error") && !asked.contains("error")) {
    outcomes.push_back({.kind = std::string(planned.kind->name),
                        .check = what,
                        .key = "",
                        .expected = planned.expect,
                        .got = {{"error", seen.answers["error"]}}});
    return;
  }
  compare(planned, what, seen, outcomes);
}

// Asks `stack` the checks of the releases.
StackVerdict stack_verdict(const Releases& releases, const StackChoice& stack,
                           std::optional<CaseVerdict> expected, Bench& bench) {
  StackVerdict result;
  result.stack = stack.label();
  result.expected = expected;
  bench.values.clear();
  for (const auto& planned : releases.checks) {
    const std::string what = planned->name.empty() ? planned->check->label() : planned->name;
    bench.use(&bench.evaluator(stack, planned->scene), result.stack);
    run_check(*planned, bench, what + ", " + result.stack, result.checks);
  }
  const bool holds = std::all_of(result.checks.begin(), result.checks.end(),
                                 [](const CheckOutcome& outcome) { return outcome.ok; });
  const std::span<const CaseVerdict> verdicts = verdicts_of(releases.is_fault);
  if (holds) {
    result.verdict = verdicts[0];
  } else {
    // Checks that do not hold cannot tell a fault that is mended from one that is yet to come.
    result.verdict = expected && *expected != verdicts[0] ? *expected : verdicts[1];
  }
  return result;
}

// The number of an issue or pull request, as "172282", "#172282", "pytorch/pytorch#172282" or an
// address ends with it; "" for any other text.
std::string_view thread_of(std::string_view text) {
  const bool is_address = text.starts_with("https://");
  if (is_address) text = text.substr(0, text.find('#'));
  while (text.ends_with('/')) text.remove_suffix(1);
  const std::size_t before = text.find_last_of("#/");
  const std::string_view number = before == std::string_view::npos ? text : text.substr(before + 1);
  const bool is_number = number.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number ? number : std::string_view();
}

}  // namespace

namespace case_checks {

bool matches(Match match, const nlohmann::json& expected, const nlohmann::json& got, int digits) {
  const auto is_in = [&](const nlohmann::json& element) {
    return std::any_of(got.begin(), got.end(), [&](const nlohmann::json& other) {
      return matches(Match::kEqual, element, other, digits);
    });
  };
  switch (match) {
    case Match::kContains: {
      if (!expected.is_string() || !got.is_string()) return false;
      const std::string& wanted = expected.get_ref<const std::string&>();
      const std::string& found = got.get_ref<const std::string&>();
      return wanted.empty() ? found.empty() : found.find(wanted) != std::string::npos;
    }
    case Match::kIncludes:
      return expected.is_array() && got.is_array() &&
             std::all_of(expected.begin(), expected.end(), is_in);
    case Match::kLacks:
      return expected.is_array() && got.is_array() &&
             std::none_of(expected.begin(), expected.end(), is_in);
    case Match::kEqual:
      break;
  }
  if (expected.is_number() && got.is_number()) {
    const double a = expected.get<double>();
    const double b = got.get<double>();
    return digits == kExactDigits ? a == b : format_fixed(a, digits) == format_fixed(b, digits);
  }
  if (expected.is_array() && got.is_array()) {
    return std::equal(expected.begin(), expected.end(), got.begin(), got.end(),
                      [&](const nlohmann::json& a, const nlohmann::json& b) {
                        return matches(Match::kEqual, a, b, digits);
                      });
  }
  if (expected.is_object() && got.is_object()) {
    return std::all_of(expected.items().begin(), expected.items().end(), [&](const auto& item) {
      return got.contains(item.key()) &&
             matches(Match::kEqual, item.value(), got[item.key()], digits);
    });
  }
  return expected == got;
}

}  // namespace case_checks

Case Case::parse(const nlohmann::json& json, const JsonPlace& place) {
  ObjectReader reader(json, place);
  reader.expect_schema("shardlab/case/1");
  Case result;
  result.id_ = reader.text("id");
  if (!is_case_id(result.id_)) {
    reader.place("id").fail("found \"" + result.id_ + "\"; valid: Rnn or Rnn-suffix, such as R03");
  }
  result.title_ = reader.text("title");
  result.source_ = read_url(reader.text("source"), reader.place("source"));
  if (const nlohmann::json* see = reader.find("see")) {
    const JsonPlace see_place = reader.place("see");
    const std::vector<std::string> urls = case_checks::read_texts(*see, see_place);
    for (std::size_t i = 0; i < urls.size(); ++i) {
      result.see_.push_back(read_url(urls[i], see_place.at(i)));
    }
  }
  result.status_ = reader.text("status");
  if (std::find(kStatuses.begin(), kStatuses.end(), result.status_) == kStatuses.end()) {
    reader.place("status").fail("found \"" + result.status_ + "\"" +
                                did_you_mean(result.status_, kStatuses) +
                                "; valid: " + join(kStatuses));
  }
  if (const nlohmann::json* story = reader.find("story")) {
    result.story_ = case_checks::read_texts(*story, reader.place("story"));
  }
  Scene defaults;
  defaults.stacks = {{std::string(kDefaultStack), place}};
  ObjectReader setup_reader(reader.value("setup"), reader.place("setup"));
  auto setup = std::make_shared<Scene>(Scene::read(setup_reader, defaults));
  setup_reader.finish();
  setup->pins_stack = false;
  result.setup_ = setup;

  const nlohmann::json& checks = reader.array("checks");
  const JsonPlace checks_place = reader.place("checks");
  if (const nlohmann::json* releases = reader.find("releases")) {
    result.releases_ = read_releases(*releases, reader.place("releases"), *setup);
  }
  reader.finish();
  if (checks.empty())
    checks_place.fail("found an empty array; valid: an array of at least one check");
  std::set<std::string> names;
  for (std::size_t i = 0; i < checks.size(); ++i) {
    result.checks_.push_back(read_check(checks[i], checks_place.at(i), *setup, names));
  }
  return result;
}

bool Case::is_named(std::string_view wanted) const {
  const std::string_view thread = thread_of(wanted);
  const auto is_thread = [&](std::string_view url) {
    return !thread.empty() && thread_of(url) == thread;
  };
  return is_thread(source_) || std::ranges::any_of(see_, is_thread) || id_ == wanted ||
         (id_.size() > wanted.size() && id_.starts_with(wanted) && id_[wanted.size()] == '-');
}

std::string Case::setup_text() const {
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : ", ") + part; };
  if (setup_->mesh) add("mesh " + setup_->mesh->text());
  std::string hosts = setup_->topology;
  if (setup_->devices_per_host) {
    hosts += " with " + std::to_string(*setup_->devices_per_host) +
             (*setup_->devices_per_host == 1 ? " device" : " devices") + " per host";
  }
  add(hosts);
  if (setup_->tensor) add(setup_->tensor->text());
  return out;
}

CaseReport Case::run(const CaseSources& sources, const std::optional<std::string>& stack) const {
  CaseReport report;
  report.id = id_;
  report.title = title_;
  Bench bench(sources);
  for (const auto& planned : checks_) {
    const std::string what = planned->name.empty() ? planned->check->label() : planned->name;
    if (!planned->check->uses_stack()) {
      run_check(*planned, bench, what, report.checks);
      continue;
    }
    std::vector<StackChoice> stacks = planned->scene.stacks;
    if (stack && !planned->scene.pins_stack) stacks = {{*stack, {"--stack", ""}}};
    for (const StackChoice& choice : stacks) {
      bench.use(&bench.evaluator(choice, planned->scene), choice.label());
      run_check(*planned, bench, what + ", " + choice.label(), report.checks);
    }
  }
  report.selections = std::move(bench.selections);
  report.plans = std::move(bench.plans);
  if (releases_) {
    for (const auto& [release, expected] : releases_->expected) {
      report.releases.push_back(stack_verdict(*releases_, release, expected, bench));
    }
    const bool is_told = stack && std::ranges::any_of(report.releases, [&](const auto& release) {
                           return release.stack == *stack;
                         });
    if (stack && !is_told) {
      report.releases.push_back(
          stack_verdict(*releases_, {*stack, {"--stack", ""}}, std::nullopt, bench));
    }
  }
  const bool failed = std::any_of(report.checks.begin(), report.checks.end(),
                                  [](const CheckOutcome& outcome) { return !outcome.ok; }) ||
                      std::any_of(report.releases.begin(), report.releases.end(),
                                  [](const StackVerdict& verdict) { return !verdict.ok(); });
  if (failed) report.status = CaseStatus::kFail;
  return report;
}

}  // namespace shardlab
