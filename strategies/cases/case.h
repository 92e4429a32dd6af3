// A case: one small question of DTensor's history with its expected answer (shardlab/case/1).
//
//   Case c = Case::parse(json, {"configs/regressions/R03.json", ""});
//   CaseReport report = c.run(sources);   // pass or fail, and every comparison made
//
// A case is a list of checks: {"<kind>": {...}, "expect": {...}, "digits": N}. The kinds are a
// table (case_checks.h):
//
//   plan      a redistribution: path, steps, prices, merges
//   steps     the same, for steps that the case lists
//   select    candidates, prices and choice of an op, of listed rows or of listed candidates
//   policy    the choice among listed prices
//   rules     the rows that an op proposes
//   relation  two sums of named prices
//   sweep     a law over all layouts that some placements span, or over a range of extents
//   mesh      layout algebra of a mesh
//   layout    text, legality and strided encoding of a layout
//   local     shapes and rows that each rank holds
//   chunks    rows of the chunks of an extent
//   simulate  a redistribution run on virtual ranks: is the data right, and are replicas equal
//   execute   an op run on virtual ranks in given layouts: its value, and whether the whole op's is
//             the same
//   solve     the best plan of a whole program: strategies, prices, optimum, its run on virtual
//             ranks. With "strided", products and views keep strided shards, as with `solve
//             --strided`. With "flaws", the problem is the one that another solver solves: which
//             optimum that solver claims, and what its plan really costs
//
// "error" or "warning" (a part of the text) may stand in place of "expect". "digits" says how
// numbers are compared: with 17, the default, they must be the same double; with a smaller N, the
// same text when printed with N digits after the point.
//
// A check that names a "stack" always runs on it and records what that version answered. A check
// without a "stack" states what every stack should answer: it runs on the setup's stack, or on the
// one given by `--stack`.
//
// A case may also say what each PyTorch release does with it:
//
//   "releases": {"fault": [check, ...], "dtensor-2.13": "still there", "dtensor-2.15": "mended"}
//   "releases": {"behaviour": [check, ...], "dtensor-2.15": "as in the thread"}
//
// The checks name no stack. They hold where the fault, or the behaviour, is as the thread describes
// it; every release is asked them, and the answer must be the word that stands beside its name.
//
// Nothing here reads files: stacks and topologies come through CaseSources.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "costmodel/base/json_reader.h"
#include "strategies/select/stack.h"

namespace shardlab {

namespace case_checks {
struct Scene;
struct PlannedCheck;
struct Releases;
}  // namespace case_checks

struct CaseSources {
  // A stack as a case names it: a shipped name, or an object with a "base".
  std::function<Stack(const nlohmann::json& choice, const JsonPlace& place)> stack;
  // A topology by name, with another number of devices per host if one is given.
  std::function<Topology(const std::string& name, std::optional<std::int64_t> devices_per_host)>
      topology;
};

enum class CaseStatus : std::uint8_t { kPass, kFail };
template <>
struct EnumNames<CaseStatus> {
  static constexpr std::string_view kKind = "case status";
  static constexpr std::array kNames = {Named{CaseStatus::kPass, "pass"},
                                        Named{CaseStatus::kFail, "fail"}};
};
[[nodiscard]] inline std::string_view to_string(CaseStatus status) { return name_of(status); }

// What became of the thread's subject in a stack. A fault is still there, mended, or not yet there
// in a release that is older than the fault; a behaviour is as in the thread or changed.
enum class CaseVerdict : std::uint8_t { kStillThere, kMended, kNotYetThere, kAsInThread, kChanged };
template <>
struct EnumNames<CaseVerdict> {
  static constexpr std::string_view kKind = "verdict";
  static constexpr std::array kNames = {
      Named{CaseVerdict::kStillThere, "still there"}, Named{CaseVerdict::kMended, "mended"},
      Named{CaseVerdict::kNotYetThere, "not yet there"},
      Named{CaseVerdict::kAsInThread, "as in the thread"}, Named{CaseVerdict::kChanged, "changed"}};
};
[[nodiscard]] inline std::string_view to_string(CaseVerdict verdict) { return name_of(verdict); }

// One comparison.
struct CheckOutcome {
  std::string kind;
  std::string check;  // the check's name or its question, and the stack that answered
  std::string key;    // the key of "expect"; empty if the check is one comparison
  nlohmann::json expected;
  nlohmann::json got;
  bool ok = false;

  [[nodiscard]] std::string what() const { return key.empty() ? check : check + ": " + key; }
};

// What a select check observed, shown as one column of the table of its question.
struct SelectView {
  std::string question;  // the same for checks that differ only in stack and order
  std::string stack;
  std::string order;
  std::vector<std::pair<std::string, double>>
      totals;  // by candidate, in the order in which they are listed
  std::vector<std::string> ties;
  std::string chosen;
};

// What a plan or steps check observed.
struct PlanView {
  std::string question;
  std::string stack;
  std::string path;
  double price_us = 0.0;  // infinite where the redistribution is impossible
};

// What one stack does with the thread's subject.
struct StackVerdict {
  std::string stack;
  CaseVerdict verdict = CaseVerdict::kMended;
  std::optional<CaseVerdict> expected;  // nothing for a stack that the case does not name
  std::vector<CheckOutcome> checks;     // the comparisons that the verdict rests on

  [[nodiscard]] bool ok() const { return !expected || *expected == verdict; }
};

struct CaseReport {
  std::string id;
  std::string title;
  CaseStatus status = CaseStatus::kPass;
  std::vector<CheckOutcome> checks;
  std::vector<StackVerdict> releases;  // by name; the stack of `run` comes last
  std::vector<SelectView> selections;
  std::vector<PlanView> plans;
};

class Case {
 public:
  // Throws ConfigError for unknown keys and kinds, for texts that do not parse, and for a relation
  // that uses a name that no earlier check has.
  [[nodiscard]] static Case parse(const nlohmann::json& json, const JsonPlace& place);

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const std::string& title() const { return title_; }
  [[nodiscard]] const std::string& source() const { return source_; }
  [[nodiscard]] const std::vector<std::string>& see() const {
    return see_;
  }  // URLs of further reading
  [[nodiscard]] const std::string& status() const { return status_; }
  [[nodiscard]] const std::vector<std::string>& story() const { return story_; }
  [[nodiscard]] std::string setup_text() const;

  // Whether `wanted` names this case: "R03" names R03 and R03-anything, and "172282",
  // "pytorch/pytorch#172282" or the address name all cases of that issue or pull request.
  [[nodiscard]] bool is_named(std::string_view wanted) const;

  // `stack` names the stack that replaces the setup's, and that is given a verdict too. Throws
  // ConfigError for stacks and topologies that do not exist.
  [[nodiscard]] CaseReport run(const CaseSources& sources,
                               const std::optional<std::string>& stack = std::nullopt) const;

 private:
  Case() = default;

  std::string id_;
  std::string title_;
  std::string source_;
  std::vector<std::string> see_;
  std::string status_;  // where the figures come from: exact, inferred, rounded or built
  std::vector<std::string> story_;
  std::shared_ptr<const case_checks::Scene> setup_;
  std::vector<std::shared_ptr<const case_checks::PlannedCheck>> checks_;
  std::shared_ptr<const case_checks::Releases> releases_;  // null for a case that names none
};

}  // namespace shardlab
